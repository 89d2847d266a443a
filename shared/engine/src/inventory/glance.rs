//! A glance at a partition: the digest of its listing as a rebuild would have it, with nothing stored and no file read.

use tidemark_domain::definition::Definition;
use tidemark_domain::inventory::{Entry, digest, part_digest};
use tidemark_domain::partition_value::Partition;
use tidemark_domain::sweep::look::Glance;

use super::lister::Lister;
use crate::error::Error;
use crate::ports::Objects;

/// Lists what lies below `spellings`. Memory holds one part.
pub async fn glance(
    objects: &dyn Objects,
    definition: &Definition,
    partition: &Partition,
    spellings: &[String],
) -> Result<Glance, Error> {
    let mut lister = Lister::new(objects, definition, partition, spellings, None);
    let (mut parts, mut count, mut newest) = (Vec::new(), 0, None);
    loop {
        let part = lister.next_part().await?;
        if part.is_empty() {
            return Ok(Glance { digest: digest(&definition.rows_hash_part(), &parts), objects: count, newest });
        }
        count += part.len() as u64;
        newest = newest.max(part.iter().map(|object| object.modified).max());
        let entries: Vec<Entry> = part
            .into_iter()
            .map(|o| Entry { key: o.key, etag: o.etag, size: o.size, modified: o.modified, rows: None })
            .collect();
        parts.push(part_digest(&entries));
    }
}
