//! Tells in words what an object is to the datasets, for somebody who wonders why it was or wasn't loaded.

use std::fmt;

use crate::object_key::form_decoded;
use crate::route::{Catalog, Claim, Place};

/// What an `s3://bucket/key` is to the datasets, read as a plain key, and as the form-encoded key of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The bucket.
    pub bucket: String,
    /// The key read as it is.
    pub plain: Reading,
    /// The key read as an event of S3 has it; `None` where that is the same. The error is a key that isn't UTF-8 then.
    pub as_event: Option<Result<Reading, String>>,
}

/// One reading of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The key.
    pub key: String,
    /// What it is.
    pub claim: Claim,
    /// The dataset below whose root it lies: name, root and layout.
    pub place: Option<Place>,
    /// Where there is no such dataset: the roots in the same bucket, the nearest to the key first, five at most.
    pub near: Vec<String>,
}

/// A text that is no `s3://bucket/key`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no object; write s3://bucket/key")]
pub struct NoObject(String);

/// Explains `object`, an `s3://bucket/key`.
pub fn explain(catalog: &Catalog, object: &str) -> Result<Explanation, NoObject> {
    let path = object.strip_prefix("s3://").and_then(|rest| rest.split_once('/'));
    let Some((bucket, key)) = path.filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty()) else {
        return Err(NoObject(object.to_owned()));
    };
    let as_event = match form_decoded(key) {
        Ok(decoded) if decoded == key => None,
        Ok(decoded) => Some(Ok(read(catalog, bucket, &decoded))),
        Err(_) => Some(Err(
            "it is no UTF-8 once decoded: mark fails the message, which ends in the dead-letter queue".to_owned()
        )),
    };
    Ok(Explanation { bucket: bucket.to_owned(), plain: read(catalog, bucket, key), as_event })
}

fn read(catalog: &Catalog, bucket: &str, key: &str) -> Reading {
    let place = catalog.place_of(bucket, key).map(|(place, _)| place.clone());
    let mut near = Vec::new();
    if place.is_none() {
        let mut roots: Vec<&Place> = catalog.datasets.iter().filter(|place| place.root.bucket == bucket).collect();
        roots.sort_by_key(|place| std::cmp::Reverse(common_prefix(&place.root.prefix, key)));
        near.extend(roots.iter().take(5).map(|place| format!("{} of {}", place.root, place.name)));
    }
    Reading { key: key.to_owned(), claim: catalog.claim(bucket, key), place, near }
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "s3://{}/{}", self.bucket, printable(&self.plain.key))?;
        write!(f, "{}", self.plain)?;
        match &self.as_event {
            None => Ok(()),
            Some(Ok(reading)) => {
                writeln!(f, "as the encoded key of an event it is s3://{}/{}", self.bucket, printable(&reading.key))?;
                write!(f, "{reading}")
            }
            Some(Err(why)) => writeln!(f, "as the encoded key of an event: {why}"),
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            writeln!(f, "  dataset    {} ({}, layout {})", place.name, place.root, place.layout)?;
        }
        match &self.claim {
            Claim::Partition(id, _) => writeln!(f, "  partition  {}", id.partition),
            Claim::Hidden(_) => writeln!(f, "  partition  none: {}", crate::layout::Unroutable::Hidden),
            Claim::Unroutable(_, reason) => writeln!(f, "  partition  none: {reason} [{}]", reason.label()),
            Claim::Unclaimed if self.near.is_empty() => writeln!(f, "  dataset    none: no source is in this bucket"),
            Claim::Unclaimed => {
                writeln!(f, "  dataset    none: it lies below no source; in this bucket are")?;
                self.near.iter().try_for_each(|root| writeln!(f, "               {root}"))
            }
        }
    }
}

/// The key on one line, whatever is in it.
fn printable(key: &str) -> String {
    key.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
