//! What came of each combination: a table, the wrong ones in words, one line with the figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::combination::Combination;

/// What came of one.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The target held what was written.
    Right,
    /// It may not be written so, and was refused for the right reason.
    Refused,
    /// Why it isn't right.
    Wrong(String),
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    #[serde(skip)]
    row: String,
    #[serde(skip)]
    column: &'static str,
    outcome: Outcome,
}

/// Outcomes, one a combination.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Line>);

impl Report {
    pub(crate) fn add(&mut self, combination: &Combination, outcome: Outcome) {
        let (format, compression) = (combination.format.name(), combination.compression.name());
        let row = format!("{format:<8} {compression:<7} {}", combination.mode.name());
        self.0.push(Line { name: combination.name(), row, column: combination.layout.name, outcome });
    }

    /// A row for each format, compression and mode, a column for each layout; below it what is wrong.
    pub(crate) fn table(&self) -> String {
        let columns: BTreeSet<&str> = self.0.iter().map(|line| line.column).collect();
        let mut rows: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for line in &self.0 {
            let word = match line.outcome {
                Outcome::Right => "right",
                Outcome::Refused => "refused",
                Outcome::Wrong(_) => "WRONG",
            };
            rows.entry(&line.row).or_default().insert(line.column, word);
        }
        let mut table = format!("\n{:<28}", "");
        for column in &columns {
            let _ = write!(table, " {column:>11}");
        }
        for (row, words) in rows {
            let _ = write!(table, "\n{row:<28}");
            for column in &columns {
                let _ = write!(table, " {:>11}", words.get(column).copied().unwrap_or(""));
            }
        }
        for line in &self.0 {
            if let Outcome::Wrong(why) = &line.outcome {
                let _ = write!(table, "\nWRONG {}: {why}", line.name);
            }
        }
        table
    }

    /// The figures.
    pub(crate) fn line(&self) -> String {
        format!("combinations {}, right {}, wrong {}", self.0.len(), self.0.len() - self.wrong(), self.wrong())
    }

    /// Whether there was something, and nothing of it wrong.
    pub(crate) fn is_right(&self) -> bool {
        !self.0.is_empty() && self.wrong() == 0
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let report = json!({ "figures": self.line(), "combinations": self.0 });
        fs::write(path, format!("{report:#}\n")).with_context(|| format!("cannot write {}", path.display()))
    }

    fn wrong(&self) -> usize {
        self.0.iter().filter(|line| matches!(line.outcome, Outcome::Wrong(_))).count()
    }
}
