//! A look at some files of the partitions that a changed definition marks: which of them it would park.
//!
//! A sample, told as one: of each of at most a hundred partitions the oldest and the newest of the first thousand files. Of CSV
//! the header can be looked at, where there is one: of the newest file that isn't large, in at most twenty partitions.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tidemark_domain::definition::Definition;
use tidemark_domain::header;
use tidemark_domain::id::PartitionName;
use tidemark_domain::inventory::Entry;

use super::ApplyError;
use crate::inventory::{Lister, misfit};
use crate::ports::{ListedObject, Objects};

/// So many partitions are looked at.
const PARTITIONS_AT_MOST: usize = 100;
/// So many of them at once.
const AT_ONCE: usize = 8;
/// So many headers are looked at.
const HEADERS_AT_MOST: usize = 20;
/// A header is read with its whole file, which may have so many bytes.
const READ_AT_MOST: u64 = 4 << 20;

/// What the look showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// So many files were read; none where they don't tell their columns.
    pub files: usize,
    /// So many partitions they are of.
    pub partitions: usize,
    /// Files that don't fit, one a partition: the partition would be parked.
    pub misfits: Vec<Misfit>,
    /// Files whose header names other columns in their places, one a partition. COPY doesn't look at it.
    pub headers: Vec<Misfit>,
}

/// A file that doesn't fit the new definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Its partition.
    pub partition: PartitionName,
    /// The file, what was expected and what was found.
    pub why: String,
}

/// Looks at files of `partitions`, evenly spread where there are many.
pub(super) async fn look(
    objects: &dyn Objects,
    definition: &Definition,
    partitions: &[PartitionName],
) -> Result<Sample, ApplyError> {
    if header::is_told(definition) {
        return look_at_headers(objects, definition, partitions).await;
    }
    // Only these tell their columns before they are loaded.
    if !definition.format.is_columnar() {
        return Ok(Sample::default());
    }
    let step = partitions.len().div_ceil(PARTITIONS_AT_MOST).max(1);
    let looks = stream::iter(partitions.iter().step_by(step)).map(|name| look_at(objects, definition, name));
    let looked: Vec<(usize, Option<Misfit>)> = looks.buffered(AT_ONCE).try_collect().await?;
    Ok(Sample {
        files: looked.iter().map(|(files, _)| files).sum(),
        partitions: looked.len(),
        misfits: looked.into_iter().filter_map(|(_, misfit)| misfit).collect(),
        headers: Vec::new(),
    })
}

async fn look_at_headers(
    objects: &dyn Objects,
    definition: &Definition,
    partitions: &[PartitionName],
) -> Result<Sample, ApplyError> {
    let step = partitions.len().div_ceil(HEADERS_AT_MOST).max(1);
    let mut sample = Sample::default();
    for name in partitions.iter().step_by(step) {
        let Some(newest) =
            first_files(objects, definition, name).await?.into_iter().rfind(|file| file.size <= READ_AT_MOST)
        else {
            continue;
        };
        let Some(bytes) = objects.get(&definition.source.bucket, &newest.key).await? else { continue };
        sample.files += 1;
        sample.partitions += 1;
        if let Some(why) = header::difference(definition, &bytes) {
            let why = format!("s3://{}/{}: {why}", definition.source.bucket, newest.key);
            sample.headers.push(Misfit { partition: name.clone(), why });
        }
    }
    Ok(sample)
}

/// The first files of a partition that can be read, oldest first.
async fn first_files(
    objects: &dyn Objects,
    definition: &Definition,
    name: &PartitionName,
) -> Result<Vec<ListedObject>, ApplyError> {
    let Ok(partition) = definition.partition(name) else { return Ok(Vec::new()) };
    let failed = |error: crate::error::Error| ApplyError::Files(error.to_string());
    let spellings = Lister::spellings(objects, definition, &partition).await.map_err(failed)?;
    let mut lister = Lister::new(objects, definition, &partition, &spellings, None);
    let mut files = lister.next_part().await.map_err(failed)?;
    files.retain(|object| !object.archived);
    files.sort_by(|a, b| (a.modified, &a.key).cmp(&(b.modified, &b.key)));
    Ok(files)
}

async fn look_at(
    objects: &dyn Objects,
    definition: &Definition,
    name: &PartitionName,
) -> Result<(usize, Option<Misfit>), ApplyError> {
    let failed = |error: crate::error::Error| ApplyError::Files(error.to_string());
    let chosen = ends(first_files(objects, definition, name).await?);
    let read = chosen.len();
    for entry in chosen {
        if let Some(why) = misfit(objects, definition, entry).await.map_err(failed)? {
            return Ok((read, Some(Misfit { partition: name.clone(), why })));
        }
    }
    Ok((read, None))
}

/// The oldest and the newest.
fn ends(mut files: Vec<ListedObject>) -> Vec<Entry> {
    let newest = (files.len() > 1).then(|| files.pop()).flatten();
    let entry = |object: ListedObject| Entry {
        key: object.key,
        etag: object.etag,
        size: object.size,
        modified: object.modified,
        rows: None,
    };
    files.into_iter().next().into_iter().chain(newest).map(entry).collect()
}
