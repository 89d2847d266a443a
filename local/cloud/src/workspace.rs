//! Where things lie on disk: the workspace, and the folder of one run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Folders of earlier runs that are kept for whoever wants to read their logs.
const RUNS_KEPT: usize = 20;

static RUNS: AtomicU32 = AtomicU32::new(0);

/// The root of the workspace this crate was built in.
pub fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// One run: its name, the folder of its logs, and short-lived scratch folders outside the workspace.
#[derive(Debug, Clone)]
pub struct Run {
    id: String,
    logs: PathBuf,
}

impl Run {
    /// Makes `.local/run/<id>/` and forgets all but the newest earlier runs.
    pub fn new() -> Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let id = format!("{since}-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let all = workspace_root().join(".local/run");
        let logs = all.join(&id);
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        forget_old_runs(&all);
        Ok(Self { id, logs })
    }

    /// Name of the run; unique on this machine, and in the order of time.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder with one log per server.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// A new folder for a server's own files, below the system's temporary folder: the workspace may lie where an
    /// unprivileged user may not go.
    pub(crate) fn scratch(&self, server: &str) -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("tidemark-{}-{server}", self.id));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Scratch(path))
    }
}

/// A folder that is removed when it is dropped; if we are killed first, the guard of its server removes it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn forget_old_runs(all: &Path) {
    let Ok(entries) = fs::read_dir(all) else { return };
    let mut runs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    runs.sort();
    let old = runs.len().saturating_sub(RUNS_KEPT);
    for run in runs.drain(..old) {
        // Another run may be doing the same: best effort.
        let _ = fs::remove_dir_all(run);
    }
}
