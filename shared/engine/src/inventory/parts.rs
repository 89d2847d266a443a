//! The parts of a stored inventory, read one after the other.
//!
//! `index.json`, written last, tells how many parts there are and the hash of each: what is missing, cut short or damaged is an
//! error that names the object, and never read as fewer objects than were listed. Else a guard against objects that are gone
//! would count none.

use std::cmp::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidemark_domain::id::Digest;
use tidemark_domain::inventory::{Entry, from_lines, to_lines};

use crate::error::Error;
use crate::ports::Objects;

/// Reads a stored inventory entry by entry, in key order; memory holds one part.
pub struct Parts<'a> {
    objects: &'a dyn Objects,
    bucket: &'a str,
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
    /// What the files were held against: the hash of all in the definition that shapes rows. Older inventories don't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Digest>,
}

/// The key of a part.
fn part_key(inventory: &str, part: usize) -> String {
    format!("{inventory}part-{part:06}.jsonl")
}

fn index_key(inventory: &str) -> String {
    format!("{inventory}index.json")
}

impl<'a> Parts<'a> {
    /// From the first entry; without an inventory there is none.
    pub fn new(objects: &'a dyn Objects, bucket: &'a str, inventory: Option<String>) -> Self {
        Self { objects, bucket, inventory, index: None, part: 0, entries: Vec::new().into_iter().peekable() }
    }

    /// Stores a part, the first of which has number 0; gives its hash, for the index.
    pub async fn put(&self, inventory: &str, part: usize, entries: &[Entry]) -> Result<Digest, Error> {
        let bytes = Bytes::from(to_lines(entries));
        let hash = Digest::of([bytes.as_ref()]);
        self.objects.put(self.bucket, &part_key(inventory, part), bytes).await?;
        Ok(hash)
    }

    /// Stores the index: the inventory is whole, its files held against `shape`. What an attempt before left behind it isn't
    /// part of it.
    pub async fn seal(&self, inventory: &str, parts: &[Digest], shape: &Digest) -> Result<(), Error> {
        let key = index_key(inventory);
        let index = serde_json::to_vec(&Index { parts: parts.to_vec(), shape: Some(shape.clone()) });
        let index = index.map_err(|error| Error::Stored { what: key.clone(), why: error.to_string() })?;
        Ok(self.objects.put(self.bucket, &key, Bytes::from(index)).await?)
    }

    /// The whole next part, or `None` at the end.
    pub async fn next_part(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let Some(inventory) = self.inventory.as_deref() else { return Ok(None) };
        let index = match self.index.take() {
            Some(index) => index,
            None => serde_json::from_slice(&self.stored(&index_key(inventory)).await?)
                .map_err(|error| self.unreadable(&index_key(inventory), error.to_string()))?,
        };
        let hash = self.index.insert(index).parts.get(self.part).cloned();
        let Some(hash) = hash else { return Ok(None) };
        let key = part_key(inventory, self.part);
        let bytes = self.stored(&key).await?;
        if Digest::of([bytes.as_ref()]) != hash {
            return Err(self.unreadable(&key, "it isn't as it was written; put it back".to_owned()));
        }
        self.part += 1;
        let text = std::str::from_utf8(&bytes).map_err(|error| self.unreadable(&key, error.to_string()))?;
        from_lines(text).map(Some).map_err(|why| self.unreadable(&key, why))
    }

    /// Whether its files were held against that; not known before the first entry is asked for.
    pub fn is_of(&self, shape: &Digest) -> bool {
        self.index.as_ref().and_then(|index| index.shape.as_ref()) == Some(shape)
    }

    async fn stored(&self, key: &str) -> Result<Bytes, Error> {
        let bytes = self.objects.get(self.bucket, key).await?;
        bytes.ok_or_else(|| self.unreadable(key, "it is gone; put it back".to_owned()))
    }

    fn unreadable(&self, key: &str, why: String) -> Error {
        Error::Stored { what: format!("s3://{}/{key}", self.bucket), why }
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
