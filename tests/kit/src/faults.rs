//! What goes wrong on purpose: killed functions, a slow or silent Redshift.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::World;

impl World {
    /// Kills every process that runs rebuild, as a failing machine would; gives how many there were.
    pub fn kill_rebuild(&self) -> Result<usize> {
        let pids = self.stack.function_pids(self.stack.output("RebuildFunctionName")?);
        for pid in &pids {
            let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
            ensure!(killed.success(), "cannot kill process {pid}");
        }
        Ok(pids.len())
    }

    /// Lets sweep run now instead of within the minute.
    pub async fn sweep(&self) -> Result<()> {
        let name = self.stack.output("SweepFunctionName")?;
        self.stack.invoke(name, &serde_json::json!({})).await.context("sweep failed")?;
        Ok(())
    }

    /// Makes each COPY of this world's database take so much longer; 0 ends it.
    pub async fn slow_copy(&self, milliseconds: u32) -> Result<()> {
        let body = serde_json::json!({ "database": self.stack.database(), "milliseconds": milliseconds });
        self.redshift_fault("copy_delay", &body.to_string()).await
    }

    /// Asks the local Redshift Data API for a fault: `POST /_local/<path>`.
    pub async fn redshift_fault(&self, path: &str, body: &str) -> Result<()> {
        let endpoint = self.cloud.redshift_endpoint();
        let address = endpoint.strip_prefix("http://").context("the endpoint is no http address")?;
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "POST /_local/{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.split_whitespace().nth(1).unwrap_or_default();
        ensure!(status.starts_with('2'), "POST /_local/{path} was answered with {answer}");
        Ok(())
    }
}
