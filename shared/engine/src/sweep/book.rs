//! book: which files did these rows come from? Loads the inventories of committed batches into the ledger's `files`, many by one
//! COPY.
//!
//! ```text
//! which aren't booked? ▸ their inventories, each entry with its batch ▸ one object and its manifest ▸ COPY ▸ go on after them
//! ```
//! A round goes through the ledger in the order of the batches' ids. Where it stands is kept, and what is being loaded: the
//! statement outlives its sweep, and the next one looks at its end. However often a batch is loaded, it is booked once. An
//! inventory that can't be read, and a batch that Redshift refuses, are told and left out: tried again in the next round, and
//! nobody else waits for them.

use std::collections::BTreeSet;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidemark_domain::cursor::{Cursor, Loading, Task};
use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::BatchId;
use tidemark_domain::sql::ledger::{self, BOOKED_AT_ONCE, Unbooked};

use super::statements::failed;
use crate::Engine;
use crate::error::Error;
use crate::inventory::Parts;
use crate::ports::ExecutionStatus;

/// Files loaded by one COPY, unless a single batch has more.
const FILES_AT_ONCE: u64 = 50_000;
/// A round asks for what landed this long before the last one. The rest stands in `files` already, also in a warehouse that
/// was restored: no automated snapshot is older.
const LOOKS_BACK: SignedDuration = SignedDuration::from_hours(35 * 24);

impl Engine {
    /// One slice of a round. Gives the cursor as it stands.
    pub(super) async fn book(&self, mut cursor: Cursor, until: Timestamp) -> Result<Cursor, Error> {
        let mut at_once = BOOKED_AT_ONCE;
        loop {
            if let Some(loading) = cursor.loading.take() {
                let told = self.followed(&loading.statement, until).await?;
                match told.as_ref().map(|told| told.status) {
                    Some(ExecutionStatus::Running) => {
                        let after = cursor.after.clone().unwrap_or_default();
                        cursor.loading = Some(loading);
                        return Ok(cursor.advanced(after, cursor.found, self.ports.clock.now()));
                    }
                    Some(ExecutionStatus::Finished) => {
                        tracing::info!(batches = loading.batches, files = loading.files, "booked");
                        cursor.found += loading.files;
                        cursor.after = Some(loading.last.to_string());
                    }
                    // Nobody knows how it ended: what it booked isn't asked for again.
                    None => {}
                    Some(_) => match failed("tidemark/book", told.as_ref()) {
                        error if !is_of_the_data(&error) => return Err(error),
                        error if loading.batches == 1 => {
                            tracing::error!(batch = %loading.last, %error, "its files can't be booked; tried again in the next round");
                            cursor.after = Some(loading.last.to_string());
                        }
                        error => {
                            tracing::warn!(batches = loading.batches, %error, "one of them can't be booked; fewer at once");
                            at_once = usize::try_from(loading.batches / 2).unwrap_or(1).max(1);
                        }
                    },
                }
            }
            if self.ports.clock.now() >= until {
                let after = cursor.after.clone().unwrap_or_default();
                return Ok(cursor.advanced(after, cursor.found, self.ports.clock.now()));
            }
            let since = cursor.done_at.and_then(|done| done.checked_sub(LOOKS_BACK).ok());
            let after = cursor.after.as_deref().and_then(|id| id.parse().ok()).map(BatchId);
            let unbooked = ledger::unbooked(&self.settings.stack, since, after, at_once)?;
            let next = within(ledger::read_unbooked(&self.ask_within(&unbooked, until).await?)?);
            let Some(last) = next.last().map(|last| last.batch) else {
                return Ok(cursor.finished(Task::Book, self.ports.clock.now()));
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
    async fn write_files(
        &self,
        key: &str,
        batches: impl Iterator<Item = &Unbooked>,
    ) -> Result<Result<u64, BatchId>, Error> {
        let (objects, bucket) = (self.ports.objects.as_ref(), &self.settings.control_bucket);
        let mut upload = objects.upload(bucket, key).await?;
        let mut files = 0;
        for batch in batches {
            let mut parts = Parts::new(objects, bucket, Some(batch.inventory_key.clone()));
            loop {
                match parts.next_part().await {
                    Ok(Some(entries)) => {
                        upload.write(ledger::file_lines(batch.batch, &entries).as_bytes()).await?;
                        files += entries.len() as u64;
                    }
                    Ok(None) => break,
                    Err(error) if error.kind() == FailureKind::Bug => {
                        tracing::error!(batch = %batch.batch, %error, "its files can't be booked; tried again in the next round");
                        return Ok(Err(batch.batch));
                    }
                    Err(error) => return Err(error),
                }
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
