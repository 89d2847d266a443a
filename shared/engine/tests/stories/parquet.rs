//! Parquet through the engine: rows and columns come from the files' footers, read once a version; and a listing that takes
//! longer than an invocation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parquet::basic::Type;
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types;
use tidemark_domain::id::Epoch;
use tidemark_domain::sql::rows::Field;
use tidemark_engine::memory::{FileError, FileRow, Plan};
use tidemark_engine::ports::{Clock as _, Objects as _};
use tidemark_engine::rebuild::Answer;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";
/// The twin loads one row less of a file that holds this one.
const LOST: i64 = 666;

/// A file of one row group: these columns, each with these numbers.
fn file(columns: &[&str], numbers: &[i64]) -> Bytes {
    let column = |name: &&str| Arc::new(types::Type::primitive_type_builder(name, Type::INT64).build().unwrap());
    let fields = columns.iter().map(column).collect();
    let schema = Arc::new(types::Type::group_type_builder("orders").with_fields(fields).build().unwrap());
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        column.typed::<Int64Type>().write_batch(numbers, Some(&vec![1; numbers.len()]), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    Bytes::from(bytes)
}

/// Reads the rows, told by their first column.
#[expect(clippy::unnecessary_wraps, reason = "the type of a reader")]
fn read(bytes: &Bytes) -> Result<Vec<FileRow>, FileError> {
    let reader = SerializedFileReader::new(bytes.clone()).unwrap();
    let rows =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_column_iter().next().unwrap().1.to_string());
    let kept = rows.filter(|key| *key != LOST.to_string());
    Ok(kept.map(|key| FileRow { key, null: false, elsewhere: false }).collect())
}

const COLUMNS: [&str; 2] = ["order_id", "amount"];

async fn world() -> World {
    let toml = TOML.replace("\"csv\"", "\"parquet\"").replace("amount decimal(12,2)", "amount bigint");
    let mut world = World::new(&toml).await;
    world.warehouse = world.warehouse.reading_with(read);
    world
}

impl World {
    async fn put_parquet(&mut self, name: &str, columns: &[&str], numbers: &[i64]) {
        self.objects.put("lake", &format!("orders/{DAY}/{name}"), file(columns, numbers)).await.unwrap();
        self.send_events();
    }

    /// To rest, counting how often footers were read.
    async fn footers_read(&mut self) -> usize {
        let plan = Plan::quiet();
        self.plan = plan.clone();
        self.rest("").await;
        self.plan = Plan::quiet();
        plan.steps().iter().filter(|step| step.call == "objects.read_tail").count()
    }
}

#[tokio::test]
async fn each_versions_footer_is_read_once() {
    let mut world = world().await;
    world.put_parquet("a.parquet", &COLUMNS, &[1, 2]).await;
    world.put_parquet("b.parquet", &COLUMNS, &[3]).await;
    assert_eq!(world.footers_read().await, 2);
    assert_eq!(world.rows()[DAY], ["1", "2", "3"]);
    world.put_parquet("c.parquet", &COLUMNS, &[4]).await;
    assert_eq!(world.footers_read().await, 1, "the others are known by key and ETag");
    world.put_parquet("a.parquet", &COLUMNS, &[1]).await;
    assert_eq!(world.footers_read().await, 1, "another version is another file");
    assert_eq!(world.rows()[DAY], ["1", "3", "4"]);
    let newest = world.warehouse.ledger().pop().unwrap();
    assert_eq!((&newest["source_rows"], &newest["source_objects"]), (&Field::Long(3), &Field::Long(3)));
    world.assert_ledger("parquet");
}

#[tokio::test]
async fn a_drifted_file_is_named_before_anything_is_staged() {
    let drifted: [(&[&str], &str); 3] = [
        (&["order_id"], "1 columns"),
        (&["amount", "order_id"], "column 1 is `amount`"),
        (&["order_id", "amount", "note"], "3 columns"),
    ];
    for (columns, words) in drifted {
        let mut world = world().await;
        world.put_parquet("a.parquet", &COLUMNS, &[1]).await;
        world.put_parquet("b.parquet", columns, &[2]).await;
        world.rest("").await;
        let parked = world.item(DAY).parked.unwrap();
        assert_eq!(parked.kind, "rejected_data");
        for word in ["s3://lake/orders/dt=2026-11-01/b.parquet", words, "nothing was staged"] {
            assert!(parked.message.contains(word), "{word:?} is told: {}", parked.message);
        }
        assert!(world.warehouse.submitted().is_empty(), "no COPY for files that don't fit");
        world.put_parquet("b.parquet", &COLUMNS, &[2]).await;
        world.rest("").await;
        assert_eq!(world.rows()[DAY], ["1", "2"]);
        world.assert_ledger("mended");
    }
}

#[tokio::test]
async fn files_that_fitted_are_held_against_a_changed_definition_again() {
    let mut world = world().await;
    world.put_parquet("a.parquet", &COLUMNS, &[1]).await;
    world.rest("").await;
    // The same types in other places: COPY, which goes by position, would mix the columns up and say nothing.
    let swapped = world
        .definition
        .to_text()
        .replace(r#""order_id bigint", "amount bigint""#, r#""amount bigint", "order_id bigint""#);
    assert_ne!(swapped, world.definition.to_text());
    world.put_in_force(&swapped, Epoch(1)).await;
    let mark = tidemark_domain::writes::mark(&world.id(DAY), 0, world.clock.now());
    tidemark_engine::ports::StateStore::write(&world.state, &[mark], "mark").await.unwrap();
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert!(parked.message.contains("a.parquet: column 1 is `order_id`"), "{}", parked.message);
    assert_eq!(world.submitted("/stage"), 1, "of the first definition only");
}

#[tokio::test]
async fn a_file_that_is_no_parquet_is_named() {
    let mut world = world().await;
    world.put(&format!("{DAY}/a.parquet"), "not parquet at all, but long enough\n").await;
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert!(parked.kind == "rejected_data" && parked.message.contains("a.parquet"), "{}", parked.message);
}

#[tokio::test]
async fn rows_that_copy_loses_are_noticed_against_the_footers() {
    let mut world = world().await;
    world.put_parquet("a.parquet", &COLUMNS, &[1, LOST, 3]).await;
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "row_variance");
    assert!(parked.message.contains("the files hold 3 rows, 2 are staged"), "{}", parked.message);
    assert!(world.rows().is_empty(), "and nothing was swapped");
}

#[tokio::test]
async fn a_listing_that_runs_out_of_time_is_continued_by_the_next_invocation() {
    let mut world = world().await;
    let many = 3_500;
    let bytes = file(&COLUMNS, &[7]);
    for n in 0..many {
        world.objects.put("lake", &format!("orders/{DAY}/{n:05}.parquet"), bytes.clone()).await.unwrap();
    }
    world.send_events();
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    // Two pages an invocation; then S3 is quick again.
    world.objects.set_page_time(Duration::from_secs(45));
    let plan = Plan::quiet();
    world.plan = plan.clone();
    assert_eq!(world.rebuild().await, Some(Some(Answer::Back)), "handed off while it lists");
    let first = world.item(DAY).batch.unwrap();
    assert_eq!((first.listed.as_ref(), world.submitted("/stage")), (None, 0));
    let before = plan.steps().iter().filter(|step| step.call == "objects.read_tail").count();
    assert!(before >= 1_000 && before < many, "{before} footers so far");
    world.objects.set_page_time(Duration::ZERO);
    world.rebuild().await.unwrap();
    let footers = plan.steps().iter().filter(|step| step.call == "objects.read_tail").count();
    assert_eq!(footers, many, "no footer is read twice: the listing goes on where it was");
    let batch = world.item(DAY).batch.or_else(|| Some(first.clone())).unwrap();
    assert_eq!(batch.id, first.id, "by the same batch");
    // Every file holds the same key, so what is told of duplicates counts the rows that were staged.
    let parked = world.item(DAY).parked.unwrap();
    assert!(parked.message.contains("3499 staged rows repeat the key"), "{}", parked.message);
    let manifest = world.objects.keys("control").into_iter().find(|key| key.starts_with("manifest/")).unwrap();
    let (manifest, _) = world.objects.object("control", &manifest).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let urls: std::collections::BTreeSet<&str> =
        manifest["entries"].as_array().unwrap().iter().map(|entry| entry["url"].as_str().unwrap()).collect();
    assert_eq!(urls.len(), many, "each once");
}

#[tokio::test]
async fn every_drifted_file_and_column_is_told_with_what_was_expected_and_found() {
    let mut world = world().await;
    let text = |name: &str| {
        let field = types::Type::primitive_type_builder(name, Type::BYTE_ARRAY).build().unwrap();
        let id = types::Type::primitive_type_builder("order_id", Type::INT32).build().unwrap();
        let fields = vec![Arc::new(id), Arc::new(field)];
        let schema = Arc::new(types::Type::group_type_builder("orders").with_fields(fields).build().unwrap());
        let mut bytes = Vec::new();
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build()))
            .unwrap()
            .close()
            .unwrap();
        Bytes::from(bytes)
    };
    world.put_parquet("a.parquet", &COLUMNS, &[1]).await;
    for (name, column) in [("b.parquet", "amount"), ("c.parquet", "price")] {
        world.objects.put("lake", &format!("orders/{DAY}/{name}"), text(column)).await.unwrap();
    }
    world.send_events();
    world.rest("").await;
    let told = world.item(DAY).parked.unwrap().message;
    for words in [
        "b.parquet: column 1 `order_id` is int32, from which COPY fills no bigint as the definition says; \
         column 2 `amount` is byte_array, from which COPY fills no bigint as the definition says",
        "c.parquet: column 1 `order_id` is int32",
        "column 2 is `price`, but the definition says `amount`",
    ] {
        assert!(told.contains(words), "{words:?} is told: {told}");
    }
    assert!(!told.contains("a.parquet") && world.warehouse.submitted().is_empty());
}

#[tokio::test]
async fn a_drifted_orc_is_named_and_a_good_one_counted() {
    let orc = Bytes::from_static(include_bytes!("../../../domain/tests/hostile/small.orc"));
    let toml = TOML.replace("\"csv\"", "\"orc\"");
    for (columns, told) in [
        ("\"id bigint\", \"name varchar(9)\", \"amount decimal(12,2)\"", None),
        (
            "\"id integer\", \"name varchar(9)\", \"amount decimal(12,2)\"",
            Some("a.orc: column 1 `id` is bigint, from which COPY fills no integer"),
        ),
    ] {
        let start = toml.find("columns = [").unwrap();
        let end = start + toml[start..].find(']').unwrap();
        let toml = format!("{}columns = [{columns}{}", &toml[..start], &toml[end..]).replace("order_id", "id");
        let mut world = World::new(&toml).await;
        world.warehouse = world.warehouse.reading_with(|_| {
            Ok(["1", "2", "3"].map(|key| FileRow { key: key.to_owned(), null: false, elsewhere: false }).to_vec())
        });
        world.objects.put("lake", &format!("orders/{DAY}/a.orc"), orc.clone()).await.unwrap();
        world.send_events();
        world.rest("").await;
        match told {
            None => {
                assert_eq!(world.rows()[DAY].len(), 3, "{:?}", world.item(DAY).parked);
                assert_eq!(world.warehouse.ledger().pop().unwrap()["source_rows"], Field::Long(3));
            }
            Some(words) => {
                let parked = world.item(DAY).parked.unwrap();
                assert!(parked.message.contains(words), "{}", parked.message);
            }
        }
    }
}
