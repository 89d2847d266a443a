//! The partition item: the truth about what is to be done for a partition.
//!
//! Stored at `pk = DATASET#<dataset>`, `sk = PARTITION#<partition>`, one attribute a field, times in milliseconds since
//! 1970, nothing that grows with the number of objects (about 1 KiB; 4 KiB at most). `work`, `due_at` and `dirty_since`
//! live and die together: they put the item into the sparse index *due*. `parked_work` and `parked_since` put it into the
//! sparse index *parked*. Only [`crate::writes`] changes it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{BatchId, DatasetName, DefinitionHash, Digest, Epoch, Fence, Generation, PartitionId};
use crate::sql::rebuild::Verified;
use crate::update::{Item, Key};
use crate::verify::GuardKind;

/// A time as it is stored: milliseconds since 1970.
pub mod millis {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes the milliseconds.
    pub fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(time.as_millisecond())
    }

    /// Reads the milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        Timestamp::from_millisecond(i64::deserialize(from)?).map_err(D::Error::custom)
    }

    /// The same for a time that may be absent.
    pub mod option {
        use super::{Deserialize, Deserializer, Error, Serializer, Timestamp};

        /// Writes the milliseconds; an absent time is skipped by its field.
        pub fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
            match time {
                Some(time) => to.serialize_i64(time.as_millisecond()),
                None => to.serialize_none(),
            }
        }

        /// Reads the milliseconds.
        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
            Option::<i64>::deserialize(from)?.map(Timestamp::from_millisecond).transpose().map_err(D::Error::custom)
        }
    }
}

/// Marks settle for this long at most: a partition that never stops receiving files is rebuilt all the same.
pub const SETTLING_AT_MOST: SignedDuration = SignedDuration::from_mins(10);

/// What is stored of a partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionItem {
    /// How often it was marked.
    pub marked: Generation,
    /// Up to which generation it is built.
    pub built: Generation,
    /// When it was last marked.
    #[serde(with = "millis")]
    pub marked_at: Timestamp,
    /// Up to this generation it is to be rebuilt for real, whatever the digest says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<Generation>,
    /// What the forced rebuild may let pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accept>,
    /// Who asked for the newest replay, and why, until it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// Objects that ObjectRemoved events said are gone, since the last commit.
    #[serde(default)]
    pub removed: i64,
    /// How often it was taken; never cleared, never lowered.
    pub fence: Fence,
    /// The batch in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// A batch ended whose swap may still land: fence, then look, before anything else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unresolved: bool,
    /// The newest committed batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Committed>,
    /// Why it was set aside, until a new mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    /// The kinds told by alert since the last commit.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub alerted: BTreeSet<String>,
    /// Nothing is done before.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub not_before: Option<Timestamp>,
    /// Takes in a row that died without a write of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// What it was put off for, and how often in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
    /// Its dataset, while there is anything to do: hash key of *due*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<DatasetName>,
    /// When sweep wakes it: range key of *due*.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub due_at: Option<Timestamp>,
    /// Since when there is anything to do.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub dirty_since: Option<Timestamp>,
    /// Its dataset, while parked: hash key of *parked*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_work: Option<DatasetName>,
    /// Since when it is parked: range key of *parked*.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub parked_since: Option<Timestamp>,
}

/// For serde: a count of nothing is left out of what is stored.
pub(crate) fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}

/// A batch: one attempt to rebuild a partition. All that enters its SQL is fixed at its birth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Names its staging table.
    pub id: BatchId,
    /// The fence it was born with, which goes into its SQL.
    pub fence: Fence,
    /// The generation that was current when it began.
    pub covers: Generation,
    /// Where it is.
    pub phase: Phase,
    /// The definition it began with.
    pub definition: DefinitionHash,
    /// The target's epoch it began with.
    pub epoch: Epoch,
    /// When it began; for reports only.
    #[serde(with = "millis")]
    pub began_at: Timestamp,
    /// It rebuilds for real, whatever the digest says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// What it may let pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accept>,
    /// Who asked for it, and why; for the record only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// The committed batch before it, and how many rows that wrote: what the target should hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// The time-out of each of its statements, in seconds.
    pub statement_timeout_seconds: u64,
    /// `removed` as read before listing.
    #[serde(default)]
    pub removed: i64,
    /// How far it has listed: the hash that names the object in the control bucket which says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Digest>,
    /// What was listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Listed>,
    /// Seconds in statements, as far as the workers that left it in order watched.
    #[serde(default)]
    pub spent_seconds: u64,
    /// The try of the phase's statement: 1, and one more after each terminal failure that was *seen*.
    pub attempt: u32,
    /// The statement of this try, recorded before it is submitted; `None` until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<Statement>,
    /// What was verified of the staging table; it enters the swap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// What was found at the last take of it, told once it commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<FailureState>,
    /// The last sign of life of the first worker that died over it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub failed_at: Option<Timestamp>,
    /// Its worker left it in order: handed off, or put off. An unfinished batch without it lost its worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// A reason that an item or a story keeps is no longer, in bytes: a message's may be, and items stay small.
pub const REASON_BYTES: usize = 256;
/// The same of a name.
const NAME_BYTES: usize = 64;

/// Who asked for a rebuild, and why, as far as they told. Nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The mark it was.
    pub generation: Generation,
    /// When it was marked.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// Why, at most [`REASON_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Asked {
    /// The record of a mark. What is too long is cut.
    pub fn of(generation: Generation, at: Timestamp, reason: Option<&str>, by: Option<&str>) -> Self {
        let told = |text: Option<&str>, bytes| {
            let text = text.map(str::trim).filter(|text| !text.is_empty())?;
            Some(text[..text.floor_char_boundary(bytes)].to_owned())
        };
        Self { generation, at, reason: told(reason, REASON_BYTES), by: told(by, NAME_BYTES) }
    }
}

/// The committed batch that a batch follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// Its id.
    pub batch: BatchId,
    /// The rows it wrote.
    pub rows: u64,
}

/// Where a batch is. In this order, except that fencing is only for a batch after an unresolved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Makes swaps of older fences fail, then looks which one landed.
    Fencing,
    /// Lists S3.
    Listing,
    /// Copies into the staging table, counts, verifies.
    Staging,
    /// Swaps in one transaction.
    Swapping,
}

impl Phase {
    /// The phase's name, as in logs and tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fencing => "fencing",
            Self::Listing => "listing",
            Self::Staging => "staging",
            Self::Swapping => "swapping",
        }
    }
}

/// What a take found of a batch that was left unfinished: the four failure states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureState {
    /// Nothing of it is in Redshift.
    BeforeStaging,
    /// Its staging transaction left nothing, or a whole table.
    DuringStaging,
    /// Verified, no ledger row: the target is untouched.
    BeforeCommit,
    /// The ledger row is there, not confirmed.
    AfterCommit,
}

/// The statement of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Its client token: a hash of batch, phase, try and the request's text.
    pub token: String,
    /// When it was recorded, before it was submitted.
    #[serde(with = "millis")]
    pub submitted_at: Timestamp,
    /// Its id, once a hand-off recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// What a batch listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The digest of it.
    pub digest: Digest,
    /// The key of the inventory's index in the control bucket.
    pub inventory: String,
    /// How many objects.
    pub objects: u64,
    /// Their bytes in all.
    pub bytes: u64,
    /// Their rows in all, where the format tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// When the listing was done; for reports only.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub at: Option<Timestamp>,
    /// Objects of the last committed inventory that weren't listed any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing: u64,
    /// Those that are new since the last commit and came late.
    #[serde(default, skip_serializing_if = "Late::is_none")]
    pub late: Late,
}

/// Objects that came after their partition was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// While lookback reached it.
    pub in_window: u64,
    /// When lookback didn't reach it any more.
    pub outside_window: u64,
}

impl Late {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A committed batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Its id.
    pub batch: BatchId,
    /// The generation it covered.
    pub generation: Generation,
    /// The fence it was born with.
    pub fence: Fence,
    /// The digest of its inventory.
    pub digest: Digest,
    /// The key of its inventory's index in the control bucket.
    pub inventory: String,
    /// The rows it wrote.
    pub rows: u64,
    /// What it took from birth to commit, in seconds.
    pub took_seconds: u64,
    /// When it committed, as far as known.
    #[serde(with = "millis")]
    pub committed_at: Timestamp,
}

/// Why a partition was set aside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// The generation that was tried.
    pub generation: Generation,
    /// The digest that was tried, once listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The rule or failure, such as `empty_source`.
    pub kind: String,
    /// What an engineer reads: file, line, column, rule, remedy. At most 1,000 bytes.
    pub message: String,
}

/// What an operator lets pass, with a forced rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// The guards that don't hold it.
    pub kinds: BTreeSet<GuardKind>,
    /// The digest the operator saw; any where absent (only for `foreign_rows`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// What a partition was put off for, and how often in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// The rule or failure.
    pub kind: String,
    /// How often in a row.
    pub count: u32,
}

impl Batch {
    /// The last moment that a worker is known to have been at it.
    pub fn sign_of_life(&self) -> Timestamp {
        self.statement.as_ref().map_or(self.began_at, |statement| statement.submitted_at.max(self.began_at))
    }

    /// Whether a swap of it was ever recorded, and so may have been submitted, whatever was seen of it since.
    pub fn swap_recorded(&self) -> bool {
        self.phase == Phase::Swapping && (self.statement.is_some() || self.attempt > 1)
    }

    /// The batch as a worker leaves it in order, to be continued.
    #[must_use]
    pub fn left_in_order(&self) -> Self {
        Self { left: true, ..self.clone() }
    }

    /// The batch as it enters `phase`: at the first try, no statement recorded yet.
    #[must_use]
    pub fn enter(&self, phase: Phase) -> Self {
        Self { phase, attempt: 1, statement: None, progress: None, ..self.clone() }
    }

    /// The batch after a terminal failure of its statement was seen.
    #[must_use]
    pub fn next_try(&self) -> Self {
        Self { attempt: self.attempt + 1, statement: None, ..self.clone() }
    }

    /// The batch with its statement recorded: what will be submitted, under which token, and when that was decided.
    #[must_use]
    pub fn recorded(&self, token: String, now: Timestamp) -> Self {
        Self { statement: Some(Statement { token, submitted_at: now, id: None }), ..self.clone() }
    }

    /// The client token of this phase's statement: 64 hexadecimal digits.
    ///
    /// It hangs on the request's text, so that a request of another text never goes out under a token in use.
    pub fn token(&self, statements: &[String]) -> String {
        let attempt = self.attempt.to_be_bytes();
        let id = self.id.to_string();
        let head: [&[u8]; 3] = [id.as_bytes(), self.phase.as_str().as_bytes(), &attempt];
        Digest::of(head.into_iter().chain(statements.iter().map(String::as_bytes))).as_str().to_owned()
    }
}

impl PartitionItem {
    /// Where a partition's item stands.
    pub fn key(id: &PartitionId) -> Key {
        Key { pk: format!("DATASET#{}", id.dataset), sk: format!("PARTITION#{}", id.partition) }
    }

    /// Reads a stored item; the error names the attribute.
    pub fn from_item(item: &Item) -> Result<Self, serde_json::Error> {
        let fields: serde_json::Map<String, Value> = item.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        serde_json::from_value(Value::Object(fields))
    }

    /// Parked, and no mark came since.
    pub fn rests_parked(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.generation >= self.marked)
    }

    /// Whether there is nothing to do but wait for a mark.
    pub fn at_rest(&self) -> bool {
        self.batch.is_none() && !self.unresolved && self.built >= self.marked
    }

    /// Whether it is to be worked on, and wake will see to that.
    pub fn on_its_way(&self) -> bool {
        self.due_at.is_some() && !self.at_rest() && !self.rests_parked()
    }

    /// Whether it has work to do and isn't in the index *due*: it was let go while its dataset was retired, or while its layout
    /// didn't yield it.
    pub fn is_let_go(&self) -> bool {
        self.due_at.is_none() && !self.at_rest() && !self.rests_parked()
    }

    /// Whether the next batch rebuilds for real, whatever the digest says.
    pub fn is_forced(&self) -> bool {
        self.forced.is_some_and(|forced| forced > self.built)
    }

    /// Who asked for what isn't built yet, and why.
    pub fn is_asked(&self) -> Option<&Asked> {
        self.asked.as_ref().filter(|asked| asked.generation > self.built)
    }

    /// Whether a swap may be out whose end nobody recorded.
    pub fn swap_may_be_out(&self) -> bool {
        self.unresolved || self.batch.as_ref().is_some_and(Batch::swap_recorded)
    }

    /// When work may begin: the latest of `not_before`, the interval since the last commit and the settling of marks.
    ///
    /// An unfinished batch and a forced rebuild wait only for `not_before`.
    pub fn ready_at(&self, now: Timestamp, interval: SignedDuration, settle: SignedDuration) -> Timestamp {
        let mut ready = self.not_before.unwrap_or(Timestamp::UNIX_EPOCH);
        if self.batch.is_some() || self.unresolved || self.is_forced() {
            return ready;
        }
        if let Some(last) = &self.last {
            ready = ready.max(last.committed_at + interval);
        }
        let settling = self.dirty_since.is_none_or(|since| now.duration_since(since) < SETTLING_AT_MOST);
        if settling { ready.max(self.marked_at + settle) } else { ready }
    }
}

/// The attributes of an item that `from_item` reads, for tests of stored shapes.
pub fn attributes(partition: &PartitionItem) -> Result<BTreeMap<String, Value>, serde_json::Error> {
    match serde_json::to_value(partition)? {
        Value::Object(fields) => Ok(fields.into_iter().collect()),
        _ => Ok(BTreeMap::new()),
    }
}
