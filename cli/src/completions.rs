//! `tidemark completions SHELL`: what a shell needs to complete commands, options and their values.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::console;
use crate::exit::{Failure, Outcome};

/// Print the completions of a shell, to be put where it looks for them
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// Prints them.
pub(crate) fn run(arguments: &Completions) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "tidemark", &mut script);
    console::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
