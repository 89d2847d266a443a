//! Builds a batch's inventory: list, learn rows, compare with the last inventory, store; part by part.

use serde::{Deserialize, Serialize};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::Digest;
use tidemark_domain::inventory::{Entry, digest, manifest_entries, part_digest};
use tidemark_domain::lateness::{Arrival, arrival};
use tidemark_domain::partition::{Late, Listed};
use tidemark_domain::partition_value::Partition;
use tidemark_domain::verify::SourceCounts;

use super::footers::{self, Drifted};
use super::lister::Lister;
use super::parts::{Parts, put_part, seal};
use super::previous::Previous;
use super::sealed;
use crate::error::Error;
use crate::ports::{ListedObject, Objects};

/// What is listed, and where it goes.
pub struct Listing<'a> {
    /// S3.
    pub objects: &'a dyn Objects,
    /// The definition the batch began with.
    pub definition: &'a Definition,
    /// The partition.
    pub partition: &'a Partition,
    /// The control bucket.
    pub control_bucket: &'a str,
    /// The batch's own folder in it, ending in `/`.
    pub folder: String,
    /// The last committed inventory, by its key.
    pub previous: Option<String>,
    /// How far an invocation before has listed.
    pub progress: Option<Digest>,
}

/// What came of it.
#[derive(Debug)]
pub enum Built {
    /// Listed to the end.
    Whole(Box<Whole>),
    /// A file doesn't fit the definition.
    Drifted(Drifted),
    /// Time ran out; the next invocation goes on from what this names.
    OutOfTime(Digest),
}

/// A whole listing.
#[derive(Debug)]
pub struct Whole {
    /// What was listed.
    pub listed: Listed,
    /// Objects of the previous inventory that are gone, and one of them.
    pub missing: (u64, Option<String>),
    /// What can't be read of the previous inventory, and why: it isn't known then what is gone.
    pub unreadable: Option<String>,
    /// Objects that can't be read from an archive, and one of them.
    pub archived: (u64, Option<String>),
}

#[derive(Default, Serialize, Deserialize)]
struct Progress {
    spellings: Vec<String>,
    parts: Vec<Digest>,
    /// Hashes of the parts as they were stored.
    stored: Vec<Digest>,
    last_key: Option<String>,
    objects: u64,
    bytes: u64,
    rows: u64,
    missing: (u64, Option<String>),
    archived: (u64, Option<String>),
    late: Late,
}

impl Progress {
    fn miss(&mut self, entry: &Entry) {
        self.missing.0 += 1;
        self.missing.1.get_or_insert_with(|| entry.key.clone());
    }
}

/// Lists the partition. `has_time` is asked between parts.
pub async fn build(listing: &Listing<'_>, has_time: &(dyn Fn() -> bool + Sync)) -> Result<Built, Error> {
    let Listing { objects, definition, partition, .. } = *listing;
    let mut progress = load(listing).await?;
    if progress.parts.is_empty() {
        progress.spellings = Lister::spellings(objects, definition, partition).await?;
    }
    let mut lister = Lister::new(objects, definition, partition, &progress.spellings, progress.last_key.as_deref());
    let mut previous = Previous::new(objects, listing.control_bucket, listing.previous.clone());
    if let Some(last) = &progress.last_key {
        previous.seek(last, |_| {}).await?;
    }
    loop {
        if !has_time() {
            return Ok(Built::OutOfTime(store(listing, &progress).await?));
        }
        let part = lister.next_part().await?;
        if part.is_empty() {
            break;
        }
        if let Some(drifted) = add(listing, &mut progress, &mut previous, part).await? {
            return Ok(Built::Drifted(drifted));
        }
    }
    let unreadable = previous.finish(|entry| progress.miss(entry)).await?;
    let inventory =
        seal(objects, listing.control_bucket, &listing.folder, &progress.stored, &shape(definition)).await?;
    let rows = definition.format.is_columnar().then_some(progress.rows);
    let listed = Listed {
        digest: digest(&definition.rows_hash_part(), &progress.parts),
        inventory,
        objects: progress.objects,
        bytes: progress.bytes,
        rows,
        at: None,
        missing: progress.missing.0,
        late: progress.late,
    };
    Ok(Built::Whole(Box::new(Whole { listed, missing: progress.missing, unreadable, archived: progress.archived })))
}

/// What files are held against.
fn shape(definition: &Definition) -> Digest {
    Digest::of([definition.rows_hash_part().as_slice()])
}

async fn add(
    listing: &Listing<'_>,
    progress: &mut Progress,
    previous: &mut Previous<'_>,
    part: Vec<ListedObject>,
) -> Result<Option<Drifted>, Error> {
    let mut entries = Vec::with_capacity(part.len());
    let shape = shape(listing.definition);
    for object in part {
        if object.archived {
            progress.archived.0 += 1;
            progress.archived.1.get_or_insert_with(|| object.key.clone());
        }
        let known = previous.seek(&object.key, |gone| progress.miss(gone)).await?;
        let mut entry =
            Entry { key: object.key, etag: object.etag, size: object.size, modified: object.modified, rows: None };
        let known = known.filter(|known| known.is_same_object(&entry));
        if known.is_none() && listing.previous.is_some() && previous.is_readable() {
            match arrival(listing.definition, listing.partition, entry.modified) {
                Arrival::InTime => {}
                Arrival::InWindow => progress.late.in_window += 1,
                Arrival::OutsideWindow => progress.late.outside_window += 1,
            }
        }
        // What fitted another definition is looked at again: columns may have changed places.
        entry.rows = known.filter(|_| previous.is_of(&shape)).and_then(|known| known.rows);
        entries.push(entry);
    }
    let definition = listing.definition;
    if definition.format.is_columnar() && progress.archived.0 == 0 {
        let drifted = footers::fill(listing.objects, definition, &mut entries).await?;
        if drifted.is_some() {
            return Ok(drifted);
        }
    }
    let part = progress.parts.len();
    let stored = put_part(listing.objects, listing.control_bucket, &listing.folder, part, &entries).await?;
    progress.stored.push(stored);
    progress.parts.push(part_digest(&entries));
    progress.objects += entries.len() as u64;
    progress.bytes += entries.iter().map(|entry| entry.size).sum::<u64>();
    progress.rows += entries.iter().filter_map(|entry| entry.rows).sum::<u64>();
    progress.last_key = entries.pop().map(|entry| entry.key);
    Ok(None)
}

/// Writes COPY's manifest from a stored inventory; gives what it holds.
pub async fn manifest(listing: &Listing<'_>, inventory: &str) -> Result<SourceCounts, Error> {
    let mut upload = listing.objects.upload(listing.control_bucket, &manifest_key(inventory)).await?;
    let mut parts = Parts::new(listing.objects, listing.control_bucket, Some(inventory.to_owned()));
    upload.write(b"{\"entries\":[\n").await?;
    let mut first = true;
    let mut written = SourceCounts::default();
    while let Some(part) = parts.next_part().await? {
        if !std::mem::take(&mut first) {
            upload.write(b",\n").await?;
        }
        upload.write(manifest_entries(&listing.definition.source.bucket, &part).as_bytes()).await?;
        written.objects += part.len() as u64;
        written.bytes += part.iter().map(|entry| entry.size).sum::<u64>();
    }
    upload.write(b"\n]}\n").await?;
    upload.finish().await?;
    Ok(written)
}

/// Named as the inventory it is made from, which says all that it holds. Under a prefix of its own, since manifests expire by
/// age and inventories don't.
fn manifest_key(inventory: &str) -> String {
    format!("manifest/{}", inventory.strip_prefix("inventory/").unwrap_or(inventory))
}

/// The manifest's URL, as COPY takes it.
pub fn manifest_url(control_bucket: &str, inventory: &str) -> String {
    format!("s3://{control_bucket}/{}", manifest_key(inventory))
}

/// What an invocation before has listed. Where it can't be read, the listing begins anew: nothing hangs on it but time.
async fn load(listing: &Listing<'_>) -> Result<Progress, Error> {
    let Some(hash) = &listing.progress else { return Ok(Progress::default()) };
    let key = sealed::key(&progress_stem(listing), hash, "json");
    let progress = match sealed::get(listing.objects, listing.control_bucket, &key).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
        Err(error @ Error::Sealed { .. }) => Err(error.to_string()),
        Err(error) => return Err(error),
    };
    Ok(progress.unwrap_or_else(|error| {
        tracing::warn!(%error, "the listing begins anew");
        Progress::default()
    }))
}

async fn store(listing: &Listing<'_>, progress: &Progress) -> Result<Digest, Error> {
    let stem = progress_stem(listing);
    let bytes = serde_json::to_vec(progress);
    let bytes = bytes.map_err(|error| sealed::unreadable(listing.control_bucket, &stem, &error))?;
    sealed::put(listing.objects, listing.control_bucket, &stem, "json", bytes).await
}

fn progress_stem(listing: &Listing<'_>) -> String {
    format!("{}progress", listing.folder)
}
