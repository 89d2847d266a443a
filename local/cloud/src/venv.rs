//! Python environments of our own, below `.local/venv/`: made once per content of a requirements file, reused by later runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::workspace::workspace_root;

/// Written last: an environment without it was not finished.
const COMPLETE: &str = "complete";

/// A finished environment.
#[derive(Debug, Clone)]
pub struct Venv {
    root: PathBuf,
}

impl Venv {
    /// The environment for a requirements file of this workspace, made now if need be; processes that want the same one
    /// take turns.
    pub fn ensure(requirements: &str) -> Result<Self> {
        let file = workspace_root().join(requirements);
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let all = workspace_root().join(".local/venv");
        fs::create_dir_all(&all).with_context(|| format!("cannot make {}", all.display()))?;
        let key = &hex::encode(Sha256::digest(&text))[..16];
        let root = all.join(key);

        let lock = File::create(all.join(format!("{key}.lock")))?;
        lock.lock().context("cannot lock the python environment")?;
        if !root.join(COMPLETE).exists() {
            make(&root, &file)?;
        }
        Ok(Self { root })
    }

    /// A program that one of its packages brought.
    pub fn program(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.program("python3")
    }

    /// The folder its packages lie in.
    pub(crate) fn packages(&self) -> Result<PathBuf> {
        let told =
            run(Command::new(self.python()).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
        Ok(PathBuf::from(told.trim()))
    }
}

/// The machine's own Python: `$PYTHON`, else `python3`.
pub(crate) fn system_python() -> PathBuf {
    std::env::var_os("PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

fn make(root: &Path, requirements: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root).with_context(|| format!("cannot remove the unfinished {}", root.display()))?;
    }
    let python = system_python();
    run(Command::new(&python).args(["-m", "venv"]).arg(root)).with_context(|| {
        format!("cannot make a python environment with {}; on Debian: apt install python3-venv", python.display())
    })?;
    run(Command::new(root.join("bin/python3"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements))?;
    fs::write(root.join(COMPLETE), "")?;
    Ok(())
}

/// Runs a command to its end and gives its standard output; an error holds what it wrote to standard error.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let what = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {what}"))?;
    if !output.status.success() {
        bail!("{what} failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
