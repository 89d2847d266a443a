//! Objects of the control bucket that are named by what they hold.
//!
//! A PUT may arrive twice, and its second copy as late as it likes, from a worker that was overtaken or an attempt that is
//! over. Here that changes nothing: under one name there is only ever one content. Whoever knows a name knows what is read, or
//! is told that it can't be.

use bytes::Bytes;
use tidemark_domain::id::Digest;

use crate::error::Error;
use crate::ports::Objects;

/// The key `<stem>-<hash>.<ending>`.
pub(super) fn key(stem: &str, hash: &Digest, ending: &str) -> String {
    format!("{stem}-{hash}.{ending}")
}

/// Puts an object under its name; gives its hash.
pub(super) async fn put(
    objects: &dyn Objects,
    bucket: &str,
    stem: &str,
    ending: &str,
    bytes: Vec<u8>,
) -> Result<Digest, Error> {
    let hash = Digest::of([bytes.as_slice()]);
    objects.put(bucket, &key(stem, &hash, ending), Bytes::from(bytes)).await?;
    Ok(hash)
}

/// What stands under a name. Gone or damaged, it is an error that says which.
pub(super) async fn get(objects: &dyn Objects, bucket: &str, key: &str) -> Result<Bytes, Error> {
    let bytes = objects.get(bucket, key).await?.ok_or_else(|| unreadable(bucket, key, &"it is gone"))?;
    let named = key.rsplit_once('-').and_then(|(_, name)| name.split('.').next());
    if named == Some(Digest::of([bytes.as_ref()]).as_str()) {
        Ok(bytes)
    } else {
        Err(unreadable(bucket, key, &"it isn't as it was written"))
    }
}

/// An object of the control bucket that can't be read.
pub(super) fn unreadable(bucket: &str, key: &str, why: &impl ToString) -> Error {
    Error::Sealed { key: format!("s3://{bucket}/{key}"), why: why.to_string() }
}
