//! Inventories and manifests: what is stored is read back as it was, or refused; never as less.

use jiff::Timestamp;
use proptest::prelude::*;
use tidemark_domain::inventory::{Entry, from_lines, manifest_entries, part_digest, to_lines};

use crate::cases;
use crate::keys::hostile_text;

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let modified = -62_135_596_800_000_i64..253_402_214_400_000;
    let entry = (hostile_text(), "[0-9a-f-]{0,35}", any::<u64>(), modified, proptest::option::of(any::<u64>()));
    let entry = entry.prop_map(|(key, etag, size, modified, rows)| Entry {
        key,
        etag,
        size,
        modified: Timestamp::from_millisecond(modified).unwrap(),
        rows,
    });
    proptest::collection::vec(entry, 0..12)
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_part_is_read_back_whole(part in entries()) {
        prop_assert_eq!(from_lines(&to_lines(&part)), Ok(part));
    }

    #[test]
    fn a_manifest_names_every_object_as_it_is_called(part in entries()) {
        let manifest = format!("{{\"entries\":[\n{}\n]}}", manifest_entries("lake", &part));
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let urls: Vec<_> = manifest["entries"].as_array().unwrap().iter().map(|entry| {
            (entry["url"].as_str().unwrap().to_owned(), entry["meta"]["content_length"].as_u64().unwrap(), entry["mandatory"].as_bool())
        }).collect();
        let expected: Vec<_> = part.iter().map(|entry| (format!("s3://lake/{}", entry.key), entry.size, Some(true))).collect();
        prop_assert_eq!(urls, expected);
    }

    /// No two inventories have one digest, also where their fields lie side by side differently.
    #[test]
    fn a_digest_is_of_one_part_only(a in entries(), b in entries()) {
        let without_rows = |part: &[Entry]| -> Vec<Entry> {
            part.iter().map(|entry| Entry { rows: None, ..entry.clone() }).collect()
        };
        prop_assert_eq!(part_digest(&a) == part_digest(&b), without_rows(&a) == without_rows(&b));
    }
}
