//! Objects in S3: the source roots and the control bucket.

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use super::Effect;

/// One listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Its key, as S3 holds it: never decoded, never normalised.
    pub key: String,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// When it was last modified.
    pub modified: Timestamp,
    /// Whether it lies in an archive class from which it can't be read (and isn't restored).
    pub archived: bool,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects, sorted by key as UTF-8 bytes.
    pub objects: Vec<ListedObject>,
    /// Common prefixes, with a delimiter: whole keys ending in it.
    pub prefixes: Vec<String>,
    /// Where the next page goes on; `None` at the end.
    pub next: Option<String>,
}

/// A multipart upload in progress: bytes are sent as they come, the object appears at the end.
#[async_trait]
pub trait PartUpload: Send {
    /// Adds bytes; memory stays within one part (8 MiB).
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError>;
    /// Makes the object appear, whole.
    async fn finish(self: Box<Self>) -> Result<(), ObjectError>;
}

/// A call that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ObjectError {
    /// The object isn't there, or no longer the one that was asked for.
    #[error("s3://{bucket}/{key} is gone or has changed")]
    Changed {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// It lies in an archive that a listing doesn't tell of.
    #[error("s3://{bucket}/{key} is archived and can't be read; restore it, which marks its partition")]
    Archived {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// Throttled or unreachable.
    #[error("s3 is unavailable: {message}")]
    Unavailable {
        /// The service's words.
        message: String,
        /// Whether a write may have been applied.
        effect: Effect,
    },
    /// No permission, no such bucket.
    #[error("s3://{bucket}/{key} can't be used: {message}")]
    Misconfigured {
        /// The bucket.
        bucket: String,
        /// The key, or empty.
        key: String,
        /// The service's words.
        message: String,
    },
}

/// S3.
///
/// Guarantees: a listing and a read show every write acknowledged before it (strong consistency); an object is there
/// whole or not at all.
#[async_trait]
pub trait Objects: Send + Sync {
    /// One page, at most 1,000 objects and prefixes. With `delimiter`, keys beyond the next `/` are one common prefix.
    /// `start_after` skips keys up to and including it; `next` continues a listing, also in another invocation.
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: bool,
        start_after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError>;

    /// The last `length` bytes of the object with this ETag, or fewer where it is shorter.
    async fn read_tail(&self, bucket: &str, key: &str, etag: &str, length: u64) -> Result<Bytes, ObjectError>;

    /// The whole of a small object; `None` where there is none.
    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, ObjectError>;

    /// Puts a small object.
    async fn put(&self, bucket: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError>;

    /// Begins an object that is written piece by piece.
    async fn upload(&self, bucket: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError>;
}
