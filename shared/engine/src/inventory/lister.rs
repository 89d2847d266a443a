//! Walks the layout level by level, so that every spelling of a partition's values is found, then lists what is below.

use std::collections::VecDeque;

use tidemark_domain::definition::Definition;
use tidemark_domain::inventory::PART_ENTRIES;
use tidemark_domain::object_key::TableFormat;
use tidemark_domain::partition_value::Partition;

use crate::error::Error;
use crate::ports::{ListedObject, Objects, Page};

/// A listing of one partition, sorted by key.
pub struct Lister<'a> {
    objects: &'a dyn Objects,
    definition: &'a Definition,
    partition: &'a Partition,
    prefixes: VecDeque<String>,
    start_after: Option<String>,
    next: Option<String>,
    buffer: VecDeque<ListedObject>,
}

impl<'a> Lister<'a> {
    /// Every prefix below the root that means this partition, sorted; none is the beginning of another.
    pub async fn spellings(
        objects: &dyn Objects,
        definition: &Definition,
        partition: &Partition,
    ) -> Result<Vec<String>, Error> {
        let root = &definition.source;
        let mut found = vec![root.prefix.clone()];
        for level in 0..definition.layout.levels() {
            let mut deeper = Vec::new();
            for prefix in found {
                let mut next = None;
                loop {
                    let page = objects.list(&root.bucket, &prefix, true, None, next.as_deref()).await?;
                    refuse_table_formats(definition, &page)?;
                    deeper.extend(page.prefixes.into_iter().filter(|common| {
                        let segment = common.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix('/'));
                        segment.is_some_and(|segment| {
                            definition.layout.match_level(&definition.parts, &partition.values, level, segment)
                        })
                    }));
                    next = page.next;
                    if next.is_none() {
                        break;
                    }
                }
            }
            found = deeper;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// A listing below `spellings`, of the keys after `after`.
    pub fn new(
        objects: &'a dyn Objects,
        definition: &'a Definition,
        partition: &'a Partition,
        spellings: &[String],
        after: Option<&str>,
    ) -> Self {
        let done = |prefix: &&String| after.is_some_and(|after| prefix.as_str() < after && !after.starts_with(*prefix));
        Self {
            objects,
            definition,
            partition,
            prefixes: spellings.iter().skip_while(done).cloned().collect(),
            start_after: after.map(str::to_owned),
            next: None,
            buffer: VecDeque::new(),
        }
    }

    /// The next part: 1,000 objects, fewer only at the end, none after it.
    ///
    /// A key below a prefix that doesn't mean this partition (a folder inside it, a hidden file) is left out.
    pub async fn next_part(&mut self) -> Result<Vec<ListedObject>, Error> {
        let root = &self.definition.source;
        while self.buffer.len() < PART_ENTRIES {
            let Some(prefix) = self.prefixes.front() else { break };
            let after = self.start_after.as_deref().filter(|after| after.starts_with(prefix.as_str()));
            let page = self.objects.list(&root.bucket, prefix, false, after, self.next.as_deref()).await?;
            let (definition, partition) = (self.definition, self.partition);
            self.buffer.extend(page.objects.into_iter().filter(|object| {
                let below = root.below(&root.bucket, &object.key);
                below.is_some_and(|below| definition.partition_of(below).is_ok_and(|found| found == *partition))
            }));
            self.next = page.next;
            if self.next.is_none() {
                self.prefixes.pop_front();
                self.start_after = None;
            }
        }
        let length = self.buffer.len().min(PART_ENTRIES);
        Ok(self.buffer.drain(..length).collect())
    }
}

/// A Delta, Iceberg or Hudi table lists files that are no rows of it any more.
fn refuse_table_formats(definition: &Definition, page: &Page) -> Result<(), Error> {
    let root = &definition.source;
    let keys = page.prefixes.iter().chain(page.objects.iter().map(|object| &object.key));
    let mut below = keys.filter_map(|key| root.below(&root.bucket, key));
    match below.find_map(|below| Some((TableFormat::of(below)?, below))) {
        None => Ok(()),
        Some((format, sign)) => Err(Error::TableFormat { root: root.to_string(), format, sign: sign.to_owned() }),
    }
}
