//! All partitions of a dataset, at rest or not.

use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::partition::PartitionItem;

use super::unreadable;
use crate::Ports;
use crate::error::Error;

/// Items read at once.
const AT_ONCE: usize = 1_000;

/// The partitions of a dataset in the order of their names' bytes, `at_most` of them.
pub async fn all(
    ports: &Ports,
    dataset: &DatasetName,
    at_most: usize,
) -> Result<Vec<(PartitionName, PartitionItem)>, Error> {
    let mut partitions: Vec<(PartitionName, PartitionItem)> = Vec::new();
    while partitions.len() < at_most {
        let wanted = AT_ONCE.min(at_most - partitions.len());
        let after = partitions.last().map(|(name, _)| name.clone());
        let page = ports.state.partitions(dataset, after.as_ref(), wanted).await?;
        let more = page.len() == wanted;
        for (name, item) in page {
            let item = PartitionItem::from_item(&item);
            let item = item.map_err(|why| unreadable(format!("partition {name} of {dataset}"), &why))?;
            partitions.push((name, item));
        }
        if !more {
            break;
        }
    }
    Ok(partitions)
}
