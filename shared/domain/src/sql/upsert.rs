//! Upsert: the statements in which it differs from replace.
//!
//! Of the staged rows of a key one wins: the only one, or with `order_by` the one with the greatest value there, a null losing to
//! all. A winner takes the place of the key's row in the target, wherever that stands, unless that is greater. So rows of keys
//! that aren't staged stay, and a late rebuild of an older partition overwrites nothing newer.
//!
//! The winners are put down in a temporary table once, so that what is counted, deleted and inserted is the same.

use super::rebuild::Request;
use super::{SqlError, count, identifier};
use crate::definition::{ColumnName, Definition, WriteMode};

/// Rows moved by the swap.
pub(super) const MOVED: &str = "\
SELECT b.staged_rows AS staged_rows, b.target_rows AS deleted_rows, w.inserted_rows AS inserted_rows, a.target_rows AS target_rows
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a CROSS JOIN (SELECT count(*) AS inserted_rows FROM tidemark_winners) AS w
WHERE b.moment = 'before' AND a.moment = 'after'";

/// Whether a key that stands in another partition is refused: without `order_by` nobody could say which row is newer.
pub(super) fn refuses_keys_elsewhere(definition: &Definition) -> bool {
    definition.write == WriteMode::Upsert && definition.order_by.is_none()
}

/// One number: target rows of other partitions whose key is staged.
pub(super) fn elsewhere(request: &Request<'_>, staged: &str) -> Result<String, SqlError> {
    let definition = request.definition;
    Ok(format!(
        "SELECT count(*) AS elsewhere_rows FROM (SELECT {keys} FROM {staged} GROUP BY {keys}) AS k \
         JOIN (SELECT {keys} FROM {target} WHERE CASE WHEN {of_partition} THEN false ELSE true END) AS o ON {same}",
        keys = names(&definition.key, "")?,
        target = identifier::table(&definition.target)?,
        of_partition = count::of_partition(request)?,
        same = same_key(definition, "k", "o")?,
    ))
}

/// Rows beyond the first of those that are greatest for their key and not the same all over: nobody could say which wins.
pub(super) fn ties(definition: &Definition, order_by: &ColumnName, staged: &str) -> Result<String, SqlError> {
    let keys = names(&definition.key, "")?;
    let all: Vec<ColumnName> = definition.columns.iter().map(|column| column.name.clone()).collect();
    Ok(format!(
        "SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM \
         (SELECT count(*) AS key_rows FROM (SELECT DISTINCT {all} FROM (SELECT {all}, \
         rank() OVER (PARTITION BY {keys} ORDER BY {order_by} DESC NULLS LAST) AS tidemark_place FROM {staged}) AS p \
         WHERE tidemark_place = 1) AS g GROUP BY {keys} HAVING count(*) > 1) AS k",
        all = names(&all, "")?,
        order_by = identifier::column(order_by)?,
    ))
}

/// The winners, shaped as they go into the target. Under the fence table's lock nobody of ours changes the target meanwhile.
pub(super) fn winners(request: &Request<'_>) -> Result<String, SqlError> {
    let definition = request.definition;
    let staged = count::shaped(definition, &request.staging()?)?;
    let columns: Vec<ColumnName> = definition.columns.iter().map(|column| column.name.clone()).collect();
    let all = names(&columns, "")?;
    let Some(order_by) = &definition.order_by else {
        return Ok(format!("CREATE TEMP TABLE tidemark_winners AS SELECT {all} FROM {staged}"));
    };
    let order_by = identifier::column(order_by)?;
    let first = definition.key.first().map(identifier::column).transpose()?.unwrap_or_default();
    Ok(format!(
        "CREATE TEMP TABLE tidemark_winners AS SELECT {of_w} FROM (SELECT {all}, \
         row_number() OVER (PARTITION BY {keys} ORDER BY {order_by} DESC NULLS LAST) AS tidemark_place FROM {staged}) AS w\n\
         LEFT JOIN {target} AS t ON {same} AND (t.{order_by} > w.{order_by} OR (w.{order_by} IS NULL AND t.{order_by} IS NOT NULL))\n\
         WHERE w.tidemark_place = 1 AND t.{first} IS NULL",
        of_w = names(&columns, "w.")?,
        keys = names(&definition.key, "")?,
        target = identifier::table(&definition.target)?,
        same = same_key(definition, "w", "t")?,
    ))
}

/// The first row of `tidemark_counts`: the target rows that go, those of them that may not, and what is staged.
///
/// With `order_by` any row may go, whoever wrote it. Without it none of another partition may: that was verified, but a swap of that
/// partition may have landed since, and then the guard raises.
pub(super) fn before(request: &Request<'_>) -> Result<String, SqlError> {
    let definition = request.definition;
    let refused = refuses_keys_elsewhere(definition);
    let foreign =
        if refused { elsewhere(request, "tidemark_winners")? } else { "SELECT 0 AS elsewhere_rows".to_owned() };
    Ok(format!(
        "INSERT INTO tidemark_counts (moment, target_rows, foreign_rows, staged_rows)\n\
         SELECT 'before', t.target_rows, e.elsewhere_rows, s.staged_rows\n\
         FROM (SELECT count(*) AS target_rows FROM {target} AS o JOIN tidemark_winners AS w ON {same}) AS t\n\
         CROSS JOIN ({foreign}) AS e\n\
         CROSS JOIN (SELECT count(*) AS staged_rows FROM {staging}) AS s",
        target = identifier::table(&definition.target)?,
        same = same_key(definition, "o", "w")?,
        staging = request.staging()?,
    ))
}

/// Deletes what the winners replace.
pub(super) fn delete(request: &Request<'_>) -> Result<String, SqlError> {
    let definition = request.definition;
    let target = identifier::table(&definition.target)?;
    Ok(format!("DELETE FROM {target} USING tidemark_winners AS w WHERE {}", same_key(definition, &target, "w")?))
}

/// The second row of `tidemark_counts`: how many keys are staged, and how many rows of them the target holds. Each key once: both are
/// the same, which the seal asks for.
pub(super) fn after(request: &Request<'_>) -> Result<String, SqlError> {
    let definition = request.definition;
    let staged = count::shaped(definition, &request.staging()?)?;
    Ok(format!(
        "INSERT INTO tidemark_counts (moment, target_rows, staged_rows)\n\
         SELECT 'after', t.target_rows, s.staged_keys\n\
         FROM (SELECT count(*) AS target_rows FROM {target} AS o JOIN (SELECT {keys} FROM {staged} GROUP BY {keys}) AS k ON {same}) AS t\n\
         CROSS JOIN (SELECT count(*) AS staged_keys FROM (SELECT {keys} FROM {staged} GROUP BY {keys}) AS k) AS s",
        target = identifier::table(&definition.target)?,
        keys = names(&definition.key, "")?,
        same = same_key(definition, "o", "k")?,
    ))
}

fn same_key(definition: &Definition, left: &str, right: &str) -> Result<String, SqlError> {
    let same = |name: &ColumnName| {
        let name = identifier::column(name)?;
        Ok(format!("{left}.{name} = {right}.{name}"))
    };
    let terms = definition.key.iter().map(same).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(terms.join(" AND "))
}

fn names(columns: &[ColumnName], of: &str) -> Result<String, SqlError> {
    let name = |column: &ColumnName| Ok(format!("{of}{}", identifier::column(column)?));
    Ok(columns.iter().map(name).collect::<Result<Vec<_>, SqlError>>()?.join(", "))
}
