//! What lies below a dataset's root: its partitions, and signs of a table format whose files can't be loaded as they lie.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tidemark_domain::apply::in_lookback;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::PartitionName;
use tidemark_domain::object_key::TableFormat;

use crate::inventory::folders;
use crate::ports::{ListedObject, ObjectError, Objects};

/// So many listings run at once.
const LISTINGS_AT_ONCE: usize = 16;

/// The partitions in the lookback that have data, whatever the spelling of their folders.
pub(super) async fn partitions(
    objects: &dyn Objects,
    definition: &Definition,
    now: Timestamp,
) -> Result<BTreeSet<PartitionName>, ObjectError> {
    let found = folders(objects, definition, |partition| in_lookback(definition, partition, now)).await?;
    let leaves = found.into_iter().flat_map(|(name, folders)| folders.into_iter().map(move |f| (name.clone(), f)));
    let leaves = stream::iter(leaves).map(async |(name, folder)| {
        let found = has_data(objects, definition, &folder).await?;
        Ok::<_, ObjectError>(found.then_some(name))
    });
    let found: Vec<Option<PartitionName>> = leaves.buffered(LISTINGS_AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// The table format of which there is a sign right below the root.
pub(super) async fn table_format(
    objects: &dyn Objects,
    definition: &Definition,
) -> Result<Option<TableFormat>, ObjectError> {
    let root = &definition.source;
    let mut names = Vec::new();
    for prefix in ["_delta_log/", ".hoodie/", "metadata/"] {
        // One page: the logs of all three formats begin with their folder.
        let page = objects.list(&root.bucket, &format!("{}{prefix}", root.prefix), false, None, None).await?;
        names.extend(page.objects.into_iter().map(|object| object.key));
    }
    Ok(names.iter().filter_map(|key| root.below(&root.bucket, key)).find_map(TableFormat::of))
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
