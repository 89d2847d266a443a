//! The story of a batch, for people: `DATASET#<dataset>` / `BATCH#<id>`, kept for 400 days.
//!
//! Written when the batch ends; its times and counts are what `history` shows. Nothing is decided by it.

use jiff::{SignedDuration, Timestamp};

use crate::id::{BatchId, PartitionId};
use crate::partition::{Batch, Committed};
use crate::update::{Change, Key, Update};

/// How long a story is kept.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(400 * 24);

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    ];
    Update { key: key(id, committed.batch), conditions: vec![], changes }
}

fn key(id: &PartitionId, batch: BatchId) -> Key {
    Key { pk: format!("DATASET#{}", id.dataset), sk: format!("BATCH#{batch}") }
}

/// Closes a batch's story.
pub fn close(
    id: &PartitionId,
    batch: &Batch,
    outcome: Outcome,
    rows: Option<u64>,
    why: Option<&str>,
    now: Timestamp,
) -> Update {
    let mut changes = vec![
        Change::Set("partition", id.partition.as_str().into()),
        Change::Set("outcome", outcome.as_str().into()),
        Change::Set("phase", batch.phase.as_str().into()),
        Change::Set("generation", batch.covers.0.into()),
        Change::Set("fence", batch.fence.0.into()),
        Change::Set("began_at", batch.began_at.as_millisecond().into()),
        Change::Set("ended_at", now.as_millisecond().into()),
        Change::Set("spent_seconds", batch.spent_seconds.into()),
        Change::Set("expires_at", (now + KEPT_FOR).as_second().into()),
    ];
    if let Some(listed) = &batch.listed {
        changes.push(Change::Set("objects", listed.objects.into()));
        changes.push(Change::Set("bytes", listed.bytes.into()));
        changes.push(Change::Set("digest", listed.digest.as_str().into()));
        changes.push(Change::Set("inventory", listed.inventory.as_str().into()));
    }
    changes.extend(rows.map(|rows| Change::Set("rows", rows.into())));
    changes.extend(why.map(|why| Change::Set("why", why.into())));
    let recovered = batch.recovered.and_then(|state| serde_json::to_value(state).ok());
    changes.extend(recovered.map(|state| Change::Set("recovered_from", state)));
    Update { key: key(id, batch.id), conditions: vec![], changes }
}
