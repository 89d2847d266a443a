//! What a test gets: a server and a database of its own, an S3 of its own, an SDK client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_redshiftdata::Client;
use aws_sdk_redshiftdata::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_redshiftdata::operation::describe_statement::DescribeStatementOutput;
use aws_sdk_redshiftdata::operation::get_statement_result::GetStatementResultOutput;
use aws_sdk_redshiftdata::types::{Field, StatusString};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tidemark_local::{Postgres, Run, wait_until};
use tidemark_redshift_data::{Config, Isolation, Server, serve};
use tokio::sync::OnceCell;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(30);

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// One PostgreSQL for all tests of this program; a database for each.
static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();

/// A test's world.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) database: String,
    server: Server,
    conninfo: String,
    objects: Objects,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Isolation::Snapshot).await
    }

    pub(crate) async fn with(isolation: Isolation) -> Self {
        let postgres = POSTGRES
            .get_or_init(|| async { Postgres::start(&Run::new().unwrap()).await.expect("a PostgreSQL that starts") })
            .await;
        let database = format!("test_{}", Uuid::new_v4().simple());
        let conninfo = postgres.create_database(&database).await.unwrap();
        let objects = Objects::default();
        let server = serve(Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            postgres: conninfo.clone(),
            s3_endpoint: serve_s3(Arc::clone(&objects)).await,
            isolation,
        })
        .await
        .unwrap();
        let client = client_of("111122223333", &server.url());
        Self { client, database, server, conninfo, objects }
    }

    /// A client of another account.
    pub(crate) fn stranger(&self) -> Client {
        client_of("444455556666", &self.server.url())
    }

    pub(crate) fn put(&self, url: &str, body: impl Into<Bytes>) {
        let key = url.strip_prefix("s3://").unwrap().to_owned();
        self.objects.lock().unwrap().insert(key, body.into());
    }

    /// Writes a manifest of these objects, each mandatory and with its length.
    pub(crate) fn manifest(&self, url: &str, of: &[&str]) {
        let objects = self.objects.lock().unwrap();
        let entries: Vec<_> = of
            .iter()
            .map(|url| {
                let length = objects.get(url.strip_prefix("s3://").unwrap()).map_or(0, Bytes::len);
                serde_json::json!({ "url": url, "mandatory": true, "meta": { "content_length": length } })
            })
            .collect();
        drop(objects);
        self.put(url, serde_json::json!({ "entries": entries }).to_string());
    }

    /// Submits a batch; its id.
    pub(crate) async fn submit(&self, sqls: &[&str]) -> String {
        let call = self.client.batch_execute_statement().workgroup_name("local").database(&self.database);
        let call = call.set_sqls(Some(sqls.iter().map(|sql| (*sql).to_owned()).collect()));
        call.send().await.unwrap().id.unwrap()
    }

    /// Waits for a statement's end.
    pub(crate) async fn end(&self, id: &str) -> DescribeStatementOutput {
        loop {
            let told = self.client.describe_statement().id(id).wait_time_seconds(30).send().await.unwrap();
            if matches!(told.status(), Some(StatusString::Finished | StatusString::Failed | StatusString::Aborted)) {
                return told;
            }
        }
    }

    /// Waits until so many of the database's transactions wait for a table's lock.
    pub(crate) async fn waiting(&self, transactions: i64) {
        self.backends(transactions, "Lock", "relation").await;
    }

    /// Waits until a COPY has loaded its rows and is slow on purpose.
    pub(crate) async fn sleeping(&self) {
        self.backends(1, "Timeout", "PgSleep").await;
    }

    async fn backends(&self, number: i64, kind: &str, event: &str) {
        let postgres = self.postgres().await;
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = $1 AND wait_event = $2";
        wait_until("backends to wait", PATIENCE, async || {
            let found: i64 = postgres.query_one(sql, &[&kind, &event]).await?.get(0);
            Ok((found == number).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Runs a batch to its end.
    pub(crate) async fn run(&self, sqls: &[&str]) -> DescribeStatementOutput {
        self.end(&self.submit(sqls).await).await
    }

    /// Runs a batch that must succeed.
    pub(crate) async fn must(&self, sqls: &[&str]) -> DescribeStatementOutput {
        let told = self.run(sqls).await;
        assert_eq!(told.status(), Some(&StatusString::Finished), "{sqls:?}: {:?}", told.error());
        told
    }

    /// Runs one statement by `ExecuteStatement` that must fail; the error.
    pub(crate) async fn error(&self, sql: &str) -> String {
        let id = self.execute(sql).await;
        let told = self.end(&id).await;
        assert_eq!(told.status(), Some(&StatusString::Failed), "{sql}");
        told.error().unwrap().to_owned()
    }

    pub(crate) async fn execute(&self, sql: &str) -> String {
        let call = self.client.execute_statement().workgroup_name("local").database(&self.database).sql(sql);
        call.send().await.unwrap().id.unwrap()
    }

    pub(crate) async fn result(&self, id: &str) -> GetStatementResultOutput {
        self.client.get_statement_result().id(id).wait_time_seconds(30).send().await.unwrap()
    }

    /// The rows of a query, all values as text.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let id = self.execute(sql).await;
        let told = self.end(&id).await;
        assert_eq!(told.status(), Some(&StatusString::Finished), "{sql}: {:?}", told.error());
        texts(&self.result(&id).await)
    }

    /// `POST /_local/<what>`.
    pub(crate) async fn control(&self, what: &str, body: serde_json::Value) -> serde_json::Value {
        let text = http(self.server.address(), "POST", &format!("/_local/{what}"), &body.to_string()).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{what}: {text}"))
    }

    pub(crate) async fn calls(&self) -> serde_json::Value {
        serde_json::from_str(&http(self.server.address(), "GET", "/_local/calls", "").await).unwrap()
    }

    /// A connection to the database beneath.
    pub(crate) async fn postgres(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.conninfo, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

/// All values of a result as text; NULL as `NULL`.
pub(crate) fn texts(result: &GetStatementResultOutput) -> Vec<Vec<String>> {
    let text = |field: &Field| match field {
        Field::IsNull(_) => "NULL".to_owned(),
        Field::BooleanValue(value) => value.to_string(),
        Field::LongValue(value) => value.to_string(),
        Field::DoubleValue(value) => value.to_string(),
        Field::StringValue(value) => value.clone(),
        other => panic!("{other:?}"),
    };
    result.records().iter().map(|row| row.iter().map(text).collect()).collect()
}

fn client_of(account: &str, url: &str) -> Client {
    let config = aws_sdk_redshiftdata::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(url)
        .credentials_provider(Credentials::new(account, "secret", None, None, "test"))
        .retry_config(aws_sdk_redshiftdata::config::retry::RetryConfig::disabled())
        .build();
    Client::from_conf(config)
}

/// As much of S3 as COPY asks for: GET of an object, a listing by prefix.
async fn serve_s3(objects: Objects) -> String {
    async fn answer(
        State(objects): State<Objects>,
        Path(path): Path<String>,
        Query(query): Query<BTreeMap<String, String>>,
    ) -> Response {
        let objects = objects.lock().unwrap();
        if let Some(prefix) = query.get("prefix") {
            let bucket = format!("{}/", path.trim_end_matches('/'));
            let keys = objects.keys().filter_map(|key| key.strip_prefix(&bucket)).filter(|key| key.starts_with(prefix));
            let listed: Vec<String> = keys.map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect();
            let truncated = "<IsTruncated>false</IsTruncated>";
            return format!("<ListBucketResult>{truncated}{}</ListBucketResult>", listed.concat()).into_response();
        }
        let Some(body) = objects.get(&path).cloned() else {
            let text = "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>";
            return (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "application/xml")], text).into_response();
        };
        let etag = format!("\"etag-{}\"", body.len());
        let headers = [(header::ETAG, etag), (header::LAST_MODIFIED, "Sun, 01 Nov 2026 00:00:00 GMT".to_owned())];
        (headers, body).into_response()
    }
    let router = Router::new().route("/{*path}", get(answer)).with_state(objects);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

async fn http(address: std::net::SocketAddr, method: &str, path: &str, body: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
