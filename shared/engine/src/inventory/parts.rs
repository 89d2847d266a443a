//! A stored inventory: its parts, and the index that names them.
//!
//! The index, written last, tells the hash of each part, and its own key tells its own: what is missing, cut short or damaged
//! is an error that names the object, and never read as fewer objects than were listed. Else a guard against objects that are
//! gone would count none.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use tidemark_domain::id::Digest;
use tidemark_domain::inventory::{Entry, from_lines, to_lines};

use super::sealed;
use crate::error::Error;
use crate::ports::Objects;

/// Reads a stored inventory entry by entry, in key order; memory holds one part.
pub struct Parts<'a> {
    objects: &'a dyn Objects,
    bucket: &'a str,
    /// The key of its index.
    inventory: Option<String>,
    index: Option<Index>,
    part: usize,
    entries: std::iter::Peekable<std::vec::IntoIter<Entry>>,
}

/// What makes an inventory whole.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    /// The hashes of the parts' bytes, in their order.
    parts: Vec<Digest>,
    /// What the files were held against: the hash of all in the definition that shapes rows.
    shape: Digest,
}

fn part_stem(folder: &str, part: usize) -> String {
    format!("{folder}part-{part:06}")
}

/// Stores a part in a batch's folder, which ends in `/`. The first part has number 0. Gives its hash, for the index.
pub async fn put_part(
    objects: &dyn Objects,
    bucket: &str,
    folder: &str,
    part: usize,
    entries: &[Entry],
) -> Result<Digest, Error> {
    sealed::put(objects, bucket, &part_stem(folder, part), "jsonl", to_lines(entries).into_bytes()).await
}

/// Stores the index of these parts, whose files were held against `shape`: the inventory is whole. Gives its key, by which the
/// inventory is known. Parts that an attempt before left behind aren't part of it.
pub async fn seal(
    objects: &dyn Objects,
    bucket: &str,
    folder: &str,
    parts: &[Digest],
    shape: &Digest,
) -> Result<String, Error> {
    let stem = format!("{folder}index");
    let index = serde_json::to_vec(&Index { parts: parts.to_vec(), shape: shape.clone() });
    let index = index.map_err(|error| sealed::unreadable(bucket, &stem, &error))?;
    let hash = sealed::put(objects, bucket, &stem, "json", index).await?;
    Ok(sealed::key(&stem, &hash, "json"))
}

impl<'a> Parts<'a> {
    /// From the first entry of the inventory whose index has this key; without one there is none.
    pub fn new(objects: &'a dyn Objects, bucket: &'a str, inventory: Option<String>) -> Self {
        Self { objects, bucket, inventory, index: None, part: 0, entries: Vec::new().into_iter().peekable() }
    }

    /// The whole next part, or `None` at the end.
    pub async fn next_part(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let Some(inventory) = self.inventory.as_deref() else { return Ok(None) };
        let index = match self.index.take() {
            Some(index) => index,
            None => serde_json::from_slice(&sealed::get(self.objects, self.bucket, inventory).await?)
                .map_err(|error| sealed::unreadable(self.bucket, inventory, &error))?,
        };
        let hash = self.index.insert(index).parts.get(self.part).cloned();
        let Some(hash) = hash else { return Ok(None) };
        let folder = inventory.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let key = sealed::key(&part_stem(&folder, self.part), &hash, "jsonl");
        let bytes = sealed::get(self.objects, self.bucket, &key).await?;
        self.part += 1;
        let text = std::str::from_utf8(&bytes).map_err(|error| sealed::unreadable(self.bucket, &key, &error))?;
        from_lines(text).map(Some).map_err(|why| sealed::unreadable(self.bucket, &key, &why))
    }

    /// Whether its files were held against that; not known before the first entry is asked for.
    pub fn is_of(&self, shape: &Digest) -> bool {
        self.index.as_ref().is_some_and(|index| index.shape == *shape)
    }

    /// Reads no further: from here on it has no entries.
    pub(super) fn end(&mut self) {
        self.inventory = None;
    }

    /// The next entry, left in place.
    pub async fn peek(&mut self) -> Result<Option<&Entry>, Error> {
        if self.entries.peek().is_none() {
            match self.next_part().await? {
                Some(part) => self.entries = part.into_iter().peekable(),
                None => return Ok(None),
            }
        }
        Ok(self.entries.peek())
    }

    /// Goes on to `key`, telling `skipped` of every entry before it; gives the entry of that key, if there is one.
    pub async fn seek(&mut self, key: &str, mut skipped: impl FnMut(&Entry)) -> Result<Option<Entry>, Error> {
        while let Some(entry) = self.peek().await? {
            match entry.key.as_str().cmp(key) {
                Ordering::Greater => return Ok(None),
                Ordering::Equal => return Ok(self.entries.next()),
                Ordering::Less => skipped(entry),
            }
            self.entries.next();
        }
        Ok(None)
    }

    /// Goes to the end, telling `skipped` of every entry left.
    pub async fn finish(&mut self, mut skipped: impl FnMut(&Entry)) -> Result<(), Error> {
        while let Some(entry) = self.peek().await? {
            skipped(entry);
            self.entries.next();
        }
        Ok(())
    }
}
