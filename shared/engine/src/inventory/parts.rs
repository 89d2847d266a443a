//! The parts of a stored inventory, read one after the other.

use std::cmp::Ordering;

use bytes::Bytes;
use tidemark_domain::inventory::{Entry, from_lines, to_lines};

use crate::error::Error;
use crate::ports::Objects;

/// Reads a stored inventory entry by entry, in key order; memory holds one part.
pub struct Parts<'a> {
    objects: &'a dyn Objects,
    bucket: &'a str,
    inventory: Option<String>,
    part: usize,
    ended: bool,
    entries: std::iter::Peekable<std::vec::IntoIter<Entry>>,
}

/// The key of a part.
fn part_key(inventory: &str, part: usize) -> String {
    format!("{inventory}part-{part:06}.jsonl")
}

impl<'a> Parts<'a> {
    /// From the first entry; without an inventory there is none.
    pub fn new(objects: &'a dyn Objects, bucket: &'a str, inventory: Option<String>) -> Self {
        Self { objects, bucket, inventory, part: 0, ended: false, entries: Vec::new().into_iter().peekable() }
    }

    /// Stores a part; the first has number 0. An empty one ends the inventory, whatever an attempt before left behind it.
    pub async fn put(&self, inventory: &str, part: usize, entries: &[Entry]) -> Result<(), Error> {
        Ok(self.objects.put(self.bucket, &part_key(inventory, part), Bytes::from(to_lines(entries))).await?)
    }

    /// The whole next part, or `None` at the end.
    pub async fn next_part(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let Some(inventory) = self.inventory.as_deref().filter(|_| !self.ended) else { return Ok(None) };
        let key = part_key(inventory, self.part);
        let Some(bytes) = self.objects.get(self.bucket, &key).await? else { return Ok(None) };
        self.part += 1;
        let unreadable = |why: String| Error::Stored { what: format!("s3://{}/{key}", self.bucket), why };
        let text = std::str::from_utf8(&bytes).map_err(|error| unreadable(error.to_string()))?;
        let entries = from_lines(text).map_err(unreadable)?;
        self.ended = entries.is_empty();
        Ok(Some(entries).filter(|_| !self.ended))
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
