//! Row counts and columns from the footers of Parquet and ORC files, by ranged reads of the files' ends, a few at a time.

use futures::lock::Mutex;
use futures::stream::{self, StreamExt, TryStreamExt};
use tidemark_domain::definition::{Definition, Switch};
use tidemark_domain::footer::{self, FooterError};
use tidemark_domain::inventory::Entry;

use crate::error::Error;
use crate::ports::Objects;

/// How many footers are read at once: 16 x 64 KiB stay small beside 128 MiB.
const AT_ONCE: usize = 16;

/// How many files that don't fit are named; there may be as many as there are files.
const TOLD: usize = 10;

/// Files that can't be loaded as the definition says: which, and why each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drifted(pub String);

/// Why a file doesn't fit a definition, if it doesn't.
pub async fn misfit(objects: &dyn Objects, definition: &Definition, entry: Entry) -> Result<Option<String>, Error> {
    let drifted = fill(objects, definition, &mut [entry]).await?;
    Ok(drifted.map(|drifted| drifted.0))
}

/// Fills in the rows of the entries that don't know theirs. The files that don't fit the definition are named, the first few.
pub(super) async fn fill(
    objects: &dyn Objects,
    definition: &Definition,
    entries: &mut [Entry],
) -> Result<Option<Drifted>, Error> {
    let missing: Vec<usize> = (0..entries.len()).filter(|&i| entries[i].rows.is_none()).collect();
    let asked: Vec<(usize, Entry)> = missing.into_iter().map(|i| (i, entries[i].clone())).collect();
    let long = &Mutex::new(());
    let read: Vec<(usize, Result<u64, Drifted>)> = stream::iter(asked)
        .map(|(i, entry)| async move { Ok::<_, Error>((i, rows(objects, definition, &entry, long).await?)) })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let mut drifted = Vec::new();
    for (i, rows) in read {
        match rows {
            Ok(rows) => entries[i].rows = Some(rows),
            Err(Drifted(why)) => drifted.push(why),
        }
    }
    let more = drifted.len().saturating_sub(TOLD);
    drifted.truncate(TOLD);
    if more > 0 {
        drifted.push(format!("{more} more files of this part of the listing don't fit either"));
    }
    Ok((!drifted.is_empty()).then(|| Drifted(drifted.join("\n"))))
}

async fn rows(
    objects: &dyn Objects,
    definition: &Definition,
    entry: &Entry,
    long: &Mutex<()>,
) -> Result<Result<u64, Drifted>, Error> {
    let mut length = footer::FIRST_READ.min(entry.size);
    let mut alone = None;
    let root = &definition.source;
    let url = format!("s3://{}/{}", root.bucket, entry.key);
    loop {
        let tail = objects.read_tail(&root.bucket, &entry.key, &entry.etag, length).await?;
        match footer::read(definition.format, &tail, entry.size) {
            Ok(footer) => {
                let drift = footer.drift(&definition.columns, definition.copy.has(Switch::FillRecord));
                return Ok(drift.map_or(Ok(footer.rows), |why| Err(Drifted(format!("{url}: {why}")))));
            }
            Err(FooterError::NeedsMore(needed)) if needed > length => {
                length = needed;
                // Megabytes of which sixteen don't fit: one long footer at a time.
                drop(tail);
                if alone.is_none() {
                    alone = Some(long.lock().await);
                }
            }
            Err(error) => return Ok(Err(Drifted(format!("{url}: {error}")))),
        }
    }
}
