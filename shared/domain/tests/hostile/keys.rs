//! Keys: whatever an object is called, its event, its listing and its partition's folders agree on what it is.

use proptest::prelude::*;
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::object_key::{form_decoded, value_decoded};
use tidemark_domain::partition_value::PartitionValue;

use crate::cases;

/// As S3 form-encodes a key in its own events: a byte-wise encoder, written for this test alone.
fn form_encoded(key: &str, slash: bool) -> String {
    let encode = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        b'/' if !slash => "/".to_owned(),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    key.bytes().map(encode).collect()
}

/// As Hive and Spark escape a value in a path.
fn hive_escaped(value: &str) -> String {
    let escape = |c: char| {
        if c.is_ascii_control() || "\"#%'*/:=?\\\u{7f}{[]^".contains(c) {
            format!("%{:02X}", u32::from(c))
        } else {
            c.to_string()
        }
    };
    value.chars().map(escape).collect()
}

/// Text that people and attackers put into keys: 1 to 1,024 bytes.
pub(crate) fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => proptest::sample::select(vec![
            "/", "//", "=", "%", "%2", "%ZZ", "%FF", "%25", "%2F", "+", " ", ".", "..", "_", "'", "\"", "\\", ";--", "\0", "\n",
            "\r\n", "\u{feff}", "\u{202e}", "é", "e\u{301}", "雪", "😀", "\u{10ffff}", "ﬁ", "İ", "dt=", "__HIVE_DEFAULT_PARTITION__",
            "_$folder$", "$$", "${x}", "{}", "*", "?", "#", "&amp;", "<", "2026-11-01", "0", "-1",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-zA-Z0-9]{1,8}",
    ];
    proptest::collection::vec(piece, 1..24).prop_map(|pieces| {
        let mut text = pieces.concat();
        text.truncate(text.floor_char_boundary(1_024));
        text
    })
}

fn dataset(part: &str, layout: &str) -> Definition {
    let lookback = if part == "text" || part == "integer" { "" } else { "lookback = \"3d\"\n" };
    let toml = format!(
        "[x]\nsource = \"s3://lake/x/\"\nlayout = \"{layout}\"\nformat = \"csv\"\ntarget = \"s.x\"\ncolumns = [\"a bigint\"]\n\
         {lookback}[x.partition.p]\ntype = \"{part}\"\n"
    );
    parse(&toml).unwrap().remove(0)
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn a_key_survives_its_event(key in hostile_text(), slash in any::<bool>()) {
        prop_assert_eq!(form_decoded(&form_encoded(&key, slash)).unwrap(), key);
    }

    #[test]
    fn a_value_survives_hive_and_the_event(value in hostile_text()) {
        let key = format!("x/p={}/a.csv", hive_escaped(&value));
        let heard = form_decoded(&form_encoded(&key, true)).unwrap();
        prop_assert_eq!(&heard, &key);
        let text = heard.strip_prefix("x/p=").and_then(|rest| rest.strip_suffix("/a.csv")).unwrap();
        prop_assert_eq!(value_decoded(text).unwrap(), value);
    }

    #[test]
    fn decoding_never_invents_a_character(key in hostile_text()) {
        for decoded in [form_decoded(&key), value_decoded(&key)].into_iter().flatten() {
            let replaced = char::REPLACEMENT_CHARACTER;
            prop_assert_eq!(key.contains(replaced), decoded.contains(replaced));
        }
    }

    /// Events and listings never disagree: what routes to a partition is found in a folder that its values match, level by
    /// level, and the plain spelling of the partition leads back to it.
    #[test]
    fn an_event_and_a_listing_agree(below in hostile_text(), with_key in any::<bool>(), at in 0..4_usize) {
        let kind = ["text", "date", "integer", "timestamp"][at];
        let definition = dataset(kind, if with_key { "p={p}/" } else { "{p}/" });
        let layout = &definition.layout;
        for below in [below.clone(), format!("p={}/a.csv", below.replace('/', "%2F")), format!("{below}/a.csv")] {
            let Ok(partition) = definition.partition_of(&below) else { continue };
            let folder = below.split('/').next().unwrap();
            prop_assert!(layout.match_level(&definition.parts, &partition.values, 0, folder), "{}", below);
            let plain = format!("{}a.csv", layout.prefix_of(&definition.parts, &partition.values));
            if layout.yields(&definition.parts, &partition.values) {
                prop_assert_eq!(&definition.partition_of(&plain).unwrap(), &partition);
            }
            // Its name, as an operator or a message would write it, means just this partition.
            prop_assert_eq!(&definition.partition(&partition.name).unwrap(), &partition);
        }
    }

    /// Two values are two partitions, whatever they hold.
    #[test]
    fn two_texts_are_two_names(a in hostile_text(), b in hostile_text()) {
        let definition = dataset("text", "p={p}/");
        let of = |value: &str| definition.partition_of(&format!("p={}/f.csv", hive_escaped(value)));
        if let (Ok(first), Ok(second)) = (of(&a), of(&b)) {
            prop_assert_eq!(a == b, first.name == second.name);
            prop_assert_eq!(first.values, vec![PartitionValue::Text(a)]);
        }
    }
}

#[test]
fn c042_a_key_of_exactly_1024_bytes() {
    let key = format!("orders/dt=2026-11-01/{}{}", "雪".repeat(334), "x");
    assert_eq!(key.len(), 1_024);
    assert!(form_encoded(&key, false).len() > 3_000);
    assert_eq!(form_decoded(&form_encoded(&key, false)).unwrap(), key);
}
