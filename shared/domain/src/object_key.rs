//! What an object's key says by itself: hidden names, foreign table formats, and the two ways a text may be encoded.
//!
//! Keys are opaque: nothing here trims, resolves or normalises them.

use std::fmt;
use std::str::Utf8Error;

use percent_encoding::percent_decode_str;

/// What Hive and Spark write where a partition's value is null.
pub const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Decodes a key as S3 form-encodes it in events sent to SQS and SNS: `+` is a blank, `%XX` a byte.
///
/// A broken escape stays as it is; bytes that are no UTF-8 are an error. Never for EventBridge, whose keys are plain.
pub fn form_decoded(key: &str) -> Result<String, Utf8Error> {
    let spaced = key.replace('+', " ");
    Ok(percent_decode_str(&spaced).decode_utf8()?.into_owned())
}

/// Decodes the value of a `key=value` segment once, as Hive and Spark escape it: `%XX` is a byte, `+` a plus.
///
/// A broken escape stays as it is; bytes that are no UTF-8 are an error.
pub fn value_decoded(value: &str) -> Result<String, Utf8Error> {
    Ok(percent_decode_str(value).decode_utf8()?.into_owned())
}

/// Whether the object is never data: a folder or name below the root that begins with `_` or `.`, a `_$folder$` marker,
/// or a key that ends in `/`, the root's own too. `below` is the key without its root. `.` and `..` are names like any other.
///
/// The null partition's name begins with `_` too; it isn't hidden but unroutable.
pub fn is_hidden(below: &str) -> bool {
    below.is_empty() || below.ends_with('/') || below.ends_with("_$folder$") || below.split('/').any(is_hidden_folder)
}

/// Whether nothing in a folder of that name is data. `_$folder$` ends the names of objects; a folder may end so.
pub fn is_hidden_folder(segment: &str) -> bool {
    let dots = segment == "." || segment == "..";
    segment.starts_with(['_', '.']) && !dots && segment != HIVE_NULL
}

/// A table format with a log of its own: which of its files count, only the log says, so that loading all is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableFormat {
    /// `_delta_log/`
    Delta,
    /// `metadata/….metadata.json`
    Iceberg,
    /// `.hoodie/`
    Hudi,
}

impl TableFormat {
    /// The format of which `below`, a key or prefix without its root, is a sure sign.
    pub fn of(below: &str) -> Option<Self> {
        let mut parent = "";
        for segment in below.split('/') {
            match segment {
                "_delta_log" => return Some(Self::Delta),
                ".hoodie" | ".hoodie_partition_metadata" => return Some(Self::Hudi),
                _ if parent == "metadata" && segment.ends_with(".metadata.json") => return Some(Self::Iceberg),
                _ => parent = segment,
            }
        }
        None
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delta => "Delta Lake",
            Self::Iceberg => "Iceberg",
            Self::Hudi => "Hudi",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c002_space_and_plus_in_one_key() {
        let key = "raw/orders/dt%3D2026-11-01/late+file+%2B+fix.csv";
        assert_eq!(form_decoded(key).unwrap(), "raw/orders/dt=2026-11-01/late file + fix.csv");
    }

    #[test]
    fn c046_a_plus_in_a_value_is_a_plus() {
        assert_eq!(value_decoded("a+b").unwrap(), "a+b");
        assert_eq!(form_decoded("raw/orders/tag%3Da%2Bb").unwrap(), "raw/orders/tag=a+b");
    }

    #[test]
    fn c009_malformed_escapes() {
        assert_eq!(form_decoded("dt%3D2026-11-01/50%.csv").unwrap(), "dt=2026-11-01/50%.csv");
        assert_eq!(form_decoded("a%ZZ.csv").unwrap(), "a%ZZ.csv");
        assert!(form_decoded("a%FF.csv").is_err());
        assert_eq!(value_decoded("50%").unwrap(), "50%");
        assert!(value_decoded("%FF").is_err());
    }

    #[test]
    fn c061_c062_c063_c064_markers_and_staging_folders_are_hidden() {
        for below in [
            "dt=2026-11-01/_SUCCESS",
            "dt=2026-11-01/_MANIFEST",
            "dt=2026-11-01/_committed_123",
            "dt=2026-11-01/_started_123",
            "dt=2026-11-01/.part-0.parquet.crc",
            "_temporary/0/_temporary/attempt_1/dt=2026-11-01/part-0.parquet",
            ".spark-staging-ab12/dt=2026-11-01/part-0.parquet",
            "dt=2026-11-01/__magic_job-1/tasks/attempt_1/__base/part-0.parquet",
            "dt=2026-11-01/__magic_job-1/tasks/attempt_1/__base/part-0.parquet.pending",
            "dt=2026-11-01/",
        ] {
            assert!(is_hidden(below), "{below}");
        }
    }

    #[test]
    fn u06_u07_folder_markers_and_symlink_manifests_are_hidden() {
        assert!(is_hidden("dt=2026-11-01_$folder$"));
        assert!(is_hidden("_symlink_format_manifest/dt=2026-11-01/manifest"));
    }

    #[test]
    fn what_only_looks_hidden_is_not() {
        for below in ["dt=2026-11-01/part_0.parquet", "__HIVE_DEFAULT_PARTITION__/p", "dt=1/../dt=2/p", "region=_x/p"] {
            assert!(!is_hidden(below), "{below}");
        }
    }

    #[test]
    fn c066_c067_signs_of_other_table_formats() {
        assert_eq!(TableFormat::of("_delta_log/00000000000000000010.checkpoint.parquet"), Some(TableFormat::Delta));
        assert_eq!(TableFormat::of("_delta_log/"), Some(TableFormat::Delta));
        assert_eq!(TableFormat::of("metadata/00001-a.metadata.json"), Some(TableFormat::Iceberg));
        assert_eq!(TableFormat::of(".hoodie/hoodie.properties"), Some(TableFormat::Hudi));
        assert_eq!(TableFormat::of("dt=2026-11-01/a.metadata.json"), None);
        assert_eq!(TableFormat::of("data/order_ts_day=2026-11-01/00000-0.parquet"), None);
    }
}
