//! The statements of sweep: what the ledger holds, which files are booked, which staging tables are left.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tidemark_domain::sql::rows::Field;

use super::LedgerRow;
use super::rows::manifest_objects;
use super::statements::{Outcome, Transaction, missing};
use super::text::{between, identifier, items, literal, split};

/// A row of `tidemark.files`: batch, key, `ETag`, size, milliseconds.
pub(in crate::memory) type FileRow = (String, String, String, i64, i64);

impl Transaction<'_> {
    pub(super) fn sweep(&mut self, sql: &str) -> Option<Outcome> {
        if sql.starts_with("SELECT b.batch_id, b.inventory_key, b.source_objects\nFROM tidemark.batches AS b\n") {
            return self.unbooked(sql).map(|rows| Ok(Some(rows)));
        }
        if sql.starts_with("SELECT n.partition_name, n.batch_id, ") {
            return self.newest(sql).map(|rows| Ok(Some(rows)));
        }
        if let Some(list) = sql.strip_prefix("DELETE FROM tidemark.files WHERE batch_id IN (") {
            let batches: BTreeSet<String> = items(list.strip_suffix(')')?).into_iter().filter_map(literal).collect();
            self.database.files.retain(|(batch, ..)| !batches.contains(batch));
            return Some(Ok(None));
        }
        if let Some(rest) = sql.strip_prefix("COPY tidemark.files (batch_id, key, etag, size, last_modified)\nFROM ") {
            let url = literal(split(rest, "\n")?.0)?;
            return Some(self.load_files(&url).map(|()| None));
        }
        if sql
            .starts_with("SELECT CAST(table_name AS varchar(128)) FROM information_schema.tables WHERE table_schema = ")
        {
            let names = self.database.staging.keys().map(|name| vec![Field::Text(name.clone())]);
            return Some(Ok(Some(names.collect())));
        }
        if let Some(name) = sql.strip_prefix("DROP TABLE IF EXISTS tidemark_staging.") {
            self.database.staging.remove(&identifier(name)?.0);
            return Some(Ok(None));
        }
        None
    }

    fn unbooked(&self, sql: &str) -> Option<Vec<Vec<Field>>> {
        let conditions = between(sql, "\nWHERE ", "\nAND NOT EXISTS ")?;
        let most: usize = split(sql, " LIMIT ")?.1.parse().ok()?;
        let booked: BTreeSet<&String> = self.database.files.iter().map(|(batch, ..)| batch).collect();
        let mut found: Vec<&Arc<LedgerRow>> =
            self.database.ledger.iter().filter(|row| meets(row, conditions).unwrap_or(false)).collect();
        found.retain(|row| !matches!(&row["batch_id"], Field::Text(batch) if booked.contains(batch)));
        found.sort_by(|a, b| order(&a["batch_id"], &b["batch_id"]));
        let columns = ["batch_id", "inventory_key", "source_objects"];
        Some(found.into_iter().take(most).map(|row| columns.map(|column| row[column].clone()).into()).collect())
    }

    fn newest(&self, sql: &str) -> Option<Vec<Vec<Field>>> {
        let columns = items(between(sql, "SELECT ", "\nFROM ")?);
        let conditions = between(sql, "FROM tidemark.batches AS b WHERE ", ") AS n\nWHERE n.place = 1")?;
        let mut newest: BTreeMap<String, &Arc<LedgerRow>> = BTreeMap::new();
        for row in self.database.ledger.iter().filter(|row| meets(row, conditions).unwrap_or(false)) {
            let Field::Text(name) = &row["partition_name"] else { return None };
            let known = newest.entry(name.clone()).or_insert(row);
            if order(&row["fence"], &known["fence"]) == Ordering::Greater {
                *known = row;
            }
        }
        let fields =
            |row: &Arc<LedgerRow>| columns.iter().map(|column| row.get(column.strip_prefix("n.")?).cloned()).collect();
        newest.into_values().map(fields).collect()
    }

    fn load_files(&mut self, manifest_url: &str) -> Result<(), String> {
        if !self.database.tables.contains("tidemark.files") {
            return Err(missing("tidemark.files"));
        }
        let refused = "ERROR: Load into table 'files' failed.  Check 'sys_load_error_detail' system table for details.";
        for object in manifest_objects(self.objects, manifest_url)? {
            for line in String::from_utf8_lossy(&object).lines() {
                let row: Value = serde_json::from_str(line).map_err(|_| refused.to_owned())?;
                let text = |name: &str| row[name].as_str().map(str::to_owned).ok_or_else(|| refused.to_owned());
                let number = |name: &str| row[name].as_i64().ok_or_else(|| refused.to_owned());
                let row = (text("batch_id")?, text("key")?, text("etag")?, number("size")?, number("last_modified")?);
                if self.views.refused_files.contains(&row.1) {
                    return Err(refused.to_owned());
                }
                self.database.files.push(row);
            }
        }
        Ok(())
    }
}

/// Whether a row meets conditions on its columns that are joined by AND.
fn meets(row: &LedgerRow, conditions: &str) -> Option<bool> {
    let mut rest = conditions;
    loop {
        let (condition, more) = split(rest, " AND ").map_or((rest, None), |(condition, more)| (condition, Some(more)));
        let (column, test) = condition.trim().strip_prefix("b.")?.split_once(' ')?;
        let (operator, value) = test.split_once(' ')?;
        let found = row.get(column)?;
        let met = if operator == "IN" {
            let list = items(value.strip_prefix('(')?.strip_suffix(')')?);
            list.into_iter().any(|value| constant(value).is_some_and(|value| value == *found))
        } else {
            let order = order(found, &constant(value)?);
            match operator {
                "=" => order.is_eq(),
                ">" => order.is_gt(),
                ">=" => order.is_ge(),
                "<=" => order.is_le(),
                _ => return None,
            }
        };
        if !met {
            return Some(false);
        }
        let Some(more) = more else { return Some(true) };
        rest = more;
    }
}

fn constant(value: &str) -> Option<Field> {
    match value.strip_prefix("TIMESTAMP ").unwrap_or(value) {
        text if text.starts_with('\'') => Some(Field::Text(literal(text)?)),
        digits => Some(Field::Long(digits.parse().ok()?)),
    }
}

fn order(a: &Field, b: &Field) -> Ordering {
    match (a, b) {
        (Field::Long(a), Field::Long(b)) => a.cmp(b),
        (Field::Text(a), Field::Text(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}
