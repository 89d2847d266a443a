//! Golden SQL, and what must hold of every statement that is ever generated.

use std::time::Duration;

use expect_test::expect_file;
use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::identifier::staging_name;
use super::rebuild::{CopyRole, CopySource, LastBatch, Listed, Request, Verified};
use super::{Batch, MAX_STATEMENT_BYTES, SqlError, identifier, install, ledger, lookup, rebuild};
use crate::definition::{self, Column, ColumnName, Definition, SqlType, TableName};
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

/// `ORDERS`, upserted.
fn upserted(more: &str) -> Definition {
    let text = ORDERS.replace("key = [", "write = \"upsert\"\nkey = [").replace("key = [\"order_id\"]", more);
    definition(&format!("{text}\n[orders.select]\ncustomer = \"lower(trim(customer))\"\n"))
}

fn newest_wins() -> Definition {
    upserted("key = [\"order_id\", \"amount\"]\norder_by = \"ordered_at\"")
}

/// Local days of a moment, several levels, keys without provenance.
const CLICKS: &str = r#"
[clicks]
source = "s3://lake-raw/clicks/"
layout = "region={region}/{yyyy}/{mm}/{dd}/"
format = "parquet"
target = "web.clicks"
columns = ["id bigint", "region varchar(20)", "seen_at timestamptz"]
key = ["id"]

[clicks.partition.region]
type = "text"
in_files = true

[clicks.partition.day]
type = "date"
range_of = "seen_at"
timezone = "Europe/Berlin"
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

/// The day on which summer time ends: 25 hours.
fn long_day() -> Partition {
    definition(CLICKS).partition_of("region=eu/2026/10/25/a.parquet").unwrap()
}

/// What a request borrows.
struct Born {
    definition: Definition,
    hash: DefinitionHash,
    partition: Partition,
    stack: StackName,
    last: Option<LastBatch>,
    listed: Digest,
}

impl Born {
    fn of(definition: Definition, partition: Partition) -> Self {
        let hash = DefinitionHash::of([definition.name.as_str().as_bytes()]);
        let stack = StackName::new("tidemark-prod").unwrap();
        Self { definition, hash, partition, stack, last: None, listed: listed().digest }
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
            listed: Some(&self.listed),
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
        ..Verified::default()
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
        lookup::blockers(&request, 42).unwrap(),
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
    all.push(super::doctor::schemas().unwrap());
    all.push(super::doctor::rights(&definition(ORDERS).target).unwrap());
    all.push(super::arrivals::arrivals(&StackName::new("tidemark").unwrap(), &definition(ORDERS).name).unwrap());
    all.extend(batches(&Born::of(definition(ORDERS), day()), Some(&source())));
    all.extend(batches(&Born::of(definition(ORDERS), day()).after(900), None));
    all.extend(batches(&Born::of(definition(EVENTS), hostile()).after(900), Some(&csv)));
    all.extend(batches(&Born::of(newest_wins(), day()).after(900), Some(&source())));
    all.extend(batches(&Born::of(upserted("key = [\"order_id\"]"), day()), Some(&source())));
    all.extend(batches(&Born::of(definition(CLICKS), long_day()).after(900), Some(&source())));
    all.extend(sweeps());
    all.extend(runbook());
    all
}

/// The runbook's six queries, as an operator gets them for a partition.
fn runbook() -> Vec<Batch> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbook/queries");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let stack = StackName::new("tidemark-prod").unwrap();
    let mut queries = Vec::new();
    for born in [
        Born::of(definition(ORDERS), day()),
        Born::of(definition(EVENTS), hostile()),
        Born::of(definition(CLICKS), long_day()),
    ] {
        let batch = Some(born.request().batch);
        let newest = batch.map(|batch| (batch, Some(&born.listed)));
        let Born { definition, partition, .. } = &born;
        let about = super::runbook::About { stack: &stack, definition, partition, committed: batch, newest };
        for file in &files {
            let query = super::runbook::fill(&std::fs::read_to_string(file).unwrap(), &about).unwrap();
            let name = file.file_stem().unwrap().to_string_lossy();
            queries.push(Batch::new(format!("tidemark/{name}"), vec![query]).unwrap());
        }
    }
    assert_eq!(queries.len(), 3 * 6);
    queries
}

/// What sweep runs, with hostile names.
fn sweeps() -> Vec<Batch> {
    let (stack, dataset) = (StackName::new("tidemark-prod").unwrap(), crate::id::DatasetName::new("orders").unwrap());
    let batch = |n: u32| BatchId(format!("01936000-0000-7000-8000-{n:012}").parse().unwrap());
    let since = "2026-11-01T07:00:00Z".parse().unwrap();
    let names = [day().name, hostile().name];
    vec![
        ledger::unbooked(&stack, None, None, 500).unwrap(),
        ledger::unbooked(&stack, Some(since), Some(batch(1)), 1).unwrap(),
        ledger::book(&[batch(1), batch(2)], "s3://control/manifest/book/x/manifest.json", &source().role).unwrap(),
        ledger::newest_between(&stack, &dataset, None, None).unwrap(),
        ledger::newest_between(&stack, &dataset, Some(&names[0]), Some(&names[1])).unwrap(),
        ledger::newest_of(&stack, &dataset, &names).unwrap().0,
        ledger::staging_tables().unwrap(),
        ledger::drop_staging([staging_name(batch(1), Some(&listed().digest)).as_str(), "batch_of_\"somebody"]).unwrap(),
    ]
}

#[test]
fn what_sweep_runs() {
    expect_file!["../../golden/sweep.sql"].assert_eq(&render(&sweeps()));
}

#[test]
fn c141_sweeps_questions_keep_the_limits_however_many_and_long_the_names() {
    let (stack, dataset) = (StackName::new("s".repeat(100)).unwrap(), crate::id::DatasetName::new("orders").unwrap());
    let name = |n: usize| crate::id::PartitionName::new(format!("region={}{n:04}", "'".repeat(900))).unwrap();
    let names: Vec<_> = (0..200).map(name).collect();
    let mut rest = names.as_slice();
    while !rest.is_empty() {
        let (_, named) = ledger::newest_of(&stack, &dataset, rest).unwrap();
        assert!(named > 0);
        rest = &rest[named..];
    }
    let ids: Vec<BatchId> = (0..500).map(|_| BatchId(uuid::Uuid::now_v7())).collect();
    let book = ledger::book(&ids, &format!("s3://{}", "k".repeat(1_024)), &CopyRole::Default).unwrap();
    assert!(book.statements().iter().all(|sql| sql.len() < MAX_STATEMENT_BYTES));
    let digest = listed().digest;
    let names: Vec<String> = ids.iter().map(|id| staging_name(*id, Some(&digest))).collect();
    ledger::drop_staging(names[..ledger::DROPPED_AT_ONCE].iter().map(String::as_str)).unwrap();
}

fn render(batches: &[Batch]) -> String {
    let mut lines = Vec::new();
    for batch in batches {
        lines.push(format!("---- {}", batch.name()));
        for (index, sql) in batch.statements().iter().enumerate() {
            lines.push(format!("-- {}\n{sql};", index + 1));
        }
        lines.push(String::new());
    }
    lines.join("\n")
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
fn an_upsert_is_golden() {
    let count_and_swap = |definition: Definition| {
        let all = batches(&Born::of(definition, day()).after(900), Some(&source()));
        [all[3].clone(), all[6].clone()]
    };
    let told = [count_and_swap(newest_wins()), count_and_swap(upserted("key = [\"order_id\"]"))].concat();
    expect_file!["../../golden/upsert.sql"].assert_eq(&render(&told));
}

#[test]
fn c059_a_rebuild_of_a_local_day_is_golden() {
    expect_file!["../../golden/range.sql"]
        .assert_eq(&render(&batches(&Born::of(definition(CLICKS), long_day()).after(900), Some(&source()))));
}

/// The condition of a partition, out of the swap's DELETE.
fn deleted(text: &str, below: &str) -> String {
    let definition = definition(text);
    let partition = definition.partition_of(below).unwrap();
    let swap = rebuild::swap(&Born::of(definition, partition).request(), &listed(), &verified()).unwrap();
    let delete = swap.batch.statements().iter().find(|sql| sql.starts_with("DELETE")).unwrap().clone();
    delete.split_once(" WHERE ").unwrap().1.to_owned()
}

#[test]
fn a_range_is_half_open_in_literals_of_the_columns_type() {
    let of = |kind: &str, column: &str, more: &str, layout: &str| {
        CLICKS
            .replace("seen_at timestamptz", &format!("seen_at {column}"))
            .replace("type = \"date\"", &format!("type = \"{kind}\""))
            .replace("timezone = \"Europe/Berlin\"", more)
            .replace("region={region}/{yyyy}/{mm}/{dd}/", layout)
            .replace("[clicks.partition.region]\ntype = \"text\"\nin_files = true\n", "")
    };
    let berlin = "timezone = \"Europe/Berlin\"";
    for (text, below, expected) in [
        (
            of("date", "date", "", "{yyyy}/{mm}/{dd}/"),
            "2026/11/01/a",
            r#""seen_at" >= DATE '2026-11-01' AND "seen_at" < DATE '2026-11-02'"#,
        ),
        (
            of("date", "date", "grain = \"month\"", "{yyyy}/{mm}/"),
            "2026/2/a",
            r#""seen_at" >= DATE '2026-02-01' AND "seen_at" < DATE '2026-03-01'"#,
        ),
        (
            of("date", "timestamp", "grain = \"year\"", "year={day}/"),
            "year=2026/a",
            r#""seen_at" >= TIMESTAMP '2026-01-01 00:00:00' AND "seen_at" < TIMESTAMP '2027-01-01 00:00:00'"#,
        ),
        (
            of("timestamp", "timestamp", berlin, "{yyyy}/{mm}/{dd}/{hh}/"),
            "2026/10/25/02/a",
            r#""seen_at" >= TIMESTAMP '2026-10-25 00:00:00' AND "seen_at" < TIMESTAMP '2026-10-25 02:00:00'"#,
        ),
        (
            of("timestamp", "timestamptz", berlin, "{yyyy}/{mm}/{dd}/{hh}/"),
            "2026/03/29/03/a",
            r#""seen_at" >= TIMESTAMPTZ '2026-03-29 01:00:00+00' AND "seen_at" < TIMESTAMPTZ '2026-03-29 02:00:00+00'"#,
        ),
    ] {
        assert_eq!(deleted(&text, below), expected);
    }
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

/// The load of each format that no other golden file shows.
#[test]
fn the_loads_of_other_formats_are_golden() {
    let stage = |format: &str, options: &str| {
        let text = ORDERS.replace("\"parquet\"", &format!("\"{format}\""));
        let text = text.replace("ordered_at timestamp", "ordered_at timestamp\", \"more super");
        let born = Born::of(definition(&format!("{text}\n{options}")), day());
        batches(&born, Some(&source()))[2].clone()
    };
    let told = [
        stage("orc", "[orders.orc]\nfillrecord = true\nacceptinvchars = \"?\"\n"),
        stage("json", "[orders.json]\ncompression = \"zstd\"\ntimeformat = \"epochmillisecs\"\nencoding = \"utf16\"\n"),
        stage("avro", "[orders.avro]\npaths = \"s3://lake-config/paths'\\\\.json\"\nroundec = true\n"),
    ];
    expect_file!["../../golden/formats.sql"].assert_eq(&render(&told));
}

/// What sqlparser's dialect can't read: procedures, whose bodies PostgreSQL reads in the system tests, and COPY's MAXERROR.
fn readable(sql: &str) -> Option<String> {
    if sql.starts_with("CREATE OR REPLACE PROCEDURE ") {
        return None;
    }
    Some(sql.split('\n').filter(|line| !line.starts_with("MAXERROR AS ")).collect::<Vec<_>>().join("\n"))
}

#[test]
fn every_statement_is_one_statement_of_redshifts_dialect() {
    for batch in everything() {
        for sql in batch.statements() {
            let Some(readable) = readable(sql) else { continue };
            match Parser::parse_sql(&RedshiftSqlDialect {}, &readable) {
                Ok(parsed) => assert_eq!(parsed.len(), 1, "{sql}"),
                Err(error) => panic!("{error}\n{sql}"),
            }
        }
    }
}

/// The words of a statement, without what stands in quotes.
fn words(sql: &str) -> Vec<String> {
    let tokens = Tokenizer::new(&RedshiftSqlDialect {}, sql).tokenize().unwrap();
    let word = |token| match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
        // A procedure's body.
        Token::DollarQuotedString(body) => Some(words(&body.value).join(" ")),
        _ => None,
    };
    tokens.into_iter().filter_map(word).collect()
}

#[test]
fn c152_truncate_commits_and_so_does_nothing_of_ours() {
    let never = ["TRUNCATE", "VACUUM", "APPEND", "COMMIT", "ROLLBACK", "NONATOMIC", "EXECUTE", "SAVEPOINT"];
    for batch in everything() {
        for sql in batch.statements() {
            let words = words(sql).join(" ");
            let words: Vec<_> = words.split(' ').collect();
            assert!(!words.iter().any(|word| never.contains(word)), "{sql}");
            // `EXCEPTION` only after `RAISE`: a block of that name would roll back behind the caller's back.
            for pair in words.windows(2).filter(|pair| pair[1] == "EXCEPTION") {
                assert_eq!(pair[0], "RAISE", "{sql}");
            }
        }
    }
}

#[test]
fn c173_begin_and_commit_inside_a_batch() {
    for batch in everything() {
        for sql in batch.statements() {
            let first = words(sql).remove(0);
            assert!(!["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"].contains(&first.as_str()), "{sql}");
        }
    }
}

#[test]
fn c156_temp_tables_live_in_one_batch() {
    for batch in everything() {
        let all: Vec<_> = batch.statements().iter().map(|sql| words(sql)).collect();
        let made = all.iter().position(|words| words.iter().any(|word| word == "TEMP"));
        let is_procedure = |words: &Vec<String>| words.contains(&"PROCEDURE".to_owned());
        let used = |words: &&Vec<String>| words.iter().any(|word| word == "TIDEMARK_COUNTS") && !is_procedure(words);
        let first_use = all.iter().position(|words| used(&words));
        assert_eq!(first_use, made, "{}", batch.name());
        if made.is_none() {
            let calls = |name: &str| batch.statements().iter().any(|sql| sql.starts_with(name));
            assert!(!calls("CALL tidemark.guard") && !calls("CALL tidemark.seal"), "{}", batch.name());
        }
    }
}

#[test]
fn c171_at_most_40_statements() {
    let sql = "SELECT 1".to_owned();
    assert!(Batch::new("b", vec![sql.clone(); 40]).is_ok());
    let error = Batch::new("orders", vec![sql; 41]).unwrap_err();
    assert_eq!(error.to_string(), "orders: 41 statements, but one call of the Data API takes 40");
    assert!(everything().iter().all(|batch| batch.statements().len() <= 14));
}

#[test]
fn c182_statements_are_measured_before_they_are_sent() {
    assert!(Batch::new("b", vec![" ".repeat(MAX_STATEMENT_BYTES)]).is_ok());
    let error = Batch::new("orders", vec!["SELECT 1".into(), " ".repeat(MAX_STATEMENT_BYTES + 1)]).unwrap_err();
    assert!(error.to_string().starts_with("orders: statement 2 has 100001 bytes"), "{error}");
}

#[test]
fn c149_lock_is_the_first_that_could_take_a_snapshot() {
    for batch in everything() {
        let verbs: Vec<_> = batch.statements().iter().map(|sql| words(sql).remove(0)).collect();
        if let Some(lock) = verbs.iter().position(|verb| verb == "LOCK") {
            assert!(verbs[..lock].iter().all(|verb| verb == "SET"), "{verbs:?}");
            let own = ["tidemark.\"fence_", "tidemark.booking"];
            let locked = &batch.statements()[lock];
            assert!(
                own.iter().any(|table| locked.contains(table)),
                "readers of target and ledger never wait: {locked}"
            );
        }
    }
}

#[test]
fn c157_no_ddl_on_the_target() {
    for batch in everything() {
        for sql in batch.statements() {
            let ddl = ["CREATE", "DROP", "ALTER"].contains(&words(sql)[0].as_str());
            let line = sql.split('\n').next().unwrap();
            assert!(!ddl || line.contains("tidemark"), "{sql}");
        }
    }
}

#[test]
fn c154_delete_then_insert_then_ledger_in_one_batch() {
    let born = Born::of(definition(ORDERS), day());
    let swap = rebuild::swap(&born.request(), &listed(), &verified()).unwrap();
    let at = |start: &str| swap.batch.statements().iter().position(|sql| sql.starts_with(start)).unwrap();
    assert!(at("CALL tidemark.guard") < at("DELETE FROM \"sales\".\"orders\""));
    assert!(at("DELETE FROM") < at("INSERT INTO \"sales\".\"orders\""));
    assert!(at("INSERT INTO \"sales\"") < at("CALL tidemark.seal"));
    assert_eq!(at("INSERT INTO tidemark.batches"), swap.batch.statements().len() - 1);
    assert_eq!(swap.batch.statements()[swap.counts.0 - 1], super::count::MOVED);
}

#[test]
fn c116_columnar_copy_takes_hardly_an_option() {
    let mut source = source();
    source.region = Some("eu-west-1".into());
    let stage = rebuild::stage(&Born::of(definition(ORDERS), day()).request(), Some(&source)).unwrap();
    let copy = &stage.batch.statements()[stage.copy.unwrap().0 - 1];
    assert!(copy.contains(" MANIFEST\nFORMAT AS PARQUET"), "{copy}");
    for refused in ["REGION", "COMPUPDATE", "MAXERROR", "GZIP"] {
        assert!(!copy.contains(refused), "{copy}");
    }
}

#[test]
fn c146_maxerror_is_one_more_than_is_let_pass() {
    for (allowed, clause) in [(0, None), (5, Some("MAXERROR AS 6")), (100_000, Some("MAXERROR AS 100000"))] {
        let mut definition = definition(EVENTS);
        definition.tolerance.rejected_rows = allowed;
        let stage = rebuild::stage(&Born::of(definition, hostile()).request(), Some(&source())).unwrap();
        let copy = &stage.batch.statements()[stage.copy.unwrap().0 - 1];
        assert_eq!(copy.split('\n').find(|line| line.starts_with("MAXERROR")), clause);
        for hides in ["TRUNCATECOLUMNS", "ACCEPTANYDATE", "ACCEPTINVCHARS", "EMPTYASNULL", "BLANKSASNULL", "FILLRECORD"]
        {
            assert!(!copy.contains(hides), "{copy}");
        }
    }
}

#[test]
fn an_empty_source_is_not_copied() {
    let stage = rebuild::stage(&Born::of(definition(ORDERS), day()).request(), None).unwrap();
    assert_eq!((stage.copy, stage.loads), (None, None));
    assert!(!stage.batch.statements().iter().any(|sql| sql.starts_with("COPY")));
    assert_eq!(stage.counts, stage.batch.last());
}

#[test]
fn c070_a_partition_value_stays_a_value() {
    let born = Born::of(definition(EVENTS), hostile()).after(3);
    let request = born.request();
    let shape = |value: &str| {
        let mut partition = hostile();
        partition.values[0] = PartitionValue::Text(value.into());
        let request = Request { partition: &partition, ..request };
        let swap = rebuild::swap(&request, &listed(), &verified()).unwrap().batch;
        swap.statements().iter().map(|sql| words(sql)).collect::<Vec<_>>()
    };
    let plain = shape("eu");
    for value in
        ["O'Brien", "\\", "\\'", "x\\\\'; DROP TABLE sales.orders;--", "$$; COMMIT; $$", ":name", "?", "/*", "\u{2019}"]
    {
        assert_eq!(shape(value), plain, "{value}");
    }
}

#[test]
fn a_partition_that_lacks_a_part_makes_no_sql() {
    let mut partition = hostile();
    partition.values.pop();
    let born = Born::of(definition(EVENTS), partition);
    let error = rebuild::swap(&born.request(), &listed(), &verified()).unwrap_err();
    assert!(matches!(error, SqlError::Partition { .. }), "{error}");
    let mut born = Born::of(definition(EVENTS), hostile());
    born.partition.values.swap(0, 1);
    assert!(rebuild::swap(&born.request(), &listed(), &verified()).is_err());
    born.definition.parts.clear();
    born.partition.values.clear();
    assert!(rebuild::swap(&born.request(), &listed(), &verified()).is_err(), "no condition would be every row");
}

#[test]
fn a_time_out_is_never_none() {
    let born = Born::of(definition(ORDERS), day());
    let request = Request { statement_timeout: Duration::ZERO, ..born.request() };
    assert_eq!(rebuild::fence(&request).unwrap().statements()[0], "SET statement_timeout TO 1");
}

#[test]
fn the_same_request_has_the_same_text() {
    let born = Born::of(definition(EVENTS), hostile()).after(3);
    assert_eq!(batches(&born, Some(&source())), batches(&born, Some(&source())));
}

#[test]
fn the_widest_definition_fits() {
    let mut definition = definition(ORDERS);
    for index in definition.columns.len()..1_600 {
        let name = ColumnName(format!("a_column_with_a_name_{index}"));
        definition.required.push(name.clone());
        definition.columns.push(Column { name, sql_type: SqlType::Decimal { precision: 38, scale: 10 } });
    }
    let born = Born::of(definition, day());
    let widest = rebuild::widest(&born.request(), &source()).unwrap();
    assert!((80_000..MAX_STATEMENT_BYTES).contains(&widest), "{widest}");
    let all = batches(&born, Some(&source()));
    assert_eq!(all.iter().flat_map(Batch::statements).map(String::len).max(), Some(widest));
}

#[test]
fn names_of_a_target_are_short_and_never_shared() {
    let named = |schema: &str, table: &str| {
        let target = TableName { schema: schema.into(), table: table.into() };
        identifier::per_target_name(identifier::PerTarget::FenceOff, &target)
    };
    assert_ne!(named("a_b", "c"), named("a", "b_c"));
    let (long, other) = (named(&"s".repeat(127), &"t".repeat(127)), named(&"s".repeat(127), &"t".repeat(126)));
    assert_ne!(long, other);
    assert!(long.len() <= 63, "{long}");
}
