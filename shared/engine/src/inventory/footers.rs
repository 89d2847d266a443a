//! Row counts and columns from Parquet footers, by ranged reads of the files' ends, a few at a time.

use futures::lock::Mutex;
use futures::stream::{self, StreamExt, TryStreamExt};
use tidemark_domain::definition::{Column, Definition, Root};
use tidemark_domain::footer::{self, Footer, FooterError};
use tidemark_domain::inventory::Entry;

use crate::error::Error;
use crate::ports::Objects;

/// How many footers are read at once: 16 x 64 KiB stay small beside 128 MiB.
const AT_ONCE: usize = 16;

/// A file that can't be loaded as the definition says: which, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drifted(pub String);

/// Why a file doesn't fit a definition, if it doesn't.
pub async fn misfit(objects: &dyn Objects, definition: &Definition, entry: Entry) -> Result<Option<String>, Error> {
    let drifted = fill(objects, &definition.source, &definition.columns, &mut [entry]).await?;
    Ok(drifted.map(|drifted| drifted.0))
}

/// Fills in the rows of the entries that don't know theirs. The first file that doesn't fit the definition is named.
pub(super) async fn fill(
    objects: &dyn Objects,
    root: &Root,
    columns: &[Column],
    entries: &mut [Entry],
) -> Result<Option<Drifted>, Error> {
    let missing: Vec<usize> = (0..entries.len()).filter(|&i| entries[i].rows.is_none()).collect();
    let asked: Vec<(usize, Entry)> = missing.into_iter().map(|i| (i, entries[i].clone())).collect();
    let long = &Mutex::new(());
    let read: Vec<(usize, Result<u64, Drifted>)> = stream::iter(asked)
        .map(|(i, entry)| async move { Ok::<_, Error>((i, rows(objects, root, columns, &entry, long).await?)) })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    for (i, rows) in read {
        match rows {
            Ok(rows) => entries[i].rows = Some(rows),
            Err(drifted) => return Ok(Some(drifted)),
        }
    }
    Ok(None)
}

async fn rows(
    objects: &dyn Objects,
    root: &Root,
    columns: &[Column],
    entry: &Entry,
    long: &Mutex<()>,
) -> Result<Result<u64, Drifted>, Error> {
    let mut length = footer::FIRST_READ.min(entry.size);
    let mut alone = None;
    let url = format!("s3://{}/{}", root.bucket, entry.key);
    loop {
        let tail = objects.read_tail(&root.bucket, &entry.key, &entry.etag, length).await?;
        match footer::read(&tail, entry.size) {
            Ok(footer) => {
                return Ok(drift(&footer, columns).map_or(Ok(footer.rows), |why| Err(Drifted(format!("{url}: {why}")))));
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

/// How a file's columns differ from the definition's. COPY maps them by position, so name and place must agree.
fn drift(footer: &Footer, columns: &[Column]) -> Option<String> {
    let differing =
        footer.columns.iter().zip(columns).position(|(found, column)| !found.eq_ignore_ascii_case(&column.name.0));
    if let Some(at) = differing {
        let (found, expected) = (&footer.columns[at], &columns[at].name);
        return Some(format!("column {} is `{found}`, but the definition says `{expected}`", at + 1));
    }
    (footer.columns.len() != columns.len())
        .then(|| format!("{} columns, but the definition says {}", footer.columns.len(), columns.len()))
}
