//! Verify: holds what was listed against what was staged, and tells everything that is wrong at once.
//!
//! Pure. A rule that isn't met is a [`Problem`]: which rule, what was measured, what is allowed, and a sentence for a human.
//! Some rules have patience (the source may be in the middle of an overwrite); what the engine does with that is its own.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::definition::{ColumnName, Definition, EmptySource, MissingObjects, RowDrop};

/// The rules a partition is held against. The names are stored and shown, so they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardKind {
    /// Objects of the last inventory are gone, more than was told.
    MissingObjects,
    /// Nothing at all is listed.
    EmptySource,
    /// Objects lie in an archive tier and can't be read.
    ArchivedObjects,
    /// Fewer rows are staged than the target's partition holds.
    RowDrop,
    /// The swap would delete rows that no batch of ours wrote.
    ForeignRows,
    /// COPY reports another number of files than were listed.
    LoadedFiles,
    /// The files' own row count differs from what is staged.
    RowVariance,
    /// COPY refused rows.
    RejectedRows,
    /// A required column is null.
    RequiredNull,
    /// Rows share a business key.
    DuplicateKeys,
    /// Staged rows belong to another partition.
    OtherPartition,
}

impl GuardKind {
    /// Every rule, in the order problems are told.
    pub const ALL: [Self; 11] = [
        Self::MissingObjects,
        Self::EmptySource,
        Self::ArchivedObjects,
        Self::LoadedFiles,
        Self::RowVariance,
        Self::RejectedRows,
        Self::RequiredNull,
        Self::DuplicateKeys,
        Self::OtherPartition,
        Self::RowDrop,
        Self::ForeignRows,
    ];

    /// The stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingObjects => "missing_objects",
            Self::EmptySource => "empty_source",
            Self::ArchivedObjects => "archived_objects",
            Self::RowDrop => "row_drop",
            Self::ForeignRows => "foreign_rows",
            Self::LoadedFiles => "loaded_files",
            Self::RowVariance => "row_variance",
            Self::RejectedRows => "rejected_rows",
            Self::RequiredNull => "required_null",
            Self::DuplicateKeys => "duplicate_keys",
            Self::OtherPartition => "other_partition",
        }
    }

    /// Whether it holds until the patience is over, before it parks: an overwrite of the source takes a while.
    pub fn has_patience(self) -> bool {
        matches!(self, Self::MissingObjects | Self::EmptySource | Self::RowDrop)
    }

    /// Whether an operator may accept it with a replay.
    pub fn may_be_accepted(self) -> bool {
        matches!(self, Self::MissingObjects | Self::EmptySource | Self::RowDrop | Self::ForeignRows)
    }

    /// Whether accepting it needs the digest the operator saw.
    pub fn accepted_with_digest(self) -> bool {
        matches!(self, Self::MissingObjects | Self::EmptySource | Self::RowDrop)
    }
}

impl fmt::Display for GuardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of the source before COPY.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// Objects in inventory and manifest.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their rows, where the files say so (Parquet footers).
    pub rows: Option<u64>,
}

/// What one query said of the staging table and of the target's partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageCounts {
    /// Rows staged.
    pub staged_rows: u64,
    /// Staged rows that are not of the partition they are to be inserted into.
    pub other_partition_rows: u64,
    /// Staged rows beyond the first of each business key.
    pub duplicate_rows: u64,
    /// Rows the target's partition holds now.
    pub target_rows: u64,
    /// Nulls, per required column, in the definition's order.
    pub nulls: Vec<(ColumnName, u64)>,
}

/// What Redshift's system views said of the COPY.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// COPY's query id, for later look-ups; `None` where the views don't show the COPY (yet).
    pub copy_query_id: Option<i64>,
    /// Distinct files by name. Names are cut at 256 bytes, so long keys may count as fewer.
    pub distinct_files: u64,
    /// Rows of the view: files, as Redshift told them one by one.
    pub listed_files: u64,
    /// Rows that COPY refused.
    pub rejected_rows: u64,
}

/// One rule that isn't met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The rule.
    pub kind: GuardKind,
    /// What was measured, with its unit.
    pub measured: String,
    /// What is allowed, with its unit.
    pub allowed: String,
    /// Both, and what they are of, in a sentence.
    pub sentence: String,
}

/// All rules that aren't met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// None: the batch may be swapped.
    pub problems: Vec<Problem>,
}

impl Verdict {
    /// Whether every rule is met.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether nothing but rules with patience are broken, so that waiting may help.
    pub fn may_heal(&self) -> bool {
        !self.is_good() && self.problems.iter().all(|problem| problem.kind.has_patience())
    }

    /// The kind to park or hold under: the first without patience, else the first.
    pub fn kind(&self) -> Option<GuardKind> {
        let kinds = || self.problems.iter().map(|problem| problem.kind);
        kinds().find(|kind| !kind.has_patience()).or_else(|| kinds().next())
    }

    /// All sentences, one after the other.
    pub fn message(&self) -> String {
        self.problems.iter().map(|problem| problem.sentence.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// What the listing showed, against the last inventory and what removal events told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listing<'a> {
    /// Objects listed now.
    pub objects: u64,
    /// Objects of the last committed inventory whose key isn't listed any more.
    pub missing: u64,
    /// One of the missing, to name it.
    pub missing_example: Option<&'a str>,
    /// Objects that removal events told of since the last commit (`removed`, as read before listing).
    pub told: u64,
    /// Objects in an archive tier, not restored.
    pub archived: u64,
    /// One of them, to name it.
    pub archived_example: Option<&'a str>,
}

/// The guards of the listing: missing objects, an empty source, archived objects.
///
/// Where nothing at all is listed, only `empty_source` speaks: that objects are missing goes without saying.
pub fn listing(definition: &Definition, accepted: &BTreeSet<GuardKind>, listing: &Listing<'_>) -> Verdict {
    let tolerance = &definition.tolerance;
    let mut problems = Vec::new();
    if listing.objects == 0 {
        if tolerance.empty_source == EmptySource::Refuse && !accepted.contains(&GuardKind::EmptySource) {
            let sentence = "nothing is listed under the partition, and empty_source refuses to delete its rows: put the \
                            objects back, or replay with accept empty_source";
            problems.push(Problem::new(GuardKind::EmptySource, "0 objects", "1 object at least", sentence));
        }
        return Verdict { problems };
    }
    let allowed = match tolerance.missing_objects {
        MissingObjects::Told => listing.told,
        MissingObjects::Refuse => 0,
        MissingObjects::Accept => u64::MAX,
    };
    if listing.missing > allowed && !accepted.contains(&GuardKind::MissingObjects) {
        let told =
            if tolerance.missing_objects == MissingObjects::Told { "events told of" } else { "the definition allows" };
        let sentence = format!(
            "{} objects of the last inventory are gone{}, but {told} {allowed}: put them back, or replay with accept \
             missing_objects",
            listing.missing,
            such_as(listing.missing_example)
        );
        let measured = format!("{} objects", listing.missing);
        problems.push(Problem::new(GuardKind::MissingObjects, measured, format!("{allowed} objects"), sentence));
    }
    if listing.archived > 0 {
        let sentence = format!(
            "{} objects lie in an archive tier and can't be read{}: restore them, which marks the partition",
            listing.archived,
            such_as(listing.archived_example)
        );
        let measured = format!("{} objects", listing.archived);
        problems.push(Problem::new(GuardKind::ArchivedObjects, measured, "0 objects", sentence));
    }
    Verdict { problems }
}

/// The guards of a staged batch. `loads` is `None` where no COPY ran (an accepted empty source) or its record can't be had.
///
/// `foreign_rows` is not among them: the swap itself raises it, at the moment it would delete.
pub fn staged(
    definition: &Definition,
    accepted: &BTreeSet<GuardKind>,
    source: &SourceCounts,
    counts: &StageCounts,
    loads: Option<&LoadCounts>,
) -> Verdict {
    let tolerance = &definition.tolerance;
    let mut problems = Vec::new();
    if let Some(loads) = loads {
        problems.extend(loaded_files(source, loads));
        problems.extend(at_most(
            GuardKind::RejectedRows,
            loads.rejected_rows,
            u64::from(tolerance.rejected_rows),
            "COPY refused {} rows, but {} are let pass: see sys_load_error_detail for file, line and column",
        ));
    }
    if let Some(rows) = source.rows {
        problems.extend(at_most(
            GuardKind::RowVariance,
            rows.abs_diff(counts.staged_rows),
            tolerance.row_variance,
            &format!(
                "the files hold {rows} rows, but {} are staged: a difference of {{}}, where {{}} is let pass",
                counts.staged_rows
            ),
        ));
    }
    for (column, nulls) in &counts.nulls {
        let sentence = format!("required column {column} is null in {{}} staged rows, where {{}} is let pass");
        problems.extend(at_most(GuardKind::RequiredNull, *nulls, 0, &sentence));
    }
    problems.extend(at_most(
        GuardKind::DuplicateKeys,
        counts.duplicate_rows,
        tolerance.duplicate_keys,
        &format!("{{}} staged rows repeat the key ({}) of another, where {{}} is let pass", names(&definition.key)),
    ));
    problems.extend(at_most(
        GuardKind::OtherPartition,
        counts.other_partition_rows,
        0,
        "{} staged rows belong to another partition, where {} is let pass: the path and the rows' own columns differ",
    ));
    // An empty source has passed its own guard by now, and means that all rows go.
    if source.objects > 0 && !accepted.contains(&GuardKind::RowDrop) {
        problems.extend(row_drop(tolerance.row_drop, counts));
    }
    Verdict { problems }
}

/// Listed = manifest = loaded. Names of the view are cut at 256 bytes, so long keys may count as one file; then its rows count.
fn loaded_files(source: &SourceCounts, loads: &LoadCounts) -> Option<Problem> {
    // The views show nothing of the COPY (yet): unknown, which is no difference. COPY itself fails if an object is missing.
    loads.copy_query_id?;
    let as_listed = loads.distinct_files == source.objects
        || (loads.distinct_files < source.objects && loads.listed_files == source.objects);
    let sentence = format!(
        "COPY reports {} files loaded, but {} objects were listed and stand in its manifest",
        loads.distinct_files, source.objects
    );
    let problem = Problem::new(
        GuardKind::LoadedFiles,
        format!("{} files", loads.distinct_files),
        format!("{} files", source.objects),
        sentence,
    );
    (!as_listed).then_some(problem)
}

fn row_drop(rule: RowDrop, counts: &StageCounts) -> Option<Problem> {
    let allowed = match rule {
        RowDrop::Accept => return None,
        RowDrop::Refuse => 0,
        RowDrop::UpTo(share) => share_of(share, counts.target_rows),
    };
    let sentence = format!(
        "{} rows are staged where the target's partition holds {}: {{}} fewer, where {{}} may go; wait for the rest of the \
         files, or replay with accept row_drop",
        counts.staged_rows, counts.target_rows
    );
    at_most(GuardKind::RowDrop, counts.target_rows.saturating_sub(counts.staged_rows), allowed, &sentence)
}

/// The share in millionths, so that 29% of 100 rows are 29.
fn share_of(share: f64, rows: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
    let millionths = (share.clamp(0.0, 1.0) * 1e6).round() as u128;
    u64::try_from(u128::from(rows) * millionths / 1_000_000).unwrap_or(rows)
}

/// A problem if more is measured than is allowed; the sentence's two `{}` are measured and allowed.
fn at_most(kind: GuardKind, measured: u64, allowed: u64, sentence: &str) -> Option<Problem> {
    let told = sentence.replacen("{}", &measured.to_string(), 1).replacen("{}", &allowed.to_string(), 1);
    (measured > allowed).then(|| Problem::new(kind, format!("{measured} rows"), format!("{allowed} rows"), told))
}

impl Problem {
    fn new(
        kind: GuardKind,
        measured: impl Into<String>,
        allowed: impl Into<String>,
        sentence: impl Into<String>,
    ) -> Self {
        let (measured, allowed, sentence) = (measured.into(), allowed.into(), sentence.into());
        Self { kind, measured, allowed, sentence }
    }
}

fn such_as(example: Option<&str>) -> String {
    example.map(|key| format!(" (such as {key:?})")).unwrap_or_default()
}

fn names(columns: &[ColumnName]) -> String {
    columns.iter().map(|column| column.0.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
