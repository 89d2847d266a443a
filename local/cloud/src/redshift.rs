//! The Redshift Data API: this workspace's `redshift-data` on the run's PostgreSQL.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::listeners;
use crate::postgres::Postgres;
use crate::server::{Server, ServerSpec, path_variable};
use crate::venv::system_python;
use crate::wait::wait_until;
use crate::workspace::Run;

const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the server on a port it chooses, and gives the port. A request's `Database` names the database of `postgres` it
/// speaks to; COPY reads from `s3_endpoint`.
pub(crate) async fn start(run: &Run, binary: &Path, postgres: &Postgres, s3_endpoint: &str) -> Result<(Server, u16)> {
    let scratch = run.scratch("redshift-data")?;
    let port_file = scratch.path().join("port");
    let arguments = [
        binary.display().to_string(),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--postgres={}", postgres.conninfo("postgres")),
        format!("--s3-endpoint={s3_endpoint}"),
        format!("--port-file={}", port_file.display()),
    ];
    let mut server = Server::start(
        run,
        ServerSpec {
            name: "redshift-data",
            python: &system_python(),
            command: arguments.to_vec(),
            environment: vec![path_variable()],
            stop_signal: "SIGTERM",
            scratch,
        },
    )?;
    let told = wait_until("redshift-data to tell its port", PATIENCE, async || {
        let text = fs::read_to_string(&port_file).unwrap_or_default();
        Ok(text.trim().parse::<u16>().ok())
    });
    let port = told.await.with_context(|| server.last_lines())?;
    server.wait_for_port(port, PATIENCE).await?;
    listeners::check_ours(&server, port)?;
    Ok((server, port))
}
