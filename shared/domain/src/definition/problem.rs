//! What is wrong with a `datasets.toml`: told all at once, each with its place and what to do.

use std::fmt;
use std::ops::Range;

/// What is wrong with a text, and what to do about it; where it stands, its reader knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// What is wrong, with the text in it.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

impl Flaw {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: on_one_line(&what.into()), remedy: on_one_line(&remedy.into()) }
    }
}

/// What owners write may hold anything; a problem is one line.
fn on_one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

/// One thing that is wrong with a `datasets.toml`. They sort by their place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Whose table it stands in; `None` for the file as a whole.
    pub dataset: Option<String>,
    /// What is wrong, with the text in it.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.line, self.column, self.what, self.remedy)
    }
}

/// Gathers problems, with their places in the text.
pub(super) struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
}

impl<'t> Problems<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    pub(super) fn add(&mut self, dataset: Option<&str>, span: &Range<usize>, flaw: Flaw) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.found.push(Problem {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            dataset: dataset.map(str::to_owned),
            what: flaw.what,
            remedy: flaw.remedy,
        });
    }

    /// The text there, if it fits in a message.
    pub(super) fn snippet(&self, span: &Range<usize>) -> Option<&'t str> {
        self.text.get(span.clone()).filter(|text| (1..=40).contains(&text.len()) && !text.contains('\n'))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of the file.
    pub(super) fn sorted(mut self) -> Vec<Problem> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}
