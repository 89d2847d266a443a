//! The statements that ask: what was loaded, what is staged, what the fence and the ledger say.

use std::sync::Arc;

use tidemark_domain::sql::rows::Field;

use super::LedgerRow;
use super::rows::duplicates;
use super::statements::{Outcome, Transaction, missing, number, per_target, row};
use super::swap::count_foreign;
use super::text::{between, items, literal, split, staging};

impl Transaction<'_> {
    pub(super) fn loads(&self, id: Option<i64>, count_rejected: bool) -> Vec<Field> {
        let load = id.and_then(|id| self.views.loads.get(&id)).filter(|load| !load.files.is_empty());
        let mut files = load.map(|load| load.files.clone()).unwrap_or_default();
        let listed = files.len();
        files.sort();
        files.dedup();
        let rejected = load.filter(|_| count_rejected).map_or(0, |load| load.errors.len());
        let id = id.filter(|_| load.is_some()).map_or(Field::Null, Field::Long);
        vec![id, Field::Long(number(files.len())), Field::Long(number(listed)), Field::Long(number(rejected))]
    }

    pub(super) fn count_staged(&self, sql: &str) -> Option<Outcome> {
        let name = staging(sql, " FROM ")?;
        let rest = split(sql, "CROSS JOIN (SELECT count(*) AS target_rows, ")?.1.strip_suffix(") AS t")?;
        let (foreign, rest) = split(rest, " AS foreign_rows FROM ")?;
        let (table, condition) = split(rest, " WHERE ")?;
        let Some(rows) = self.database.staging.get(&name) else { return Some(Err(missing(&name))) };
        let target = match self.target_rows(table, condition) {
            Ok(target) => target,
            Err(error) => return Some(Err(error)),
        };
        let asks_elsewhere = split(sql, "0 AS other_partition_rows").is_none();
        let elsewhere = rows.iter().filter(|row| row.elsewhere && asks_elsewhere).count();
        let duplicate = if split(sql, "SELECT 0 AS duplicate_rows").is_some() { 0 } else { duplicates(rows) };
        let mut counts = vec![number(rows.len()), number(elsewhere), number(duplicate)];
        counts.extend([number(target.len()), count_foreign(foreign, target)?]);
        // Each required column, by how many rows have a value.
        let names = split(sql, "\n")?.0;
        let present = rows.iter().filter(|row| !row.null).count();
        counts.extend(names.matches(", s.v").map(|_| number(present)));
        Some(Ok(Some(row(&counts))))
    }

    pub(super) fn look(&self, sql: &str) -> Option<Outcome> {
        let columns = split(sql.strip_prefix("SELECT f.stored_fence, ")?, "\n")?.0;
        let rest = split(sql, "(SELECT max(fence) AS stored_fence FROM ")?.1;
        let (table, rest) = split(rest, " WHERE partition_name = ")?;
        let (partition, rest) = split(rest, ") AS f\n")?;
        let partition = literal(partition)?;
        let Some(fences) = per_target(table, "fence_").and_then(|target| self.database.fences.get(&target)) else {
            return Some(Err(missing(table)));
        };
        let condition = between(rest, "FROM tidemark.batches WHERE ", ") AS b ")?;
        let text = |row: &LedgerRow, column: &str, value: &str| {
            literal(value).is_some_and(|value| row.get(column) == Some(&Field::Text(value)))
        };
        let found = if let Some(batch) = condition.strip_prefix("batch_id = ") {
            self.database.ledger.iter().find(|row| text(row, "batch_id", batch))
        } else {
            let (stack, rest) = split(condition.strip_prefix("stack = ")?, " AND dataset = ")?;
            let (dataset, rest) = split(rest, " AND partition_name = ")?;
            let partition = split(rest, " ORDER BY fence DESC LIMIT 1")?.0;
            let ours = |row: &&Arc<LedgerRow>| {
                text(row, "stack", stack) && text(row, "dataset", dataset) && text(row, "partition_name", partition)
            };
            let fence = |row: &&Arc<LedgerRow>| match row.get("fence") {
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
}
