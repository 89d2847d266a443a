//! What is stored of a dataset: its head, each version of its definition, and the catalog that mark reads.
//!
//! - head: `DATASET#<name>` / `DEFINITION`, small, read in the same transaction as a partition at every take;
//! - a version: `DATASET#<name>` / `DEFINITION#<hash>`, its text, never changed and never dropped;
//! - catalog: `DATASETS` / `ALL`, all roots and layouts.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::definition::Concurrency;
use crate::id::{DatasetName, DefinitionHash, Epoch};
use crate::partition::millis;
use crate::update::{Change, Condition, Item, Key, Update};

/// Between two probes of a halted dataset.
pub const PROBE_EVERY: SignedDuration = SignedDuration::from_mins(15);

/// The head of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The definition in force.
    pub hash: DefinitionHash,
    /// The target's epoch.
    pub epoch: Epoch,
    /// Whether it is worked on.
    pub mode: Mode,
    /// The scope of its locks, from the definition in force.
    pub concurrency: Concurrency,
    /// Why it is paused or halted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Since when it has this mode.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// Who set the mode: an operator's name, or `rebuild`.
    pub by: String,
    /// When a halted dataset may be probed next.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub probe_at: Option<Timestamp>,
    /// Up to which partition all are built, as sweep last wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<String>,
}

/// Whether a dataset is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It is.
    Active,
    /// Marks gather; nothing is rebuilt.
    Paused,
    /// It waits for a repair; probed by itself.
    Halted,
    /// Gone from the file; nothing of it is rebuilt any more.
    Retired,
}

impl Head {
    /// Where a dataset's head stands.
    pub fn key(dataset: &DatasetName) -> Key {
        Key { pk: format!("DATASET#{dataset}"), sk: "DEFINITION".to_owned() }
    }

    /// Reads a stored head.
    pub fn from_item(item: &Item) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::Value::Object(item.clone().into_iter().collect()))
    }

    /// Halts an active dataset. A paused or retired one stays what it is; one that is halted stays so since it was.
    pub fn halt(&self, dataset: &DatasetName, why: &str, now: Timestamp) -> Update {
        let mut changes = vec![
            Change::Set("mode", "halted".into()),
            Change::Set("why", why.into()),
            Change::Set("probe_at", (now + PROBE_EVERY).as_millisecond().into()),
        ];
        if self.mode != Mode::Halted {
            changes.extend([Change::Set("since", now.as_millisecond().into()), Change::Set("by", "rebuild".into())]);
        }
        Update {
            key: Self::key(dataset),
            conditions: vec![Condition::Any(vec![
                Condition::Equals("mode", "active".into()),
                Condition::Equals("mode", "halted".into()),
            ])],
            changes,
        }
    }

    /// Resumes a halted dataset after something ended well.
    pub fn resume(dataset: &DatasetName, by: &str, now: Timestamp) -> Update {
        Update {
            key: Self::key(dataset),
            conditions: vec![Condition::Equals("mode", "halted".into())],
            changes: vec![
                Change::Set("mode", "active".into()),
                Change::Set("since", now.as_millisecond().into()),
                Change::Set("by", by.into()),
                Change::Remove("why"),
                Change::Remove("probe_at"),
            ],
        }
    }

    /// Claims the probe of a halted dataset; of several who try, one gets it.
    pub fn claim_probe(&self, dataset: &DatasetName, now: Timestamp) -> Update {
        let as_read = match self.probe_at {
            Some(at) => Condition::Equals("probe_at", at.as_millisecond().into()),
            None => Condition::Absent("probe_at"),
        };
        Update {
            key: Self::key(dataset),
            conditions: vec![Condition::Equals("mode", "halted".into()), as_read],
            changes: vec![Change::Set("probe_at", (now + PROBE_EVERY).as_millisecond().into())],
        }
    }
}

/// Where a version of a definition stands; its attribute is `text`.
pub fn version_key(dataset: &DatasetName, hash: &DefinitionHash) -> Key {
    Key { pk: format!("DATASET#{dataset}"), sk: format!("DEFINITION#{hash}") }
}

/// Where the catalog stands; its attribute is `catalog`, as JSON text.
pub fn catalog_key() -> Key {
    Key { pk: "DATASETS".to_owned(), sk: "ALL".to_owned() }
}
