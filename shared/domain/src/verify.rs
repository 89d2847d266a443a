//! Verify: holds what was listed against what was staged, and tells everything that is wrong at once.
//!
//! Pure. A rule that isn't met is a [`Problem`]: which rule, what was measured, what is allowed, and a sentence for a human.
//! Some rules have patience (the source may be in the middle of an overwrite); what the engine does with that is its own.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::definition::{ColumnName, Definition, EmptySource, ForeignRows, MissingObjects, RowDrop, WriteMode};

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
    /// The manifest holds other objects than were listed.
    Manifest,
    /// COPY reports another number of files than its manifest holds.
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
    /// Rows of staged keys stand in another partition of the target.
    KeyElsewhere,
}

impl GuardKind {
    /// Every rule, in the order problems are told.
    pub const ALL: [Self; 13] = [
        Self::MissingObjects,
        Self::EmptySource,
        Self::ArchivedObjects,
        Self::Manifest,
        Self::LoadedFiles,
        Self::RowVariance,
        Self::RejectedRows,
        Self::RequiredNull,
        Self::DuplicateKeys,
        Self::OtherPartition,
        Self::KeyElsewhere,
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
            Self::Manifest => "manifest",
            Self::LoadedFiles => "loaded_files",
            Self::RowVariance => "row_variance",
            Self::RejectedRows => "rejected_rows",
            Self::RequiredNull => "required_null",
            Self::DuplicateKeys => "duplicate_keys",
            Self::OtherPartition => "other_partition",
            Self::KeyElsewhere => "key_elsewhere",
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::MissingObjects => "put back what is gone, or replay with accept missing_objects",
            Self::EmptySource => "put the objects back, or replay with accept empty_source",
            Self::ArchivedObjects => "restore them, which marks the partition",
            Self::RowDrop => "put the rest of the files there, or replay with accept row_drop",
            Self::ForeignRows => "move those rows elsewhere, or replay with accept foreign_rows, which deletes them",
            Self::Manifest => "replay; if it stays, it is a fault of Tidemark: keep its control bucket",
            Self::LoadedFiles => "replay; if it stays, hold sys_load_detail against the manifest",
            Self::RowVariance => "write the files anew, or raise row_variance",
            Self::RejectedRows => "see sys_load_error_detail; mend the files, or raise rejected_rows",
            Self::RequiredNull => "write the files anew, or take the column out of required",
            Self::DuplicateKeys => "write the files anew, or raise duplicate_keys",
            Self::OtherPartition => "write those rows below their own path",
            Self::KeyElsewhere => "add order_by, so that the greatest wins, or delete those rows from the target",
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
    /// Of them, those that no batch of ours wrote.
    pub foreign_rows: u64,
    /// Upsert without `order_by`: target rows of other partitions whose key is staged.
    pub elsewhere_rows: u64,
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
    /// What was expected and found, and what is let pass.
    pub sentence: String,
    /// What to do.
    pub remedy: &'static str,
}

/// All rules that aren't met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// None: the batch may be swapped.
    pub problems: Vec<Problem>,
    /// What is to be told before them: that something else was accepted than what was found.
    pub note: Option<String>,
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

    /// Every broken rule with what was expected and found, what is let pass and what to do.
    pub fn message(&self) -> String {
        self.told(true)
    }

    /// The same in so many bytes: where there isn't room for all, what to do is left out, never a rule.
    pub fn message_within(&self, bytes: usize) -> String {
        let whole = self.told(true);
        if whole.len() <= bytes {
            return whole;
        }
        let short = self.told(false);
        short[..short.floor_char_boundary(bytes)].to_owned()
    }

    fn told(&self, remedies: bool) -> String {
        let problem = |problem: &Problem| {
            let remedy = if remedies { format!("; {}", problem.remedy) } else { String::new() };
            format!("{}: {}{remedy}", problem.kind, problem.sentence)
        };
        let problems: Vec<String> = self.problems.iter().map(problem).collect();
        let count = (problems.len() > 1).then(|| format!("{} rules are broken", problems.len()));
        let told: Vec<String> = self.note.clone().into_iter().chain(count).chain(problems).collect();
        told.join(". ")
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
    /// What can't be read of the last committed inventory, and why: then it isn't known what is missing.
    pub unreadable: Option<&'a str>,
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
            let sentence = "nothing is listed, and the target's rows are not deleted for it";
            problems.push(Problem::new(GuardKind::EmptySource, "0 objects", "1 object at least", sentence));
        }
        return Verdict { problems, note: None };
    }
    let allowed = match tolerance.missing_objects {
        MissingObjects::Told => listing.told,
        MissingObjects::Refuse => 0,
        MissingObjects::Accept => u64::MAX,
    };
    if accepted.contains(&GuardKind::MissingObjects) || allowed == u64::MAX {
        // Whatever is gone may be gone.
    } else if let Some(why) = listing.unreadable {
        let sentence = format!("whether objects are gone since the last commit can't be told: {why}");
        problems.push(Problem::new(GuardKind::MissingObjects, "unknown", format!("{allowed} objects"), sentence));
    } else if listing.missing > allowed {
        let told =
            if tolerance.missing_objects == MissingObjects::Told { "events told of" } else { "the definition allows" };
        let sentence = format!(
            "{} objects of the last inventory are gone{}, {told} {allowed}",
            listing.missing,
            such_as(listing.missing_example)
        );
        let measured = format!("{} objects", listing.missing);
        problems.push(Problem::new(GuardKind::MissingObjects, measured, format!("{allowed} objects"), sentence));
    }
    if listing.archived > 0 {
        let sentence = format!(
            "{} of {} objects lie in an archive tier and can't be read{}",
            listing.archived,
            listing.objects,
            such_as(listing.archived_example)
        );
        let measured = format!("{} objects", listing.archived);
        problems.push(Problem::new(GuardKind::ArchivedObjects, measured, "0 objects", sentence));
    }
    Verdict { problems, note: None }
}

/// The manifest as it was written, against the listing it was written from: objects and bytes.
pub fn manifest(listed: &SourceCounts, written: &SourceCounts) -> Verdict {
    let mut problems = Vec::new();
    if (listed.objects, listed.bytes) != (written.objects, written.bytes) {
        let told = |counts: &SourceCounts| format!("{} objects of {} bytes", counts.objects, counts.bytes);
        let (listed, written) = (told(listed), told(written));
        let sentence = format!("{listed} were listed, but COPY's manifest holds {written}");
        problems.push(Problem::new(GuardKind::Manifest, written, listed, sentence));
    }
    Verdict { problems, note: None }
}

/// The guards of a staged batch. `loads` is `None` where no COPY ran (an accepted empty source) or its record can't be had.
///
/// `foreign_rows` is told beside what else is wrong, so that an operator sees all of it at once. Alone it says nothing: a state
/// table that was put back to a backup knows an older batch as the last, which only the swap can tell; the swap asks
/// for foreign rows itself, after the claim and before it deletes.
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
        problems.extend(rejected_rows(tolerance.rejected_rows.into(), loads));
    }
    if let Some(rows) = source.rows {
        problems.extend(at_most(
            GuardKind::RowVariance,
            rows.abs_diff(counts.staged_rows),
            tolerance.row_variance,
            &format!("the files hold {rows} rows, {} are staged: {{}} differ, {{}} may", counts.staged_rows),
        ));
    }
    problems.extend(required_null(&counts.nulls));
    problems.extend(at_most(
        GuardKind::DuplicateKeys,
        counts.duplicate_rows,
        tolerance.duplicate_keys,
        &format!("{{}} staged rows repeat the key ({}) of another, {{}} may", names(&definition.key)),
    ));
    problems.extend(at_most(
        GuardKind::OtherPartition,
        counts.other_partition_rows,
        0,
        "{} staged rows belong to another partition by their own columns, {} may",
    ));
    problems.extend(at_most(
        GuardKind::KeyElsewhere,
        counts.elsewhere_rows,
        0,
        "{} target rows of other partitions have a key that is staged here, {} may: nobody could say which row is newer",
    ));
    // An upsert takes no row away but for the one it puts in its place.
    let replaces = definition.write == WriteMode::Replace;
    // An empty source has passed its own guard by now, and means that all rows go.
    if replaces && source.objects > 0 && !accepted.contains(&GuardKind::RowDrop) {
        problems.extend(row_drop(tolerance.row_drop, counts));
    }
    let refuses = replaces && !problems.is_empty() && tolerance.foreign_rows == ForeignRows::Refuse;
    if refuses && !accepted.contains(&GuardKind::ForeignRows) {
        let sentence = format!("{{}} of the target's {} rows were written by no batch, {{}} may", counts.target_rows);
        problems.extend(at_most(GuardKind::ForeignRows, counts.foreign_rows, 0, &sentence));
    }
    Verdict { problems, note: None }
}

/// Manifest = loaded. Names of the view are cut at 256 bytes, so long keys may count as one file; then its rows count.
fn loaded_files(source: &SourceCounts, loads: &LoadCounts) -> Option<Problem> {
    // The views show nothing of the COPY (yet): unknown, which is no difference. COPY itself fails if an object is missing.
    let query = loads.copy_query_id?;
    let as_listed = loads.distinct_files == source.objects
        || (loads.distinct_files < source.objects && loads.listed_files == source.objects);
    let sentence =
        format!("COPY loaded {} files (query {query}), {} stand in its manifest", loads.distinct_files, source.objects);
    let (measured, allowed) = (format!("{} files", loads.distinct_files), format!("{} files", source.objects));
    (!as_listed).then(|| Problem::new(GuardKind::LoadedFiles, measured, allowed, sentence))
}

fn rejected_rows(allowed: u64, loads: &LoadCounts) -> Option<Problem> {
    let query = loads.copy_query_id.map(|query| format!(" (query {query})")).unwrap_or_default();
    at_most(GuardKind::RejectedRows, loads.rejected_rows, allowed, &format!("COPY{query} refused {{}} rows, {{}} may"))
}

/// The required columns with nulls in them, as one problem: the first by name, the others by number.
fn required_null(nulls: &[(ColumnName, u64)]) -> Option<Problem> {
    const NAMED: usize = 3;
    let broken: Vec<&(ColumnName, u64)> = nulls.iter().filter(|(_, rows)| *rows > 0).collect();
    let worst = broken.iter().map(|(_, rows)| *rows).max()?;
    let mut told: Vec<String> =
        broken.iter().take(NAMED).map(|(column, rows)| format!("{column} is null in {rows} staged rows")).collect();
    if broken.len() > NAMED {
        told.push(format!("and {} more required columns are null", broken.len() - NAMED));
    }
    let sentence = format!("{}, 0 may", told.join(", "));
    Some(Problem::new(GuardKind::RequiredNull, format!("{worst} rows"), "0 rows", sentence))
}

fn row_drop(rule: RowDrop, counts: &StageCounts) -> Option<Problem> {
    let allowed = match rule {
        RowDrop::Accept => return None,
        RowDrop::Refuse => 0,
        RowDrop::UpTo(share) => share_of(share, counts.target_rows),
    };
    let sentence = format!(
        "{} rows are staged where the target's partition holds {}: {{}} fewer, {{}} may go",
        counts.staged_rows, counts.target_rows
    );
    at_most(GuardKind::RowDrop, counts.target_rows.saturating_sub(counts.staged_rows), allowed, &sentence)
}

/// The share in millionths, so that 29% of 100 rows are 29.
pub(crate) fn share_of(share: f64, rows: u64) -> u64 {
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
        Self { kind, measured, allowed, sentence, remedy: kind.remedy() }
    }
}

/// The end of a long key tells more than its beginning.
fn such_as(example: Option<&str>) -> String {
    const AT_MOST: usize = 100;
    let cut = |key: &str| {
        let from = key.ceil_char_boundary(key.len().saturating_sub(AT_MOST));
        if from == 0 { format!("{key:?}") } else { format!("…{:?}", &key[from..]) }
    };
    example.map(|key| format!(" (such as {})", cut(key))).unwrap_or_default()
}

fn names(columns: &[ColumnName]) -> String {
    columns.iter().map(|column| column.0.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
