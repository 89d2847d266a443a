//! The Redshift Data API on PostgreSQL, for the local cloud.
//!
//! [`serve`] answers AWS JSON 1.1 on a loopback port, to any SDK. Statements run on a real PostgreSQL (15 to 18), each
//! submission on a connection of its own, and go on when the caller dies. A statement is read in Redshift's dialect:
//! what Redshift lacks is refused, what PostgreSQL lacks is translated, and what isn't imitated is refused by name.
//!
//! What is imitated, and the texts, follow AWS's documentation and what others observed of the real service; nothing was
//! compared with a real Redshift.
//!
//! # The control surface
//! JSON over HTTP, for tests and the demo; none of it exists on AWS.
//!
//! | call | does |
//! |---|---|
//! | `POST /_local/copy_delay` `{"seconds": 3}` | each COPY from now on takes at least so long; it can be cancelled meanwhile |
//! | `POST /_local/copy_role` `{"attached": false}` | the role of COPY is taken from the warehouse: each COPY is refused as Redshift does it; `true` gives it back |
//! | `POST /_local/faults` `{"operation", "code", "message"?, "times"?, "after_effect"?}` | the next calls of the operation are answered with the error; with `after_effect` they are done all the same |
//! | `POST /_local/down` `{"seconds": 5}` | every call is answered 503 for so long |
//! | `POST /_local/clock` `{"advance_seconds": 28800}` | client tokens (8 h) and statements (24 h) grow older |
//! | `POST /_local/break_connection` `{"statement_like": "text"}` | ends the backends that run a statement containing the text; answers `{"broken": n}` |
//! | `POST /_local/break_at` `{"account", "name": "swap", "after": 3}` | the next submission of a batch whose name ends so loses its connection after so many statements: 0 before the first, all of them before COMMIT, one more in the answer to COMMIT |
//! | `POST /_local/broken` `{"account"}` | how many connections that broke: `{"broken": n}` |
//! | `POST /_local/submissions` `{"account"}` | the most statements of the submissions of each name, by its last part: `{"swap": 12, …}` |
//! | `POST /_local/reset` `{}` | faults, delays and counts as at the start |
//! | `GET /_local/calls` | `{"DescribeStatement": 12, …}` since the start |
//!
//! `copy_delay`, `copy_role`, `faults` and `down` may name an `"account"`, an access key, whose calls alone they meet.
//!
//! # What is not imitated
//! - Sessions, `WithEvent`, CSV results, `ListSessions`, and the catalogue operations (`ListTables` …): refused by name.
//! - Signatures are not checked; the access key tells the account, whose statements are its own and whose S3 a COPY reads.
//! - Users, grants and what the `IAM_ROLE` of a COPY may: one database user does everything, and any role is attached
//!   until `copy_role` says otherwise.
//! - Statements survive their caller, not the server: its memory holds them. Quotas of calls per second are not held.
//! - Speed, distribution, sort keys, compression, `VACUUM`, result cache, queues of workload management.
//! - `UNLOAD`, `ALTER TABLE APPEND`, `MERGE … REMOVE DUPLICATES`, `QUALIFY`, `LISTAGG`, `DECODE`, navigation in SUPER,
//!   external tables, materialised views, cursors, OUT arguments, NONATOMIC procedures: refused.
//! - COPY of ORC, Avro, fixed width, jsonpaths, `ESCAPE`, `NOLOAD`: refused.
//! - A fault of a Parquet file is told in the statement's error only; `sys_load_error_detail` gets rows from text files.
//! - `Position` counts in the statement as it was translated.
//! - Trailing blanks matter in comparisons of VARCHAR here; they don't in Redshift.
//! - A cast to `varchar(n)` cuts by characters here, by bytes in Redshift. Columns count bytes, as Redshift does.
//! - `AVG` of integers gives a fraction here, an integer there.
//! - A `SELECT` without a table takes the transaction's snapshot here; in Redshift it doesn't.
//! - Functions of the leader node that meet a table, and correlated subqueries of patterns Redshift doesn't know, may
//!   work here.

mod control;
mod copy;
mod dialect;
mod failure;
mod operations;
mod results;
mod run;
mod session;
mod statements;
mod submit;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use run::Isolation;

/// What to serve, and on what.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// A libpq connection string, such as `host=127.0.0.1 port=5433 user=postgres dbname=dev`. A request's `Database` names
    /// any database of that server.
    pub postgres: String,
    /// The S3 that COPY reads, addressed in path style.
    pub s3_endpoint: String,
    /// The database's isolation level.
    pub isolation: Isolation,
}

/// A running server; it stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint to give an SDK.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until the process ends.
    pub async fn forever(mut self) -> anyhow::Result<()> {
        (&mut self.task).await.context("the server's task failed")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to answer. The support objects (schema `redshift_local`) are made in each database when it is first used.
///
/// # Errors
/// An unreadable connection string, a PostgreSQL that refuses, a port that is taken.
pub async fn serve(config: Config) -> anyhow::Result<Server> {
    let postgres: tokio_postgres::Config =
        config.postgres.parse().with_context(|| format!("connection string {:?}", config.postgres))?;
    let default = postgres.get_dbname().unwrap_or("postgres").to_owned();
    let databases = session::Databases::new(postgres);
    databases
        .get(&default)
        .await
        .map_err(|failure| anyhow::anyhow!("PostgreSQL at {:?}: {failure}", config.postgres))?;
    let engine = run::Engine {
        databases,
        s3: copy::source::S3::at(&config.s3_endpoint).await,
        isolation: config.isolation,
        control: control::Control::default(),
    };
    let api = Arc::new(operations::Api { engine: Arc::new(engine), statements: statements::Statements::default() });
    let router = Router::new()
        .route("/", post(wire::dispatch))
        .route("/_local/calls", get(control::calls))
        .route("/_local/{what}", post(control::post))
        .with_state(api);
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("listening on {}", config.listen))?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the Redshift Data API stopped");
        }
    });
    Ok(Server { address, task })
}
