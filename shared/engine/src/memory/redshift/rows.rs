//! What files and tables hold here: rows told by a text, each with what a guard may find wrong with it.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use tidemark_domain::sql::rows::Field;

use crate::memory::MemoryObjects;

/// A row as a file holds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRow {
    /// What tells it from others, and its business key.
    pub key: String,
    /// A required column is null.
    pub null: bool,
    /// Its own column says that it belongs to another partition.
    pub elsewhere: bool,
}

/// What Redshift says of a file it can't load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The line, from 1.
    pub line: i64,
    /// The column.
    pub column: String,
    /// Redshift's code.
    pub code: i64,
    /// Redshift's words.
    pub message: String,
}

/// A row of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetRow {
    pub(super) key: String,
    /// The batch that the row names as its own, where the target has a column for it.
    pub(super) tag: Option<String>,
}

/// How files are read: rows, or the first error.
pub type FileReader = fn(&Bytes) -> Result<Vec<FileRow>, FileError>;

/// Reads a file of lines: a row each, told by its text; with `#null` at its end a required column is null, with `#elsewhere` it
/// belongs to another partition, with `#bad` it can't be loaded.
pub fn lines(bytes: &Bytes) -> Result<Vec<FileRow>, FileError> {
    let text = String::from_utf8_lossy(bytes);
    let read = |(line, text): (usize, &str)| {
        if text.ends_with("#bad") {
            let line = i64::try_from(line + 1).unwrap_or(i64::MAX);
            let message = "Invalid digit, Value 'b', Pos 0, Type: Decimal".to_owned();
            return Err(FileError { line, column: "amount".to_owned(), code: 1207, message });
        }
        let null = text.ends_with("#null");
        Ok(FileRow { key: text.to_owned(), null, elsewhere: text.ends_with("#elsewhere") })
    };
    text.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(read).collect()
}

/// Rows beyond the first of each key.
pub(super) fn duplicates(rows: &[FileRow]) -> usize {
    rows.len() - rows.iter().map(|row| &row.key).collect::<BTreeSet<_>>().len()
}

/// What a COPY did, as the system views tell it, also after its transaction was rolled back.
#[derive(Debug, Clone, Default)]
pub(super) struct Load {
    /// The files that were loaded.
    pub(super) files: Vec<String>,
    /// Rows of `sys_load_error_detail`, as they are asked for.
    pub(super) errors: Vec<Vec<Field>>,
}

#[derive(Deserialize)]
struct Manifest {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    url: String,
    #[serde(default)]
    mandatory: bool,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    content_length: u64,
}

fn object(objects: &MemoryObjects, url: &str) -> Option<Bytes> {
    let (bucket, key) = url.strip_prefix("s3://")?.split_once('/')?;
    Some(objects.object(bucket, key)?.0)
}

/// The objects of a manifest, all of them mandatory.
pub(super) fn manifest_objects(objects: &MemoryObjects, manifest_url: &str) -> Result<Vec<Bytes>, String> {
    let manifest = read_manifest(objects, manifest_url)?;
    let found = manifest.entries.iter().map(|entry| object(objects, &entry.url));
    found.collect::<Option<_>>().ok_or_else(|| "ERROR: Mandatory url is not present in manifest file".to_owned())
}

fn read_manifest(objects: &MemoryObjects, manifest_url: &str) -> Result<Manifest, String> {
    let manifest = object(objects, manifest_url).ok_or_else(|| {
        "ERROR: Problem reading manifest file - S3ServiceException:The specified key does not exist.,Status 404"
            .to_owned()
    })?;
    serde_json::from_slice(&manifest).map_err(|e| format!("ERROR: Problem reading manifest file - {e}"))
}

/// How COPY reads.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// Its format is one of columns.
    pub(super) columnar: bool,
    /// So many bad files fail it.
    pub(super) max_errors: usize,
    /// What is in a file.
    pub(super) read: FileReader,
    /// URLs below which its role may not read.
    pub(super) denied: &'a BTreeSet<String>,
}

/// COPY: the rows of every file of a manifest; up to `max_errors` - 1 bad files are left out, as rejected rows would be.
pub(super) fn copy(
    objects: &MemoryObjects,
    manifest_url: &str,
    reading: Reading<'_>,
    load: &mut Load,
) -> Result<Vec<FileRow>, String> {
    let Reading { columnar, max_errors, read, denied } = reading;
    let manifest = read_manifest(objects, manifest_url)?;
    let mut rows = vec![];
    for entry in manifest.entries {
        if denied.iter().any(|denied| entry.url.starts_with(denied)) {
            return Err("ERROR: S3ServiceException:Access Denied,Status 403,Error AccessDenied".to_owned());
        }
        let Some(bytes) = object(objects, &entry.url) else {
            if entry.mandatory {
                return Err("ERROR: Mandatory url is not present in manifest file".to_owned());
            }
            continue;
        };
        match entry.meta {
            None if columnar => return Err("ERROR: File entry does not have 'meta' key.".to_owned()),
            Some(meta) if columnar && meta.content_length != bytes.len() as u64 => {
                return Err(
                    "ERROR: Spectrum Scan Error. HTTP response error code: 416 Message: InvalidRange".to_owned()
                );
            }
            _ => {}
        }
        match read(&bytes) {
            Ok(read) => rows.extend(read),
            Err(error) => {
                load.errors.push(vec![
                    Field::Text(entry.url.clone()),
                    Field::Long(error.line),
                    Field::Text(error.column),
                    Field::Long(error.code),
                    Field::Text(error.message),
                    Field::Null,
                    Field::Null,
                    Field::Null,
                ]);
                if load.errors.len() >= max_errors {
                    return Err("ERROR: Load into table 'batch' failed.  Check 'sys_load_error_detail' system table \
                                for details."
                        .to_owned());
                }
            }
        }
        load.files.push(entry.url);
    }
    if load.files.is_empty() {
        return Err("ERROR: The specified S3 prefix does not exist".to_owned());
    }
    Ok(rows)
}
