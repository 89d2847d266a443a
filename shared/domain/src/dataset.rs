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

    /// Pauses a dataset that is worked on, or waits for a repair: marks gather, nothing is rebuilt. One that is paused already
    /// stays so since it was, with the new reason.
    pub fn pause(&self, dataset: &DatasetName, by: &str, why: Option<&str>, now: Timestamp) -> Update {
        let mut changes = vec![
            Change::Set("mode", "paused".into()),
            why.map_or(Change::Remove("why"), |why| Change::Set("why", why.into())),
            Change::Remove("probe_at"),
        ];
        if self.mode != Mode::Paused {
            changes.extend([Change::Set("since", now.as_millisecond().into()), Change::Set("by", by.into())]);
        }
        let mode = |mode: &str| Condition::Equals("mode", mode.into());
        Update {
            key: Self::key(dataset),
            conditions: vec![Condition::Any(vec![mode("active"), mode("halted"), mode("paused")])],
            changes,
        }
    }

    /// Goes on with a dataset that an operator paused, or that waits for a repair. Refused where it is neither.
    pub fn go_on(dataset: &DatasetName, by: &str, now: Timestamp) -> Update {
        let mode = |mode: &str| Condition::Equals("mode", mode.into());
        let conditions = vec![Condition::Any(vec![mode("paused"), mode("halted")])];
        Update { conditions, ..Self::resume(dataset, by, now) }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(mode: &str) -> Item {
        let head = json!({ "hash": "h", "epoch": 1, "mode": mode, "concurrency": "table", "since": 5, "by": "x",
            "why": "w", "probe_at": 9 });
        serde_json::from_value(head).unwrap()
    }

    fn after(update: &Update, item: &Item) -> Option<Head> {
        update.apply(Some(item)).map(|item| Head::from_item(&item).unwrap())
    }

    #[test]
    fn what_is_worked_on_or_halted_is_paused_and_goes_on() {
        let (orders, now) = (DatasetName::new("orders").unwrap(), Timestamp::from_millisecond(77).unwrap());
        for mode in ["active", "halted", "paused"] {
            let item = stored(mode);
            let pause = Head::from_item(&item).unwrap().pause(&orders, "alice", Some("a migration"), now);
            let paused = after(&pause, &item).unwrap();
            assert_eq!(
                (paused.mode, paused.why.as_deref(), paused.probe_at),
                (Mode::Paused, Some("a migration"), None)
            );
            let first = if mode == "paused" { ("x", 5) } else { ("alice", 77) };
            assert_eq!((paused.by.as_str(), paused.since.as_millisecond()), first, "{mode}");
            let again = after(&Head::go_on(&orders, "bob", now), &pause.apply(Some(&item)).unwrap()).unwrap();
            assert_eq!((again.mode, again.why, again.by.as_str()), (Mode::Active, None, "bob"));
        }
        let retired = stored("retired");
        assert!(Head::from_item(&retired).unwrap().pause(&orders, "alice", None, now).apply(Some(&retired)).is_none());
        assert!(Head::go_on(&orders, "bob", now).apply(Some(&retired)).is_none());
        assert!(Head::go_on(&orders, "bob", now).apply(Some(&stored("active"))).is_none());
        assert!(after(&Head::go_on(&orders, "bob", now), &stored("halted")).is_some());
    }
}
