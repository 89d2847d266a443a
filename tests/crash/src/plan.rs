//! What a test build of the functions is told to do at which effect; the files are told of in `tidemark_aws::failpoints`.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tidemark_kit::World;

/// Right before an effect or right after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    Before,
    After,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Before { "before" } else { "after" })
    }
}

/// What a process does there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Stop,
}

/// An effect of a run: the n-th of its name, from 1, and one of its two moments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) effect: String,
    pub(crate) number: usize,
    pub(crate) moment: Moment,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.moment, self.effect)?;
        if self.number > 1 { write!(f, " ({})", self.number) } else { Ok(()) }
    }
}

/// A failpoint that fired.
#[derive(Debug, Clone)]
pub(crate) struct Fired {
    /// Since 1970.
    pub(crate) at: Duration,
    pub(crate) pid: u32,
}

/// The plan of a world's stack.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    folder: PathBuf,
}

impl Plan {
    pub(crate) fn of(world: &World) -> Result<Self> {
        let folder = world.cloud.failpoints().join(world.stack.name());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Arms the first of these; each is armed once the one before it has fired.
    pub(crate) fn arm(&self, points: &[(&At, Action)]) -> Result<()> {
        self.disarm()?;
        let mut lines = String::new();
        for (at, action) in points {
            let action = if *action == Action::Kill { "kill" } else { "stop" };
            lines.extend((1..at.number).map(|_| format!("{} pass {}\n", at.moment, at.effect)));
            lines.extend([format!("{} {action} {}\n", at.moment, at.effect)]);
        }
        fs::write(self.folder.join("next"), lines)?;
        Ok(fs::rename(self.folder.join("next"), self.folder.join("plan"))?)
    }

    /// Nothing is armed any more, nothing has fired.
    pub(crate) fn disarm(&self) -> Result<()> {
        for file in ["plan", "fired"] {
            match fs::remove_file(self.folder.join(file)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// What has fired since it was armed, oldest first; what only passed is left out.
    pub(crate) fn fired(&self) -> Vec<Fired> {
        let text = fs::read_to_string(self.folder.join("fired")).unwrap_or_default();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        complete.lines().filter(|line| !line.contains(" pass ")).filter_map(|line| line.parse().ok()).collect()
    }

    /// From now on the names of effects are written down.
    pub(crate) fn start_trace(&self) -> Result<()> {
        Ok(fs::write(self.folder.join("trace"), "")?)
    }

    /// The names so far; no more are written down.
    pub(crate) fn end_trace(&self) -> Result<Vec<String>> {
        let trace = self.folder.join("trace");
        let names = fs::read_to_string(&trace)?.lines().map(str::to_owned).collect();
        fs::remove_file(trace)?;
        Ok(names)
    }
}

impl FromStr for Fired {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split(' ');
        let mut number = || words.next().context("a line of `fired` ends early")?.parse().context("no number");
        Ok(Self { at: Duration::from_millis(number()?), pid: u32::try_from(number()?)? })
    }
}

/// Time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
