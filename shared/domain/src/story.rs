//! The story of a batch, for people: `DATASET#<dataset>` / `BATCH#<id>`, kept for 400 days.
//!
//! Written when the batch ends; its times and counts are what `history` shows. Nothing is decided by it. Ids begin with the
//! time of the batch's birth, so that the stories of a dataset stand in the order in which its batches began.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{BatchId, DatasetName, Digest, Fence, Generation, PartitionId, PartitionName};
use crate::measure::Observed;
use crate::partition::{Asked, Batch, Committed, FailureState, Listed, Phase, millis};
use crate::update::{Change, Item, Key, Update};

/// How long a story is kept.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_hours(400 * 24);
/// How the sort keys of stories begin.
pub const PREFIX: &str = "BATCH#";

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its rows are in the target.
    Committed,
    /// What was listed is what was committed last.
    Unchanged,
    /// Its partition was parked.
    Parked,
    /// It was given up; the next one begins anew.
    GivenUp,
}

impl Outcome {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Unchanged => "unchanged",
            Self::Parked => "parked",
            Self::GivenUp => "given_up",
        }
    }
}

/// A story, as it is stored. What a batch didn't come to, or what its last worker didn't see, is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// Its partition.
    pub partition: PartitionName,
    /// How it ended.
    pub outcome: Outcome,
    /// The phase it ended in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The generation it covered.
    pub generation: Generation,
    /// The fence it was born with.
    pub fence: Fence,
    /// When it was born.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub began_at: Option<Timestamp>,
    /// When S3 was listed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub listed_at: Option<Timestamp>,
    /// When what was staged was verified.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub staged_at: Option<Timestamp>,
    /// When its swap was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub swap_at: Option<Timestamp>,
    /// When it ended.
    #[serde(with = "millis")]
    pub ended_at: Timestamp,
    /// Seconds in statements, as far as the workers that left it in order watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_seconds: Option<u64>,
    /// Objects listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rows of the partition in the target after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The digest of what it listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The key prefix of its inventory in the control bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<String>,
    /// Kind and message, where it parked or was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// It rebuilt whatever the digest said: a replay, as a rule.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Who asked for it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// The last sign of life of the first worker that died over it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub failed_at: Option<Timestamp>,
    /// What was found of it after a worker of it had died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_from: Option<FailureState>,
    /// What its guards measured, by what was measured: `staged_rows`, `missing_objects` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}

impl Story {
    /// Reads a stored story.
    pub fn from_item(item: &Item) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(item.clone().into_iter().collect()))
    }
}

/// Where a batch's story stands.
pub fn key(dataset: &DatasetName, batch: BatchId) -> Key {
    Key { pk: format!("DATASET#{dataset}"), sk: format!("{PREFIX}{batch}") }
}

/// The batch of a story's sort key.
pub fn batch_of(sort_key: &str) -> Option<BatchId> {
    sort_key.strip_prefix(PREFIX)?.parse().ok().map(BatchId)
}

/// A sort key before those of all batches born at `time` (to the millisecond) or later, and after those of all before.
pub fn born_at(time: Timestamp) -> String {
    let millis = u64::try_from(time.as_millisecond()).unwrap_or(0).min((1 << 48) - 1);
    format!("{PREFIX}{:08x}-{:04x}-", millis >> 16, millis & 0xffff)
}

/// When a batch was born, to the millisecond, by its id.
pub fn born(batch: BatchId) -> Timestamp {
    let millis = i64::try_from(batch.0.as_u128() >> 80).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// How a batch's story ends.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// Rows of the partition, once committed.
    pub rows: Option<u64>,
    /// Why, where it didn't come to its end.
    pub why: Option<&'a str>,
    /// What its last worker saw; it tells the counts.
    pub seen: Option<&'a Observed>,
}

/// Closes the story of a batch that ended unseen: the ledger shows that it committed.
pub fn close_committed(id: &PartitionId, committed: &Committed) -> Update {
    let changes = vec![
        Change::Set("partition", id.partition.as_str().into()),
        Change::Set("outcome", Outcome::Committed.as_str().into()),
        Change::Set("generation", committed.generation.0.into()),
        Change::Set("fence", committed.fence.0.into()),
        Change::Set("rows", committed.rows.into()),
        Change::Set("digest", committed.digest.as_str().into()),
        Change::Set("inventory", committed.inventory.as_str().into()),
        Change::Set("ended_at", committed.committed_at.as_millisecond().into()),
        Change::Set("expires_at", (committed.committed_at + KEPT_FOR).as_second().into()),
        Change::Remove("why"),
    ];
    Update { key: key(&id.dataset, committed.batch), conditions: vec![], changes }
}

/// Closes a batch's story.
pub fn close(id: &PartitionId, batch: &Batch, ending: Ending<'_>, now: Timestamp) -> Update {
    let mut changes = vec![
        Change::Set("partition", id.partition.as_str().into()),
        Change::Set("outcome", ending.outcome.as_str().into()),
        Change::Set("phase", batch.phase.as_str().into()),
        Change::Set("generation", batch.covers.0.into()),
        Change::Set("fence", batch.fence.0.into()),
        Change::Set("began_at", batch.began_at.as_millisecond().into()),
        Change::Set("ended_at", now.as_millisecond().into()),
        Change::Set("spent_seconds", batch.spent_seconds.into()),
        Change::Set("expires_at", (now + KEPT_FOR).as_second().into()),
    ];
    let swap = batch.statement.as_ref().filter(|_| batch.phase == Phase::Swapping);
    let listed = batch.listed.as_ref().or(ending.seen.and_then(|seen| seen.listing.as_ref().map(|(listed, _)| listed)));
    let times = [
        ("listed_at", listed.and_then(|listed| listed.at)),
        ("staged_at", batch.verified.as_ref().map(|verified| verified.staged_at)),
        ("swap_at", swap.map(|statement| statement.submitted_at)),
        ("failed_at", batch.failed_at),
    ];
    changes.extend(times.into_iter().filter_map(|(name, at)| Some(Change::Set(name, at?.as_millisecond().into()))));
    if let Some(listed) = listed {
        changes.push(Change::Set("objects", listed.objects.into()));
        changes.push(Change::Set("bytes", listed.bytes.into()));
        changes.push(Change::Set("digest", listed.digest.as_str().into()));
    }
    // What was found unchanged stands in the inventory of the last commit.
    changes.extend(batch.listed.as_ref().map(|listed| Change::Set("inventory", listed.inventory.as_str().into())));
    changes.extend(ending.rows.map(|rows| Change::Set("rows", rows.into())));
    changes.extend(ending.why.map(|why| Change::Set("why", why.into())));
    let recovered = batch.recovered.and_then(|state| serde_json::to_value(state).ok());
    changes.extend(recovered.map(|state| Change::Set("recovered_from", state)));
    changes.extend(batch.forced.then(|| Change::Set("forced", true.into())));
    let asked = batch.asked.as_ref().and_then(|asked| serde_json::to_value(asked).ok());
    changes.extend(asked.map(|asked| Change::Set("asked", asked)));
    let counts = counts(batch, listed, ending.seen);
    if !counts.is_empty() {
        changes.push(Change::Set("counts", Value::Object(counts.into_iter().map(|(n, v)| (n, v.into())).collect())));
    }
    Update { key: key(&id.dataset, batch.id), conditions: vec![], changes }
}

/// What was measured of the batch, as far as its item and its last worker know.
fn counts(batch: &Batch, listed: Option<&Listed>, seen: Option<&Observed>) -> BTreeMap<String, u64> {
    let mut counts: Vec<(&str, Option<u64>)> = vec![("source_rows", listed.and_then(|listed| listed.rows))];
    if let Some(listed) = listed {
        counts.push(("late_in_window", Some(listed.late.in_window)));
        counts.push(("late_outside_window", Some(listed.late.outside_window)));
        counts.push(("missing_objects", Some(listed.missing)));
        counts.push(("removals_told", Some(u64::try_from(batch.removed).unwrap_or(0))));
        // An earlier take that went on to staging found none: nothing lets them pass.
        let archived = seen.and_then(|seen| seen.listing.as_ref().map(|(_, archived)| *archived));
        counts.push(("archived_objects", archived.or((batch.phase > Phase::Listing).then_some(0))));
    }
    if let Some(verified) = &batch.verified {
        counts.push(("staged_rows", Some(verified.staged_rows)));
        counts.push(("rejected_rows", Some(verified.rejected_rows)));
        counts.push(("duplicate_rows", Some(verified.duplicate_rows)));
        counts.push(("rows_before", Some(verified.rows_before)));
        counts.push(("foreign_rows", Some(verified.foreign_rows)));
        // The same: with one of these nothing is verified.
        counts.extend(["null_rows", "other_partition_rows", "elsewhere_rows"].map(|none| (none, Some(0))));
    }
    if let Some((staged, loads)) = seen.and_then(|seen| seen.staged.as_ref()) {
        counts.push(("staged_rows", Some(staged.staged_rows)));
        counts.push(("duplicate_rows", Some(staged.duplicate_rows)));
        counts.push(("other_partition_rows", Some(staged.other_partition_rows)));
        counts.push(("elsewhere_rows", Some(staged.elsewhere_rows)));
        counts.push(("null_rows", staged.nulls.iter().map(|(_, rows)| *rows).max()));
        counts.push(("rows_before", Some(staged.target_rows)));
        counts.push(("foreign_rows", Some(staged.foreign_rows)));
        counts.push(("rejected_rows", loads.as_ref().map(|loads| loads.rejected_rows)));
        let files = loads.as_ref().filter(|loads| loads.copy_query_id.is_some());
        counts.push(("loaded_files", files.map(|loads| loads.distinct_files)));
    }
    counts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_story_reads_back_as_written() {
        let batch: Batch = serde_json::from_value(json!({
            "id": "01936000-0000-7000-8000-000000000001", "fence": 4, "covers": 3, "phase": "swapping", "attempt": 1,
            "definition": "d", "epoch": 1, "began_at": 1_000, "statement_timeout_seconds": 1_800, "spent_seconds": 9,
            "listed": { "digest": "abc", "inventory": "inventory/1/", "objects": 2, "bytes": 99, "rows": 5, "at": 2_000, "missing": 2,
                "late": { "in_window": 1, "outside_window": 1 } },
            "statement": { "token": "t", "submitted_at": 4_000 },
            "verified": { "staged_rows": 5, "rejected_rows": 0, "duplicate_rows": 0, "staged_at": "1970-01-01T00:00:03Z",
                "rows_before": 4, "foreign_rows": 1 },
            "recovered": "before_commit", "failed_at": 4_500, "forced": true,
            "asked": { "generation": 3, "at": 900, "reason": "late files", "by": "jane" },
        }))
        .unwrap();
        let id = PartitionId {
            dataset: DatasetName::new("orders").unwrap(),
            partition: PartitionName::new("dt=2026-11-01").unwrap(),
        };
        let ending = Ending { outcome: Outcome::Committed, rows: Some(5), why: None, seen: None };
        let update = close(&id, &batch, ending, at(6));
        let item = update.apply(None).unwrap();
        let story = Story::from_item(&item).unwrap();
        let times = [story.began_at, story.listed_at, story.staged_at, story.swap_at, Some(story.ended_at)];
        assert_eq!(times, [1, 2, 3, 4, 6].map(|seconds| Some(at(seconds))));
        assert_eq!(story.recovered_from, Some(FailureState::BeforeCommit));
        expect_test::expect_file!["../golden/story-v1.json"].assert_eq(&format!(
            "{}\n{}\n{}\n",
            update.key.pk,
            update.key.sk,
            serde_json::to_string_pretty(&item).unwrap()
        ));
    }

    #[test]
    fn sort_keys_stand_in_the_order_of_birth() {
        let id =
            |seconds: u64| BatchId(uuid::Builder::from_unix_timestamp_millis(seconds * 1_000, &[0; 10]).into_uuid());
        let orders = DatasetName::new("orders").unwrap();
        let keys = [born_at(at(5)), key(&orders, id(5)).sk, key(&orders, id(6)).sk, born_at(at(7))];
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(batch_of(&keys[1]), Some(id(5)));
        assert_eq!(born(id(5)), at(5));
        assert_eq!(batch_of("PARTITION#dt=1"), None);
    }
}
