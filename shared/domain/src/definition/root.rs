//! Where a dataset's objects are.

use super::{Flaw, Root};

/// Leaves room for levels and an object's name in a key of 1,024 bytes.
const MAX_PREFIX: usize = 400;

impl Root {
    /// Reads `s3://bucket/prefix/`.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let Some(rest) = text.strip_prefix("s3://") else {
            return Err(Flaw::new(format!("`source` is {text:?}"), "write `s3://bucket/prefix/`"));
        };
        let Some((bucket, prefix)) =
            rest.split_once('/').filter(|(_, prefix)| prefix.is_empty() || prefix.ends_with('/'))
        else {
            let remedy = format!("write `{text}/`: without it, `{text}-old/` would belong to it too");
            return Err(Flaw::new(format!("`source` {text:?} doesn't end in `/`"), remedy));
        };
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let valid = (3..=63).contains(&bucket.len())
            && bucket.starts_with(edge)
            && bucket.ends_with(edge)
            && bucket.chars().all(|c| edge(c) || c == '-' || c == '.');
        if !valid {
            let remedy = "write 3 to 63 of a-z, 0-9, `-` and `.`, as S3 names buckets";
            return Err(Flaw::new(format!("bucket {bucket:?} of `source` is no bucket's name"), remedy));
        }
        if prefix.len() > MAX_PREFIX || prefix.chars().any(char::is_control) {
            let remedy = format!("write at most {MAX_PREFIX} bytes, without control characters");
            return Err(Flaw::new(format!("the prefix of `source` has {} bytes", prefix.len()), remedy));
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// The key without the root, if the object lies below it. Nothing is normalised: `a//b` isn't below `a/b/`.
    pub fn below<'k>(&self, bucket: &str, key: &'k str) -> Option<&'k str> {
        if bucket == self.bucket { key.strip_prefix(self.prefix.as_str()) } else { None }
    }

    /// Whether one lies in the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let nested = self.prefix.starts_with(&other.prefix) || other.prefix.starts_with(&self.prefix);
        self.bucket == other.bucket && nested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_end_in_a_slash() {
        assert_eq!(Root::parse("s3://lake-raw/orders/").unwrap().to_string(), "s3://lake-raw/orders/");
        assert_eq!(Root::parse("s3://lake-raw/").unwrap().prefix, "");
        for text in
            ["lake-raw/orders/", "s3a://lake-raw/x/", "s3://lake-raw/orders", "s3://lake-raw", "s3://a/", "s3:///x/"]
        {
            assert!(Root::parse(text).is_err(), "{text}");
        }
        assert!(Root::parse("s3://Lake_raw/x/").unwrap_err().what.ends_with("is no bucket's name"));
    }

    #[test]
    fn roots_overlap_where_one_lies_in_the_other() {
        let root = |text| Root::parse(text).unwrap();
        assert!(root("s3://lake/a/").overlaps(&root("s3://lake/a/b/")));
        assert!(root("s3://lake/").overlaps(&root("s3://lake/a/")));
        assert!(!root("s3://lake/a/").overlaps(&root("s3://lake/ab/")));
        assert!(!root("s3://lake/a/").overlaps(&root("s3://pond/a/")));
    }
}
