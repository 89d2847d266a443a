//! The events of a partition, as downstream systems read them.
//!
//! Source `tidemark`, at least once, told before the write that records them. `Partition Rebuilt`: `version`, `dataset`,
//! `partition`, `batch`, `generation`, `rows`, `committed_at`, `target`, `watermark` (up to which partition all are built,
//! as sweep last wrote it; may be absent). `Partition Parked`: `version`, `dataset`, `partition`, `batch`, `generation`,
//! `kind`, `message`, `watermark`. Their schemas: docs/events.

use serde_json::json;
use tidemark_domain::partition::{Batch, Committed, Parked};

use crate::Engine;
use crate::error::Error;
use crate::ports::Event;
use crate::rebuild::Seen;

impl Engine {
    /// Tells that a batch committed.
    pub(crate) async fn publish_rebuilt(&self, seen: &Seen, last: &Committed) -> Result<(), Error> {
        let detail = json!({
            "version": 1,
            "dataset": seen.id.dataset,
            "partition": seen.id.partition,
            "batch": last.batch,
            "generation": last.generation,
            "rows": last.rows,
            "committed_at": last.committed_at.to_string(),
            "target": seen.definition.as_ref().map(|definition| definition.target.to_string()),
            "watermark": seen.head.watermark,
        });
        let event = Event { detail_type: "Partition Rebuilt", detail };
        self.ports.announcer.publish(event).await.map_err(Error::Announce)
    }

    /// Tells that a partition was set aside.
    pub(crate) async fn publish_parked(&self, seen: &Seen, batch: &Batch, parked: &Parked) -> Result<(), Error> {
        let detail = json!({
            "version": 1,
            "dataset": seen.id.dataset,
            "partition": seen.id.partition,
            "batch": batch.id,
            "generation": parked.generation,
            "kind": parked.kind,
            "message": parked.message,
            "watermark": seen.head.watermark,
        });
        let event = Event { detail_type: "Partition Parked", detail };
        self.ports.announcer.publish(event).await.map_err(Error::Announce)
    }
}
