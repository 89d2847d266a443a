//! What is told: a row a point, as JSON and as a table, and one line with the figures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::points::Point;

/// Above the lines of the table.
pub(crate) const HEAD: &str = "scenario        point                                                           found             confirmed  recovery";

/// What came of a point.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) point: String,
    /// In which state its work was found.
    pub(crate) found: String,
    /// What recovery did.
    pub(crate) recovery: String,
    /// From the last failure to the confirmed state.
    pub(crate) seconds: Option<f64>,
    /// Why it isn't right.
    pub(crate) problem: Option<String>,
}

impl Row {
    pub(crate) fn wrong(point: &Point, problem: String) -> Self {
        Self {
            scenario: point.scenario.name(),
            point: point.to_string(),
            found: String::new(),
            recovery: String::new(),
            seconds: None,
            problem: Some(problem),
        }
    }

    /// A line of the table.
    pub(crate) fn line(&self) -> String {
        let Self { scenario, point, found, recovery, .. } = self;
        match (&self.problem, self.seconds) {
            (None, Some(seconds)) => format!("{scenario:<14}  {point:<62}  {found:<16}  {seconds:>7.1} s  {recovery}"),
            (problem, _) => format!("{scenario:<14}  {point:<62}  WRONG: {}", problem.as_deref().unwrap_or("?")),
        }
    }
}

/// The figures of all rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) points: usize,
    pub(crate) right: usize,
    pub(crate) median_seconds: f64,
    pub(crate) worst_seconds: f64,
}

impl Figures {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let mut seconds: Vec<f64> = rows.iter().filter_map(|row| row.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        Self {
            points: rows.len(),
            right: rows.iter().filter(|row| row.problem.is_none()).count(),
            median_seconds: seconds.get(seconds.len() / 2).copied().unwrap_or(0.0),
            worst_seconds: seconds.last().copied().unwrap_or(0.0),
        }
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{} points, {} right; seconds to the confirmed state: median {:.1}, worst {:.1}",
            self.points, self.right, self.median_seconds, self.worst_seconds
        )
    }
}

/// Writes the report: the figures, a row a point, and the effects that no scenario makes.
pub(crate) fn write(path: &Path, rows: &[Row], figures: &Figures, not_met: &[&str]) -> Result<()> {
    let report = json!({ "figures": figures, "points": rows, "effects_not_made": not_met });
    fs::write(path, format!("{report:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::Way;
    use crate::scenario::Scenario;

    #[test]
    fn a_point_that_ended_wrong_counts_as_a_point_and_not_as_right() {
        let point = Point { scenario: Scenario::Late, way: Way::BreakCopy };
        let right = |seconds| Row { problem: None, seconds: Some(seconds), ..Row::wrong(&point, String::new()) };
        let rows = [right(3.0), right(1.0), right(2.0), Row::wrong(&point, "two rows too many".to_owned())];
        let figures = Figures::of(&rows);
        assert_eq!(figures, Figures { points: 4, right: 3, median_seconds: 2.0, worst_seconds: 3.0 });
        assert!(rows[3].line().contains("WRONG: two rows too many"));
    }
}
