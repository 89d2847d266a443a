//! Every value that reaches SQL comes back as it was, and none changes a statement's shape: 100,000 generated ones, through
//! the Data API on PostgreSQL and through the Redshift dialect of a parser.
//!
//! `PROPTEST_RNG_SEED=7 TIDEMARK_SQL_VALUES=1000000 cargo test -p tidemark-system-tests --test sql_values` plays a long run
//! that can be repeated; a failure prints its seed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use aws_sdk_redshiftdata::config::{BehaviorVersion, Credentials, Region};
use jiff::civil::{Date, DateTime};
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config as Cases, RngSeed, TestRunner};
use sqlparser::ast::{Expr, SetExpr, Statement, UnaryOperator, Value};
use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};
use tidemark_aws::RedshiftWarehouse;
use tidemark_aws::config::{RedshiftConfig, RedshiftEndpoint};
use tidemark_domain::definition::{self, Definition};
use tidemark_domain::id::{BatchId, Digest, Epoch, Fence, Generation, PartitionName, StackName};
use tidemark_domain::partition_value::{Partition, PartitionValue};
use tidemark_domain::sql::rebuild::{self, CopyRole, CopySource, LastBatch, Listed, Request, Verified};
use tidemark_domain::sql::rows::Field;
use tidemark_domain::sql::{Batch, identifier, literal, lookup};
use tidemark_domain::verify::SourceCounts;
use tidemark_engine::ports::{ExecutionStatus, Submission, Warehouse as _};
use tidemark_local::{Postgres, Run};
use tidemark_redshift_data::{Config, Isolation, Server, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// How many values, unless `TIDEMARK_SQL_VALUES` says otherwise.
const VALUES: usize = 100_000;
/// Rows of one INSERT stay below this many bytes.
const STATEMENT_BYTES: usize = 60_000;
/// PostgreSQL's limit for names; Redshift's is 127.
const NAME_BYTES: usize = 63;

/// Redshift on a PostgreSQL of its own.
struct World {
    warehouse: RedshiftWarehouse,
    client: aws_sdk_redshiftdata::Client,
    sql: tokio_postgres::Client,
    _server: Server,
    _postgres: Postgres,
}

impl World {
    async fn new(s3_endpoint: String) -> Result<Self> {
        let postgres = Postgres::start(&Run::new()?).await?;
        let database = postgres.create_database("hostile").await?;
        let (sql, connection) = tokio_postgres::connect(&database, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        let listen = "127.0.0.1:0".parse()?;
        let server = serve(Config { listen, postgres: database, s3_endpoint, isolation: Isolation::Snapshot }).await?;
        let config = aws_sdk_redshiftdata::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("AKIATEST", "secret", None, None, "test"))
            .endpoint_url(server.url())
            .build();
        let client = aws_sdk_redshiftdata::Client::from_conf(config);
        let endpoint = RedshiftEndpoint::Workgroup("local".to_owned());
        let redshift = RedshiftConfig { endpoint, database: "hostile".to_owned(), db_user: None, secret_arn: None };
        let warehouse = RedshiftWarehouse::new(client.clone(), redshift);
        Ok(Self { warehouse, client, sql, _server: server, _postgres: postgres })
    }

    /// Runs statements in one transaction; gives the id, or the first error.
    async fn run(&self, statements: &[String]) -> Result<Result<String, String>> {
        let batch = Batch::new("hostile", statements.to_vec())?;
        let token = uuid::Uuid::now_v7().to_string();
        let submission =
            Submission { statements: batch.statements(), name: batch.name(), token: &token, wait_seconds: 30 };
        let submitted = self.warehouse.submit(submission).await?;
        let ended = self.warehouse.describe(&submitted.id, 30).await?.context("just submitted")?;
        Ok(match ended.status {
            ExecutionStatus::Finished => Ok(format!("{}:{}", ended.id, statements.len())),
            _ => Err(ended.first_error().unwrap_or_default().to_owned()),
        })
    }

    async fn well(&self, statements: &[String]) -> Result<String> {
        self.run(statements).await?.map_err(|error| anyhow!("{error}: {:.2000}", statements.join(";\n")))
    }
}

/// The seed, told to whoever looks at a failure.
fn runner() -> TestRunner {
    let asked = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed: u64 = asked.unwrap_or_else(now);
    println!("replay: PROPTEST_RNG_SEED={seed}");
    TestRunner::new(Cases { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Cases::default() })
}

fn number_of_values() -> usize {
    std::env::var("TIDEMARK_SQL_VALUES").ok().and_then(|number| number.parse().ok()).unwrap_or(VALUES)
}

fn draw<T: std::fmt::Debug>(from: &impl Strategy<Value = T>, runner: &mut TestRunner, number: usize) -> Result<Vec<T>> {
    let one = |_| from.new_tree(runner).map(|tree| tree.current()).map_err(|reason| anyhow!("{reason}"));
    (0..number).map(one).collect()
}

/// Text that tries to end its literal.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => proptest::sample::select(vec![
            "'", "''", "\\", "\\'", "\\\\", "\\\\'", "\"", "`", "$$", "$a$", "$1", ":name", ":", "?", "@", "%s", "{}", "{{x}}", "--", "/*",
            "*/", ";", "; DROP TABLE v.texts; --", "')", "') --", "E'", "U&'\\0041'", "N'", "\\x41", "\\u0041", "\\n", "\n", "\r\n",
            "\t", "\u{b}", "\u{1a}", "\u{7f}", "\u{85}", "\u{a0}", "\u{2019}", "\u{ff07}", "\u{2028}", "\u{202e}", "\u{feff}", "é", "e\u{301}",
            "雪", "😀", "\u{10ffff}", "NULL", "null", " ", "  ", "\\N", "s3://", "arn:aws:iam::1:role/x", "GETDATE()", "1", "-1", "1e9",
        ]).prop_map(str::to_owned),
        2 => any::<char>().prop_map(String::from),
        2 => "[ -~]{0,12}",
    ];
    proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

fn days() -> impl Strategy<Value = Date> {
    (1_i16..=9_999, 1_i8..=12, 1_i8..=31).prop_filter_map("a day of the calendar", |(y, m, d)| Date::new(y, m, d).ok())
}

fn moments() -> impl Strategy<Value = DateTime> {
    let time = (0_i8..24, 0_i8..60, 0_i8..60, prop_oneof![Just(0), 0..1_000_000_i32]);
    (days(), time).prop_map(|(day, (hour, minute, second, micros))| day.at(hour, minute, second, micros * 1_000))
}

/// A column of one type, the values' literals in it, and how it tells them.
struct Column {
    name: &'static str,
    sql_type: &'static str,
    literals: Vec<String>,
    told: Vec<String>,
}

impl Column {
    /// INSERT statements of all literals, row by row.
    fn inserts(&self) -> Vec<String> {
        let mut statements = Vec::new();
        let mut statement = String::new();
        for (n, literal) in self.literals.iter().enumerate() {
            if statement.len() > STATEMENT_BYTES {
                statements.push(std::mem::take(&mut statement));
            }
            let before = if statement.is_empty() {
                format!("INSERT INTO v.{} (n, v) VALUES", self.name)
            } else {
                ",".to_owned()
            };
            let _ = write!(statement, "{before} ({n}, {literal})");
        }
        statements.extend((!statement.is_empty()).then_some(statement));
        statements
    }

    /// The parser finds just the rows that were written, each a number and a literal of its type.
    fn check_shape(&self) -> Result<()> {
        let mut rows = 0;
        for sql in self.inserts() {
            let parsed = Parser::parse_sql(&RedshiftSqlDialect {}, &sql).with_context(|| format!("{sql:.2000}"))?;
            let [Statement::Insert(insert)] = parsed.as_slice() else { bail!("not one INSERT: {sql:.2000}") };
            let source = insert.source.as_ref().context("an INSERT without rows")?;
            let SetExpr::Values(values) = source.body.as_ref() else { bail!("no VALUES: {sql:.2000}") };
            for row in &values.rows {
                let [number, value] = row.as_slice() else { bail!("{} has a row of {} values", self.name, row.len()) };
                ensure!(number.to_string() == rows.to_string(), "row {rows} of {} is {number}", self.name);
                ensure!(is_literal(value), "{} {rows}: {value:?}", self.name);
                rows += 1;
            }
        }
        ensure!(rows == self.literals.len(), "{rows} rows of {}, not {}", self.name, self.literals.len());
        Ok(())
    }

    async fn check_in_redshift(&self, world: &World) -> Result<()> {
        world.well(&[format!("CREATE TABLE v.{} (n bigint, v {})", self.name, self.sql_type)]).await?;
        for statements in self.inserts().chunks(20) {
            world.well(statements).await?;
        }
        // What is stored, asked of PostgreSQL; and what the Data API tells of it.
        let stored = world.sql.query(&format!("SELECT v::text FROM v.{} ORDER BY n", self.name), &[]).await?;
        let stored = stored.iter().map(|row| Ok(row.try_get::<_, String>(0)?)).collect::<Result<Vec<_>>>()?;
        self.compare("is stored", &stored)?;
        let mut told = Vec::new();
        for from in (0..self.told.len()).step_by(20_000) {
            let to = from + 20_000;
            let ask = format!(
                "SELECT CAST(v AS varchar(65535)) FROM v.{} WHERE n >= {from} AND n < {to} ORDER BY n",
                self.name
            );
            let id = world.well(&[ask]).await?;
            for row in world.warehouse.result(&id).await? {
                match row.into_iter().next() {
                    Some(Field::Text(text)) => told.push(text),
                    other => bail!("{} is told as {other:?}", self.name),
                }
            }
        }
        self.compare("is told", &told)
    }

    fn compare(&self, what: &str, found: &[String]) -> Result<()> {
        ensure!(found.len() == self.told.len(), "{} {}, not {}", found.len(), self.name, self.told.len());
        for (n, (found, value)) in found.iter().zip(&self.told).enumerate() {
            ensure!(found == value, "{} {n}, {value:?} as {}, {what} as {found:?}", self.name, self.literals[n]);
        }
        Ok(())
    }
}

fn is_literal(value: &Expr) -> bool {
    match value {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_) | Value::Number(..) | Value::Null),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_literal(expr),
        Expr::TypedString(typed) => matches!(typed.value.value, Value::SingleQuotedString(_)),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_values_come_back_as_they_were() -> Result<()> {
    let (mut runner, all) = (runner(), number_of_values());
    let texts = draw(&texts(), &mut runner, all * 6 / 10)?;
    let refused = texts.iter().filter(|text| literal::text(text).is_err());
    ensure!(refused.clone().all(|text| text.contains('\0')), "only NUL has no literal");
    let texts: Vec<String> = texts.iter().filter(|text| !text.contains('\0')).cloned().collect();
    let (days, moments) = (draw(&days(), &mut runner, all / 10)?, draw(&moments(), &mut runner, all / 10)?);
    let numbers = draw(&prop_oneof![any::<i64>(), -10_i64..10, Just(i64::MIN), Just(i64::MAX)], &mut runner, all / 10)?;

    let of_texts: Result<_, _> = texts.iter().map(|text| literal::value(&PartitionValue::Text(text.clone()))).collect();
    let of_days: Result<_, _> = days.iter().map(|day| literal::value(&PartitionValue::Date(*day))).collect();
    let of_moments: Result<_, _> = moments.iter().map(|at| literal::value(&PartitionValue::Timestamp(*at))).collect();
    let told = |value: &dyn ToString| value.to_string().replace('T', " ");
    let columns = [
        Column { name: "texts", sql_type: "varchar(65535)", literals: of_texts?, told: texts },
        Column { name: "days", sql_type: "date", literals: of_days?, told: days.iter().map(|day| told(day)).collect() },
        Column {
            name: "moments",
            sql_type: "timestamp",
            literals: of_moments?,
            told: moments.iter().map(|at| told(at)).collect(),
        },
        Column {
            name: "numbers",
            sql_type: "bigint",
            literals: numbers.iter().map(|number| literal::integer(*number)).collect(),
            told: numbers.iter().map(ToString::to_string).collect(),
        },
    ];
    let world = World::new("http://127.0.0.1:9".to_owned()).await?;
    world.well(&["CREATE SCHEMA v".to_owned()]).await?;
    for column in &columns {
        column.check_shape()?;
        column.check_in_redshift(&world).await?;
    }
    check_names(&world, &mut runner, all / 10).await
}

/// Names of columns: as many as fit into a statement are given to as many columns at once.
async fn check_names(world: &World, runner: &mut TestRunner, number: usize) -> Result<()> {
    let names = draw(&texts(), runner, number)?.into_iter().map(|mut name| {
        name.truncate(name.floor_char_boundary(NAME_BYTES));
        // Redshift folds names, quoted ones too; ours are in lower case before they are quoted.
        name.to_ascii_lowercase()
    });
    let names: Vec<String> = names.filter(|name| !name.is_empty() && !name.contains('\0')).collect();
    for names in names.chunks(200) {
        let names: BTreeSet<&String> = names.iter().collect();
        let columns = names.iter().map(|name| Ok(format!("1 AS {}", identifier::quoted(name)?)));
        let sql = format!("SELECT {}", columns.collect::<Result<Vec<_>>>()?.join(", "));
        let parsed = Parser::parse_sql(&RedshiftSqlDialect {}, &sql).with_context(|| sql.clone());
        // The dialect takes brackets in quotes for a part of a SUPER; PostgreSQL judges those.
        if !sql.contains(['[', ']']) {
            ensure!(parsed?.len() == 1, "{sql}");
        }
        let id = world.well(std::slice::from_ref(&sql)).await?;
        let result = world.client.get_statement_result().id(id).send().await?;
        let told: BTreeSet<&str> = result.column_metadata().iter().filter_map(|column| column.name()).collect();
        ensure!(told == names.iter().map(|name| name.as_str()).collect(), "{told:?} of {sql}");
    }
    Ok(())
}

const EVENTS: &str = r#"
[events]
source = "s3://lake/events/"
layout = "region={region}/dt={dt}/week={week}/at={at}/"
format = "csv"
target = "web.events"
columns = ["id bigint", "region varchar(100)", "said varchar(100)"]
key = ["id"]
required = ["id"]

[events.partition.region]
type = "text"
in_files = true

[events.partition.dt]
type = "date"

[events.partition.week]
type = "integer"

[events.partition.at]
type = "timestamp"

[events.csv]
null_as = 'x'

[events.provenance]
batch_id = "_batch_id"
loaded_at = "_loaded_at"
"#;

/// Each statement of a rebuild, as words and signs, without what stands in literals.
fn shape(definition: &Definition, values: &[PartitionValue; 4], text: &str) -> Result<Vec<Vec<String>>> {
    let mut definition = definition.clone();
    definition.copy.null_as = Some(text.replace(char::is_control, ""));
    let (hash, stack, batch) = (definition.hash(), StackName::new("prod")?, BatchId(uuid::Uuid::nil()));
    let name = values.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    let partition = Partition { name: PartitionName::new(name)?, values: values.to_vec() };
    let request = Request {
        definition: &definition,
        definition_hash: &hash,
        partition: &partition,
        stack: &stack,
        batch,
        fence: Fence(7),
        generation: Generation(8),
        epoch: Epoch(1),
        statement_timeout: Duration::from_mins(1),
        last: Some(LastBatch { batch, rows: 3 }),
        accept_foreign_rows: false,
        listed: None,
    };
    let source = CopySource {
        manifest_url: format!("s3://control/{text}/manifest.json"),
        role: CopyRole::Arn(text.to_owned()),
        region: Some(text.to_owned()),
    };
    let source_counts = SourceCounts { objects: 1, bytes: 2, rows: None };
    let listed = Listed { digest: Digest::stored(text), inventory_key: text.to_owned(), source: source_counts };
    let verified = Verified {
        staged_rows: 3,
        rejected_rows: 0,
        duplicate_rows: 0,
        staged_at: jiff::Timestamp::UNIX_EPOCH,
        ..Verified::default()
    };
    let batches = [
        rebuild::fence(&request)?,
        lookup::look(&request)?,
        rebuild::stage(&request, Some(&source))?.batch,
        lookup::recount(&request)?,
        rebuild::swap(&request, &listed, &verified)?.batch,
        lookup::ledger_row(&request)?,
    ];
    batches.iter().flat_map(Batch::statements).map(|sql| words(sql)).collect()
}

fn words(sql: &str) -> Result<Vec<String>> {
    let tokens = Tokenizer::new(&RedshiftSqlDialect {}, sql).tokenize().with_context(|| sql.to_owned())?;
    let word = |token| match token {
        Token::SingleQuotedString(_) => "'…'".to_owned(),
        Token::Number(..) => "9".to_owned(),
        other => other.to_string(),
    };
    // A negative number is a sign and a number: the sign is the value's.
    Ok(tokens.into_iter().filter(|token| *token != Token::Minus).map(word).collect())
}

#[test]
fn no_value_changes_the_shape_of_a_rebuild() -> Result<()> {
    let mut runner = runner();
    let definition = definition::parse(EVENTS).map_err(|problems| anyhow!("{problems:?}"))?.remove(0);
    let day = Date::new(2026, 11, 1)?;
    let plain = [
        PartitionValue::Text("eu".to_owned()),
        PartitionValue::Date(day),
        PartitionValue::Integer(1),
        PartitionValue::Timestamp(day.at(7, 0, 0, 0)),
    ];
    let plain = shape(&definition, &plain, "text")?;
    let values = (texts(), days(), any::<i64>(), moments(), texts());
    for (region, day, week, at, text) in draw(&values, &mut runner, number_of_values() / 100)? {
        if region.contains('\0') || text.contains('\0') || region.is_empty() {
            continue;
        }
        let values = [
            PartitionValue::Text(region.clone()),
            PartitionValue::Date(day),
            PartitionValue::Integer(week),
            PartitionValue::Timestamp(at),
        ];
        ensure!(shape(&definition, &values, &text)? == plain, "{region:?}, {text:?}");
    }
    Ok(())
}

/// An S3 that has nothing, and remembers what it was asked for.
async fn empty_s3(asked: Arc<Mutex<Vec<String>>>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer).await {
                    Ok(length @ 1..) => request.extend_from_slice(&buffer[..length]),
                    _ => break,
                }
            }
            let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
            if let (Some(path), Ok(mut asked)) = (line.split(' ').nth(1), asked.lock()) {
                asked.push(path.split('?').next().unwrap_or_default().to_owned());
            }
            let body = "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>";
            let head =
                "HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length:";
            let _ = stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await;
        }
    });
    Ok(endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_reads_the_very_object_it_is_told() -> Result<()> {
    let mut runner = runner();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let world = World::new(empty_s3(Arc::clone(&asked)).await?).await?;
    world.well(&["CREATE SCHEMA v".to_owned(), "CREATE TABLE v.t (a bigint)".to_owned()]).await?;
    let keys = draw(&texts(), &mut runner, number_of_values() / 500)?;
    for key in keys.iter().filter(|key| !key.is_empty() && !key.contains('\0')) {
        let key = format!("{key}/manifest.json");
        let url = literal::text(&format!("s3://lake/{key}"))?;
        let copy = format!("COPY v.t FROM {url} IAM_ROLE default MANIFEST FORMAT AS CSV");
        let ended = world.run(std::slice::from_ref(&copy)).await?;
        ensure!(ended.is_err(), "{copy}");
        let paths = asked.lock().map_err(|_| anyhow!("poisoned"))?.drain(..).collect::<Vec<_>>();
        let path = paths.last().with_context(|| format!("nothing was asked for by {copy}: {ended:?}"))?;
        let read = percent_decode_str(path).decode_utf8()?.into_owned();
        ensure!(read == format!("/lake/{key}"), "{copy} read {read:?}");
    }
    ensure!(
        u64::from_str(&world.sql.query_one("SELECT count(*)::text FROM v.t", &[]).await?.try_get::<_, String>(0)?)?
            == 0
    );
    Ok(())
}
