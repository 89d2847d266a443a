//! What lies below a dataset's root: its partitions, and signs of a table format whose files can't be loaded as they lie.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidemark_domain::apply::in_lookback;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::PartitionName;
use tidemark_domain::object_key::TableFormat;

use crate::inventory::with_data;
use crate::ports::{ObjectError, Objects};

/// The partitions in the lookback that have data, whatever the spelling of their folders.
pub(super) async fn partitions(
    objects: &dyn Objects,
    definition: &Definition,
    now: Timestamp,
) -> Result<BTreeSet<PartitionName>, ObjectError> {
    with_data(objects, definition, |partition| in_lookback(definition, partition, now)).await
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
