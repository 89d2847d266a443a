//! Every guard of a dataset with what was measured of a batch and what is allowed: for people, after the fact.
//!
//! What is let pass is decided by [`crate::verify`]; a test holds this against it.

use std::collections::BTreeMap;

use crate::definition::{Definition, EmptySource, ForeignRows, MissingObjects, RowDrop, WriteMode};
use crate::verify::{GuardKind, share_of};

/// A guard, as it stood for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// Which.
    pub kind: GuardKind,
    /// What was measured; `None` where nobody knows.
    pub measured: Option<u64>,
    /// The most that is allowed; `None`: any number.
    pub allowed: Option<u64>,
    /// Of what, such as `rows`.
    pub unit: &'static str,
    /// Where the allowance comes from, such as `row_drop = 10%`.
    pub rule: String,
}

impl Guard {
    /// Whether it is met; `None` where nobody knows.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.allowed.is_none_or(|allowed| self.measured.is_some_and(|measured| measured <= allowed)))
            .filter(|_| self.allowed.is_none() || self.measured.is_some())
    }
}

/// The guards of a batch that listed so many `objects`, by what its story counted.
pub fn guards(definition: &Definition, objects: Option<u64>, counts: &BTreeMap<String, u64>) -> Vec<Guard> {
    let count = |name: &str| counts.get(name).copied();
    let tolerance = &definition.tolerance;
    let staged = count("staged_rows");
    let (missing_allowed, missing_rule) = match tolerance.missing_objects {
        MissingObjects::Told => (count("removals_told").or(Some(0)), "told by removal events"),
        MissingObjects::Refuse => (Some(0), "missing_objects = refuse"),
        MissingObjects::Accept => (None, "missing_objects = accept"),
    };
    let (empty_allowed, empty_rule) = match tolerance.empty_source {
        EmptySource::Refuse => (Some(0), "empty_source = refuse"),
        EmptySource::Delete => (None, "empty_source = delete"),
    };
    let mut guards = vec![
        guard(GuardKind::MissingObjects, count("missing_objects"), missing_allowed, "objects", missing_rule),
        guard(GuardKind::EmptySource, objects.map(|n| u64::from(n == 0)), empty_allowed, "empty listings", empty_rule),
        guard(GuardKind::ArchivedObjects, count("archived_objects"), Some(0), "objects", "none may be archived"),
        guard(
            GuardKind::RowVariance,
            count("source_rows").and_then(|source| Some(source.abs_diff(staged?))),
            Some(tolerance.row_variance),
            "rows",
            format!("row_variance = {}", tolerance.row_variance),
        ),
        guard(
            GuardKind::RejectedRows,
            count("rejected_rows"),
            Some(tolerance.rejected_rows.into()),
            "rows",
            format!("rejected_rows = {}", tolerance.rejected_rows),
        ),
    ];
    if !definition.required.is_empty() {
        guards.push(guard(GuardKind::RequiredNull, count("null_rows"), Some(0), "rows", "required columns"));
    }
    if !definition.key.is_empty() {
        let rule = format!("duplicate_keys = {}", tolerance.duplicate_keys);
        let (measured, allowed) = (count("duplicate_rows"), Some(tolerance.duplicate_keys));
        guards.push(guard(GuardKind::DuplicateKeys, measured, allowed, "rows", rule));
    }
    let other = count("other_partition_rows");
    guards.push(guard(GuardKind::OtherPartition, other, Some(0), "rows", "none may be of another partition"));
    if definition.write == WriteMode::Replace {
        guards.push(row_drop(definition, objects, staged, count("rows_before")));
        let (allowed, rule) = match tolerance.foreign_rows {
            ForeignRows::Refuse => (Some(0), "foreign_rows = refuse"),
            ForeignRows::Accept => (None, "foreign_rows = accept"),
        };
        guards.push(guard(GuardKind::ForeignRows, count("foreign_rows"), allowed, "rows", rule));
    } else {
        let elsewhere = count("elsewhere_rows");
        guards.push(guard(GuardKind::KeyElsewhere, elsewhere, Some(0), "rows", "none may stand in another partition"));
    }
    guards
}

fn row_drop(definition: &Definition, objects: Option<u64>, staged: Option<u64>, before: Option<u64>) -> Guard {
    let (allowed, rule) = match definition.tolerance.row_drop {
        RowDrop::Accept => (None, "row_drop = accept".to_owned()),
        // An empty source has its own guard, and means that all rows go.
        _ if objects == Some(0) => (None, "an accepted empty source".to_owned()),
        RowDrop::Refuse => (Some(0), "row_drop = refuse".to_owned()),
        RowDrop::UpTo(share) => {
            (before.map(|before| share_of(share, before)), format!("row_drop = {}%", share * 100.0))
        }
    };
    let dropped = before.and_then(|before| Some(before.saturating_sub(staged?)));
    guard(GuardKind::RowDrop, dropped, allowed.or(rule.contains('%').then_some(0)), "rows fewer", rule)
}

fn guard(
    kind: GuardKind,
    measured: Option<u64>,
    allowed: Option<u64>,
    unit: &'static str,
    rule: impl Into<String>,
) -> Guard {
    Guard { kind, measured, allowed, unit, rule: rule.into() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::definition::{ColumnName, parse};
    use crate::verify::{self, LoadCounts, SourceCounts, StageCounts};

    const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["id bigint"]
key = ["id"]
required = ["id"]
[orders.partition.dt]
type = "date"
"#;

    /// The rules that are broken by these counts, as verify says and as the guards tell it.
    fn broken(toml: &str, counts: &StageCounts, rows: Option<u64>, rejected: u64) -> [BTreeSet<GuardKind>; 2] {
        let definition = parse(toml).unwrap().remove(0);
        let source = SourceCounts { objects: 3, bytes: 3, rows };
        let loads = LoadCounts { copy_query_id: Some(1), distinct_files: 3, listed_files: 3, rejected_rows: rejected };
        let verdict = verify::staged(&definition, &BTreeSet::new(), &source, counts, Some(&loads));
        let mut told = BTreeMap::from(
            [
                ("staged_rows", counts.staged_rows),
                ("other_partition_rows", counts.other_partition_rows),
                ("duplicate_rows", counts.duplicate_rows),
                ("rows_before", counts.target_rows),
                ("foreign_rows", counts.foreign_rows),
                ("null_rows", counts.nulls[0].1),
                ("elsewhere_rows", counts.elsewhere_rows),
                ("rejected_rows", rejected),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        told.extend(rows.map(|rows| ("source_rows".to_owned(), rows)));
        let guards = guards(&definition, Some(3), &told);
        [
            verdict.problems.iter().map(|problem| problem.kind).collect(),
            guards.iter().filter(|guard| guard.is_met() == Some(false)).map(|guard| guard.kind).collect(),
        ]
    }

    #[test]
    fn guards_are_broken_where_verify_says_so() {
        let good = StageCounts {
            staged_rows: 100,
            other_partition_rows: 0,
            duplicate_rows: 0,
            target_rows: 100,
            foreign_rows: 0,
            elsewhere_rows: 0,
            nulls: vec![(ColumnName("id".to_owned()), 0)],
        };
        let lenient =
            format!("{ORDERS}[orders.tolerance]\nrow_drop = \"accept\"\nduplicate_keys = 5\nrow_variance = 2\n");
        let mut seen = BTreeSet::new();
        for toml in [ORDERS, &lenient] {
            for (rows, rejected) in [(None, 0), (Some(100), 0), (Some(102), 0), (Some(200), 0), (Some(100), 1)] {
                let variants = [
                    good.clone(),
                    StageCounts { staged_rows: 89, ..good.clone() },
                    StageCounts { staged_rows: 90, ..good.clone() },
                    StageCounts { duplicate_rows: 5, ..good.clone() },
                    StageCounts { duplicate_rows: 6, foreign_rows: 1, ..good.clone() },
                    StageCounts { other_partition_rows: 1, ..good.clone() },
                    StageCounts { nulls: vec![(ColumnName("id".to_owned()), 4)], ..good.clone() },
                ];
                for counts in variants {
                    let [verdict, told] = broken(toml, &counts, rows, rejected);
                    assert_eq!(verdict, told, "{toml} {counts:?} {rows:?} {rejected}");
                    seen.extend(told);
                }
            }
        }
        assert_eq!(seen.len(), 7, "{seen:?}");
    }

    #[test]
    fn what_nobody_measured_is_neither_met_nor_broken() {
        let definition = parse(ORDERS).unwrap().remove(0);
        let guards = guards(&definition, None, &BTreeMap::new());
        assert!(guards.iter().all(|guard| guard.is_met().is_none()), "{guards:#?}");
    }
}
