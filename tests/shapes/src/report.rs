//! What came of each combination: a table, the wrong ones in words, one line with the figures.

use std::collections::{BTreeMap, BTreeSet};
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

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Refused => "refused",
            Self::Wrong(_) => "WRONG",
        }
    }
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    #[serde(skip)]
    row: String,
    /// A producer has none.
    #[serde(skip)]
    column: Option<&'static str>,
    outcome: Outcome,
}

/// Outcomes, one a combination.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Line>);

impl Report {
    pub(crate) fn add(&mut self, combination: &Combination, outcome: Outcome) {
        let (format, compression) = (combination.format.name(), combination.compression.name());
        let row = format!("{format:<8} {compression:<7} {}", combination.mode.name());
        self.0.push(Line { name: combination.name(), row, column: Some(combination.layout.name), outcome });
    }

    pub(crate) fn add_producer(&mut self, name: &str, outcome: Outcome) {
        self.0.push(Line { name: format!("producer {name}"), row: String::new(), column: None, outcome });
    }

    /// A row for each format, compression and mode, a column for each layout; the producers; below it what is wrong.
    pub(crate) fn table(&self) -> String {
        let columns: BTreeSet<&str> = self.0.iter().filter_map(|line| line.column).collect();
        let mut rows: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for line in &self.0 {
            if let Some(column) = line.column {
                rows.entry(&line.row).or_default().insert(column, line.outcome.word());
            }
        }
        let mut lines = vec![format!("\n{:<28}", "")];
        lines[0].extend(columns.iter().map(|column| format!(" {column:>11}")));
        for (row, words) in rows {
            let words = columns.iter().map(|column| format!(" {:>11}", words.get(column).copied().unwrap_or("")));
            lines.push(format!("{row:<28}{}", words.collect::<Vec<_>>().concat()));
        }
        let producers = self.0.iter().filter(|line| line.column.is_none());
        lines.extend(producers.map(|line| format!("{:<28} {:>11}", line.name, line.outcome.word())));
        lines.extend(self.0.iter().filter_map(|line| match &line.outcome {
            Outcome::Wrong(why) => Some(format!("WRONG {}: {why}", line.name)),
            _ => None,
        }));
        lines.join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_wrong_is_told_and_counted() {
        let mut report = Report::default();
        assert!(!report.is_right(), "nothing was played");
        report.add_producer("spark", Outcome::Right);
        assert!(report.is_right());
        report.add(&Combination::all()[0], Outcome::Refused);
        report.add(&Combination::all()[1], Outcome::Wrong("a row too many".to_owned()));
        assert_eq!(report.line(), "combinations 3, right 2, wrong 1");
        assert!(!report.is_right());
        assert!(report.table().ends_with(": a row too many"), "{}", report.table());
    }
}
