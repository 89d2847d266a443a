//! The queries that count: the staging table, the target's partition, what COPY loaded.

use jiff::civil::DateTime;

use super::rebuild::Request;
use super::{SqlError, identifier, literal, upsert};
use crate::definition::{Bounds, Column, Definition, Part, PartKind, Range, SqlType};
use crate::partition_value::PartitionValue;

/// Rows moved by the swap, from both rows of `tidemark_counts`. A replace inserts all that the partition then holds.
pub(super) const MOVED: &str = "\
SELECT b.staged_rows AS staged_rows, b.target_rows AS deleted_rows, a.target_rows AS inserted_rows, a.target_rows AS target_rows
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a WHERE b.moment = 'before' AND a.moment = 'after'";

/// The staged rows as they go into the target: with the expressions of `select` in their columns' places.
pub(super) fn shaped(definition: &Definition, staging: &str) -> Result<String, SqlError> {
    if definition.select.is_empty() {
        return Ok(staging.to_owned());
    }
    let shape = |column: &Column| {
        let name = identifier::column(&column.name)?;
        let select = definition.select.iter().find(|(selected, _)| *selected == column.name);
        Ok(select.map_or_else(|| name.clone(), |(_, expression)| format!("({expression}) AS {name}")))
    };
    let columns = definition.columns.iter().map(shape).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(format!("(SELECT {} FROM {staging}) AS shaped", columns.join(", ")))
}

/// The condition that a target row is of the partition.
pub(super) fn of_partition(request: &Request<'_>) -> Result<String, SqlError> {
    condition(request, |_| true)
}

/// One row: staged rows, rows of another partition, duplicates, rows of the target's partition, of them not ours, and for each
/// required column how many staged rows have a value.
pub(super) fn staged(request: &Request<'_>) -> Result<String, SqlError> {
    let definition = request.definition;
    let staged = shaped(definition, &request.staging()?)?;
    let in_files = condition(request, |in_files| in_files)?;
    let other_partition = if in_files.is_empty() {
        "0".to_owned()
    } else {
        // CASE, not NOT: a row of which the condition is unknown is not of the partition either.
        format!("count(CASE WHEN {in_files} THEN NULL ELSE 1 END)")
    };
    let mut values = vec!["count(*) AS staged_rows".to_owned(), format!("{other_partition} AS other_partition_rows")];
    let mut names = ["s.staged_rows", "s.other_partition_rows", "d.duplicate_rows", "t.target_rows", "t.foreign_rows"]
        .map(str::to_owned)
        .to_vec();
    for (index, column) in definition.required.iter().enumerate() {
        values.push(format!("count({}) AS v{index}", identifier::column(column)?));
        names.push(format!("s.v{index}"));
    }
    let mut elsewhere = String::new();
    if upsert::refuses_keys_elsewhere(definition) {
        names.push("e.elsewhere_rows".to_owned());
        elsewhere = format!("\nCROSS JOIN ({}) AS e", upsert::elsewhere(request, &staged)?);
    }
    Ok(format!(
        "SELECT {names}\n\
         FROM (SELECT {values} FROM {staged}) AS s\n\
         CROSS JOIN ({duplicates}) AS d\n\
         CROSS JOIN (SELECT count(*) AS target_rows, {foreign} AS foreign_rows FROM {target} WHERE {of_partition}) AS t{elsewhere}",
        names = names.join(", "),
        values = values.join(", "),
        duplicates = duplicates(definition, &staged)?,
        foreign = foreign(request)?,
        target = identifier::table(&definition.target)?,
        of_partition = of_partition(request)?,
    ))
}

/// One row: COPY's query id, distinct files, listed files, rejected rows. `query_id` is an expression.
///
/// The system views are not mixed with other tables: that fails in Redshift for functions of the leader node. Rejected rows are
/// only looked for where COPY was told to let any pass.
pub(super) fn loads(definition: &Definition, query_id: &str) -> String {
    let may_reject = !definition.format.is_columnar() && definition.tolerance.rejected_rows > 0;
    let rejected = if may_reject {
        format!("(SELECT count(*) FROM sys_load_error_detail WHERE query_id = {query_id})")
    } else {
        "0".to_owned()
    };
    format!(
        "SELECT max(query_id) AS copy_query_id, count(DISTINCT file_name) AS distinct_files, count(*) AS listed_files, \
         {rejected} AS rejected_rows\nFROM sys_load_detail WHERE query_id = {query_id}"
    )
}

/// The first row of `tidemark_counts`: what is there before the swap.
pub(super) fn before(request: &Request<'_>) -> Result<String, SqlError> {
    Ok(format!(
        "INSERT INTO tidemark_counts (moment, target_rows, foreign_rows, staged_rows)\n\
         SELECT 'before', t.target_rows, t.foreign_rows, s.staged_rows\n\
         FROM (SELECT count(*) AS target_rows, {foreign} AS foreign_rows FROM {target} WHERE {of_partition}) AS t\n\
         CROSS JOIN (SELECT count(*) AS staged_rows FROM {staging}) AS s",
        foreign = foreign(request)?,
        target = identifier::table(&request.definition.target)?,
        of_partition = of_partition(request)?,
        staging = request.staging()?,
    ))
}

/// Of the partition's rows in the target, those that no batch of ours wrote: exact by the provenance batch id where there is
/// one, else more than the last batch wrote.
fn foreign(request: &Request<'_>) -> Result<String, SqlError> {
    Ok(match (&request.last, &request.definition.provenance.batch_id) {
        (None, _) => "count(*)".to_owned(),
        (Some(last), Some(column)) => format!(
            "count(CASE WHEN {} = {} THEN NULL ELSE 1 END)",
            identifier::column(column)?,
            literal::text(&last.batch.to_string())?
        ),
        (Some(last), None) => {
            format!("CASE WHEN count(*) > {rows} THEN count(*) - {rows} ELSE 0 END", rows = last.rows)
        }
    })
}

/// The second row of `tidemark_counts`: what is there after DELETE and INSERT.
pub(super) fn after(request: &Request<'_>) -> Result<String, SqlError> {
    Ok(format!(
        "INSERT INTO tidemark_counts (moment, target_rows)\nSELECT 'after', count(*) FROM {} WHERE {}",
        identifier::table(&request.definition.target)?,
        of_partition(request)?
    ))
}

/// Rows beyond the first of each key; none where there is no key.
fn duplicates(definition: &Definition, staged: &str) -> Result<String, SqlError> {
    if definition.key.is_empty() {
        return Ok("SELECT 0 AS duplicate_rows".to_owned());
    }
    if let Some(order_by) = &definition.order_by {
        return upsert::ties(definition, order_by, staged);
    }
    let columns = definition.key.iter().map(identifier::column).collect::<Result<Vec<_>, _>>()?.join(", ");
    Ok(format!(
        "SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM \
         (SELECT count(*) AS key_rows FROM {staged} GROUP BY {columns} HAVING count(*) > 1) AS k"
    ))
}

fn condition(request: &Request<'_>, wanted: impl Fn(bool) -> bool) -> Result<String, SqlError> {
    let (parts, values) = (&request.definition.parts, &request.partition.values);
    let fit = |(part, value): (&Part, &PartitionValue)| {
        matches!(
            (part.kind, value),
            (PartKind::Date, PartitionValue::Date(_))
                | (PartKind::Integer, PartitionValue::Integer(_))
                | (PartKind::Text, PartitionValue::Text(_))
                | (PartKind::Timestamp, PartitionValue::Timestamp(_))
        )
    };
    if parts.is_empty() || parts.len() != values.len() || !parts.iter().zip(values).all(fit) {
        return Err(misfit(request));
    }
    let mut terms = Vec::new();
    for (part, value) in parts.iter().zip(values) {
        if wanted(part.in_files) {
            let column = identifier::column(&part.column)?;
            terms.push(match &part.range {
                None => format!("{column} = {}", literal::value(value)?),
                Some(range) => {
                    let (from, before) = bounds(request, part, range, value)?;
                    format!("{column} >= {from} AND {column} < {before}")
                }
            });
        }
    }
    Ok(terms.join(" AND "))
}

/// The literals between which a range's rows lie, of the column's type; the first is one of them.
fn bounds(
    request: &Request<'_>,
    part: &Part,
    range: &Range,
    value: &PartitionValue,
) -> Result<(String, String), SqlError> {
    let column = request.definition.columns.iter().find(|column| column.name == part.column);
    let (Some(column), Ok(Bounds { from, before })) = (column, range.bounds(value)) else {
        return Err(misfit(request));
    };
    let literal = |at: DateTime| match column.sql_type {
        SqlType::Date => literal::date(at.date()),
        SqlType::TimestampTz => literal::timestamptz(at),
        _ => literal::timestamp(at),
    };
    Ok((literal(from)?, literal(before)?))
}

fn misfit(request: &Request<'_>) -> SqlError {
    let (dataset, partition) = (request.definition.name.clone(), request.partition.name.clone());
    SqlError::Partition { dataset, partition }
}
