//! What `apply` asks of Redshift before it changes anything: the targets' columns, their guard rows, whose rows they hold.
//!
//! Only apply asks this; no rebuild reads a fence table but under its lock.

use std::collections::BTreeMap;
use std::fmt;

use super::identifier::{self, PerTarget, per_target, per_target_name};
use super::rows::{Field, Reader, RowError};
use super::{Batch, SqlError, literal};
use crate::apply::Guard;
use crate::definition::{ColumnName, Definition, Part, PartKind, SqlType, TableName};
use crate::id::{Epoch, PartitionName};
use crate::layout::named;

/// So many targets are asked about in one statement; with the longest names it stays below its limit.
pub const TARGETS_AT_ONCE: usize = 100;
/// So many groups of rows are looked at per target.
pub const GROUPS_AT_MOST: usize = 10_000;

/// A column as it stands in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: ColumnName,
    /// Its type.
    pub sql_type: TableType,
    /// An insert that doesn't name it fails: it is NOT NULL and has no default.
    pub must_be_written: bool,
}

/// A column's type as it stands in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableType {
    /// One that a definition may have as well.
    Known(SqlType),
    /// Any other, in Redshift's words.
    Other(String),
}

impl fmt::Display for TableType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(sql_type) => sql_type.fmt(f),
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// The rows of one partition that one batch wrote, as the target's columns tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroup {
    /// The partition.
    pub partition: PartitionName,
    /// The batch id in the provenance column, where the target has one.
    pub batch_id: Option<String>,
    /// How many rows.
    pub rows: u64,
}

/// The columns of targets and of their fence tables; at most [`TARGETS_AT_ONCE`] targets.
pub fn columns(targets: &[&TableName]) -> Result<Batch, SqlError> {
    let mut tables = Vec::new();
    for target in targets {
        tables.push(is_table(&target.schema, &target.table)?);
        tables.push(is_table(identifier::SCHEMA, &per_target_name(PerTarget::Fence, target))?);
    }
    let sql = format!(
        "SELECT CAST(table_schema AS varchar(128)), CAST(table_name AS varchar(128)), CAST(column_name AS varchar(128)),\n\
         CASE WHEN is_nullable = 'NO' AND column_default IS NULL THEN 1 ELSE 0 END AS must_be_written,\n\
         CAST(data_type AS varchar(128)), CAST(character_maximum_length AS integer), CAST(numeric_precision AS integer), \
         CAST(numeric_scale AS integer)\n\
         FROM information_schema.columns\nWHERE {}\nORDER BY 1, 2, ordinal_position",
        tables.join("\nOR ")
    );
    Batch::new("tidemark/apply/columns", vec![sql])
}

/// Reads the rows of [`columns`]: each table with its columns; one that isn't there is left out.
pub fn read_columns(rows: &[Vec<Field>]) -> Result<BTreeMap<TableName, Vec<TableColumn>>, RowError> {
    let mut tables: BTreeMap<TableName, Vec<TableColumn>> = BTreeMap::new();
    for row in rows {
        let mut row = Reader::new("columns of the targets", row);
        let name = TableName { schema: row.text("table_schema")?, table: row.text("table_name")? };
        let column = ColumnName(row.text("column_name")?);
        let must_be_written = row.count("must_be_written")? != 0;
        let words = row.text("data_type")?;
        let length = row.optional_count("character_maximum_length")?;
        let (precision, scale) = (row.optional_count("numeric_precision")?, row.optional_count("numeric_scale")?);
        let sql_type = table_type(words.trim(), length, precision.zip(scale));
        tables.entry(name).or_default().push(TableColumn { name: column, sql_type, must_be_written });
    }
    Ok(tables)
}

/// A type in the words of the information schema.
fn table_type(words: &str, length: Option<u64>, digits: Option<(u64, u64)>) -> TableType {
    let text = match (words, length, digits) {
        ("numeric", _, Some((precision, scale))) => format!("{words}({precision},{scale})"),
        ("character varying" | "character", Some(length), _) => format!("{words}({length})"),
        // Redshift tells a length always.
        ("character varying", None, _) => "varchar(max)".to_owned(),
        _ => words.to_owned(),
    };
    SqlType::parse(&text).map_or_else(|_| TableType::Other(text), TableType::Known)
}

/// The name under which [`columns`] tells a target's fence table.
pub fn fence_table(target: &TableName) -> TableName {
    TableName { schema: identifier::SCHEMA.to_owned(), table: per_target_name(PerTarget::Fence, target) }
}

/// The guard rows of targets that have a fence table; at most [`TARGETS_AT_ONCE`].
pub fn guards(targets: &[&TableName]) -> Result<Batch, SqlError> {
    let mut selects = Vec::new();
    for target in targets {
        selects.push(format!(
            "SELECT {}, stack, dataset, epoch FROM {} WHERE partition_name = ''",
            literal::text(&target.to_string())?,
            per_target(PerTarget::Fence, target)?
        ));
    }
    Batch::new("tidemark/apply/guards", vec![selects.join("\nUNION ALL\n")])
}

/// Reads the rows of [`guards`], by the target's name.
pub fn read_guards(rows: &[Vec<Field>]) -> Result<BTreeMap<String, Guard>, RowError> {
    let mut guards = BTreeMap::new();
    for row in rows {
        let mut row = Reader::new("guard rows", row);
        let target = row.text("target")?;
        let (stack, dataset) = (row.text("stack")?, row.text("dataset")?);
        guards.insert(target, Guard { stack, dataset, epoch: Epoch(row.count("epoch")?) });
    }
    Ok(guards)
}

/// How many rows the target holds, by partition and, with a provenance column, by batch; the first [`GROUPS_AT_MOST`].
pub fn row_groups(definition: &Definition) -> Result<Batch, SqlError> {
    let mut values = Vec::new();
    for part in &definition.parts {
        values.push(format!("CAST({} AS varchar(1000))", value(definition, part)?));
    }
    let mut grouped = values.len();
    if let Some(column) = &definition.provenance.batch_id {
        values.push(format!("CAST({} AS varchar(64))", identifier::column(column)?));
        grouped += 1;
    } else {
        values.push("CAST(NULL AS varchar(64))".to_owned());
    }
    let groups = (1..=grouped).map(|place| place.to_string()).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {}, count(*) AS row_count\nFROM {}\nGROUP BY {groups}\nORDER BY {groups}\nLIMIT {GROUPS_AT_MOST}",
        values.join(", "),
        identifier::table(&definition.target)?,
    );
    Batch::new(format!("tidemark/apply/rows/{}", definition.name), vec!["SET timezone TO 'UTC'".to_owned(), sql])
}

/// Reads the rows of [`row_groups`]. Rows whose columns are of no partition, such as NULL, are left out: no swap deletes them.
pub fn read_row_groups(definition: &Definition, rows: &[Vec<Field>]) -> Result<Vec<RowGroup>, RowError> {
    let mut groups = Vec::new();
    for row in rows {
        let mut row = Reader::new("rows of the target", row);
        let mut values = Vec::new();
        for part in &definition.parts {
            let text = row.optional_text(&part.column.0)?;
            values.extend(text.and_then(|text| part.read(text.trim_end()).ok()));
        }
        let batch_id = row.optional_text("batch_id")?;
        let rows = row.count("row_count")?;
        if values.len() < definition.parts.len() {
            continue;
        }
        if let Ok(partition) = named(&definition.parts, values) {
            groups.push(RowGroup { partition: partition.name, batch_id, rows });
        }
    }
    Ok(groups)
}

/// The part's value as the target's rows tell it: the column, or the beginning of the range it lies in.
fn value(definition: &Definition, part: &Part) -> Result<String, SqlError> {
    let column = identifier::column(&part.column)?;
    let Some(range) = &part.range else {
        return Ok(column);
    };
    let named = definition.columns.iter().find(|named| named.name == part.column);
    let utc = match named.map(|named| named.sql_type) {
        Some(SqlType::TimestampTz) => format!("{column} AT TIME ZONE 'UTC'"),
        Some(SqlType::Date) => format!("CAST({column} AS timestamp)"),
        _ => column,
    };
    let local = match &range.timezone {
        Some(zone) => format!("CONVERT_TIMEZONE({}, {utc})", literal::text(&zone.to_string())?),
        None => utc,
    };
    let beginning = format!("DATE_TRUNC('{}', {local})", range.grain);
    Ok(if part.kind == PartKind::Date { format!("CAST({beginning} AS date)") } else { beginning })
}

fn is_table(schema: &str, table: &str) -> Result<String, SqlError> {
    Ok(format!("(table_schema = {} AND table_name = {})", literal::text(schema)?, literal::text(table)?))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use sqlparser::dialect::RedshiftSqlDialect;
    use sqlparser::parser::Parser;

    use super::super::tests::{EVENTS, ORDERS, definition};
    use super::*;

    fn text(text: &str) -> Field {
        Field::Text(text.to_owned())
    }

    fn parsed(batch: &Batch) -> String {
        for sql in batch.statements() {
            Parser::parse_sql(&RedshiftSqlDialect {}, sql).unwrap();
        }
        batch.statements().join(";\n")
    }

    #[test]
    fn the_questions_are_golden() {
        let (orders, events) = (definition(ORDERS), definition(EVENTS));
        expect![[r#"
            SELECT CAST(table_schema AS varchar(128)), CAST(table_name AS varchar(128)), CAST(column_name AS varchar(128)),
            CASE WHEN is_nullable = 'NO' AND column_default IS NULL THEN 1 ELSE 0 END AS must_be_written,
            CAST(data_type AS varchar(128)), CAST(character_maximum_length AS integer), CAST(numeric_precision AS integer), CAST(numeric_scale AS integer)
            FROM information_schema.columns
            WHERE (table_schema = 'sales' AND table_name = 'orders')
            OR (table_schema = 'tidemark' AND table_name = 'fence_sales_orders_9070a83f92')
            ORDER BY 1, 2, ordinal_position"#]].assert_eq(&parsed(&columns(&[&orders.target]).unwrap()));
        expect![[r#"
            SELECT 'sales.orders', stack, dataset, epoch FROM tidemark."fence_sales_orders_9070a83f92" WHERE partition_name = ''
            UNION ALL
            SELECT 'web.events', stack, dataset, epoch FROM tidemark."fence_web_events_621eca1235" WHERE partition_name = ''"#]].assert_eq(&parsed(&guards(&[&orders.target, &events.target]).unwrap()));
        expect![[r#"
            SET timezone TO 'UTC';
            SELECT CAST("dt" AS varchar(1000)), CAST(NULL AS varchar(64)), count(*) AS row_count
            FROM "sales"."orders"
            GROUP BY 1
            ORDER BY 1
            LIMIT 10000"#]]
        .assert_eq(&parsed(&row_groups(&orders).unwrap()));
        expect![[r#"
            SET timezone TO 'UTC';
            SELECT CAST("region" AS varchar(1000)), CAST("hour" AS varchar(1000)), CAST("_batch_id" AS varchar(64)), count(*) AS row_count
            FROM "web"."events"
            GROUP BY 1, 2, 3
            ORDER BY 1, 2, 3
            LIMIT 10000"#]].assert_eq(&parsed(&row_groups(&events).unwrap()));
    }

    #[test]
    fn as_many_targets_as_are_asked_about_at_once_fit_into_a_statement() {
        let long = TableName { schema: "\\".repeat(127), table: "'".repeat(127) };
        columns(&[&long; TARGETS_AT_ONCE]).unwrap();
        guards(&[&long; TARGETS_AT_ONCE]).unwrap();
    }

    #[test]
    fn columns_are_told_by_table_and_guards_by_target() {
        let row = |column: &str, words: &str, numbers: [Option<i64>; 3]| {
            let names = [text("sales"), text("orders"), text(column), Field::Long(1), text(words)];
            names.into_iter().chain(numbers.map(|n| n.map_or(Field::Null, Field::Long))).collect::<Vec<_>>()
        };
        let rows = [
            row("dt", "date", [None; 3]),
            row("customer", "character varying", [Some(64), None, None]),
            row("amount", "numeric", [None, Some(12), Some(2)]),
            row("order_id", "bigint", [None, Some(64), Some(0)]),
            row("at", "timestamp without time zone", [None; 3]),
            row("where", "geometry", [None; 3]),
        ];
        let tables = read_columns(&rows).unwrap();
        let columns = &tables[&definition(ORDERS).target];
        let told: Vec<String> = columns.iter().map(|c| format!("{} {}", c.name, c.sql_type)).collect();
        let expected = [
            "dt date",
            "customer varchar(64)",
            "amount decimal(12,2)",
            "order_id bigint",
            "at timestamp",
            "where geometry",
        ];
        assert_eq!(told, expected);
        assert!(columns[0].must_be_written && matches!(columns[5].sql_type, TableType::Other(_)));
        let rows = [vec![text("sales.orders"), text("prod"), text("orders"), Field::Long(3)]];
        let guard = Guard { stack: "prod".into(), dataset: "orders".into(), epoch: Epoch(3) };
        assert_eq!(read_guards(&rows).unwrap(), BTreeMap::from([("sales.orders".into(), guard)]));
        assert!(read_guards(&[vec![text("sales.orders"), Field::Null]]).is_err());
    }

    #[test]
    fn groups_are_told_by_partition_and_rows_of_none_are_left_out() {
        let events = definition(EVENTS);
        let rows = [
            vec![text("eu"), text("2026-11-01 07:00:00"), text("b1"), Field::Long(3)],
            vec![Field::Null, text("2026-11-01 07:00:00"), Field::Null, Field::Long(9)],
        ];
        let group = RowGroup {
            partition: PartitionName::new("region=eu/hour=2026-11-01T07:00:00").unwrap(),
            batch_id: Some("b1".into()),
            rows: 3,
        };
        assert_eq!(read_row_groups(&events, &rows).unwrap(), [group]);
    }
}
