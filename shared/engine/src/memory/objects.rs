//! S3: buckets of whole objects, listed in the order of their keys' bytes, page by page.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{ManualClock, lock};
use crate::ports::{Clock as _, ListedObject, ObjectError, Objects, Page, PartUpload};

/// S3's own page size.
const PAGE: usize = 1_000;
/// S3's limit for a key, in bytes.
const MAX_KEY_BYTES: usize = 1_024;

/// A change that S3 would send an event for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectChange {
    /// ObjectCreated
    Created {
        /// The bucket.
        bucket: String,
        /// The key, not encoded.
        key: String,
    },
    /// ObjectRemoved
    Removed {
        /// The bucket.
        bucket: String,
        /// The key, not encoded.
        key: String,
    },
}

/// S3. Clones are the same store.
#[derive(Debug, Clone)]
pub struct MemoryObjects {
    clock: ManualClock,
    store: Arc<Mutex<Store>>,
}

#[derive(Debug)]
struct Store {
    buckets: BTreeMap<String, BTreeMap<String, Object>>,
    changes: Vec<ObjectChange>,
    page: usize,
    page_takes: Duration,
    /// Buckets and the prefixes in them that may not be listed.
    denied: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    etag: String,
    modified: Timestamp,
    archived: bool,
}

impl MemoryObjects {
    /// A store with these buckets, empty.
    pub fn new(clock: ManualClock, buckets: &[&str]) -> Self {
        let buckets = buckets.iter().map(|name| ((*name).to_owned(), BTreeMap::new())).collect();
        let store = Store { buckets, changes: vec![], page: PAGE, page_takes: Duration::ZERO, denied: vec![] };
        Self { clock, store: Arc::new(Mutex::new(store)) }
    }

    /// Makes pages smaller, 1 to 1,000, so that few objects make many pages.
    pub fn set_page_size(&self, page: usize) {
        lock(&self.store).page = page.clamp(1, PAGE);
    }

    /// Lets every page of a listing take so long.
    pub fn set_page_time(&self, takes: Duration) {
        lock(&self.store).page_takes = takes;
    }

    /// Lets every listing below this prefix be denied; with an empty list none is.
    pub fn deny(&self, denied: &[(&str, &str)]) {
        let owned = |(bucket, prefix): &(&str, &str)| ((*bucket).to_owned(), (*prefix).to_owned());
        lock(&self.store).denied = denied.iter().map(owned).collect();
    }

    /// Removes an object as a delete would; `false` where there was none.
    pub fn delete(&self, bucket: &str, key: &str) -> bool {
        let mut store = lock(&self.store);
        let removed = store.buckets.get_mut(bucket).is_some_and(|objects| objects.remove(key).is_some());
        if removed {
            store.changes.push(ObjectChange::Removed { bucket: bucket.to_owned(), key: key.to_owned() });
        }
        removed
    }

    /// Puts an object whose event is lost.
    pub fn put_unseen(&self, bucket: &str, key: &str, text: &str) {
        if self.store(bucket, key, Bytes::copy_from_slice(text.as_bytes()), "").is_ok() {
            lock(&self.store).changes.pop();
        }
    }

    /// Lets an object be older than its appearance, as the end of a long multipart upload is.
    pub fn set_modified(&self, bucket: &str, key: &str, modified: Timestamp) {
        let mut store = lock(&self.store);
        if let Some(object) = store.buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key)) {
            object.modified = modified;
        }
    }

    /// Moves an object into an archive tier, or restores it; `false` where there is none.
    pub fn set_archived(&self, bucket: &str, key: &str, archived: bool) -> bool {
        let mut store = lock(&self.store);
        let object = store.buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key));
        object.map(|object| object.archived = archived).is_some()
    }

    /// The changes since this was last asked, in order.
    pub fn take_changes(&self) -> Vec<ObjectChange> {
        std::mem::take(&mut lock(&self.store).changes)
    }

    /// An object's bytes and `ETag` as they are now.
    pub fn object(&self, bucket: &str, key: &str) -> Option<(Bytes, String)> {
        let store = lock(&self.store);
        let object = store.buckets.get(bucket)?.get(key)?;
        Some((object.bytes.clone(), object.etag.clone()))
    }

    /// The keys of a bucket, in order.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        lock(&self.store).buckets.get(bucket).map(|objects| objects.keys().cloned().collect()).unwrap_or_default()
    }

    fn store(&self, bucket: &str, key: &str, bytes: Bytes, suffix: &str) -> Result<(), ObjectError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(misconfigured(bucket, key, "KeyTooLongError: a key has 1 to 1024 bytes"));
        }
        let etag = format!("{}{suffix}", &hex::encode(Sha256::digest(&bytes))[..32]);
        let modified = self.clock.now();
        let mut store = lock(&self.store);
        let objects = store.buckets.get_mut(bucket).ok_or_else(|| no_such_bucket(bucket))?;
        objects.insert(key.to_owned(), Object { bytes, etag, modified, archived: false });
        store.changes.push(ObjectChange::Created { bucket: bucket.to_owned(), key: key.to_owned() });
        Ok(())
    }
}

fn misconfigured(bucket: &str, key: &str, message: &str) -> ObjectError {
    ObjectError::Misconfigured { bucket: bucket.to_owned(), key: key.to_owned(), message: message.to_owned() }
}

fn no_such_bucket(bucket: &str) -> ObjectError {
    misconfigured(bucket, "", "NoSuchBucket: The specified bucket does not exist")
}

fn listed(key: &str, object: &Object) -> ListedObject {
    ListedObject {
        key: key.to_owned(),
        etag: object.etag.clone(),
        size: object.bytes.len() as u64,
        modified: object.modified,
        archived: object.archived,
    }
}

impl Store {
    fn list(&self, bucket: &str, prefix: &str, delimiter: bool, after: &str) -> Result<Page, ObjectError> {
        let objects = self.buckets.get(bucket).ok_or_else(|| no_such_bucket(bucket))?;
        if self.denied.iter().any(|(of, denied)| of == bucket && prefix.starts_with(denied)) {
            return Err(misconfigured(bucket, prefix, "AccessDenied: not authorized to perform: s3:ListBucket"));
        }
        let mut page = Page::default();
        let mut last = String::new();
        // A page that ended with a common prefix goes on behind every key below it.
        let skipped = |key: &str| key <= after || (delimiter && after.ends_with('/') && key.starts_with(after));
        let from = if after > prefix { after } else { prefix };
        let below = objects.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let below = below.take_while(|(key, _)| key.starts_with(prefix));
        for (key, object) in below.filter(|(key, _)| !skipped(key)) {
            let common =
                if delimiter { key[prefix.len()..].find('/').map(|at| &key[..=prefix.len() + at]) } else { None };
            if common.is_some_and(|common| page.prefixes.last().is_some_and(|told| told == common)) {
                continue;
            }
            if page.objects.len() + page.prefixes.len() == self.page {
                page.next = Some(last);
                return Ok(page);
            }
            if let Some(common) = common {
                common.clone_into(&mut last);
                page.prefixes.push(common.to_owned());
            } else {
                last.clone_from(key);
                page.objects.push(listed(key, object));
            }
        }
        Ok(page)
    }
}

#[async_trait]
impl Objects for MemoryObjects {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: bool,
        start_after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError> {
        // S3 ignores `start_after` where a continuation token is given.
        let after = next.or(start_after).unwrap_or("");
        let store = lock(&self.store);
        self.clock.advance(store.page_takes);
        store.list(bucket, prefix, delimiter, after)
    }

    async fn read_tail(&self, bucket: &str, key: &str, etag: &str, length: u64) -> Result<Bytes, ObjectError> {
        let store = lock(&self.store);
        let objects = store.buckets.get(bucket).ok_or_else(|| no_such_bucket(bucket))?;
        let changed = || ObjectError::Changed { bucket: bucket.to_owned(), key: key.to_owned() };
        let object = objects.get(key).filter(|object| object.etag == etag).ok_or_else(changed)?;
        if object.archived {
            return Err(misconfigured(bucket, key, "InvalidObjectState: the object is archived"));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(object.bytes.slice(object.bytes.len().saturating_sub(length)..))
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, ObjectError> {
        let store = lock(&self.store);
        let objects = store.buckets.get(bucket).ok_or_else(|| no_such_bucket(bucket))?;
        Ok(objects.get(key).map(|object| object.bytes.clone()))
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.store(bucket, key, bytes, "")
    }

    async fn upload(&self, bucket: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError> {
        if !lock(&self.store).buckets.contains_key(bucket) {
            return Err(no_such_bucket(bucket));
        }
        let upload = Upload { to: self.clone(), bucket: bucket.to_owned(), key: key.to_owned(), bytes: vec![] };
        Ok(Box::new(upload))
    }
}

struct Upload {
    to: MemoryObjects,
    bucket: String,
    key: String,
    bytes: Vec<u8>,
}

#[async_trait]
impl PartUpload for Upload {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), ObjectError> {
        self.to.store(&self.bucket, &self.key, Bytes::from(self.bytes), "-1")
    }
}
