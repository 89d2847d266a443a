//! Reads a `datasets.toml`; where anything is wrong with it, tells all of it.

use std::fmt::Write as _;
use std::path::Path;

use tidemark_domain::definition::{Checks, Definition, Problem, parse_with};

use crate::console::{self, NAME, PLAIN};
use crate::exit::Failure;

/// A file that can be gone on with, or the problems of it.
pub(crate) type Read = Result<Vec<Definition>, Vec<Problem>>;

/// Reads the file. That it isn't there is a failure; that it is wrong is told by what comes back.
pub(crate) fn read(path: &Path, checks: &Checks) -> Result<Read, Failure> {
    let bytes =
        std::fs::read(path).map_err(|error| Failure::Refused(format!("can't read {}: {error}", path.display())))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Refused(format!("{} is not UTF-8; save it as UTF-8", path.display())))?;
    Ok(parse_with(&text, checks))
}

/// The problems, a line each: `file:line:column: what; remedy`.
pub(crate) fn problem_lines(path: &Path, problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let place = format!("{}:{}:{}", path.display(), problem.line, problem.column);
        // Writing to a String can't fail.
        let _ = writeln!(text, "{NAME}{place}{PLAIN}: {}; {}", problem.what, problem.remedy);
    }
    text
}

/// The definitions; where there are problems they are told on standard error, and the command is refused.
pub(crate) fn definitions(path: &Path, checks: &Checks) -> Result<Vec<Definition>, Failure> {
    read(path, checks)?.map_err(|problems| {
        console::tell(&problem_lines(path, &problems));
        Failure::Refused(format!("{} in {}", count(problems.len(), "problem"), path.display()))
    })
}

/// `1 problem`, `2 problems`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
