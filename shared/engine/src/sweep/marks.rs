//! Marks that sweep makes by itself: at once where they are few, else by a job.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
use tidemark_domain::job::{Job, Kind, Line, MARKED_AT_ONCE};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::{PartitionMessage, Replay};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::writes;

use crate::Engine;
use crate::error::Error;
use crate::jobs;
use crate::ports::{Outgoing, Written};

/// Marks written at once.
const AT_ONCE: usize = 16;
/// How often a mark that others came before is tried again.
const TRIES: usize = 5;

impl Engine {
    /// Marks what a round found, `before` of which it found in earlier slices; a round that finds many makes jobs of them. What
    /// an open job will mark anyway is left to it.
    pub(super) async fn mark_found(
        &self,
        definition: &Definition,
        kind: Kind,
        mut lines: Vec<Line>,
        before: u64,
    ) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let waiting = self.waiting_in_jobs(&definition.name).await?;
        lines.retain(|line| !waiting.contains(&line.partition));
        if lines.is_empty() {
            return Ok(());
        }
        if before + lines.len() as u64 <= MARKED_AT_ONCE as u64 {
            return self.mark_lines(definition, &lines, None).await;
        }
        let (clock, partitions) = (&self.ports.clock, lines.len() as u64);
        let job = Job::new(clock.id(), definition.name.clone(), kind, partitions, "sweep", clock.now());
        tracing::warn!(dataset = %definition.name, job = %job.id, kind = kind.as_str(), partitions = lines.len(), "a job marks them");
        jobs::make(&self.ports, &self.settings.control_bucket, &job, &lines).await
    }

    /// Partitions that open jobs of the dataset have still to mark.
    async fn waiting_in_jobs(&self, dataset: &DatasetName) -> Result<BTreeSet<PartitionName>, Error> {
        let mut waiting = BTreeSet::new();
        for job in self.open_jobs().await?.iter().filter(|job| job.dataset == *dataset) {
            let mut done = job.done;
            while done < job.total {
                let lines = match jobs::lines(&self.ports, &self.settings.control_bucket, job, done).await {
                    Ok(lines) => lines,
                    Err(error @ Error::Stored { .. }) => {
                        tracing::error!(job = %job.id, %error, "nobody knows what it has still to mark; nothing is left to it");
                        break;
                    }
                    Err(error) => return Err(error),
                };
                done += lines.len() as u64;
                waiting.extend(lines.into_iter().map(|line| line.partition));
            }
        }
        Ok(waiting)
    }

    /// Marks these, for the job whose they are, and sends the messages that are owed for it.
    pub(super) async fn mark_lines(
        &self,
        definition: &Definition,
        lines: &[Line],
        job: Option<&Job>,
    ) -> Result<(), Error> {
        let marks = stream::iter(lines).map(|line| self.mark_line(definition, line, job));
        let outgoing: Vec<Option<Outgoing>> = marks.buffered(AT_ONCE).try_collect().await?;
        let outgoing: Vec<Outgoing> = outgoing.into_iter().flatten().collect();
        if let Err(error) = self.send_all(&outgoing).await {
            tracing::warn!(%error, "marked, not sent; they are woken in five minutes");
        }
        Ok(())
    }

    /// Marks one; gives the message that is owed. One that the layout no longer yields is passed over.
    async fn mark_line(
        &self,
        definition: &Definition,
        line: &Line,
        job: Option<&Job>,
    ) -> Result<Option<Outgoing>, Error> {
        if definition.yields(&line.partition).is_none() {
            tracing::info!(partition = %line.partition, "the layout doesn't yield it any more; not marked");
            return Ok(None);
        }
        let id = PartitionId { dataset: definition.name.clone(), partition: line.partition.clone() };
        let replay = job.and_then(|job| job.replay(line));
        for _ in 0..TRIES {
            let now = self.ports.clock.now();
            let update = if line.heal.is_none() && replay.is_none() {
                writes::mark(&id, 0, now)
            } else {
                let replay = replay.clone().unwrap_or_default();
                match self.asked_mark(&id, line, &replay, now).await {
                    Ok(Some(update)) => update,
                    Ok(None) => return Ok(None),
                    Err(error @ Error::Stored { .. }) => {
                        tracing::error!(partition = %id, %error, "it is passed over");
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            };
            if let Written::Applied { before } = self.write(&[update]).await? {
                let generation = writes::turned_dirty(before.as_ref());
                return Ok(generation.map(|generation| Outgoing {
                    scope: Scope::of(&id, definition.concurrency),
                    message: PartitionMessage::look(id.clone(), generation),
                }));
            }
        }
        tracing::info!(partition = %id, "others mark it all the time; that does");
        Ok(None)
    }

    /// A replay, or what heals; `None`: somebody took it since it was compared, so that says nothing any more.
    async fn asked_mark(
        &self,
        id: &PartitionId,
        line: &Line,
        replay: &Replay,
        now: Timestamp,
    ) -> Result<Option<tidemark_domain::update::Update>, Error> {
        let item = self.ports.state.read(&[PartitionItem::key(id)]).await?.pop().flatten();
        let item = item.map(|item| PartitionItem::from_item(&item)).transpose();
        let item = item.map_err(|error| Error::Stored { what: format!("partition {id}"), why: error.to_string() })?;
        let Some(heal) = &line.heal else {
            let read = item.map(|item| item.marked);
            return Ok(Some(writes::replay(id, read, replay, now)));
        };
        let unchanged =
            item.as_ref().map(|item| item.fence) == heal.fence && item.as_ref().is_none_or(|item| item.batch.is_none());
        Ok(unchanged.then(|| writes::heal(id, item.as_ref(), heal, now)))
    }
}
