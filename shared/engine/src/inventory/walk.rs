//! Walks all folders that a layout has, level by level: which partitions lie below a root, in whatever spelling.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::PartitionName;
use tidemark_domain::object_key::is_hidden;
use tidemark_domain::partition_value::Partition;

use crate::ports::{ListedObject, ObjectError, Objects};

/// So many listings run at once.
const LISTINGS_AT_ONCE: usize = 16;

/// The folders of each partition that is wanted, as prefixes in the bucket, sorted. Whether they hold any data isn't looked at.
pub async fn folders(
    objects: &dyn Objects,
    definition: &Definition,
    wanted: impl Fn(&Partition) -> bool,
) -> Result<BTreeMap<PartitionName, Vec<String>>, ObjectError> {
    let root = &definition.source;
    let mut folders = vec![root.prefix.clone()];
    for _ in 0..definition.layout.levels() {
        let below = stream::iter(folders).map(|folder| folders_in(objects, definition, folder));
        folders = below.buffered(LISTINGS_AT_ONCE).try_concat().await?;
    }
    // A folder is of the partition that an object in it would be of.
    let ending = definition.layout.suffix().unwrap_or_default();
    let mut found: BTreeMap<PartitionName, Vec<String>> = BTreeMap::new();
    for folder in folders {
        let key = format!("{folder}x{ending}");
        let below = root.below(&root.bucket, &key);
        let partition = below.and_then(|below| definition.partition_of(below).ok());
        if let Some(partition) = partition.filter(&wanted) {
            found.entry(partition.name).or_default().push(folder);
        }
    }
    for spellings in found.values_mut() {
        spellings.sort_unstable();
    }
    Ok(found)
}

/// The partitions that are wanted and have data, whatever the spelling of their folders.
pub async fn with_data(
    objects: &dyn Objects,
    definition: &Definition,
    wanted: impl Fn(&Partition) -> bool,
) -> Result<BTreeSet<PartitionName>, ObjectError> {
    let found = folders(objects, definition, wanted).await?;
    let leaves = found.into_iter().flat_map(|(name, folders)| folders.into_iter().map(move |f| (name.clone(), f)));
    let leaves = stream::iter(leaves).map(async |(name, folder)| {
        let found = has_data(objects, definition, &folder).await?;
        Ok::<_, ObjectError>(found.then_some(name))
    });
    let found: Vec<Option<PartitionName>> = leaves.buffered(LISTINGS_AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// The folders in a folder; hidden ones hold no data.
async fn folders_in(
    objects: &dyn Objects,
    definition: &Definition,
    prefix: String,
) -> Result<Vec<String>, ObjectError> {
    let root = &definition.source;
    let mut folders = Vec::new();
    let mut next = None;
    loop {
        let page = objects.list(&root.bucket, &prefix, true, None, next.as_deref()).await?;
        folders.extend(page.prefixes.into_iter().filter(|folder| {
            let below = root.below(&root.bucket, folder);
            below.is_some_and(|below| !is_hidden(below.trim_end_matches('/')))
        }));
        next = page.next;
        if next.is_none() {
            return Ok(folders);
        }
    }
}

async fn has_data(objects: &dyn Objects, definition: &Definition, folder: &str) -> Result<bool, ObjectError> {
    let root = &definition.source;
    let is_data = |object: &ListedObject| {
        let below = root.below(&root.bucket, &object.key);
        object.size > 0 && below.is_some_and(|below| definition.partition_of(below).is_ok())
    };
    let mut next = None;
    loop {
        let page = objects.list(&root.bucket, folder, true, None, next.as_deref()).await?;
        if page.objects.iter().any(is_data) {
            return Ok(true);
        }
        next = page.next;
        if next.is_none() {
            return Ok(false);
        }
    }
}
