//! The inventory of the last commit, read beside the new listing: what is known of its objects, and which of them are gone.
//!
//! It may be gone or damaged itself, by somebody who tidied the control bucket. The listing goes on without it then: rows are
//! counted anew, and that nobody can tell whether objects are gone is told with the listing, for its guard to judge.

use tidemark_domain::id::Digest;
use tidemark_domain::inventory::Entry;

use super::parts::Parts;
use crate::error::Error;
use crate::ports::Objects;

/// The last inventory, as far as it can be read.
pub(super) struct Previous<'a> {
    parts: Parts<'a>,
    unreadable: Option<String>,
}

impl<'a> Previous<'a> {
    /// From its first entry; without one, nothing is known and nothing gone.
    pub(super) fn new(objects: &'a dyn Objects, bucket: &'a str, inventory: Option<String>) -> Self {
        Self { parts: Parts::new(objects, bucket, inventory), unreadable: None }
    }

    /// Goes on to `key`, telling `gone` of every entry before it; gives the entry of that key, if there is one.
    pub(super) async fn seek(&mut self, key: &str, gone: impl FnMut(&Entry)) -> Result<Option<Entry>, Error> {
        let found = self.parts.seek(key, gone).await;
        self.if_readable(found)
    }

    /// Goes to the end, telling `gone` of every entry left. Gives what can't be read of it, and why.
    pub(super) async fn finish(mut self, gone: impl FnMut(&Entry)) -> Result<Option<String>, Error> {
        let finished = self.parts.finish(gone).await;
        self.if_readable(finished)?;
        Ok(self.unreadable)
    }

    /// Whether its files were held against that; not known before the first entry is asked for.
    pub(super) fn is_of(&self, shape: &Digest) -> bool {
        self.parts.is_of(shape)
    }

    /// Whether it could be read so far.
    pub(super) fn is_readable(&self) -> bool {
        self.unreadable.is_none()
    }

    fn if_readable<T: Default>(&mut self, read: Result<T, Error>) -> Result<T, Error> {
        match read {
            Err(Error::Sealed { key, why }) => {
                tracing::warn!(key, why, "the last inventory can't be read; the listing goes on without it");
                self.unreadable = Some(format!("{key} can't be read: {why}"));
                self.parts.end();
                Ok(T::default())
            }
            read => read,
        }
    }
}
