//! COPY from an S3 that isn't there, into a table that is.

use std::io::Write as _;

use aws_sdk_redshiftdata::types::StatusString;
use serde_json::json;

use crate::world::{World, texts};

const OPTIONS: &str = "IAM_ROLE default MANIFEST FORMAT AS CSV COMPUPDATE OFF STATUPDATE OFF";

async fn table(world: &World) {
    world.must(&["CREATE TABLE t (id bigint NOT NULL, name varchar(8), amount decimal(8,2), day date)"]).await;
}

fn gzip(text: &str) -> Vec<u8> {
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zip.write_all(text.as_bytes()).unwrap();
    zip.finish().unwrap()
}

#[tokio::test]
async fn a_manifest_of_csv_files_is_loaded_and_told_in_the_same_transaction() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/a b+c%.csv", "id,name,amount,day\n1,\"a, \"\"b\"\"\",1.999,2026-11-01\n");
    world.put("s3://lake/d.csv", "id,name,amount,day\n2,,,\n3,\\N,0.5,2026-11-02\n");
    world.manifest("s3://control/m.json", &["s3://lake/a b+c%.csv", "s3://lake/d.csv"]);
    let copy = format!("COPY t FROM 's3://control/m.json' {OPTIONS} IGNOREHEADER 1");
    let told = world
        .must(&[
            "SELECT count(*) FROM t",
            &copy,
            "SELECT pg_last_copy_id(), pg_last_copy_count()",
            "SELECT TRIM(file_name), lines_scanned, TRIM(file_etag), file_last_modified FROM sys_load_detail \
             WHERE query_id = pg_last_copy_id() ORDER BY 1",
        ])
        .await;
    let sub = &told.sub_statements()[1];
    assert_eq!((sub.result_rows(), sub.has_result_set()), (0, Some(false)));
    let id = told.id();
    let last = texts(&world.result(&format!("{id}:3")).await);
    assert_eq!(last, [[sub.redshift_query_id().to_string(), "3".to_owned()]]);
    let files = texts(&world.result(&format!("{id}:4")).await);
    assert_eq!(
        files,
        [
            ["s3://lake/a b+c%.csv", "1", "etag-49", "2026-11-01 00:00:00.0"],
            ["s3://lake/d.csv", "2", "etag-44", "2026-11-01 00:00:00.0"],
        ]
    );
    assert_eq!(
        world.rows("SELECT * FROM t ORDER BY id").await,
        [["1", "a, \"b\"", "1.99", "2026-11-01"], ["2", "", "NULL", "NULL"], ["3", "NULL", "0.50", "2026-11-02"],]
    );
    let sql = format!(
        "SELECT TRIM(status), loaded_rows, source_file_count FROM sys_load_history WHERE query_id = {}",
        sub.redshift_query_id()
    );
    assert_eq!(world.rows(&sql).await, [["completed", "3", "2"]]);
}

#[tokio::test]
async fn a_bad_value_names_file_line_and_column_and_outlives_the_rollback() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/good.csv", "1,a,1,2026-11-01\n");
    world.put("s3://lake/bad.csv", "2,b,1,2026-11-01\n3,\"c\nd\",1,2026-11-01\n4,e,x1,2026-11-01\n");
    world.manifest("s3://control/m.json", &["s3://lake/good.csv", "s3://lake/bad.csv"]);
    let told = world.run(&["DELETE FROM t", &format!("COPY t FROM 's3://control/m.json' {OPTIONS}")]).await;
    assert_eq!(told.status(), Some(&StatusString::Failed));
    assert_eq!(
        told.error(),
        Some("ERROR: Load into table 't' failed.  Check 'sys_load_error_detail' system table for details.")
    );
    let rows = world
        .rows(&format!(
            "SELECT TRIM(file_name), line_number, TRIM(column_name), TRIM(column_type), error_code, TRIM(error_message) \
             FROM sys_load_error_detail WHERE query_id = {}",
            told.sub_statements()[1].redshift_query_id()
        ))
        .await;
    assert_eq!(
        rows,
        [["s3://lake/bad.csv", "4", "amount", "numeric", "1207", "Invalid digit, Value 'x', Pos 0, Type: Decimal"]]
    );
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
}

#[tokio::test]
async fn maxerror_lets_fewer_errors_pass_and_counts_them() {
    let world = World::new().await;
    table(&world).await;
    let text = "1,toolongname,1,2026-11-01\n2,b,1,2026-13-01\nx,c,1,\n,d,1,\n5,e\n6,f,1,,9\n7,\"g,1,\n";
    world.put("s3://lake/a.csv", text);
    world.put("s3://lake/b.csv", "8,h,1,2026-11-01\n");
    world.manifest("s3://control/m.json", &["s3://lake/a.csv", "s3://lake/b.csv"]);
    let copy = |most: u32| format!("COPY t FROM 's3://control/m.json' {OPTIONS} MAXERROR AS {most}");
    assert_eq!(world.run(&[&copy(7)]).await.status(), Some(&StatusString::Failed));
    world.must(&[&copy(8)]).await;
    assert_eq!(world.rows("SELECT id FROM t").await, [["8"]]);
    let sql = "SELECT line_number, error_code FROM sys_load_error_detail \
               WHERE query_id = (SELECT max(query_id) FROM sys_load_history) ORDER BY 1";
    let codes =
        [["1", "1204"], ["2", "1205"], ["3", "1207"], ["4", "1213"], ["5", "1214"], ["6", "1202"], ["7", "1216"]];
    assert_eq!(world.rows(sql).await, codes);
}

#[tokio::test]
async fn gzip_and_other_delimiters() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/a.csv.gz", gzip("1;'it''s; x';1;2026-11-01\n"));
    world.manifest("s3://control/m.json", &["s3://lake/a.csv.gz"]);
    let copy =
        "COPY t FROM 's3://control/m.json' IAM_ROLE default MANIFEST FORMAT AS CSV QUOTE AS '''' DELIMITER AS ';' GZIP";
    world.must(&[copy]).await;
    assert_eq!(world.rows("SELECT name FROM t").await, [["it's; x"]]);
}

#[tokio::test]
async fn json_goes_by_names() {
    let world = World::new().await;
    world
        .must(&["CREATE TABLE j (orderid bigint, note varchar(40), n decimal(20,10), more super, w int DEFAULT 7)"])
        .await;
    world.put(
        "s3://lake/a.json",
        "{\"orderid\": 1, \"note\": \"a\\n\", \"n\": 1234567890.12345678901, \"more\": {\"a\": [1]}, \"extra\": 0}\n\
         {\"OrderId\": 2, \"note\": {\"x\":1}}",
    );
    world.manifest("s3://control/m.json", &["s3://lake/a.json"]);
    world.must(&["COPY j FROM 's3://control/m.json' IAM_ROLE default MANIFEST FORMAT AS JSON 'auto'"]).await;
    assert_eq!(
        world.rows("SELECT * FROM j ORDER BY orderid").await,
        [["1", "a\n", "1234567890.1234567890", "{\"a\": [1]}", "7"], ["NULL", "{\"x\":1}", "NULL", "NULL", "7"],]
    );
}

#[tokio::test]
async fn c120_a_missing_file_is_an_error_if_mandatory() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/a.csv", "1,a,1,2026-11-01\n");
    world.manifest("s3://control/m.json", &["s3://lake/a.csv", "s3://lake/gone.csv"]);
    let copy = format!("COPY t FROM 's3://control/m.json' {OPTIONS}");
    let error = world.error(&copy).await;
    assert!(error.starts_with("ERROR: Mandatory url is not present in manifest file."), "{error}");
    assert!(error.contains("s3://lake/gone.csv"), "{error}");
    let entries = json!({ "entries": [{ "url": "s3://lake/a.csv" }, { "url": "s3://lake/gone.csv" }] });
    world.put("s3://control/m.json", entries.to_string());
    world.must(&[&copy]).await;
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["1"]]);
    let error = world.error(&copy.replace("m.json", "no.json")).await;
    assert!(error.contains("Problem reading manifest file") && error.contains("Status 404"), "{error}");
}

#[tokio::test]
async fn a_slow_copy_is_started_and_can_be_cancelled() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/a.csv", "1,a,1,2026-11-01\n");
    world.manifest("s3://control/m.json", &["s3://lake/a.csv"]);
    world.control("copy_delay", json!({ "seconds": 600 })).await;
    let id = world.submit(&[&format!("COPY t FROM 's3://control/m.json' {OPTIONS}")]).await;
    world.sleeping().await;
    let told = world.client.describe_statement().id(&id).wait_time_seconds(1).send().await.unwrap();
    assert_eq!(told.status(), Some(&StatusString::Started));
    world.client.cancel_statement().id(&id).send().await.unwrap();
    assert_eq!(world.end(&id).await.status(), Some(&StatusString::Aborted));
    world.control("copy_delay", json!({ "seconds": 0 })).await;
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
}

#[tokio::test]
async fn without_its_role_nothing_is_read_until_it_is_attached_again() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/a.csv", "1,a,1,2026-11-01\n");
    world.manifest("s3://control/m.json", &["s3://lake/a.csv"]);
    let copy = format!("COPY t FROM 's3://control/m.json' {OPTIONS}");
    world.control("copy_role", json!({ "attached": false })).await;
    let error = world.error(&copy).await;
    assert!(error.contains("is not authorized to assume IAM Role default"), "{error}");
    world.control("copy_role", json!({ "attached": true })).await;
    world.must(&[&copy]).await;
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["1"]]);
}

#[tokio::test]
async fn without_a_manifest_a_prefix_is_loaded() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/day=1/a.csv", "1|a|1|2026-11-01\n");
    world.put("s3://lake/day=10/b.csv", "2|b|1|2026-11-01\n\n");
    let copy = |prefix: &str| format!("COPY t FROM 's3://lake/{prefix}' IAM_ROLE default IGNOREBLANKLINES");
    world.must(&[&copy("day=1")]).await;
    // A prefix is no folder: the sibling came along.
    assert_eq!(world.rows("SELECT id FROM t ORDER BY id").await, [["1"], ["2"]]);
    assert!(world.error(&copy("day=2/")).await.contains("The specified S3 prefix 'day=2/' does not exist"));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    let world = World::new().await;
    table(&world).await;
    world.put("s3://lake/a.csv", &b"1,a\xff,1,2026-11-01\n2,\0b,1,2026-11-01\n3,c,1,2026-11-01\n"[..]);
    world.manifest("s3://control/m.json", &["s3://lake/a.csv"]);
    world.must(&[&format!("COPY t FROM 's3://control/m.json' {OPTIONS} MAXERROR 3")]).await;
    assert_eq!(world.rows("SELECT id FROM t").await, [["3"]]);
    assert_eq!(
        world.rows("SELECT line_number, error_code, TRIM(error_message) FROM sys_load_error_detail ORDER BY 1").await,
        [
            [
                "1",
                "1220",
                "String contains invalid or unsupported UTF8 codepoints. Bad UTF8 hex sequence: ff (error 3)"
            ],
            ["2", "1216", "Missing newline: Unexpected character 0x00 found"],
        ]
    );
}

#[tokio::test]
async fn c131_a_varchar_holds_65535_bytes_and_not_one_more() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (v varchar(65535))"]).await;
    world.manifest("s3://control/m.json", &["s3://lake/v.csv"]);
    let copy = format!("COPY t FROM 's3://control/m.json' {OPTIONS}");
    world.put("s3://lake/v.csv", format!("{}\n", "x".repeat(65_535)));
    world.must(&[&copy]).await;
    assert_eq!(world.rows("SELECT octet_length(v) FROM t").await, [["65535"]]);
    world.put("s3://lake/v.csv", format!("{}\n", "x".repeat(65_536)));
    let told = world.run(&[&copy]).await;
    assert_eq!(told.status(), Some(&StatusString::Failed));
    assert!(told.error().unwrap_or_default().contains("Load into table 't' failed"), "{:?}", told.error());
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["1"]]);
}

#[tokio::test]
async fn c134_epoch_milliseconds_are_no_date() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (day date)"]).await;
    world.put("s3://lake/e.csv", "1793491200000\n");
    world.manifest("s3://control/m.json", &["s3://lake/e.csv"]);
    let told = world.run(&[&format!("COPY t FROM 's3://control/m.json' {OPTIONS}")]).await;
    assert_eq!(told.status(), Some(&StatusString::Failed));
    let query = told.sub_statements()[0].redshift_query_id();
    let sql = format!("SELECT TRIM(column_name), error_code FROM sys_load_error_detail WHERE query_id = {query}");
    let errors = world.rows(&sql).await;
    assert_eq!((errors.len(), errors[0][0].as_str()), (1, "day"), "{errors:?}");
}

#[tokio::test]
async fn c142_an_empty_text_and_no_text_are_loaded_as_they_are_unless_the_owner_says_otherwise() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (id int, name varchar(8) NOT NULL, rest varchar(8))"]).await;
    world.put("s3://lake/e.csv", "1,\"\",x\n2,,x\n");
    world.manifest("s3://control/m.json", &["s3://lake/e.csv"]);
    let copy = format!("COPY t FROM 's3://control/m.json' {OPTIONS}");
    world.must(&[&copy]).await;
    assert_eq!(world.rows("SELECT id, name FROM t ORDER BY id").await, [["1", ""], ["2", ""]], "no NULL, no error");
}
