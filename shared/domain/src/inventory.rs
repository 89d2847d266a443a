//! An inventory: a partition's objects as listed in S3 at one moment, sorted by key, in parts of 1,000.
//!
//! A part is stored in the control bucket as JSON lines, one [`Entry`] a line. The digest hashes, part by part, what tells
//! one version of an object from another, so it can be computed as a stream and continued in another process.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// The most entries of a part. It is part of the digest's definition.
pub const PART_ENTRIES: usize = 1000;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The object's key, as S3 holds it.
    pub key: String,
    /// Its entity tag.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// When it was last modified, in milliseconds since 1970.
    #[serde(with = "crate::partition::millis")]
    pub modified: Timestamp,
    /// Its rows, where its footer told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

impl Entry {
    /// Whether `other` is the same version of the same object.
    pub fn is_same_object(&self, other: &Self) -> bool {
        (&self.key, &self.etag, self.size) == (&other.key, &other.etag, other.size)
    }
}

/// The hash of one part: keys, `ETags`, sizes and times; not the rows, which follow from them.
pub fn part_digest(entries: &[Entry]) -> Digest {
    let fields = entries.iter().flat_map(|entry| {
        [
            entry.key.clone().into_bytes(),
            entry.etag.clone().into_bytes(),
            entry.size.to_be_bytes().to_vec(),
            entry.modified.as_millisecond().to_be_bytes().to_vec(),
        ]
    });
    let fields: Vec<Vec<u8>> = fields.collect();
    Digest::of(fields.iter().map(Vec::as_slice))
}

/// The digest of an inventory: of its parts, and of that part of the definition that shapes rows.
pub fn digest(shapes_rows: &[u8], parts: &[Digest]) -> Digest {
    Digest::of(std::iter::once(shapes_rows).chain(parts.iter().map(|part| part.as_str().as_bytes())))
}

/// A part as JSON lines.
pub fn to_lines(entries: &[Entry]) -> String {
    let mut lines = String::new();
    for entry in entries {
        lines.push_str(&serde_json::to_string(entry).unwrap_or_default());
        lines.push('\n');
    }
    lines
}

/// A part from JSON lines; the error names the line.
pub fn from_lines(lines: &str) -> Result<Vec<Entry>, String> {
    let parse = |(n, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", n + 1));
    lines.lines().enumerate().map(parse).collect()
}

/// The lines of COPY's manifest for these entries, without what surrounds them. Keys are literal, never percent-encoded.
pub fn manifest_entries(bucket: &str, entries: &[Entry]) -> String {
    let entry = |entry: &Entry| {
        serde_json::json!({
            "url": format!("s3://{bucket}/{}", entry.key),
            "mandatory": true,
            "meta": { "content_length": entry.size },
        })
        .to_string()
    };
    entries.iter().map(entry).collect::<Vec<_>>().join(",\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, etag: &str, size: u64) -> Entry {
        Entry { key: key.into(), etag: etag.into(), size, modified: Timestamp::UNIX_EPOCH, rows: Some(3) }
    }

    #[test]
    fn a_part_reads_back_as_written_whatever_its_keys_hold() {
        let part = vec![entry("a\"b\n'c", "e1", 1), entry("é/+ %20", "e2", 2)];
        assert_eq!(from_lines(&to_lines(&part)).unwrap(), part);
    }

    #[test]
    fn the_digest_tells_versions_and_definitions_apart_but_not_known_rows() {
        let a = part_digest(&[entry("k", "e1", 1)]);
        assert_ne!(a, part_digest(&[entry("k", "e2", 1)]));
        assert_eq!(a, part_digest(&[Entry { rows: None, ..entry("k", "e1", 1) }]));
        assert_ne!(digest(b"x", std::slice::from_ref(&a)), digest(b"y", std::slice::from_ref(&a)));
    }

    #[test]
    fn c117_each_manifest_entry_has_its_own_length() {
        let manifest = manifest_entries("lake", &[entry("p/a", "1", 100), entry("p/b'\"", "2", 200)]);
        let entries: serde_json::Value = serde_json::from_str(&format!("[{manifest}]")).unwrap();
        assert_eq!(entries[0]["meta"]["content_length"], 100);
        assert_eq!(entries[1]["meta"]["content_length"], 200);
        assert_eq!(entries[1]["url"], "s3://lake/p/b'\"");
        assert_eq!(entries[1]["mandatory"], true);
    }
}
