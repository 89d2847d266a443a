//! The partition message, a public contract: a hint to look at a partition, or a wish to have it rebuilt.
//!
//! `{"version":1,"dataset":"orders","partition":"dt=2026-11-01","generation":7}`; without a generation it is a replay:
//! `{"version":1,"dataset":"orders","partition":"dt=2026-11-01","reason":"…","by":"jane","force":true,"accept":["empty_source"],"digest":"…"}`.
//! Fields that aren't named here are ignored. At most 4 KiB.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{DatasetName, Digest, Generation, PartitionId, PartitionName};
use crate::partition::Accept;
use crate::verify::GuardKind;

/// A message on the partitions queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMessage {
    /// Which partition.
    pub id: PartitionId,
    /// What is wanted.
    pub wish: Wish,
}

/// What a message wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A look: the partition had this generation when the message was sent.
    Look(Generation),
    /// A rebuild, asked for by an operator.
    Replay(Replay),
}

/// A wish to have a partition rebuilt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// Why, for the record: [`Asked`](crate::partition::Asked).
    pub reason: Option<String>,
    /// Who asks, for the record.
    pub by: Option<String>,
    /// Whether it is rebuilt although the digest says that nothing changed.
    pub force: bool,
    /// What the rebuild may let pass; only with `force`.
    pub accept: Option<Accept>,
}

/// Why a message can't be read. Such a message goes to the dead-letter queue as it is, with this as its reason.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableMessage {
    /// Not the JSON object that is expected.
    #[error("not a partition message: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error("partition message of version {0}; this release reads version 1")]
    Version(u64),
    /// More than 4 KiB.
    #[error("partition message of {0} bytes; at most 4096 are read")]
    TooLong(usize),
    /// `accept` without `force`, or given with a generation.
    #[error("`accept` needs a replay with `force`: leave out `generation` and `\"force\": false`")]
    AcceptWithoutForce,
    /// `accept` of a rule that can't be accepted.
    #[error("{0} can't be accepted; only missing_objects, empty_source, row_drop and foreign_rows can")]
    NotAcceptable(GuardKind),
    /// `accept` of a guard that counts objects, without the digest that was seen.
    #[error("`accept` of {0} needs the `digest` that was seen: `tidemark show` tells it")]
    AcceptWithoutDigest(String),
}

#[derive(Serialize, Deserialize)]
struct Wire {
    version: u64,
    dataset: DatasetName,
    partition: PartitionName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    force: Option<bool>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    accept: BTreeSet<GuardKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
}

impl PartitionMessage {
    /// A message that asks for a look.
    pub fn look(id: PartitionId, generation: Generation) -> Self {
        Self { id, wish: Wish::Look(generation) }
    }

    /// Reads a message's body.
    pub fn parse(body: &str) -> Result<Self, UnreadableMessage> {
        if body.len() > 4096 {
            return Err(UnreadableMessage::TooLong(body.len()));
        }
        let wire: Wire = serde_json::from_str(body)?;
        if wire.version != 1 {
            return Err(UnreadableMessage::Version(wire.version));
        }
        let id = PartitionId { dataset: wire.dataset, partition: wire.partition };
        let force = wire.force.unwrap_or(true);
        if !wire.accept.is_empty() && (!force || wire.generation.is_some()) {
            return Err(UnreadableMessage::AcceptWithoutForce);
        }
        if let Some(generation) = wire.generation {
            return Ok(Self::look(id, generation));
        }
        if let Some(kind) = wire.accept.iter().find(|kind| !kind.may_be_accepted()) {
            return Err(UnreadableMessage::NotAcceptable(*kind));
        }
        if wire.digest.is_none()
            && let Some(kind) = wire.accept.iter().find(|kind| kind.accepted_with_digest())
        {
            return Err(UnreadableMessage::AcceptWithoutDigest(kind.to_string()));
        }
        let accept = (!wire.accept.is_empty()).then_some(Accept { kinds: wire.accept, digest: wire.digest });
        Ok(Self { id, wish: Wish::Replay(Replay { reason: wire.reason, by: wire.by, force, accept }) })
    }

    /// The message's body.
    pub fn body(&self) -> String {
        let (generation, replay) = match &self.wish {
            Wish::Look(generation) => (Some(*generation), None),
            Wish::Replay(replay) => (None, Some(replay)),
        };
        let accept = replay.and_then(|r| r.accept.clone());
        let wire = Wire {
            version: 1,
            dataset: self.id.dataset.clone(),
            partition: self.id.partition.clone(),
            generation,
            reason: replay.and_then(|r| r.reason.clone()),
            by: replay.and_then(|r| r.by.clone()),
            force: replay.map(|r| r.force),
            digest: accept.as_ref().and_then(|a| a.digest.clone()),
            accept: accept.map(|a| a.kinds).unwrap_or_default(),
        };
        serde_json::to_string(&wire).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_read_back_as_written() {
        for body in [
            r#"{"version":1,"dataset":"orders","partition":"dt=2026-11-01","generation":7}"#,
            r#"{"version":1,"dataset":"orders","partition":"dt=2026-11-01","reason":"late","by":"jane","force":true,"accept":["empty_source"],"digest":"ab"}"#,
            r#"{"version":1,"dataset":"orders","partition":"dt=2026-11-01","force":false}"#,
        ] {
            let message = PartitionMessage::parse(body).unwrap();
            assert_eq!(message.body(), body);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_reason() {
        for (body, reason) in [
            ("", "not a partition message"),
            ("[]", "not a partition message"),
            (r#"{"version":2,"dataset":"orders","partition":"dt=1"}"#, "version 2"),
            (r#"{"version":1,"dataset":"Orders","partition":"dt=1"}"#, "dataset name"),
            (r#"{"version":1,"dataset":"orders","partition":""}"#, "partition name"),
            (
                r#"{"version":1,"dataset":"orders","partition":"p","force":false,"accept":["row_drop"]}"#,
                "needs a replay",
            ),
            (r#"{"version":1,"dataset":"orders","partition":"p","accept":["row_drop"]}"#, "needs the `digest`"),
            (r#"{"version":1,"dataset":"orders","partition":"p","accept":["everything"]}"#, "unknown variant"),
        ] {
            let error = PartitionMessage::parse(body).unwrap_err().to_string();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }
}
