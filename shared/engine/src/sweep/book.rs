//! book: which files did these rows come from? Loads the inventories of committed batches into the ledger's `files`, many by one
//! COPY.
//!
//! ```text
//! which aren't booked? ▸ their inventories, each entry with its batch ▸ one object and its manifest ▸ COPY ▸ go on after them
//! ```
//! Redshift is asked only where something was committed since it was last asked: stories of batches tell so, and a workgroup
//! that sleeps isn't woken each hour for nothing. Once a day it is asked whatever they say, when tidy wakes it anyway: so a
//! warehouse that was restored, and a batch that took longer than a day, are booked as well.
//!
//! A round goes through the ledger in the order of the batches' ids. Where it stands is kept, and what is being loaded: the
//! statement outlives its sweep, and the next one looks at its end. However often a batch is loaded, it is booked once. An
//! inventory that can't be read, and a batch that Redshift refuses, are told and left out: tried again in the next round, and
//! nobody else waits for them.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidemark_domain::cursor::{Cursor, Loading, Task};
use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::BatchId;
use tidemark_domain::sql::ledger::{self, BOOKED_AT_ONCE, Unbooked};
use tidemark_domain::story::{Outcome, Story};

use super::Hand;
use super::statements::failed;
use crate::Engine;
use crate::error::Error;
use crate::inventory::Parts;
use crate::ports::ExecutionStatus;
use crate::read::stories;

/// Files loaded by one COPY, unless a single batch has more.
const FILES_AT_ONCE: u64 = 50_000;
/// A round asks for what landed this long before the last one. The rest stands in `files` already, also in a warehouse that
/// was restored: no automated snapshot is older.
const LOOKS_BACK: SignedDuration = SignedDuration::from_hours(35 * 24);

/// Stories are asked for in two steps, the newest first: where anything goes on, these tell so.
const NEWEST: SignedDuration = SignedDuration::from_hours(2);
/// A batch that was committed since Redshift was last asked was born no longer before that than this.
const LONGEST: SignedDuration = SignedDuration::from_hours(25);
/// Redshift's clock, which tells when a batch that died was committed, and ours differ by less.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(30);
/// Datasets asked for their stories, and inventories read, at once.
const AT_ONCE: usize = 16;

impl Engine {
    /// One slice of a round. The cursor stands behind what is booked, and tells what is being loaded.
    pub(super) async fn book(&self, hands: &[Hand], cursor: &mut Cursor, until: Timestamp) -> Result<(), Error> {
        let goes_on = cursor.loading.is_some() || cursor.after.is_some();
        if !goes_on && !self.anything_to_book(hands, cursor).await? {
            *cursor = cursor.passed_over(Task::Book, self.ports.clock.now());
            return Ok(());
        }
        let began_after = cursor.after.clone();
        let mut at_once = BOOKED_AT_ONCE;
        loop {
            let ended = self.load_ended(cursor, until, &mut at_once).await?;
            let now = self.ports.clock.now();
            if !ended || now >= until {
                *cursor = cursor.advanced(cursor.after.clone().unwrap_or_default(), cursor.found, now);
                return Ok(());
            }
            let since = cursor.done_at.and_then(|done| done.checked_sub(LOOKS_BACK).ok());
            let after = cursor.after.as_deref().and_then(|id| id.parse().ok()).map(BatchId);
            let unbooked = ledger::unbooked(&self.settings.stack, since, after, at_once)?;
            let rows = match self.ask_within(&unbooked, until).await {
                // The slice ended amid a question: the next one begins with it, and has its whole time for it.
                Err(Error::Warehouse { kind: FailureKind::Unavailable, .. })
                    if cursor.after != began_after && self.ports.clock.now() >= until =>
                {
                    return Ok(());
                }
                rows => rows?,
            };
            let next = within(ledger::read_unbooked(&rows)?);
            let Some(last) = next.last().map(|last| last.batch) else {
                *cursor = cursor.finished(Task::Book, self.ports.clock.now());
                return Ok(());
            };
            cursor.loading = self.load(&next, last, until).await?;
            if cursor.loading.is_none() {
                cursor.after = Some(last.to_string());
            } else {
                // Whoever comes next looks at its end, also if this sweep dies waiting for it.
                self.write(&[cursor.store(Task::Book, None)]).await?;
            }
        }
    }

    /// Follows the load that was submitted, if there is one; `false`: it still runs.
    async fn load_ended(&self, cursor: &mut Cursor, until: Timestamp, at_once: &mut usize) -> Result<bool, Error> {
        let Some(loading) = cursor.loading.clone() else { return Ok(true) };
        let told = self.followed(&loading.statement, until).await?;
        if told.as_ref().is_some_and(|told| told.status == ExecutionStatus::Running) {
            return Ok(false);
        }
        cursor.loading = None;
        // Nobody knows how it ended: what it booked isn't asked for again.
        let Some(told) = told else { return Ok(true) };
        if told.status == ExecutionStatus::Finished {
            tracing::info!(batches = loading.batches, files = loading.files, "booked");
            cursor.found += loading.files;
            cursor.after = Some(loading.last.to_string());
            return Ok(true);
        }
        match failed("tidemark/book", Some(&told)) {
            error if !is_of_the_data(&error) => return Err(error),
            error if loading.batches == 1 => {
                tracing::error!(batch = %loading.last, %error, "its files can't be booked; tried again in the next round");
                cursor.after = Some(loading.last.to_string());
            }
            error => {
                tracing::warn!(batches = loading.batches, %error, "one of them can't be booked; fewer at once");
                *at_once = usize::try_from(loading.batches / 2).unwrap_or(1).max(1);
            }
        }
        Ok(true)
    }

    /// Whether Redshift is to be asked what isn't booked.
    async fn anything_to_book(&self, hands: &[Hand], cursor: &Cursor) -> Result<bool, Error> {
        let now = self.ports.clock.now();
        let Some(asked) = cursor.done_at.filter(|asked| Task::Tidy.next(*asked) > now) else { return Ok(true) };
        let newest = now - NEWEST;
        let committed = |story: &Story| story.outcome == Outcome::Committed && story.ended_at >= asked - CLOCKS_DIFFER;
        for (from, to) in [(newest, Timestamp::MAX), (asked - LONGEST, newest)] {
            let of_each = stream::iter(hands).map(|hand| stories::between(&self.ports, &hand.dataset, from, to));
            let mut of_each = of_each.buffer_unordered(AT_ONCE);
            while let Some(stories) = of_each.next().await {
                match stories {
                    Ok(stories) if !stories.iter().any(|(_, story)| committed(story)) => {}
                    Ok(_) => return Ok(true),
                    // One story that can't be read keeps nothing from being booked.
                    Err(error) if error.kind() == FailureKind::Bug => {
                        tracing::error!(%error, "nobody knows whether there is anything to book; redshift is asked");
                        return Ok(true);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(false)
    }

    /// Writes down what the inventories of these batches hold, and submits the load; `None`: none of them can be read.
    async fn load(&self, batches: &[Unbooked], last: BatchId, until: Timestamp) -> Result<Option<Loading>, Error> {
        let bucket = &self.settings.control_bucket;
        // Manifests expire by age, and so may this.
        let folder = format!("manifest/book/{}", self.ports.clock.id());
        let key = format!("{folder}/files.jsonl");
        let mut left_out = BTreeSet::new();
        let files = loop {
            let readable = batches.iter().filter(|batch| !left_out.contains(&batch.batch));
            match self.write_files(&key, readable).await? {
                Ok(written) => break written,
                Err(unreadable) => left_out.insert(unreadable),
            };
        };
        let booked: Vec<BatchId> = batches.iter().map(|b| b.batch).filter(|batch| !left_out.contains(batch)).collect();
        if booked.is_empty() || files == 0 {
            return Ok(None);
        }
        let manifest = json!({ "entries": [{ "url": format!("s3://{bucket}/{key}"), "mandatory": true }] });
        let manifest_key = format!("{folder}/manifest.json");
        self.ports.objects.put(bucket, &manifest_key, Bytes::from(manifest.to_string())).await?;
        let url = format!("s3://{bucket}/{manifest_key}");
        let execution = self.submit_within(&ledger::book(&booked, &url, &self.settings.copy_role)?, until).await?;
        Ok(Some(Loading { statement: execution.id, last, batches: booked.len() as u64, files }))
    }

    /// Writes the lines of these batches' files; how many, or the batch whose inventory can't be read: then nothing is written.
    async fn write_files<'a>(
        &'a self,
        key: &str,
        batches: impl Iterator<Item = &'a Unbooked>,
    ) -> Result<Result<u64, BatchId>, Error> {
        let (objects, bucket) = (self.ports.objects.as_ref(), &self.settings.control_bucket);
        let mut upload = objects.upload(bucket, key).await?;
        let mut files = 0;
        // Part by part, a few inventories at once: five hundred one after the other would take longer than a sweep has.
        let parts = stream::iter(batches).map(|batch| {
            let (parts, batch) = (Parts::new(objects, bucket, Some(batch.inventory_key.clone())), batch.batch);
            let next = move |mut parts: Parts<'a>| async move {
                match parts.next_part().await {
                    Ok(Some(entries)) => Ok(Some(((batch, entries), parts))),
                    Ok(None) => Ok(None),
                    Err(error) => Err((batch, error)),
                }
            };
            stream::try_unfold(parts, next).boxed()
        });
        let mut parts = parts.flatten_unordered(AT_ONCE);
        while let Some(part) = parts.next().await {
            match part {
                Ok((batch, entries)) => {
                    upload.write(ledger::file_lines(batch, &entries).as_bytes()).await?;
                    files += entries.len() as u64;
                }
                Err((batch, error)) if error.kind() == FailureKind::Bug => {
                    tracing::error!(%batch, %error, "its files can't be booked; tried again in the next round");
                    return Ok(Err(batch));
                }
                Err((_, error)) => return Err(error),
            }
        }
        upload.finish().await?;
        Ok(Ok(files))
    }
}

/// As many of the first as one COPY takes, at least one.
fn within(mut batches: Vec<Unbooked>) -> Vec<Unbooked> {
    let mut files = 0;
    let fit = batches.iter().take_while(|batch| {
        files += batch.objects;
        files <= FILES_AT_ONCE
    });
    let fit = fit.count().max(1);
    batches.truncate(fit);
    batches
}

/// Whether another load, without the batch that is to blame, may fare better.
fn is_of_the_data(error: &Error) -> bool {
    matches!(error.kind(), FailureKind::RejectedData | FailureKind::SourceChanged | FailureKind::Bug)
}
