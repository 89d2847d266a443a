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
use crate::definition::{self, Column, ColumnName, Definition, SqlType};
use crate::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation, StackName};
use crate::partition_value::{Partition, PartitionValue};
use crate::verify::SourceCounts;

/// Parquet, the partition's column from the path.
pub(crate) const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "customer varchar(64)", "amount decimal(12,2)", "ordered_at timestamp"]
key = ["order_id"]
required = ["order_id", "amount"]

[orders.partition.dt]
type = "date"
"#;

/// CSV, two parts of which one is in the files, every type, every option, provenance.
pub(crate) const EVENTS: &str = r#"
[events]
source = "s3://lake-raw/events/"
layout = "region={region}/hour={hour}/"
format = "csv"
target = "web.events"
columns = [
  "id integer", "hour timestamp", "user char(8)", "seen_at timestamptz", "share double precision", "weight real",
  "tiny smallint", "fresh boolean", "on_day date",
]
key = ["id", "hour"]

[events.partition.region]
type = "text"

[events.partition.hour]
type = "timestamp"
in_files = true

[events.provenance]
batch_id = "_batch_id"
loaded_at = "_loaded_at"

[events.csv]
delimiter = ";"
quote = "'"
ignore_header = 1
null_as = "none"
compression = "gzip"

[events.tolerance]
rejected_rows = 5
"#;

pub(crate) fn definition(text: &str) -> Definition {
    definition::parse(text).unwrap().remove(0)
}

fn day() -> Partition {
    definition(ORDERS).partition_of("dt=2026-11-01/a.parquet").unwrap()
}

fn hostile() -> Partition {
    let key = "region=O'Brien\\'; DROP TABLE x;--\n%2F\"$$é/hour=2026-11-01T07:00:00/a.csv";
    definition(EVENTS).partition_of(key).unwrap()
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
    let Definition { target, name: dataset, .. } = definition(ORDERS);
    let stack = StackName::new("tidemark-prod").unwrap();
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
    all.extend(batches(&Born::of(definition(ORDERS), day()), Some(&source())));
    all.extend(batches(&Born::of(definition(ORDERS), day()).after(900), None));
    all.extend(batches(&Born::of(definition(EVENTS), hostile()).after(900), Some(&csv)));
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
        .assert_eq(&render(&batches(&Born::of(definition(ORDERS), day()).after(900), Some(&source()))));
}

#[test]
fn an_empty_first_rebuild_is_golden() {
    expect_file!["../../golden/empty.sql"].assert_eq(&render(&batches(&Born::of(definition(ORDERS), day()), None)));
}

#[test]
fn a_csv_rebuild_of_a_hostile_partition_is_golden() {
    let mut source = source();
    source.role = CopyRole::Default;
    source.region = Some("eu-west-1".into());
    let born = Born::of(definition(EVENTS), hostile()).after(900);
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
