//! Connections to PostgreSQL: one per submission, set up to be as much like a Redshift session as settings can make
//! it, and each database's journal, which writes system rows outside of every transaction.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, SimpleQueryMessage};

use crate::failure::Failure;
use crate::results::{Column, ResultSet};

/// Backslashes escape in literals, as they do in Redshift; the stand-in's names are found last.
const SETTINGS: &str = "SET standard_conforming_strings = off; SET escape_string_warning = off; \
    SET backslash_quote = on; SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SET jit = off; \
    SET search_path = \"$user\", public, redshift_local; SET client_min_messages = error; \
    SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection and its backend.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) pid: i32,
    loads: std::sync::Mutex<Value>,
}

impl Session {
    /// Adds the system rows of a COPY to those this session made before; all of them, as JSON.
    pub(crate) fn remember_load(&self, mut rows: Value) -> String {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in ["history", "detail", "error"] {
            if let (Some(all), Some(new)) = (loads[kind].as_array_mut(), rows[kind].as_array_mut()) {
                all.append(new);
            }
        }
        loads.to_string()
    }

    /// Opens a connection; it ends with the session, and PostgreSQL rolls back what it left open.
    pub(crate) async fn open(config: &Config) -> Result<Self, Failure> {
        let mut config = config.clone();
        config.connect_timeout(CONNECT_TIMEOUT);
        let refused = |error: tokio_postgres::Error| {
            let text = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
            Failure::connection_lost(text)
        };
        let (client, connection) = config.connect(NoTls).await.map_err(refused)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        client.batch_execute(SETTINGS).await.map_err(refused)?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.map_err(refused)?.get(0);
        Ok(Self { client, pid, loads: std::sync::Mutex::new(json!({ "history": [], "detail": [], "error": [] })) })
    }

    /// Runs one statement that has no result set; the rows it affected.
    pub(crate) async fn execute(&self, sql: &str) -> Result<u64, tokio_postgres::Error> {
        let messages = self.client.simple_query(sql).await?;
        Ok(messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                _ => None,
            })
            .next_back()
            .unwrap_or(0))
    }

    /// Runs one query: the types come from preparing it, the values as PostgreSQL prints them.
    pub(crate) async fn query(&self, sql: &str) -> Result<ResultSet, tokio_postgres::Error> {
        let statement = self.client.prepare(sql).await?;
        let mut columns: Vec<Column> = statement
            .columns()
            .iter()
            .map(|column| Column {
                name: column.name().to_owned(),
                kind: column.type_().clone(),
                modifier: column.type_modifier(),
                schema: String::new(),
                table: String::new(),
                nullable: true,
            })
            .collect();
        let mut rows = Vec::new();
        let (mut size, mut widest) = (0, 0);
        for message in self.client.simple_query(sql).await? {
            if let SimpleQueryMessage::Row(row) = message {
                let values: Vec<Option<String>> =
                    (0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect();
                let width: usize = values.iter().flatten().map(String::len).sum();
                size += width;
                widest = widest.max(width);
                rows.push(values);
            }
        }
        for (column, of) in columns.iter_mut().zip(statement.columns()) {
            let (Some(table), Some(attribute)) = (of.table_oid(), of.column_id()) else { continue };
            let origin = self.client.query_opt(ORIGIN, &[&table, &attribute]).await?;
            if let Some(row) = origin {
                column.schema = row.get(0);
                column.table = row.get(1);
                column.nullable = !row.get::<_, bool>(2);
            }
        }
        Ok(ResultSet { columns, rows, size, widest })
    }
}

/// Where a result's column comes from.
const ORIGIN: &str = "SELECT s.nspname::text, t.relname::text, a.attnotnull FROM pg_catalog.pg_attribute a \
    JOIN pg_catalog.pg_class t ON t.oid = a.attrelid JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace \
    WHERE a.attrelid = $1 AND a.attnum = $2";

/// The databases that requests named so far.
#[derive(Debug)]
pub(crate) struct Databases {
    server: Config,
    known: Mutex<HashMap<String, Arc<Database>>>,
}

/// A database with the support objects in it.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) config: Config,
    pub(crate) journal: Journal,
}

impl Databases {
    pub(crate) fn new(server: Config) -> Self {
        Self { server, known: Mutex::default() }
    }

    /// The database of this name; the first time, the support objects are made in it.
    pub(crate) async fn get(&self, name: &str) -> Result<Arc<Database>, Failure> {
        let mut known = self.known.lock().await;
        if let Some(database) = known.get(name) {
            return Ok(Arc::clone(database));
        }
        let mut config = self.server.clone();
        config.dbname(name);
        let journal = Journal::new(config.clone());
        journal.install().await?;
        let database = Arc::new(Database { config, journal });
        known.insert(name.to_owned(), Arc::clone(&database));
        Ok(database)
    }
}

/// The stand-in's own connection, opened again when it was lost.
#[derive(Debug)]
pub(crate) struct Journal {
    config: Config,
    session: Mutex<Option<Session>>,
}

impl Journal {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, session: Mutex::new(None) }
    }

    /// Makes the functions and views of `support.sql`. Two servers may start at once.
    pub(crate) async fn install(&self) -> Result<(), Failure> {
        let script = format!(
            "BEGIN; SELECT pg_advisory_xact_lock(7355608); {}; COMMIT;",
            include_str!("support.sql").trim_end().trim_end_matches(';')
        );
        let mut kept = self.session.lock().await;
        let session = Session::open(&self.config).await?;
        session.client.batch_execute(&script).await.map_err(|error| Failure::from_postgres(&error, 0, 0, 0))?;
        *kept = Some(session);
        Ok(())
    }

    /// Runs one statement in a transaction of its own.
    pub(crate) async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        let mut kept = self.session.lock().await;
        let session = match kept.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => Session::open(&self.config).await?,
        };
        let rows = session.client.query(sql, values).await;
        *kept = Some(session);
        rows.map_err(|error| Failure::from_postgres(&error, 0, 0, 0))
    }

    /// A number no other query has.
    pub(crate) async fn next_query_id(&self) -> Result<i64, Failure> {
        let rows = self.query("SELECT nextval('redshift_local.query_id')", &[]).await?;
        Ok(rows.first().map_or(-1, |row| row.get(0)))
    }

    /// The tables a committed procedure of this name writes, of those that exist; the flag: deletes or updates them.
    pub(crate) async fn written_by(&self, procedure: &str) -> Result<Vec<(String, bool)>, Failure> {
        let (schema, name) = procedure.rsplit_once('.').unwrap_or(("", procedure));
        let (schema, name) = (schema.trim_matches('"'), name.trim_matches('"'));
        let rows = self
            .query(
                "SELECT p.prosrc FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace s ON s.oid = p.pronamespace \
                 WHERE p.prokind = 'p' AND p.proname = $1 AND ($2 = '' OR s.nspname = $2)",
                &[&name, &schema],
            )
            .await?;
        let mut out = Vec::new();
        for row in rows {
            for (table, exclusive) in crate::dialect::procedure::written_tables(row.get(0)) {
                if self.table_oid(&table).await? != 0 {
                    out.push((table, exclusive));
                }
            }
        }
        Ok(out)
    }

    /// The committed table of this name, 0 if there is none.
    pub(crate) async fn table_oid(&self, table: &str) -> Result<u32, Failure> {
        let rows = self.query("SELECT coalesce(to_regclass($1)::oid, 0::oid)", &[&table]).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }
}
