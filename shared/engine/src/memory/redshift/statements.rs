//! The statements, each told by how it begins, and what each does.

use std::sync::Arc;

use jiff::Timestamp;
use tidemark_domain::sql::rows::Field;

use super::fence::FenceTable;
use super::rows::{Load, Reading, TargetRow, copy};
use super::swap::Counts;
use super::text::{between, identifier, items, literal, split, staging};
use super::{Database, FileReader, Rows, Views};
use crate::memory::MemoryObjects;

/// A statement's result: its rows, or `None` where it has no result set.
pub(super) type Outcome = Result<Option<Rows>, String>;

/// A procedure on a fence table, with its text and its arguments as they are written.
type Procedure = fn(&mut FenceTable, &str, &[&str]) -> Result<(), String>;

/// A transaction in progress, on a copy of the database.
pub(crate) struct Transaction<'a> {
    pub(crate) database: Database,
    pub(crate) views: &'a mut Views,
    pub(crate) objects: &'a MemoryObjects,
    pub(crate) read: FileReader,
    pub(crate) now: Timestamp,
    pub(super) counts: Option<Counts>,
    copied: Option<i64>,
    statement: Option<i64>,
}

pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A result of one row of numbers.
pub(super) fn row(numbers: &[i64]) -> Rows {
    vec![numbers.iter().map(|n| Field::Long(*n)).collect()]
}

pub(super) fn missing(relation: &str) -> String {
    format!("ERROR: relation \"{relation}\" does not exist")
}

/// `tidemark."<prefix>…"`: what follows the prefix.
pub(super) fn per_target(name: &str, prefix: &str) -> Option<String> {
    Some(identifier(name.strip_prefix("tidemark.")?)?.0.strip_prefix(prefix)?.to_owned())
}

impl<'a> Transaction<'a> {
    pub(crate) fn begin(
        database: &Database,
        views: &'a mut Views,
        objects: &'a MemoryObjects,
        read: FileReader,
        now: Timestamp,
    ) -> Self {
        Self { database: database.clone(), views, objects, read, now, counts: None, copied: None, statement: None }
    }

    /// The query id of the statement that just ran.
    pub(crate) fn query_id(&mut self) -> i64 {
        self.statement.take().unwrap_or_else(|| self.views.query_id())
    }

    /// Runs a statement. What the twin doesn't know fails.
    pub(crate) fn execute(&mut self, sql: &str) -> Outcome {
        let known = self
            .settings_and_tables(sql)
            .or_else(|| self.sweep(sql))
            .or_else(|| self.rebuild(sql))
            .or_else(|| self.look_up(sql));
        known
            .or_else(|| self.numbers(sql))
            .unwrap_or_else(|| Err(format!("ERROR: the twin doesn't know this statement: {sql}")))
    }

    fn settings_and_tables(&mut self, sql: &str) -> Option<Outcome> {
        if sql.starts_with("SET ") || sql.starts_with("CREATE SCHEMA IF NOT EXISTS ") {
            return Some(Ok(None));
        }
        if let Some(rest) = sql.strip_prefix("CREATE OR REPLACE PROCEDURE ") {
            Arc::make_mut(&mut self.database.procedures).insert(split(rest, "(")?.0.to_owned(), rest.to_owned());
            return Some(Ok(None));
        }
        if let Some(rest) = sql.strip_prefix("CREATE TABLE IF NOT EXISTS tidemark.") {
            let name = format!("tidemark.{}", split(rest, " (")?.0);
            if let Some(target) = per_target(&name, "fence_") {
                self.database.fences.entry(target).or_default();
            }
            self.database.tables.insert(name);
            return Some(Ok(None));
        }
        if sql.starts_with("DELETE FROM tidemark.version ") {
            return Some(Ok(None));
        }
        if let Some(values) = sql.strip_prefix("INSERT INTO tidemark.version (version, installed_at) VALUES (") {
            self.database.version = items(values).first()?.parse().ok();
            return Some(Ok(None));
        }
        if sql == "SELECT max(version) AS version FROM tidemark.version" {
            let version = self.database.version.map_or(Field::Null, Field::Long);
            let exists = self.database.tables.contains("tidemark.version");
            return Some(if exists { Ok(Some(vec![vec![version]])) } else { Err(missing("tidemark.version")) });
        }
        None
    }

    fn rebuild(&mut self, sql: &str) -> Option<Outcome> {
        if let Some(table) = sql.strip_prefix("LOCK TABLE ") {
            return Some(if self.database.tables.contains(table) { Ok(None) } else { Err(missing(table)) });
        }
        if let Some(call) = sql.strip_prefix("CALL ") {
            let (procedure, arguments) = split(call, "(")?;
            return Some(self.call(procedure, &items(arguments.strip_suffix(')')?)).map(|()| None));
        }
        if sql.starts_with("CREATE TABLE tidemark_staging.") {
            let name = staging(sql, "CREATE TABLE ")?;
            if self.database.staging.contains_key(&name) {
                return Some(Err(format!("ERROR: Relation \"{name}\" already exists")));
            }
            self.database.staging.insert(name, vec![]);
            return Some(Ok(None));
        }
        if sql.starts_with("COPY tidemark_staging.") {
            return self.copy(sql).map(|copied| copied.map(|()| None));
        }
        if sql.starts_with("CREATE TEMP TABLE tidemark_counts (") {
            self.counts = Some(Counts::default());
            return Some(Ok(None));
        }
        if sql.starts_with("INSERT INTO tidemark_counts (moment, target_rows, foreign_rows, staged_rows)") {
            return self.count_before(sql).map(|counted| counted.map(|()| None));
        }
        if let Some(rest) =
            sql.strip_prefix("INSERT INTO tidemark_counts (moment, target_rows)\nSELECT 'after', count(*) FROM ")
        {
            let (table, condition) = split(rest, " WHERE ")?;
            let after = number(self.target_rows(table, condition).ok()?.len());
            self.counts.as_mut()?.after = Some(after);
            return Some(Ok(None));
        }
        if sql.starts_with("INSERT INTO tidemark.batches (") {
            return self.write_ledger(sql).map(|()| Ok(None));
        }
        if let Some(rest) = sql.strip_prefix("DELETE FROM ") {
            let (table, condition) = split(rest, " WHERE ")?;
            return Some(self.delete(table, condition).map(|()| None));
        }
        if sql.starts_with("INSERT INTO \"") {
            return self.insert(sql).map(|()| Ok(None));
        }
        None
    }

    fn look_up(&mut self, sql: &str) -> Option<Outcome> {
        if sql.starts_with("SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows") {
            return self.count_staged(sql);
        }
        if sql.starts_with(
            "SELECT b.staged_rows AS staged_rows, b.target_rows AS deleted_rows, a.target_rows AS inserted_rows",
        ) {
            let counts = self.counts.as_ref()?;
            let (before, after) = (counts.before?, counts.after?);
            return Some(Ok(Some(row(&[counts.staged, before, after, after]))));
        }
        if sql.starts_with("SELECT max(query_id) AS copy_query_id, ") {
            let asked = split(sql, "\nFROM sys_load_detail WHERE query_id = ")?.1;
            let id = if asked == "pg_last_copy_id()" { self.copied } else { asked.parse().ok() };
            return Some(Ok(Some(vec![self.loads(id, split(sql, "0 AS rejected_rows").is_none())])));
        }
        if sql.starts_with("SELECT TRIM(file_name), line_number, ") {
            let id: i64 = between(sql, "FROM sys_load_error_detail WHERE query_id = ", " ORDER BY ")?.parse().ok()?;
            return Some(Ok(Some(self.views.loads.get(&id).map(|load| load.errors.clone()).unwrap_or_default())));
        }
        if sql.starts_with("SELECT f.stored_fence, b.batch_id, ") {
            return self.look(sql);
        }
        if sql.starts_with("SELECT DISTINCT holder.pid, TRIM(holder.txn_owner), TRIM(holder.lock_mode)\n") {
            return Some(Ok(Some(self.views.blockers.clone())));
        }
        None
    }

    fn call(&mut self, procedure: &str, arguments: &[&str]) -> Result<(), String> {
        let text = self.database.procedures.get(procedure).cloned();
        let text = text.ok_or_else(|| format!("ERROR: procedure {procedure} does not exist"))?;
        match procedure {
            "tidemark.guard" => return self.guard(&text, arguments),
            "tidemark.seal" => return self.seal(&text),
            _ => {}
        }
        let procedures: [(&str, Procedure); 3] =
            [("claim_", FenceTable::claim), ("fence_off_", FenceTable::fence_off), ("own_", FenceTable::own)];
        for (prefix, run) in procedures {
            if let Some(target) = per_target(procedure, prefix) {
                let table = self.database.fences.get_mut(&target).ok_or_else(|| missing(&target))?;
                return run(table, &text, arguments);
            }
        }
        Err(format!("ERROR: the twin doesn't know the procedure {procedure}"))
    }

    pub(super) fn target_rows(&self, table: &str, condition: &str) -> Result<&[TargetRow], String> {
        if !self.database.tables.contains(table) {
            return Err(missing(table));
        }
        let key = (table.to_owned(), condition.to_owned());
        Ok(self.database.target.get(&key).map(Vec::as_slice).unwrap_or_default())
    }

    fn copy(&mut self, sql: &str) -> Option<Result<(), String>> {
        let name = staging(sql, "COPY ")?;
        let url = literal(between(sql, "\nFROM ", "\n")?)?;
        let columnar = split(sql, "FORMAT AS PARQUET").is_some();
        let max_errors = split(sql, "MAXERROR AS ").and_then(|(_, n)| n.parse().ok()).unwrap_or(1);
        let id = self.views.query_id();
        (self.copied, self.statement) = (Some(id), Some(id));
        let mut load = Load::default();
        let denied = &self.views.denied_to_role;
        let copied = copy(self.objects, &url, Reading { columnar, max_errors, read: self.read, denied }, &mut load);
        self.views.loads.insert(id, load);
        let Some(table) = self.database.staging.get_mut(&name) else { return Some(Err(missing(&name))) };
        Some(copied.map(|rows| table.extend(rows)))
    }

    /// The statements of the contract suite, on tables of one column of numbers.
    fn numbers(&mut self, sql: &str) -> Option<Outcome> {
        if let Some(name) = sql.strip_prefix("CREATE TABLE ").and_then(|rest| rest.strip_suffix(" (n bigint)")) {
            if self.database.numbers.insert(name.to_owned(), vec![]).is_some() {
                return Some(Err(format!("ERROR: Relation \"{name}\" already exists")));
            }
            return Some(Ok(None));
        }
        if let Some((name, n)) = sql.strip_prefix("INSERT INTO ").and_then(|rest| rest.split_once(" VALUES (")) {
            let n = n.strip_suffix(')')?.parse().ok()?;
            let Some(table) = self.database.numbers.get_mut(name) else { return Some(Err(missing(name))) };
            table.push(n);
            return Some(Ok(None));
        }
        if let Some(name) = sql.strip_prefix("SELECT count(*), max(n) FROM ") {
            let Some(table) = self.database.numbers.get(name) else { return Some(Err(missing(name))) };
            let max = table.iter().max().map_or(Field::Null, |max| Field::Long(*max));
            return Some(Ok(Some(vec![vec![Field::Long(number(table.len())), max]])));
        }
        None
    }
}
