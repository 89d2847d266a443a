//! A server process: its own process group, its log, and an end that is sure (see `guard.py`).

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use tokio::net::TcpStream;

use crate::workspace::{Run, Scratch, workspace_root};

/// Longest wait for a guard to end its server (it kills after 3 s) before the guard itself is killed.
const LONGEST_STOP: Duration = Duration::from_secs(10);

/// What to run, and how it is asked to end.
#[derive(Debug)]
pub(crate) struct ServerSpec<'a> {
    pub(crate) name: &'a str,
    /// Runs the guard: any Python 3.
    pub(crate) python: &'a Path,
    pub(crate) command: Vec<String>,
    /// The whole environment: nothing of ours leaks into a server.
    pub(crate) environment: Vec<(&'a str, String)>,
    pub(crate) stop_signal: &'a str,
    /// Where it stands; removed when the server has ended.
    pub(crate) scratch: Scratch,
}

/// A running server. Dropping it ends the server and everything it started.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    guard: Child,
    log: PathBuf,
    // Dropped after the guard has ended.
    _scratch: Scratch,
}

impl Server {
    pub(crate) fn start(run: &Run, spec: ServerSpec<'_>) -> Result<Self> {
        let log = run.logs().join(format!("{}.log", spec.name));
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let guard = Command::new(spec.python)
            .arg(workspace_root().join("local/cloud/guard.py"))
            .args([spec.stop_signal.as_ref(), spec.scratch.path().as_os_str(), "--".as_ref()])
            .args(&spec.command)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(spec.scratch.path())
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {} with {}", spec.name, spec.python.display()))?;
        Ok(Self { name: spec.name.to_owned(), guard, log, _scratch: spec.scratch })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The process group of the guard, the server and the server's children.
    pub(crate) fn group(&self) -> u32 {
        self.guard.id()
    }

    /// An error with the end of the log if the server is no more.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        if self.guard.try_wait()?.is_some() {
            bail!("{} ended; the last of {}:\n{}", self.name, self.log.display(), self.last_lines());
        }
        Ok(())
    }

    /// Waits until somebody accepts connections on `port`; fails at once when the server ends.
    pub(crate) async fn wait_for_port(&mut self, port: u16, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            self.check_alive()?;
            ensure!(Instant::now() < deadline, "{} does not listen on {port}:\n{}", self.name, self.last_lines());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.check_alive()
    }

    pub(crate) fn last_lines(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let deadline = Instant::now() + LONGEST_STOP;
        while matches!(self.guard.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.guard.kill();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A port of 127.0.0.1 that was free a moment ago. Whoever uses it checks afterwards that the listener is its own.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

/// `PATH` for servers, as ours.
pub(crate) fn path_variable() -> (&'static str, String) {
    ("PATH", std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned()))
}
