//! How a command ends: its exit code, and the sentence a failure is told with.

use std::fmt::{Display, Write as _};
use std::io;
use std::process::ExitCode;

use crate::console;

/// A command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or nothing to do.
    Done,
    /// It told of problems; nothing more is to be said.
    Problems,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Problems => Self::FAILURE,
        }
    }
}

/// Why a command didn't run to its end: a sentence without a capital and a full stop, with the remedy in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It can't be done as asked for.
    Refused(String),
    /// The command line is wrong in a way that only shows later.
    Usage(String),
    /// AWS or Redshift can't be reached, refuses, or isn't set up.
    Unavailable(String),
    /// Who read the output has gone: nobody is left to tell.
    Unread,
}

impl Failure {
    /// The same, of one thing among several.
    pub(crate) fn about(self, what: &impl Display) -> Self {
        match self {
            Self::Refused(message) => Self::Refused(format!("{what}: {message}")),
            Self::Usage(message) => Self::Usage(format!("{what}: {message}")),
            Self::Unavailable(message) => Self::Unavailable(format!("{what}: {message}")),
            Self::Unread => Self::Unread,
        }
    }

    /// Tells it on standard error.
    pub(crate) fn tell(self) -> ExitCode {
        let (code, message) = match self {
            Self::Refused(message) => (1, message),
            Self::Usage(message) => (2, message),
            Self::Unavailable(message) => (3, message),
            Self::Unread => return ExitCode::SUCCESS,
        };
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = writeln!(text, "{}error{}: {message}", console::BAD, console::PLAIN);
        console::tell(&text);
        ExitCode::from(code)
    }
}

/// Output that can't be written: a pipe that was closed is no failure of ours.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Refused(format!("can't write the output: {error}")),
        }
    }
}
