//! The statements, each told by how it begins, and what each does.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidemark_domain::sql::rows::Field;

use super::fence::FenceTable;
use super::rows::{Load, TargetRow, copy, duplicates};
use super::text::{between, identifier, items, literal, split, staging};
use super::{Database, FileReader, Rows, Views};
use crate::memory::MemoryObjects;

/// A statement's result: its rows, or `None` where it has no result set.
type Outcome = Result<Option<Rows>, String>;

/// A transaction in progress, on a copy of the database.
pub(crate) struct Transaction<'a> {
    pub(crate) database: Database,
    pub(crate) views: &'a mut Views,
    pub(crate) objects: &'a MemoryObjects,
    pub(crate) read: FileReader,
    pub(crate) now: Timestamp,
    counts: Option<Counts>,
    copied: Option<i64>,
    statement: Option<i64>,
}

/// `tidemark_counts`, and the rows it counts.
#[derive(Default)]
struct Counts {
    of: Option<(String, String)>,
    before: Option<i64>,
    foreign: i64,
    staged: i64,
    after: Option<i64>,
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn row(numbers: &[i64]) -> Outcome {
    Ok(Some(vec![numbers.iter().map(|n| Field::Long(*n)).collect()]))
}

fn missing(relation: &str) -> String {
    format!("ERROR: relation \"{relation}\" does not exist")
}

/// `tidemark."<prefix>…"`: what follows the prefix.
fn per_target(name: &str, prefix: &str) -> Option<String> {
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
        let known = self.settings_and_tables(sql).or_else(|| self.rebuild(sql)).or_else(|| self.look_up(sql));
        known
            .or_else(|| self.numbers(sql))
            .unwrap_or_else(|| Err(format!("ERROR: the twin doesn't know this statement: {sql}")))
    }

    fn settings_and_tables(&mut self, sql: &str) -> Option<Outcome> {
        if sql.starts_with("SET ") || sql.starts_with("CREATE SCHEMA IF NOT EXISTS ") {
            return Some(Ok(None));
        }
        if let Some(rest) = sql.strip_prefix("CREATE OR REPLACE PROCEDURE ") {
            self.database.procedures.insert(split(rest, "(")?.0.to_owned());
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
        if let Some(name) = sql.strip_prefix("DROP TABLE IF EXISTS tidemark_staging.") {
            self.database.staging.remove(&identifier(name)?.0);
            return Some(Ok(None));
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
            return Some(row(&[counts.staged, before, after, after]));
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
        if sql.starts_with("SELECT DISTINCT pid, TRIM(txn_owner), TRIM(lock_mode) FROM svv_transactions") {
            return Some(Ok(Some(vec![])));
        }
        None
    }

    fn call(&mut self, procedure: &str, arguments: &[&str]) -> Result<(), String> {
        if !self.database.procedures.contains(procedure) {
            return Err(format!("ERROR: procedure {procedure} does not exist"));
        }
        match procedure {
            "tidemark.guard" => return self.guard(arguments),
            "tidemark.seal" => return self.seal(),
            _ => {}
        }
        let procedures: [(&str, fn(&mut FenceTable, &[&str]) -> Result<(), String>); 3] =
            [("claim_", FenceTable::claim), ("fence_off_", FenceTable::fence_off), ("own_", FenceTable::own)];
        for (prefix, run) in procedures {
            if let Some(target) = per_target(procedure, prefix) {
                let table = self.database.fences.get_mut(&target).ok_or_else(|| missing(&target))?;
                return run(table, arguments);
            }
        }
        Err(format!("ERROR: the twin doesn't know the procedure {procedure}"))
    }

    fn guard(&self, arguments: &[&str]) -> Result<(), String> {
        let counts = self.counts.as_ref().ok_or_else(|| missing("tidemark_counts"))?;
        let (verified, accept) = match arguments {
            [verified, accept] => (verified.parse().unwrap_or(-1), *accept == "true"),
            _ => (-1, false),
        };
        if counts.staged != verified {
            return Err(format!(
                "ERROR: TIDEMARK-STAGED staging holds {} rows, but {verified} were verified",
                counts.staged
            ));
        }
        if counts.foreign > 0 && !accept {
            return Err(format!(
                "ERROR: TIDEMARK-FOREIGN-ROWS {} of the {} rows to be deleted were written by no batch of ours",
                counts.foreign,
                counts.before.unwrap_or(0)
            ));
        }
        Ok(())
    }

    fn seal(&self) -> Result<(), String> {
        let counts = self.counts.as_ref().ok_or_else(|| missing("tidemark_counts"))?;
        if counts.after == Some(counts.staged) {
            return Ok(());
        }
        Err(format!(
            "ERROR: TIDEMARK-SEAL the partition holds {} rows after the swap, but {} were staged",
            counts.after.unwrap_or(-1),
            counts.staged
        ))
    }

    fn target_rows(&self, table: &str, condition: &str) -> Result<&[TargetRow], String> {
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
        let copied = copy(self.objects, &url, columnar, max_errors, self.read, &mut load);
        self.views.loads.insert(id, load);
        let Some(table) = self.database.staging.get_mut(&name) else { return Some(Err(missing(&name))) };
        Some(copied.map(|rows| table.extend(rows)))
    }

    fn loads(&self, id: Option<i64>, count_rejected: bool) -> Vec<Field> {
        let load = id.and_then(|id| self.views.loads.get(&id)).filter(|load| !load.files.is_empty());
        let mut files = load.map(|load| load.files.clone()).unwrap_or_default();
        let listed = files.len();
        files.sort();
        files.dedup();
        let rejected = load.filter(|_| count_rejected).map_or(0, |load| load.errors.len());
        let id = id.filter(|_| load.is_some()).map_or(Field::Null, Field::Long);
        vec![id, Field::Long(number(files.len())), Field::Long(number(listed)), Field::Long(number(rejected))]
    }

    fn count_staged(&self, sql: &str) -> Option<Outcome> {
        let name = staging(sql, " FROM ")?;
        let rest = split(sql, "CROSS JOIN (SELECT count(*) AS target_rows FROM ")?.1.strip_suffix(") AS t")?;
        let (table, condition) = split(rest, " WHERE ")?;
        let Some(rows) = self.database.staging.get(&name) else { return Some(Err(missing(&name))) };
        let target = match self.target_rows(table, condition) {
            Ok(target) => target.len(),
            Err(error) => return Some(Err(error)),
        };
        let asks_elsewhere = split(sql, "0 AS other_partition_rows").is_none();
        let elsewhere = rows.iter().filter(|row| row.elsewhere && asks_elsewhere).count();
        let duplicate = if split(sql, "SELECT 0 AS duplicate_rows").is_some() { 0 } else { duplicates(rows) };
        let mut counts = vec![number(rows.len()), number(elsewhere), number(duplicate), number(target)];
        // Each required column, by how many rows have a value.
        let names = split(sql, "\n")?.0;
        let present = rows.iter().filter(|row| !row.null).count();
        counts.extend(names.matches(", s.v").map(|_| number(present)));
        Some(row(&counts))
    }

    fn count_before(&mut self, sql: &str) -> Option<Result<(), String>> {
        let rest = split(sql, "FROM (SELECT count(*) AS target_rows, ")?.1;
        let (foreign, rest) = split(rest, " AS foreign_rows FROM ")?;
        let (table, rest) = split(rest, " WHERE ")?;
        let condition = split(rest, ") AS t\n")?.0;
        let name = staging(sql, "SELECT count(*) AS staged_rows FROM ")?;
        let target = match self.target_rows(table, condition) {
            Ok(target) => target,
            Err(error) => return Some(Err(error)),
        };
        let before = number(target.len());
        let foreign = if foreign == "count(*)" {
            before
        } else if let Some(condition) = between(foreign, "count(CASE WHEN ", " THEN NULL ELSE 1 END)") {
            let last = literal(split(condition, " = ")?.1)?;
            number(target.iter().filter(|row| row.tag.as_ref() != Some(&last)).count())
        } else {
            let last: i64 = between(foreign, "CASE WHEN count(*) > ", " THEN ")?.parse().ok()?;
            (before - last).max(0)
        };
        let Some(staged) = self.database.staging.get(&name) else { return Some(Err(missing(&name))) };
        let staged = number(staged.len());
        let of = Some((table.to_owned(), condition.to_owned()));
        let counts = self.counts.as_mut()?;
        *counts = Counts { of, before: Some(before), foreign, staged, after: None };
        Some(Ok(()))
    }

    fn delete(&mut self, table: &str, condition: &str) -> Result<(), String> {
        let of = (table.to_owned(), condition.to_owned());
        if self.counts.as_ref().and_then(|counts| counts.of.as_ref()) != Some(&of) {
            return Err(format!("ERROR: the twin deletes only what was counted before, not {table} WHERE {condition}"));
        }
        self.database.target.remove(&of);
        Ok(())
    }

    /// The rows land in the partition that was counted; those that belong elsewhere, elsewhere.
    fn insert(&mut self, sql: &str) -> Option<()> {
        let (table, condition) = self.counts.as_ref()?.of.clone()?;
        let (into, rest) = split(sql.strip_prefix("INSERT INTO ")?, " (")?;
        if into != table {
            return None;
        }
        let values = items(between(rest, "\nSELECT ", "\nFROM ")?);
        let name = staging(sql, "\nFROM ")?;
        let batch = name.strip_prefix("batch_")?;
        let tag = values.iter().any(|value| literal(value).is_some_and(|text| text == batch)).then(|| batch.to_owned());
        for staged in self.database.staging.get(&name)?.clone() {
            let condition = if staged.elsewhere { "elsewhere".to_owned() } else { condition.clone() };
            let row = TargetRow { key: staged.key, tag: tag.clone() };
            self.database.target.entry((table.clone(), condition)).or_default().push(row);
        }
        Some(())
    }

    fn write_ledger(&mut self, sql: &str) -> Option<()> {
        let counts = self.counts.as_ref()?;
        let columns = items(between(sql, "INSERT INTO tidemark.batches (", ")\n")?);
        let values = items(between(sql, "\nSELECT ", "\nFROM ")?);
        if columns.len() != values.len() {
            return None;
        }
        let now = TimeZone::UTC.to_datetime(self.now).strftime("%Y-%m-%d %H:%M:%S%.f").to_string();
        let field = |value: &str| {
            Some(match value {
                "NULL" => Field::Null,
                "GETDATE()" => Field::Text(now.clone()),
                "b.staged_rows" => Field::Long(counts.staged),
                "b.target_rows" => Field::Long(counts.before?),
                "a.target_rows" => Field::Long(counts.after?),
                _ => match value.strip_prefix("TIMESTAMP ").unwrap_or(value) {
                    text if text.starts_with('\'') => Field::Text(literal(text)?),
                    digits => Field::Long(digits.parse().ok()?),
                },
            })
        };
        let row = columns.iter().zip(values).map(|(column, value)| Some(((*column).to_owned(), field(value)?)));
        let row: BTreeMap<String, Field> = row.collect::<Option<_>>()?;
        self.database.ledger.push(row);
        Some(())
    }

    fn look(&self, sql: &str) -> Option<Outcome> {
        let columns = split(sql.strip_prefix("SELECT f.stored_fence, ")?, "\n")?.0;
        let rest = split(sql, "(SELECT max(fence) AS stored_fence FROM ")?.1;
        let (table, rest) = split(rest, " WHERE partition_name = ")?;
        let (partition, rest) = split(rest, ") AS f\n")?;
        let partition = literal(partition)?;
        let Some(fences) = per_target(table, "fence_").and_then(|target| self.database.fences.get(&target)) else {
            return Some(Err(missing(table)));
        };
        let condition = between(rest, "FROM tidemark.batches WHERE ", ") AS b ")?;
        let text = |row: &BTreeMap<String, Field>, column: &str, value: &str| {
            literal(value).is_some_and(|value| row.get(column) == Some(&Field::Text(value)))
        };
        let found = if let Some(batch) = condition.strip_prefix("batch_id = ") {
            self.database.ledger.iter().find(|row| text(row, "batch_id", batch))
        } else {
            let (stack, rest) = split(condition.strip_prefix("stack = ")?, " AND dataset = ")?;
            let (dataset, rest) = split(rest, " AND partition_name = ")?;
            let partition = split(rest, " ORDER BY fence DESC LIMIT 1")?.0;
            let ours = |row: &&BTreeMap<String, Field>| {
                text(row, "stack", stack) && text(row, "dataset", dataset) && text(row, "partition_name", partition)
            };
            let fence = |row: &&BTreeMap<String, Field>| match row.get("fence") {
                Some(Field::Long(fence)) => *fence,
                _ => -1,
            };
            self.database.ledger.iter().filter(ours).max_by_key(fence)
        };
        let mut fields = vec![fences.fences.get(&partition).map_or(Field::Null, |fence| Field::Long(*fence))];
        for column in items(columns) {
            let value = found.map_or(Some(Field::Null), |row| row.get(column.strip_prefix("b.")?).cloned());
            fields.push(value?);
        }
        Some(Ok(Some(vec![fields])))
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
