//! Keys of the cases, routed by a catalog; hostile keys; and that events and listings agree.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;

use super::*;
use crate::definition::parse;
use crate::explain::explain;
use crate::partition_value::PartitionValue;

/// A catalog of one dataset `orders`; `parts` are names and types.
fn catalog(root: &str, layout: &str, parts: &[(&str, &str)]) -> Catalog {
    Catalog::of(&[definition(root, layout, parts)])
}

fn definition(root: &str, layout: &str, parts: &[(&str, &str)]) -> Definition {
    let part = |(name, kind): &(&str, &str)| format!("[orders.partition.{name}]\ntype = \"{kind}\"\n");
    let parts = parts.iter().map(part).collect::<Vec<_>>().concat();
    let text = format!(
        "[orders]\nsource = \"{root}\"\nlayout = \"{layout}\"\nformat = \"parquet\"\ntarget = \"sales.orders\"\n\
         columns = [\"order_id bigint\"]\n{parts}"
    );
    parse(&text).unwrap_or_else(|problems| panic!("{problems:?}")).remove(0)
}

/// Root `raw/orders/`, `dt=YYYY-MM-DD/`.
fn orders() -> Catalog {
    catalog("s3://lake/raw/orders/", "dt={dt}/", &[("dt", "date")])
}

fn label(catalog: &Catalog, key: &str) -> String {
    match catalog.claim("lake", key) {
        Claim::Partition(id, _) => id.partition.to_string(),
        other => other.label().to_owned(),
    }
}

fn text_of(catalog: &Catalog, key: &str) -> String {
    match catalog.claim("lake", key) {
        Claim::Partition(_, partition) => match &partition.values[0] {
            PartitionValue::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn c037_a_key_outside_every_root_is_unclaimed() {
    assert_eq!(orders().claim("lake", "raw/other/dt=2026-11-01/p"), Claim::Unclaimed);
    assert_eq!(orders().claim("pond", "raw/orders/dt=2026-11-01/p"), Claim::Unclaimed);
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01/p"), "dt=2026-11-01");
}

#[test]
fn c039_slashes_are_never_trimmed() {
    assert_eq!(label(&orders(), "/raw/orders/dt=2026-11-01/p.parquet"), "unclaimed");
    assert_eq!(label(&orders(), "raw//orders/dt=2026-11-01/p.parquet"), "unclaimed");
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01//p.parquet"), "empty_segment");
    assert_eq!(label(&orders(), "raw/orders//dt=2026-11-01/p.parquet"), "empty_segment");
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01/x/p.parquet"), "wrong_depth");
    assert_eq!(label(&orders(), "raw/orders/p.parquet"), "wrong_depth");
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01/"), "hidden");
    assert_eq!(label(&orders(), "raw/orders/"), "hidden");
}

#[test]
fn c041_dot_segments_are_never_resolved() {
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01/../dt=2026-10-31/p.parquet"), "wrong_depth");
    assert_eq!(label(&orders(), "raw/orders/../p.parquet"), "unexpected_segment");
}

#[test]
fn c042_a_key_of_1024_bytes_has_a_short_partition() {
    let key = format!("raw/orders/dt=2026-11-01/{}", "雪".repeat(333));
    assert_eq!(label(&orders(), &key), "dt=2026-11-01");
}

#[test]
fn c044_an_encoded_slash_inside_a_value() {
    let catalog = catalog("s3://lake/raw/orders/", "region={region}/dt={dt}/", &[("dt", "date"), ("region", "text")]);
    let key = "raw/orders/region=north%2Fwest/dt=2026-11-01/p.parquet";
    assert_eq!(text_of(&catalog, key), "north/west");
    assert_eq!(label(&catalog, key), "region=north%2Fwest/dt=2026-11-01");
    let place = &catalog.datasets[0];
    let Claim::Partition(_, partition) = catalog.claim("lake", key) else { panic!("not routed") };
    assert!(place.layout.match_level(&place.parts, &partition.values, 0, "region=north%2Fwest"));
    assert!(place.layout.match_level(&place.parts, &partition.values, 0, "region=north%2fwest"));
    assert!(!place.layout.match_level(&place.parts, &partition.values, 0, "region=north"));
}

#[test]
fn c046_c047_values_are_percent_decoded_once() {
    let catalog = catalog("s3://lake/raw/orders/", "tag={tag}/", &[("tag", "text")]);
    assert_eq!(text_of(&catalog, "raw/orders/tag=a+b/p.parquet"), "a+b");
    assert_eq!(text_of(&catalog, "raw/orders/tag=a%253Ab/p.parquet"), "a%3Ab");
    assert_eq!(text_of(&catalog, "raw/orders/tag=50%/p.parquet"), "50%");
    assert_eq!(text_of(&catalog, "raw/orders/tag=a=b/p.parquet"), "a=b");
}

#[test]
fn bare_folders_are_never_decoded() {
    let catalog = catalog("s3://lake/raw/orders/", "{tag}/", &[("tag", "text")]);
    assert_eq!(text_of(&catalog, "raw/orders/a%3Ab/p.parquet"), "a%3Ab");
    assert_eq!(label(&catalog, "raw/orders/a%3Ab/p.parquet"), "tag=a%253Ab");
}

#[test]
fn c049_the_null_partition_is_told_also_when_encoded() {
    assert_eq!(label(&orders(), "raw/orders/dt=__HIVE_DEFAULT_PARTITION__/p.parquet"), "null_partition");
    assert_eq!(label(&orders(), "raw/orders/dt=%5F_HIVE_DEFAULT_PARTITION__/p.parquet"), "null_partition");
}

#[test]
fn c051_impossible_dates_are_counted_by_reason() {
    for value in ["2026-02-30", "2026-13-01", "2026-11-01T00", "20261101", "2026-1-1", "+2026-11-01", ""] {
        assert_eq!(label(&orders(), &format!("raw/orders/dt={value}/p")), "impossible_date", "{value}");
    }
}

#[test]
fn c052_the_case_of_a_key_does_not_matter() {
    let catalog = orders();
    assert_eq!(
        label(&catalog, "raw/orders/DT=2026-11-01/a.parquet"),
        label(&catalog, "raw/orders/dt=2026-11-01/b.parquet")
    );
    let place = &catalog.datasets[0];
    let Claim::Partition(_, partition) = catalog.claim("lake", "raw/orders/dt=2026-11-01/p") else {
        panic!("not routed")
    };
    let folders = ["DT=2026-11-01", "dt=2026-11-01", "dt=2026-11-02", "Dt=2026-11-01", "_x"];
    let spellings = folders.map(|folder| place.layout.match_level(&place.parts, &partition.values, 0, folder));
    assert_eq!(spellings, [true, true, false, true, false]);
}

#[test]
fn c054_month_1_and_month_01_are_one_partition() {
    let parts = [("year", "integer"), ("month", "integer"), ("day", "integer")];
    let integers = catalog("s3://lake/raw/orders/", "year={year}/month={month}/day={day}/", &parts);
    assert_eq!(label(&integers, "raw/orders/year=2026/month=1/day=5/a"), "year=2026/month=1/day=5");
    assert_eq!(label(&integers, "raw/orders/year=2026/month=01/day=05/b"), "year=2026/month=1/day=5");

    let dates = definition("s3://lake/raw/orders/", "year={yyyy}/month={mm}/day={dd}/", &[("day", "date")]);
    let padded = dates.partition_of("year=2026/month=01/day=05/b").unwrap();
    assert_eq!(padded, dates.partition_of("year=2026/month=1/day=5/a").unwrap());
    assert_eq!(padded.name.as_str(), "day=2026-01-05");
    for folder in ["month=1", "month=01", "MONTH=%301"] {
        assert!(dates.layout.match_level(&dates.parts, &padded.values, 1, folder), "{folder}");
    }
    assert!(!dates.layout.match_level(&dates.parts, &padded.values, 1, "month=2"));
    assert!(!dates.layout.match_level(&dates.parts, &padded.values, 1, "month=001"));
}

#[test]
fn c056_levels_in_another_order_are_refused() {
    let parts = [("year", "integer"), ("month", "integer"), ("day", "integer")];
    let catalog = catalog("s3://lake/raw/orders/", "year={year}/month={month}/day={day}/", &parts);
    assert_eq!(label(&catalog, "raw/orders/day=01/month=11/year=2026/p.parquet"), "other_order");
    assert_eq!(label(&catalog, "raw/orders/jahr=2026/month=11/day=01/p.parquet"), "unexpected_segment");
}

#[test]
fn c057_the_default_prefix_of_firehose() {
    let key = "2026/11/01/07/orders-1-2026-11-01-07-03-09-0f0e";
    let hourly = catalog("s3://lake/", "{yyyy}/{MM}/{dd}/{HH}/", &[("hour", "timestamp")]);
    assert_eq!(label(&hourly, key), "hour=2026-11-01T07:00:00");
    let daily = catalog("s3://lake/", "{yyyy}/{MM}/{dd}/{HH}/", &[("day", "date")]);
    assert_eq!(label(&daily, key), "day=2026-11-01");
    let place = &daily.datasets[0];
    let Claim::Partition(_, day) = daily.claim("lake", key) else { panic!("not routed") };
    let hours = ["00", "7", "23", "24", "x"].map(|hour| place.layout.match_level(&place.parts, &day.values, 3, hour));
    assert_eq!(hours, [true, true, true, false, false]);
}

#[test]
fn c059_the_partition_is_what_the_path_says() {
    let catalog = catalog("s3://lake/raw/", "{yyyy}/{mm}/{dd}/{hh}/", &[("hour", "timestamp")]);
    assert_eq!(label(&catalog, "raw/2026/11/01/23/x"), "hour=2026-11-01T23:00:00");
    assert_eq!(label(&catalog, "raw/2026/11/31/23/x"), "impossible_timestamp");
    assert_eq!(label(&catalog, "raw/2026/11/01/24/x"), "impossible_timestamp");
    assert_eq!(label(&catalog, "raw/26/11/01/23/x"), "impossible_date");
}

#[test]
fn c061_c062_c063_c064_markers_do_not_mark() {
    for below in [
        "dt=2026-11-01/_SUCCESS",
        "dt=2026-11-01/.part-0.parquet.crc",
        "_temporary/0/_temporary/attempt_1/dt=2026-11-01/part-0.parquet",
        ".spark-staging-ab12/dt=2026-11-01/part-0.parquet",
        "dt=2026-11-01/__magic_job-1/tasks/attempt_1/__base/part-0.parquet",
    ] {
        assert_eq!(label(&orders(), &format!("raw/orders/{below}")), "hidden");
    }
}

#[test]
fn c065_the_hidden_rule_applies_only_below_the_root() {
    let under = catalog("s3://lake/_warehouse/orders/", "dt={dt}/", &[("dt", "date")]);
    assert_eq!(label(&under, "_warehouse/orders/dt=2026-11-01/p.parquet"), "dt=2026-11-01");
    let bare = catalog("s3://lake/raw/orders/", "{region}/", &[("region", "text")]);
    assert_eq!(label(&bare, "raw/orders/__HIVE_DEFAULT_PARTITION__/p"), "null_partition");
    assert_eq!(label(&bare, "raw/orders/_x/p"), "hidden");
}

#[test]
fn c066_c067_other_table_formats_are_a_fault_of_the_configuration() {
    assert_eq!(label(&orders(), "raw/orders/_delta_log/00000000000000000010.checkpoint.parquet"), "table_format");
    assert_eq!(label(&orders(), "raw/orders/metadata/00001-a.metadata.json"), "table_format");
    assert_eq!(label(&orders(), "raw/orders/.hoodie/hoodie.properties"), "table_format");
    assert_eq!(label(&orders(), "raw/orders/data/order_ts_day=2026-11-01/00000-0.parquet"), "wrong_depth");
}

#[test]
fn c069_only_the_ending_asked_for_is_data() {
    let catalog = catalog("s3://lake/raw/orders/", "dt={dt}/*.parquet", &[("dt", "date")]);
    assert_eq!(label(&catalog, "raw/orders/README.md"), "wrong_depth");
    assert_eq!(label(&catalog, "raw/orders/dt=2026-11-01/schema.json"), "other_suffix");
    assert_eq!(label(&catalog, "raw/orders/dt=2026-11-01/part-0.parquet"), "dt=2026-11-01");
}

#[test]
fn c070_a_value_is_never_sql() {
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01';drop table sales.orders;--/p.parquet"), "impossible_date");
    let catalog = catalog("s3://lake/raw/orders/", "region={region}/", &[("region", "text")]);
    assert_eq!(text_of(&catalog, "raw/orders/region=O'Brien/p"), "O'Brien");
}

#[test]
fn a_hostile_key_of_1024_bytes_arrives_intact_from_the_event() {
    let catalog = catalog("s3://lake/raw/", "region={region}/", &[("region", "text")]);
    let value = "O'Brien\\\"; drop table sales.orders; --\n\t$$雪";
    let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
    let start = format!("raw/region={encoded}/");
    let key = format!("{start}{}", "'".repeat(1_024 - start.len()));
    let sent = utf8_percent_encode(&key, NON_ALPHANUMERIC).to_string();
    let body = serde_json::json!({"Records": [{"eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "lake"}, "object": {"key": sent}}}]});
    let events = crate::s3_event::parse(&body.to_string()).unwrap();
    assert_eq!(events[0].key.len(), 1_024);
    assert_eq!(text_of(&catalog, &events[0].key), value);
}

#[test]
fn u06_u07_folder_markers_and_symlink_manifests() {
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01_$folder$"), "hidden");
    assert_eq!(label(&orders(), "raw/orders/dt=2026-11-01_$folder$/p"), "impossible_date");
    assert_eq!(label(&orders(), "raw/orders/_symlink_format_manifest/dt=2026-11-01/manifest"), "hidden");
}

#[test]
fn names_over_1000_bytes_and_trailing_blanks_are_unroutable() {
    let catalog = catalog("s3://lake/raw/", "r={region}/", &[("region", "text")]);
    assert_eq!(label(&catalog, &format!("raw/r={}/p", "x".repeat(993))).len(), 1_000);
    assert_eq!(label(&catalog, &format!("raw/r={}/p", "x".repeat(994))), "name_too_long");
    assert_eq!(label(&catalog, &format!("raw/r={}/p", "\n".repeat(400))), "name_too_long");
    assert_eq!(label(&catalog, "raw/r=eu /p"), "trailing_blank");
    assert_eq!(label(&catalog, "raw/r=eu%20/p"), "trailing_blank");
    assert_eq!(label(&catalog, "raw/r=/p"), "impossible_text");
}

#[test]
fn literal_levels_and_mixed_layouts() {
    let catalog =
        catalog("s3://lake/raw/", "data/region={region}/{yyyy}/{mm}/{dd}/", &[("day", "date"), ("region", "text")]);
    assert_eq!(label(&catalog, "raw/data/region=eu/2026/11/1/p"), "region=eu/day=2026-11-01");
    assert_eq!(label(&catalog, "raw/region=eu/data/2026/11/01/p"), "other_order");
    assert_eq!(label(&catalog, "raw/Data/region=eu/2026/11/01/p"), "unexpected_segment");
    let place = &catalog.datasets[0];
    let Claim::Partition(_, partition) = catalog.claim("lake", "raw/data/region=eu/2026/11/1/p") else {
        panic!("not routed")
    };
    assert_eq!(place.layout.prefix_of(&place.parts, &partition.values), "data/region=eu/2026/11/01/");
    let folders = [(0, "data"), (1, "REGION=eu"), (2, "2026"), (3, "11"), (4, "1"), (4, "01")];
    for (level, folder) in folders {
        assert!(place.layout.match_level(&place.parts, &partition.values, level, folder), "{folder}");
    }
    assert!(!place.layout.match_level(&place.parts, &partition.values, 5, "p"));
}

#[test]
fn the_longest_root_claims() {
    let mut catalog = catalog("s3://lake/raw/", "{region}/", &[("region", "text")]);
    catalog.datasets.extend(orders().datasets);
    let (place, below) = catalog.place_of("lake", "raw/orders/dt=2026-11-01/p").unwrap();
    assert_eq!((place.root.prefix.as_str(), below), ("raw/orders/", "dt=2026-11-01/p"));
}

#[test]
fn the_stored_catalog_is_read_back() {
    let stored = r#"{"datasets":[{"name":"orders","root":{"bucket":"lake","prefix":"raw/orders/"},"layout":"dt={dt}/","parts":[{"name":"dt","kind":"date","column":"dt","in_files":false}],"concurrency":"table","hash":"HASH"}]}"#;
    let catalog = orders();
    let stored = stored.replace("HASH", catalog.datasets[0].hash.as_str());
    assert_eq!(serde_json::to_string(&catalog).unwrap(), stored);
    assert_eq!(serde_json::from_str::<Catalog>(&stored).unwrap(), catalog);
    assert!(serde_json::from_str::<Catalog>(&stored.replace("{dt}/", "{dt}")).is_err());
}

#[test]
fn five_hundred_datasets_fit_in_an_item_of_400_kb() {
    let root = format!("s3://company-data-lake-raw-eu-central-1/{}/", "x".repeat(80));
    let parts = [("region", "text"), ("arrival_date", "date"), ("arrival_hour", "integer")];
    let mut place = catalog(&root, "region={region}/arrival_date={arrival_date}/hour={arrival_hour}/", &parts);
    place.datasets = vec![place.datasets.remove(0); 500];
    let bytes = serde_json::to_string(&place).unwrap().len();
    assert!(bytes < 400_000, "{bytes}");
}

#[test]
fn an_object_is_explained_in_words() {
    let explained = |object| explain(&orders(), object).unwrap().to_string();
    assert_eq!(
        explained("s3://lake/raw/orders/dt=2026-11-01/p.parquet"),
        "s3://lake/raw/orders/dt=2026-11-01/p.parquet\n\
         \x20 dataset    orders (s3://lake/raw/orders/, layout dt={dt}/)\n\
         \x20 partition  dt=2026-11-01\n"
    );
    assert_eq!(
        explained("s3://lake/raw/orders/dt%3D2026-11-01/a+b"),
        "s3://lake/raw/orders/dt%3D2026-11-01/a+b\n\
         \x20 dataset    orders (s3://lake/raw/orders/, layout dt={dt}/)\n\
         \x20 partition  none: has \"dt%3D2026-11-01\" where the layout has `dt={dt}/` [unexpected_segment]\n\
         as the encoded key of an event it is s3://lake/raw/orders/dt=2026-11-01/a b\n\
         \x20 dataset    orders (s3://lake/raw/orders/, layout dt={dt}/)\n\
         \x20 partition  dt=2026-11-01\n"
    );
    assert_eq!(
        explained("s3://lake/raw/order/x"),
        "s3://lake/raw/order/x\n  dataset    none: it lies below no source; in this bucket are\n               \
         s3://lake/raw/orders/ of orders\n"
    );
    assert_eq!(explained("s3://pond/x"), "s3://pond/x\n  dataset    none: no source is in this bucket\n");
    assert!(explained("s3://lake/raw/orders/a%FF").contains("ends in the dead-letter queue"));
    assert!(explained("s3://lake/raw/orders/dt=1\n2/p").starts_with("s3://lake/raw/orders/dt=1\\n2/p\n"));
    for object in ["lake/x", "s3://lake", "s3://lake/", "s3:///x", ""] {
        assert!(explain(&orders(), object).is_err(), "{object}");
    }
}

/// Layouts that differ in kind, with their parts.
fn layouts() -> Vec<Definition> {
    let root = "s3://lake/raw/";
    vec![
        definition(root, "dt={dt}/", &[("dt", "date")]),
        definition(root, "{region}/n={n}/", &[("region", "text"), ("n", "integer")]),
        definition(root, "region={region}/{yyyy}/{mm}/{dd}/{hh}/", &[("region", "text"), ("hour", "timestamp")]),
        definition(root, "{yyyy}/month={mm}/{dd}/{hh}/", &[("day", "date")]),
        definition(root, "dt={yyyy-mm-dd}/{hh}/", &[("hour", "timestamp")]),
        definition(root, "data/at={at}/*.csv", &[("at", "timestamp")]),
    ]
}

/// Folders that are likely to fit somewhere, and hostile ones.
fn folder() -> impl Strategy<Value = String> {
    prop_oneof![
        "(dt|DT)=2026-(02|11)-(0[1-9]|3[01])",
        "(region|Region)=(eu|o'x|a%2Fb|%27;drop|_x|\\PC{0,5})",
        "[Nn]=0{0,2}[0-9]{1,3}",
        "month=0?[1-9]|month=1[0-3]",
        "0?[0-9]|[12][0-9]|3[0-9]|20[0-9]{2}",
        "at=2026-11-01[ T]0[0-9](:|%3A)[0-9]{2}",
        Just("data".to_owned()),
        Just("__HIVE_DEFAULT_PARTITION__".to_owned()),
        ".{0,8}",
    ]
}

proptest! {
    #[test]
    fn no_key_is_a_panic_and_what_routes_comes_back(
        folders in prop::collection::vec(folder(), 0..6), file in "(x|p\\.csv|_SUCCESS|.{0,6})",
    ) {
        let below = format!("{}/{file}", folders.join("/"));
        for definition in layouts() {
            if let Ok(partition) = definition.partition_of(&below) {
                prop_assert_eq!(definition.partition(&partition.name), Ok(partition.clone()));
                let plain = definition.layout.prefix_of(&definition.parts, &partition.values);
                prop_assert_eq!(definition.partition_of(&format!("{plain}p.csv")), Ok(partition));
            }
        }
    }

    #[test]
    fn events_and_listings_agree(
        folders in prop::collection::vec(folder(), 1..6), others in prop::collection::vec(folder(), 1..6),
    ) {
        for definition in layouts() {
            let below = |folders: &[String]| definition.partition_of(&format!("{}/p.csv", folders.join("/")));
            let Ok(partition) = below(&folders) else { continue };
            let matches = |folders: &[String]| {
                folders.len() == definition.layout.levels() && folders.iter().enumerate().all(|(level, folder)| {
                    definition.layout.match_level(&definition.parts, &partition.values, level, folder)
                })
            };
            prop_assert!(matches(&folders));
            if others.iter().all(|folder| !folder.contains('/')) {
                prop_assert_eq!(matches(&others), below(&others).as_ref() == Ok(&partition));
            }
            let mixed: Vec<String> = folders.iter().zip(others.iter().chain(&folders)).map(|(_, other)| other.clone()).collect();
            if mixed.iter().all(|folder| !folder.contains('/')) {
                prop_assert_eq!(matches(&mixed), below(&mixed).as_ref() == Ok(&partition));
            }
        }
    }

    #[test]
    fn a_hostile_value_arrives_intact(value in "[^/\0]{1,40}") {
        prop_assume!(!value.ends_with(' ') && value != crate::object_key::HIVE_NULL);
        let catalog = catalog("s3://lake/raw/", "region={region}/", &[("region", "text")]);
        let encoded = utf8_percent_encode(&value, NON_ALPHANUMERIC);
        prop_assert_eq!(text_of(&catalog, &format!("raw/region={encoded}/p")), value);
    }
}

#[test]
fn who_is_gone_from_the_file_is_remembered_until_it_returns() {
    let before = orders();
    let gone = Catalog::default().after(&before);
    assert_eq!(gone.retired.iter().map(DatasetName::as_str).collect::<Vec<_>>(), ["orders"]);
    assert_eq!(Catalog::default().after(&gone), gone, "for good");
    assert_eq!(orders().after(&gone), orders(), "it is back");
    assert_eq!(serde_json::to_string(&orders()).unwrap().find("retired"), None);
    let text = serde_json::to_string(&gone).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), gone);
    assert_eq!(gone.claim("lake", "raw/orders/dt=2026-11-01/a"), Claim::Unclaimed);
}

/// A definition of one part `dt` that is a range of `seen_at`.
fn ranged(layout: &str, part: &str) -> Definition {
    let text = format!(
        "[orders]\nsource = \"s3://lake/\"\nlayout = \"{layout}\"\nformat = \"parquet\"\ntarget = \"sales.orders\"\n\
         columns = [\"seen_at timestamp\"]\n[orders.partition.dt]\nrange_of = \"seen_at\"\n{part}\n"
    );
    parse(&text).unwrap_or_else(|problems| panic!("{problems:?}")).remove(0)
}

#[test]
fn folders_finer_than_the_grain_are_of_one_partition() {
    let month = "type = \"date\"\ngrain = \"month\"";
    for (layout, part, keys) in [
        ("month={dt}/", month, ["month=2026-02/p", "month=2026-02-01/p", "month=2026-02-28/p"]),
        ("{yyyy}/{mm}/", month, ["2026/02/p", "2026/2/p", "2026/02/q"]),
        ("dt={yyyy-mm-dd}/", month, ["dt=2026-02-01/p", "dt=2026-02-28/p", "DT=2026-02-03/p"]),
        (
            "dt={yyyy-mm-dd}/hour={hh}/",
            "type = \"timestamp\"",
            ["dt=2026-11-01/hour=07/p", "dt=2026-11-01/hour=7/p", "dt=2026%2D11-01/Hour=07/q"],
        ),
        ("{yyyy}/{mm}/{dd}/", month, ["2026/02/01/p", "2026/2/28/p", "2026/02/3/p"]),
        ("year={dt}/", "type = \"date\"\ngrain = \"year\"", ["year=2026/p", "year=2026-01-01/p", "year=2026-12-31/p"]),
        ("{yyyy}/{mm}/", "type = \"date\"\ngrain = \"year\"", ["2026/01/p", "2026/1/p", "2026/12/p"]),
        (
            "at={dt}/",
            "type = \"timestamp\"",
            ["at=2026-11-01 07%3A00/p", "at=2026-11-01T07%3A30/p", "at=2026-11-01 07%3A59%3A59/p"],
        ),
    ] {
        let definition = ranged(layout, part);
        let catalog = Catalog::of([&definition]);
        let names: Vec<String> = keys.iter().map(|key| label(&catalog, key)).collect();
        assert!(names[0].starts_with("dt=2026-") && names.iter().all(|name| *name == names[0]), "{layout}: {names:?}");
        let partition = definition.partition_of(keys[0]).unwrap();
        for key in keys {
            let folders = key.split('/').collect::<Vec<_>>();
            for (level, folder) in folders[..folders.len() - 1].iter().enumerate() {
                let of = definition.layout.match_level(&definition.parts, &partition.values, level, folder);
                assert!(of, "{layout}: {folder} is listed for {}", partition.name);
            }
        }
        assert_eq!(definition.partition(&partition.name).unwrap(), partition);
    }
}

#[test]
fn a_folder_that_makes_no_date_is_of_no_partition_whatever_the_grain() {
    let month = ranged("{yyyy}/{mm}/{dd}/", "type = \"date\"\ngrain = \"month\"");
    let february = month.partition_of("2026/02/01/p").unwrap();
    assert_eq!(label(&Catalog::of([&month]), "2026/02/30/p"), "impossible_date");
    assert!(!month.layout.match_level(&month.parts, &february.values, 2, "30"));
    let year = ranged("{yyyy}/{mm}/", "type = \"date\"\ngrain = \"year\"");
    let partition = year.partition_of("2026/02/p").unwrap();
    assert_eq!(label(&Catalog::of([&year]), "2026/13/p"), "impossible_date");
    assert!(!year.layout.match_level(&year.parts, &partition.values, 1, "13"));
}

#[test]
fn c059_an_hour_that_the_clocks_skip_is_told_and_one_shown_twice_is_one_partition() {
    let hours = ranged("{yyyy}/{mm}/{dd}/{hh}/", "type = \"timestamp\"\ntimezone = \"Europe/Berlin\"");
    let catalog = Catalog::of([&hours]);
    assert_eq!(label(&catalog, "2026/10/25/02/p"), "dt=2026-10-25T02:00:00");
    assert_eq!(label(&catalog, "2026/03/29/02/p"), "skipped_by_clocks");
    let Claim::Unroutable(_, reason) = catalog.claim("lake", "2026/03/29/02/p") else { panic!("it is of a partition") };
    let told = "value \"2026-03-29 02:00\" of dt never occurs: the clocks of its time zone skip it";
    assert_eq!(reason.to_string(), told);
    let name = crate::id::PartitionName::new("dt=2026-03-29T02:00").unwrap();
    assert!(hours.partition(&name).unwrap_err().to_string().contains("never occurs"));
    let utc = ranged("{yyyy}/{mm}/{dd}/{hh}/", "type = \"timestamp\"");
    assert_eq!(label(&Catalog::of(&[utc]), "2026/03/29/02/p"), "dt=2026-03-29T02:00:00");
}

#[test]
fn a_day_and_its_hour_in_two_levels_are_one_hour() {
    let hours = ranged("dt={yyyy-mm-dd}/hour={hh}/", "type = \"timestamp\"\ntimezone = \"Europe/Berlin\"");
    let catalog = Catalog::of([&hours]);
    for (key, told) in [
        ("dt=2026-10-25/hour=02/p", "dt=2026-10-25T02:00:00"),
        ("dt=2026-03-29/hour=02/p", "skipped_by_clocks"),
        ("dt=2026-02-30/hour=02/p", "impossible_date"),
        ("dt=2026-2-03/hour=02/p", "impossible_date"),
        ("dt=2026-02-03-04/hour=02/p", "impossible_date"),
        ("dt=2026-02-03/hour=24/p", "impossible_timestamp"),
        ("dt=__HIVE_DEFAULT_PARTITION__/hour=02/p", "null_partition"),
        ("hour=02/dt=2026-02-03/p", "other_order"),
    ] {
        assert_eq!(label(&catalog, key), told, "{key}");
    }
    let partition = hours.partition_of("dt=2026-10-25/hour=2/p").unwrap();
    assert_eq!(hours.layout.prefix_of(&hours.parts, &partition.values), "dt=2026-10-25/hour=02/");
    assert!(!hours.layout.match_level(&hours.parts, &partition.values, 0, "dt=2026-10-26"));
    let day = ranged("{yyyy-mm-dd}/{hh}/", "type = \"date\"").partition_of("2026-11-01/23/p").unwrap();
    assert_eq!(day.name.as_str(), "dt=2026-11-01", "its hours are only folders");
}
