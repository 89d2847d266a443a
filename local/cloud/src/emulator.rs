//! The emulator of AWS: MiniStack, pinned in `requirements.txt`, corrected by `emulator.py`, kept on loopback and in folders of its own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::listeners;
use crate::server::{Server, ServerSpec, path_variable};
use crate::venv::Venv;
use crate::workspace::{Run, workspace_root};

const PATIENCE: Duration = Duration::from_mins(1);

/// The region everything local lives in.
pub(crate) const REGION: &str = "us-east-1";

/// Where functions built with failpoints look for their plans.
pub(crate) fn failpoints(run: &Run) -> PathBuf {
    run.logs().join("failpoints")
}

/// Starts the emulator on `port`. `redshift` is where functions find the Redshift Data API: they inherit the server's
/// environment, which is therefore made from nothing.
pub(crate) async fn start(run: &Run, venv: &Venv, port: u16, redshift: &str) -> Result<Server> {
    let scratch = run.scratch("emulator")?;
    let folder = scratch.path().display().to_string();
    let python = venv.python();
    let program = workspace_root().join("local/cloud/emulator.py");
    let mut server = Server::start(
        run,
        ServerSpec {
            name: "emulator",
            python: &python,
            command: vec![python.display().to_string(), program.display().to_string()],
            environment: vec![
                path_variable(),
                // It binds every interface unless told, and opens ports for IoT and SFTP unless told.
                ("BIND_HOST", "127.0.0.1".to_owned()),
                ("IOT_MTLS_ENABLED", "0".to_owned()),
                ("SFTP_ENABLED", "0".to_owned()),
                ("MINISTACK_HOST", "127.0.0.1".to_owned()),
                ("MINISTACK_REGION", REGION.to_owned()),
                ("GATEWAY_PORT", port.to_string()),
                ("HOME", folder.clone()),
                ("TMPDIR", folder.clone()),
                ("STATE_DIR", folder.clone()),
                ("LAMBDA_EXECUTOR", "local".to_owned()),
                ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
                ("AWS_ENDPOINT_URL_REDSHIFT_DATA", redshift.to_owned()),
                ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
                ("TIDEMARK_FAILPOINTS", failpoints(run).display().to_string()),
                ("PYTHONUNBUFFERED", "1".to_owned()),
            ],
            stop_signal: "SIGKILL", // nothing it holds outlives it
            scratch,
        },
    )?;
    server.wait_for_port(port, PATIENCE).await.context("the emulator did not start")?;
    listeners::check_ours(&server, port)?;
    Ok(server)
}
