//! mark: S3 events become marks on partitions, and marks become messages.
//!
//! Decode, route, coalesce per partition within the invocation; write the marks; then send a message for each that turned a
//! resting or parked partition dirty. Marks first, sends second: a crash between is repaired by wake, the other order would
//! wake a worker that finds nothing to do. Nothing is dropped silently: what no dataset claims is counted with its reason,
//! what can't be read is reported failed and ends in the dead-letter queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidemark_domain::dataset::catalog_key;
use tidemark_domain::id::{Generation, PartitionId};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::route::{Catalog, Claim};
use tidemark_domain::s3_event::{self, EventKind, ObjectEvent};
use tidemark_domain::writes;

use crate::Engine;
use crate::error::Error;
use crate::ports::{Outgoing, Written};

/// The catalog is at most this old.
const CATALOG_AGE: SignedDuration = SignedDuration::from_mins(1);
/// Marks written at once.
const AT_ONCE: usize = 16;

/// One message of the events queue.
#[derive(Debug, Clone, Copy)]
pub struct EventMessage<'a> {
    /// Its id, by which it is reported failed.
    pub id: &'a str,
    /// Its body.
    pub body: &'a str,
}

/// What an invocation did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marked {
    /// Messages to be reported failed, by id.
    pub failed: BTreeSet<String>,
    /// Partitions marked, by dataset.
    pub marked: BTreeMap<String, u64>,
    /// Messages sent to the partitions queue.
    pub sent: u64,
    /// Messages that couldn't be sent; wake sends them.
    pub unsent: u64,
    /// Records that marked nothing, by reason.
    pub ignored: BTreeMap<&'static str, u64>,
}

/// What is to be marked, and which messages ask for it.
#[derive(Default)]
struct Mark {
    removed: u64,
    messages: BTreeSet<usize>,
}

/// The catalog as it was last read.
#[derive(Debug, Default)]
pub struct CatalogCache(Mutex<Option<(Timestamp, Catalog)>>);

impl Engine {
    /// Handles the messages of one invocation. An error means that nothing could be read: all of them come back.
    pub async fn mark(&self, cache: &CatalogCache, messages: &[EventMessage<'_>]) -> Result<Marked, Error> {
        let mut report = Marked::default();
        let mut events: Vec<(usize, ObjectEvent)> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            match s3_event::parse(message.body) {
                Ok(parsed) => events.extend(parsed.into_iter().map(|event| (index, event))),
                Err(error) => {
                    tracing::error!(message_id = message.id, %error, "no S3 event; it goes to the dead-letter queue");
                    report.failed.insert(message.id.to_owned());
                }
            }
        }
        let marks = self.route(cache, &events, &mut report).await?;
        let written = self.write_marks(&marks.0, messages, &mut report).await;
        self.send(written, &marks.1, &mut report).await;
        Ok(report)
    }

    /// Which partitions the events mark, and the catalog that says so.
    async fn route(
        &self,
        cache: &CatalogCache,
        events: &[(usize, ObjectEvent)],
        report: &mut Marked,
    ) -> Result<(BTreeMap<PartitionId, Mark>, Catalog), Error> {
        let mut marks: BTreeMap<PartitionId, Mark> = BTreeMap::new();
        if events.is_empty() {
            return Ok((marks, Catalog::default()));
        }
        let mut catalog = self.catalog(cache, CATALOG_AGE).await?;
        let mut fresh = false;
        for (index, event) in events {
            let removed = match event.kind {
                EventKind::Created | EventKind::Restored => 0,
                EventKind::Removed { surely_current } => u64::from(surely_current),
                EventKind::Ignored(reason) => {
                    *report.ignored.entry(reason.label()).or_default() += 1;
                    continue;
                }
            };
            let mut claim = catalog.claim(&event.bucket, &event.key);
            if claim == Claim::Unclaimed && !fresh {
                catalog = self.catalog(cache, SignedDuration::ZERO).await?;
                fresh = true;
                claim = catalog.claim(&event.bucket, &event.key);
            }
            if let Claim::Partition(id, _) = claim {
                let mark = marks.entry(id).or_default();
                mark.removed += removed;
                mark.messages.insert(*index);
            } else {
                let level_is_info = matches!(claim, Claim::Unroutable(..));
                if level_is_info {
                    tracing::warn!(bucket = event.bucket, key = event.key, reason = claim.label(), "marks nothing");
                } else {
                    tracing::debug!(bucket = event.bucket, key = event.key, reason = claim.label(), "marks nothing");
                }
                *report.ignored.entry(claim.label()).or_default() += 1;
            }
        }
        Ok((marks, catalog))
    }

    /// Writes the marks; gives those that need a message.
    async fn write_marks(
        &self,
        marks: &BTreeMap<PartitionId, Mark>,
        messages: &[EventMessage<'_>],
        report: &mut Marked,
    ) -> Vec<(PartitionId, Generation)> {
        let mut written = stream::iter(marks)
            .map(|(id, mark)| async move {
                let update = writes::mark(id, mark.removed, self.ports.clock.now());
                (id, mark, self.write(&[update]).await)
            })
            .buffer_unordered(AT_ONCE);
        let mut turned = Vec::new();
        while let Some((id, mark, result)) = written.next().await {
            match result {
                Ok(Written::Applied { before }) => {
                    *report.marked.entry(id.dataset.to_string()).or_default() += 1;
                    turned.extend(writes::turned_dirty(before.as_ref()).map(|generation| (id.clone(), generation)));
                }
                Ok(Written::Refused(_)) => {} // a mark has no condition
                Err(error) => {
                    tracing::error!(partition = %id, %error, "not marked; its messages come back");
                    report.failed.extend(mark.messages.iter().map(|&index| messages[index].id.to_owned()));
                }
            }
        }
        turned
    }

    async fn send(&self, turned: Vec<(PartitionId, Generation)>, catalog: &Catalog, report: &mut Marked) {
        let outgoing = |(id, generation): (PartitionId, Generation)| {
            let place = catalog.datasets.iter().find(|place| place.name == id.dataset)?;
            let scope = Scope::of(&id, place.concurrency);
            Some(Outgoing { message: PartitionMessage::look(id, generation), scope })
        };
        let messages: Vec<Outgoing> = turned.into_iter().filter_map(outgoing).collect();
        if messages.is_empty() {
            return;
        }
        let all = messages.len() as u64;
        report.unsent = match self.ports.queue.send(&messages).await {
            Ok(failed) => {
                for (index, reason) in &failed {
                    tracing::warn!(partition = %messages[*index].message.id, reason, "not sent; wake sends it");
                }
                failed.len() as u64
            }
            Err(error) => {
                tracing::warn!(%error, "not sent; wake sends them");
                all
            }
        };
        report.sent = all - report.unsent;
    }

    /// The catalog, at most this old.
    pub(crate) async fn catalog(&self, cache: &CatalogCache, age: SignedDuration) -> Result<Catalog, Error> {
        let now = self.ports.clock.now();
        let known = cache.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read_at, catalog)) = known
            && now.duration_since(read_at) < age
        {
            return Ok(catalog);
        }
        let item = self.ports.state.read(&[catalog_key()]).await?.pop().flatten().unwrap_or_default();
        let catalog = match item.get("catalog").and_then(Value::as_str) {
            None => Catalog::default(),
            Some(text) => serde_json::from_str(text)
                .map_err(|error| Error::Stored { what: "the catalog".to_owned(), why: error.to_string() })?,
        };
        *cache.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, catalog.clone()));
        Ok(catalog)
    }
}
