//! COPY of Parquet: by position, by the file's own schema, all or nothing.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::world::{World, texts};

const SCHEMA: &str = "message orders { required int64 id; optional binary name (UTF8); \
    optional int32 amount (DECIMAL(8,2)); optional int32 day (DATE); optional int64 at (TIMESTAMP_MICROS); optional double f; }";
const TABLE: &str =
    "CREATE TABLE t (id bigint NOT NULL, name varchar(8), amount decimal(8,2), day date, at timestamp, f float)";
const COPY: &str = "COPY t FROM 's3://control/m.json' IAM_ROLE default MANIFEST FORMAT AS PARQUET";

/// One row group: the row of these values, and one of nulls.
fn file(schema: &str, id: i64, name: &str, compression: Compression) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let nullable = Some(&[1i16, 0][..]);
    let mut index = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        let written = match index {
            0 => column.typed::<Int64Type>().write_batch(&[id, id + 1], None, None),
            1 => column.typed::<ByteArrayType>().write_batch(&[ByteArray::from(name)], nullable, None),
            2 => column.typed::<Int32Type>().write_batch(&[-12_345], nullable, None),
            3 => column.typed::<Int32Type>().write_batch(&[20_758], nullable, None),
            4 => column.typed::<Int64Type>().write_batch(&[1_793_527_200_123_456], nullable, None),
            _ => column.typed::<DoubleType>().write_batch(&[0.5], nullable, None),
        };
        written.unwrap();
        column.close().unwrap();
        index += 1;
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[tokio::test]
async fn values_of_each_type_and_each_compression() {
    let world = World::new().await;
    world.must(&[TABLE]).await;
    let codecs =
        [Compression::SNAPPY, Compression::GZIP(parquet::basic::GzipLevel::default()), Compression::UNCOMPRESSED];
    let urls = ["s3://lake/1.parquet", "s3://lake/2.parquet", "s3://lake/3.parquet"];
    for (number, (url, codec)) in urls.iter().zip(codecs).enumerate() {
        world.put(url, file(SCHEMA, 10 * i64::try_from(number).unwrap(), "Gonzále", codec));
    }
    world.manifest("s3://control/m.json", &urls);
    let told = world
        .must(&[COPY, "SELECT count(*), sum(lines_scanned) FROM sys_load_detail WHERE query_id = pg_last_copy_id()"])
        .await;
    assert_eq!(texts(&world.result(&format!("{}:2", told.id())).await), [["3", "6"]]);
    let rows = world.rows("SELECT * FROM t ORDER BY id LIMIT 2").await;
    assert_eq!(
        rows,
        [
            ["0", "Gonzále", "-123.45", "2026-11-01", "2026-11-01 10:00:00.123456", "0.5"],
            ["1", "NULL", "NULL", "NULL", "NULL", "NULL"],
        ]
    );
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_named() {
    let world = World::new().await;
    world.must(&[TABLE]).await;
    let good = file(SCHEMA, 1, "x", Compression::SNAPPY);
    let fewer = SCHEMA.replace("optional double f; ", "");
    let other = SCHEMA.replace("int64 at (TIMESTAMP_MICROS)", "int64 at");
    for (body, text) in [
        (
            file(&fewer, 1, "x", Compression::SNAPPY),
            "Unmatched number of columns between table and file. Table columns: 6, Data columns: 5, File name: s3://lake/bad.parquet",
        ),
        (
            file(&other, 1, "x", Compression::SNAPPY),
            "incompatible Parquet schema for column 'at'. Column type: TIMESTAMP, Parquet schema: optional int64 at",
        ),
        (
            file(&SCHEMA.replace("DECIMAL(8,2)", "DECIMAL(8,3)"), 1, "x", Compression::SNAPPY),
            "column 'amount' has a scale that does not match the table metadata scale. File metadata scale: 3",
        ),
        (
            file(&SCHEMA.replace("(TIMESTAMP_MICROS)", "(TIMESTAMP(NANOS,true))"), 1, "x", Compression::SNAPPY),
            "incompatible Parquet schema for column 'at'",
        ),
        (
            file(SCHEMA, 1, "áááéé", Compression::SNAPPY),
            "The length of the data column name is longer than the length defined in the table. Table: 8, Data: 10",
        ),
        (b"PAR1 no parquet".to_vec(), "File 's3://lake/bad.parquet' has an invalid version number"),
    ] {
        world.put("s3://lake/good.parquet", good.clone());
        world.put("s3://lake/bad.parquet", body);
        world.manifest("s3://control/m.json", &["s3://lake/good.parquet", "s3://lake/bad.parquet"]);
        let error = world.error(COPY).await;
        assert!(error.starts_with("ERROR: Spectrum Scan Error\n  Detail: ") && error.contains(text), "{error}");
        assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
    }
}

#[tokio::test]
async fn the_manifest_tells_each_files_exact_length() {
    let world = World::new().await;
    world.must(&[TABLE]).await;
    let url = "s3://lake/a.parquet";
    let body = file(SCHEMA, 1, "x", Compression::SNAPPY);
    let length = body.len();
    world.put(url, body);
    let entry = |meta: serde_json::Value| {
        let entry = serde_json::json!({ "url": url, "mandatory": true, "meta": meta });
        world.put("s3://control/m.json", serde_json::json!({ "entries": [entry] }).to_string());
    };
    entry(serde_json::Value::Null);
    assert!(world.error(COPY).await.contains("File entry does not have 'meta' key."));
    entry(serde_json::json!({ "content_length": length + 1 }));
    assert!(world.error(COPY).await.contains("Status 416,Error InvalidRange"));
    entry(serde_json::json!({ "content_length": length - 1 }));
    assert!(world.error(COPY).await.contains("invalid version number"));
    entry(serde_json::json!({ "content_length": length }));
    world.must(&[COPY]).await;
}

#[tokio::test]
async fn identity_columns_and_lists() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (k bigint IDENTITY(1,1), id bigint, name varchar(8))"]).await;
    let schema = "message m { required int64 id; optional binary name (UTF8); }";
    world.put("s3://lake/a.parquet", file(schema, 7, "x", Compression::SNAPPY));
    world.manifest("s3://control/m.json", &["s3://lake/a.parquet"]);
    assert!(world.error(COPY).await.contains("NOT NULL column without DEFAULT must be included in column list"));
    world.must(&[&COPY.replace("COPY t", "COPY t (id, name)")]).await;
    assert_eq!(world.rows("SELECT * FROM t ORDER BY id").await, [["1", "7", "x"], ["2", "8", "NULL"]]);
}

#[tokio::test]
async fn decimals_of_bytes_are_read_by_the_column_s_own_length() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (num numeric(18,9))"]).await;
    world.put("s3://lake/a.parquet", include_bytes!("data/decimal_29_9.parquet").to_vec());
    world.manifest("s3://control/m.json", &["s3://lake/a.parquet"]);
    let error = world.error(COPY).await;
    assert!(error.contains("column 'num' has an invalid type length. Expecting: 8 len in file: 13"), "{error}");
    world.must(&["CREATE TABLE wide (num numeric(29,9))", &COPY.replace("COPY t", "COPY wide")]).await;
    assert_eq!(world.rows("SELECT num FROM wide").await, [["12345678901234567890.123456789"]]);
}
