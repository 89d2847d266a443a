//! Golden SQL, and what must hold of every statement that is ever generated.

use std::time::Duration;

use expect_test::expect_file;
use jiff::civil::date;
use sqlparser::ast::Statement;
use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::rebuild::{CopyRole, CopySource, LastBatch, Listed, Request, Verified};
use super::{Batch, MAX_STATEMENT_BYTES, SqlError, identifier, install, lookup, rebuild};
use crate::definition::{
    Column, ColumnName, Concurrency, CsvOptions, Definition, Format, Interval, Part, PartKind, Provenance, Root,
    SqlType, TableName, Tolerance, WriteMode,
};
use crate::id::{BatchId, DatasetName, DefinitionHash, Digest, Epoch, Fence, Generation, PartitionName, StackName};
use crate::layout::Layout;
use crate::partition_value::{Partition, PartitionValue};
use crate::verify::SourceCounts;

pub(crate) fn column_name(name: &str) -> ColumnName {
    ColumnName(name.to_owned())
}

fn column(name: &str, sql_type: SqlType) -> Column {
    Column { name: column_name(name), sql_type }
}

/// The definition of DESIGN's example: Parquet, the partition's column from the path.
pub(crate) fn orders() -> Definition {
    Definition {
        name: DatasetName::new("orders").unwrap(),
        source: Root { bucket: "lake-raw".into(), prefix: "orders/".into() },
        layout: Layout { text: "dt={dt}/".into() },
        format: Format::Parquet,
        target: TableName { schema: "sales".into(), table: "orders".into() },
        columns: vec![
            column("order_id", SqlType::BigInt),
            column("customer", SqlType::Varchar(64)),
            column("amount", SqlType::Decimal { precision: 12, scale: 2 }),
            column("ordered_at", SqlType::Timestamp),
        ],
        key: vec![column_name("order_id")],
        required: vec![column_name("order_id"), column_name("amount")],
        write: WriteMode::Replace,
        concurrency: Concurrency::Table,
        lookback: Some(Duration::from_hours(72)),
        interval: Interval::Auto,
        load_window: Duration::from_mins(30),
        parts: vec![part("dt", PartKind::Date, false)],
        provenance: Provenance::default(),
        csv: CsvOptions::default(),
        tolerance: Tolerance::default(),
    }
}

fn part(name: &str, kind: PartKind, in_files: bool) -> Part {
    Part { name: name.into(), kind, column: column_name(name), in_files }
}

/// CSV, every option, two parts (one of them in the files), provenance.
fn events() -> Definition {
    Definition {
        name: DatasetName::new("events").unwrap(),
        layout: Layout { text: "region={region}/hour={hour}/".into() },
        format: Format::Csv,
        target: TableName { schema: "web".into(), table: "events".into() },
        columns: vec![
            column("id", SqlType::Integer),
            column("hour", SqlType::Timestamp),
            column("user", SqlType::Char(8)),
            column("seen_at", SqlType::TimestampTz),
            column("share", SqlType::Double),
            column("weight", SqlType::Real),
            column("tiny", SqlType::SmallInt),
            column("is \"new\"", SqlType::Boolean),
            column("on_day", SqlType::Date),
        ],
        key: vec![column_name("region"), column_name("id")],
        required: vec![],
        parts: vec![part("region", PartKind::Text, false), part("hour", PartKind::Timestamp, true)],
        provenance: Provenance { batch_id: Some(column_name("_batch_id")), loaded_at: Some(column_name("_loaded_at")) },
        csv: CsvOptions { delimiter: ';', quote: '\'', ignore_header: 1, null_as: Some("\\N".into()), gzip: true },
        tolerance: Tolerance { rejected_rows: 5, ..Tolerance::default() },
        ..orders()
    }
}

fn day() -> Partition {
    Partition {
        name: PartitionName::new("dt=2026-11-01").unwrap(),
        values: vec![PartitionValue::Date(date(2026, 11, 1))],
    }
}

fn hostile() -> Partition {
    Partition {
        name: PartitionName::new("region=O'Brien\\'; DROP TABLE x;--\n/hour=2026-11-01T07:00:00").unwrap(),
        values: vec![
            PartitionValue::Text("O'Brien\\'; DROP TABLE x;--\n".into()),
            PartitionValue::Timestamp(date(2026, 11, 1).at(7, 0, 0, 0)),
        ],
    }
}

/// What a request borrows.
struct Born {
    definition: Definition,
    hash: DefinitionHash,
    partition: Partition,
    stack: StackName,
    last: Option<LastBatch>,
}

impl Born {
    fn of(definition: Definition, partition: Partition) -> Self {
        let hash = DefinitionHash::of([definition.name.as_str().as_bytes()]);
        Self { definition, hash, partition, stack: StackName::new("tidemark-prod").unwrap(), last: None }
    }

    fn after(mut self, rows: u64) -> Self {
        let batch = BatchId("01936000-0000-7000-8000-000000000001".parse().unwrap());
        self.last = Some(LastBatch { batch, rows });
        self
    }

    fn request(&self) -> Request<'_> {
        Request {
            definition: &self.definition,
            definition_hash: &self.hash,
            partition: &self.partition,
            stack: &self.stack,
            batch: BatchId("01936000-0000-7000-8000-000000000002".parse().unwrap()),
            fence: Fence(7),
            generation: Generation(12),
            epoch: Epoch(3),
            statement_timeout: Duration::from_mins(30),
            last: self.last,
            accept_foreign_rows: false,
        }
    }
}

fn source() -> CopySource {
    CopySource {
        manifest_url: "s3://control/manifests/01936000.json".into(),
        role: CopyRole::Arn("arn:aws:iam::123456789012:role/copy".into()),
        region: None,
    }
}

fn listed() -> Listed {
    Listed {
        digest: Digest::of([b"inventory".as_slice()]),
        inventory_key: "inventories/orders/01936000.json".into(),
        source: SourceCounts { objects: 3, bytes: 12_345, rows: Some(1_000) },
    }
}

fn verified() -> Verified {
    Verified {
        staged_rows: 1_000,
        rejected_rows: 0,
        duplicate_rows: 0,
        staged_at: "2026-11-02T03:04:05.678Z".parse().unwrap(),
    }
}

/// Every batch a rebuild may submit, with a file name each.
fn batches(born: &Born, source: Option<&CopySource>) -> Vec<Batch> {
    let request = born.request();
    vec![
        rebuild::fence(&request).unwrap(),
        lookup::look(&request).unwrap(),
        rebuild::stage(&request, source).unwrap().batch,
        lookup::recount(&request).unwrap(),
        lookup::loaded_files(&request, 4711).unwrap(),
        lookup::load_errors(&request, 4711).unwrap(),
        rebuild::swap(&request, &listed(), &verified()).unwrap().batch,
        lookup::ledger_row(&request).unwrap(),
        lookup::blockers(&request).unwrap(),
        lookup::drop_staging(&request).unwrap(),
    ]
}

fn installs() -> Vec<Batch> {
    let target = orders().target;
    let (stack, dataset) = (StackName::new("tidemark-prod").unwrap(), orders().name);
    vec![
        install::install().unwrap(),
        install::installed_version().unwrap(),
        install::install_target(&target).unwrap(),
        install::own(&target, &stack, &dataset, Epoch(3), false).unwrap(),
    ]
}

/// One of everything: formats, parts in the files or not, provenance, empty source, hostile values.
fn everything() -> Vec<Batch> {
    let mut csv = source();
    csv.role = CopyRole::Default;
    csv.region = Some("eu-west-1".into());
    let mut all = installs();
    all.extend(batches(&Born::of(orders(), day()), Some(&source())));
    all.extend(batches(&Born::of(orders(), day()).after(900), None));
    all.extend(batches(&Born::of(events(), hostile()).after(900), Some(&csv)));
    all
}

fn render(batches: &[Batch]) -> String {
    let mut text = String::new();
    for batch in batches {
        text.push_str(&format!("---- {}\n", batch.name().replace('\n', "\\n")));
        for (index, sql) in batch.statements().iter().enumerate() {
            text.push_str(&format!("-- {}\n{sql};\n", index + 1));
        }
        text.push('\n');
    }
    text
}

#[test]
fn install_is_golden() {
    expect_file!["../../golden/install.sql"].assert_eq(&render(&installs()));
}

#[test]
fn a_parquet_rebuild_is_golden() {
    expect_file!["../../golden/parquet.sql"]
        .assert_eq(&render(&batches(&Born::of(orders(), day()).after(900), Some(&source()))));
}

#[test]
fn an_empty_first_rebuild_is_golden() {
    expect_file!["../../golden/empty.sql"].assert_eq(&render(&batches(&Born::of(orders(), day()), None)));
}

#[test]
fn a_csv_rebuild_of_a_hostile_partition_is_golden() {
    let mut source = source();
    source.role = CopyRole::Default;
    source.region = Some("eu-west-1".into());
    let born = Born::of(events(), hostile()).after(900);
    expect_file!["../../golden/csv.sql"].assert_eq(&render(&batches(&born, Some(&source))));
}

#[test]
fn probe() {
    for batch in everything() {
        for sql in batch.statements() {
            if let Err(error) = Parser::parse_sql(&RedshiftSqlDialect {}, sql) {
                eprintln!("{error}\n{sql}\n");
            }
        }
    }
}
