//! How the story is told: a line a happening, with the time since the start, in colours where a terminal allows.

use std::fmt::Display;
use std::time::Instant;

use anstream::{eprintln, println};
use anstyle::{AnsiColor, Style};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Tells the story.
pub(crate) struct Teller {
    began: Instant,
    acts: usize,
}

impl Teller {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), acts: 0 }
    }

    /// Opens an act.
    pub(crate) fn act(&mut self, title: impl Display) {
        self.acts += 1;
        println!("\n{BOLD}{}. {title}{BOLD:#}", self.acts);
    }

    /// Something happens.
    pub(crate) fn line(&self, what: impl Display) {
        println!("{}  {what}", self.time());
    }

    /// Something that was to be shown is shown.
    pub(crate) fn shown(&self, what: impl Display) {
        println!("{}  {GOOD}✓{GOOD:#} {what}", self.time());
    }

    /// Something that was to be shown is not so.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        eprintln!("{}  {BAD}✗ it did not come true{BAD:#}", self.time());
        for cause in error.chain() {
            eprintln!("{cause}");
        }
    }

    fn time(&self) -> String {
        format!("{DIM}{:6.1} s{DIM:#}", self.began.elapsed().as_secs_f64())
    }
}

/// Plain text, without time.
pub(crate) fn text(what: impl Display) {
    println!("{what}");
}

/// A word in the colour of its truth.
pub(crate) fn verdict(truth: bool) -> String {
    let (style, word) = if truth { (GOOD, "true") } else { (BAD, "FALSE") };
    format!("{style}{word}{style:#}")
}

/// `count` with its noun: `1 file`, `2 files`.
pub(crate) fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
