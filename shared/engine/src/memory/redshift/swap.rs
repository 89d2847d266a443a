//! The statements of a swap between claim and commit: count, guard, delete, insert, seal, ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidemark_domain::sql::identifier::batch_of_staging;
use tidemark_domain::sql::rows::Field;

use super::rows::TargetRow;
use super::statements::{Transaction, missing, number};
use super::text::{between, items, literal, raised, split, staging};

/// `tidemark_counts`, and the rows it counts.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) of: Option<(String, String)>,
    pub(super) before: Option<i64>,
    pub(super) foreign: i64,
    pub(super) staged: i64,
    pub(super) after: Option<i64>,
}

impl Transaction<'_> {
    pub(super) fn guard(&self, procedure: &str, arguments: &[&str]) -> Result<(), String> {
        let counts = self.counts.as_ref().ok_or_else(|| missing("tidemark_counts"))?;
        let (verified, accept) = match arguments {
            [verified, accept] => (verified.parse().unwrap_or(-1), *accept == "true"),
            _ => (-1, false),
        };
        if counts.staged != verified {
            return Err(raised(procedure, "TIDEMARK-STAGED", &[&counts.staged, &verified]));
        }
        if counts.foreign > 0 && !accept {
            let before = counts.before.unwrap_or(0);
            return Err(raised(procedure, "TIDEMARK-FOREIGN-ROWS", &[&counts.foreign, &before]));
        }
        Ok(())
    }

    pub(super) fn seal(&self, procedure: &str) -> Result<(), String> {
        let counts = self.counts.as_ref().ok_or_else(|| missing("tidemark_counts"))?;
        if counts.after == Some(counts.staged) {
            return Ok(());
        }
        Err(raised(procedure, "TIDEMARK-SEAL", &[&counts.after.unwrap_or(-1), &counts.staged]))
    }

    pub(super) fn count_before(&mut self, sql: &str) -> Option<Result<(), String>> {
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
        let foreign = count_foreign(foreign, target)?;
        let Some(staged) = self.database.staging.get(&name) else { return Some(Err(missing(&name))) };
        let staged = number(staged.len());
        let of = Some((table.to_owned(), condition.to_owned()));
        let counts = self.counts.as_mut()?;
        *counts = Counts { of, before: Some(before), foreign, staged, after: None };
        Some(Ok(()))
    }

    pub(super) fn delete(&mut self, table: &str, condition: &str) -> Result<(), String> {
        let of = (table.to_owned(), condition.to_owned());
        if self.counts.as_ref().and_then(|counts| counts.of.as_ref()) != Some(&of) {
            return Err(format!("ERROR: the twin deletes only what was counted before, not {table} WHERE {condition}"));
        }
        Arc::make_mut(&mut self.database.target).remove(&of);
        Ok(())
    }

    /// The rows land in the partition that was counted; those that belong elsewhere, elsewhere.
    pub(super) fn insert(&mut self, sql: &str) -> Option<()> {
        let (table, condition) = self.counts.as_ref()?.of.clone()?;
        let (into, rest) = split(sql.strip_prefix("INSERT INTO ")?, " (")?;
        if into != table {
            return None;
        }
        let values = items(between(rest, "\nSELECT ", "\nFROM ")?);
        let name = staging(sql, "\nFROM ")?;
        let batch = batch_of_staging(&name)?.to_string();
        let tag = values.iter().any(|value| literal(value).is_some_and(|text| text == batch)).then_some(batch);
        let target = Arc::make_mut(&mut self.database.target);
        for staged in self.database.staging.get(&name)? {
            let condition = if staged.elsewhere { "elsewhere".to_owned() } else { condition.clone() };
            let row = TargetRow { key: staged.key.clone(), tag: tag.clone() };
            target.entry((table.clone(), condition)).or_default().push(row);
        }
        Some(())
    }

    pub(super) fn write_ledger(&mut self, sql: &str) -> Option<()> {
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
        self.database.ledger.push(Arc::new(row));
        Some(())
    }
}

/// The value of the expression that counts rows nobody of ours wrote.
pub(super) fn count_foreign(expression: &str, target: &[TargetRow]) -> Option<i64> {
    if expression == "count(*)" {
        Some(number(target.len()))
    } else if let Some(condition) = between(expression, "count(CASE WHEN ", " THEN NULL ELSE 1 END)") {
        let last = literal(split(condition, " = ")?.1)?;
        Some(number(target.iter().filter(|row| row.tag.as_ref() != Some(&last)).count()))
    } else {
        let last: i64 = between(expression, "CASE WHEN count(*) > ", " THEN ")?.parse().ok()?;
        Some((number(target.len()) - last).max(0))
    }
}
