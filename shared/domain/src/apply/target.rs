//! A dataset held against its target as it stands: the columns, the rows that are there, the width of its statements.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::definition::{ColumnName, Definition, PartKind, SqlType};
use crate::id::{BatchId, DatasetName, Digest, Epoch, Fence, Generation, PartitionName, StackName};
use crate::partition::Committed;
use crate::partition_value::{Partition, PartitionValue};
use crate::sql::SqlError;
use crate::sql::rebuild::{CopyRole, CopySource, LastBatch, Request, widest};
use crate::sql::survey::{RowGroup, TableColumn, TableType};

/// No statement of a rebuild may be longer; the Data API takes a little more.
pub const WIDEST_STATEMENT_BYTES: usize = 90_000;
/// Bytes of the longest value that a partition's name has room for.
const LONGEST_VALUE: usize = 1_000;
/// Bytes of a batch's id as text.
const BATCH_ID_BYTES: u16 = 36;

/// What is wrong with the target's columns. `table` is `None` where there is no such table, or none that may be seen.
pub fn column_problems(definition: &Definition, table: Option<&[TableColumn]>) -> Vec<String> {
    let (dataset, target) = (&definition.name, &definition.target);
    let Some(table) = table else {
        return vec![format!(
            "{dataset}: there is no table {target}, or its columns can't be seen; create it, or grant its use"
        )];
    };
    let written = written_columns(definition);
    let mut problems = Vec::new();
    for (column, wanted) in &written {
        let Some(there) = table.iter().find(|there| there.name == **column) else {
            let add = wanted.as_add();
            problems.push(format!("{dataset}: {target} has no column `{column}`; add it to the table{add}"));
            continue;
        };
        problems
            .extend(type_problem(there, *wanted).map(|why| format!("{dataset}: column `{column}` of {target} {why}")));
    }
    for column in
        table.iter().filter(|there| there.must_be_written && written.iter().all(|(name, _)| **name != there.name))
    {
        let name = &column.name;
        problems.push(format!(
            "{dataset}: column `{name}` of {target} is NOT NULL and nothing writes it; add it to `columns`, or give it a default"
        ));
    }
    problems
}

/// What a column of the target has to hold.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// Values of a column of the files.
    Values(SqlType),
    /// Values of a part of the partition's name.
    Part(PartKind),
    /// A batch's id.
    BatchId,
    /// The time of a swap.
    LoadedAt,
}

impl Wanted {
    /// How it is added to a table, where its type is known.
    fn as_add(self) -> String {
        let sql_type = match self {
            Self::Values(sql_type) => sql_type.to_string(),
            Self::Part(PartKind::Date) => "date".to_owned(),
            Self::Part(PartKind::Integer) => "bigint".to_owned(),
            Self::Part(PartKind::Timestamp) | Self::LoadedAt => "timestamp".to_owned(),
            Self::BatchId => format!("varchar({BATCH_ID_BYTES})"),
            Self::Part(PartKind::Text) => return String::new(),
        };
        format!(" as {sql_type}")
    }
}

/// The columns an insert names, and what it puts there.
fn written_columns(definition: &Definition) -> Vec<(&ColumnName, Wanted)> {
    let files = definition.columns.iter().map(|column| (&column.name, Wanted::Values(column.sql_type)));
    let path = definition.parts.iter().filter(|part| !part.in_files);
    let path = path.map(|part| (&part.column, Wanted::Part(part.kind)));
    let batch_id = definition.provenance.batch_id.iter().map(|column| (column, Wanted::BatchId));
    let loaded_at = definition.provenance.loaded_at.iter().map(|column| (column, Wanted::LoadedAt));
    files.chain(path).chain(batch_id).chain(loaded_at).collect()
}

/// Why a column can't hold every value it is given, and what to do.
fn type_problem(there: &TableColumn, wanted: Wanted) -> Option<String> {
    let found = &there.sql_type;
    let TableType::Known(into) = *found else {
        // SUPER takes any value; of the others nobody knows.
        return (found.to_string() != "super")
            .then(|| format!("is {found}, which no rebuild can write; use another type"));
    };
    match wanted {
        Wanted::Values(from) if holds(into, from) => None,
        Wanted::Values(from) => {
            let why = if holds(from, into) { "is narrower than" } else { "doesn't fit" };
            Some(format!(
                "is {found}, which {why} the {from} of the files; alter the table, or say {found} in `columns`"
            ))
        }
        Wanted::Part(kind) => {
            let fits = match kind {
                PartKind::Date => matches!(into, SqlType::Date | SqlType::Timestamp),
                PartKind::Integer => integer_digits(into).is_some() || matches!(into, SqlType::Decimal { .. }),
                PartKind::Text => matches!(into, SqlType::Varchar(_) | SqlType::Char(_)),
                PartKind::Timestamp => matches!(into, SqlType::Timestamp),
            };
            (!fits).then(|| format!("is {found}, but the part's type is {kind}; alter the table, or the part's `type`"))
        }
        Wanted::BatchId => {
            let fits = matches!(into, SqlType::Varchar(bytes) if bytes >= BATCH_ID_BYTES);
            (!fits).then(|| format!("is {found}, but a batch's id needs varchar({BATCH_ID_BYTES}); alter the table"))
        }
        Wanted::LoadedAt => {
            let fits = matches!(into, SqlType::Timestamp | SqlType::TimestampTz);
            (!fits).then(|| format!("is {found}, but the time of a load needs timestamp; alter the table"))
        }
    }
}

/// Whether a column of one type holds every value of another, as it is: an insert neither fails nor rounds.
fn holds(into: SqlType, from: SqlType) -> bool {
    match (from, into) {
        (SqlType::SmallInt | SqlType::Integer | SqlType::BigInt, SqlType::Decimal { precision, scale }) => {
            integer_digits(from).is_some_and(|digits| precision.saturating_sub(scale) >= digits)
        }
        // A SUPER takes whatever has a form in JSON.
        (_, SqlType::Super)
        | (SqlType::SmallInt, SqlType::Real)
        | (SqlType::SmallInt | SqlType::Integer | SqlType::Real, SqlType::Double)
        | (SqlType::Date, SqlType::Timestamp) => true,
        (SqlType::SmallInt | SqlType::Integer | SqlType::BigInt, _) => integer_digits(into) >= integer_digits(from),
        (SqlType::Decimal { precision: p, scale: s }, SqlType::Decimal { precision, scale }) => {
            scale >= s && precision.saturating_sub(scale) >= p.saturating_sub(s)
        }
        (SqlType::Char(bytes), SqlType::Char(room))
        | (SqlType::Char(bytes) | SqlType::Varchar(bytes), SqlType::Varchar(room)) => room >= bytes,
        (from, into) => from == into,
    }
}

/// How many decimal digits a whole number of this type may have; `None` for what is no whole number.
fn integer_digits(sql_type: SqlType) -> Option<u8> {
    match sql_type {
        SqlType::SmallInt => Some(5),
        SqlType::Integer => Some(10),
        SqlType::BigInt => Some(19),
        _ => None,
    }
}

/// The rows, by partition, that nobody of ours wrote, as a swap counts them: exact where there is a provenance batch id,
/// else more than the partition's last batch wrote. `last` is each partition's last batch.
pub fn foreign_rows(
    definition: &Definition,
    groups: &[RowGroup],
    last: &BTreeMap<PartitionName, Committed>,
) -> BTreeMap<PartitionName, u64> {
    let exact = definition.provenance.batch_id.is_some();
    let mut foreign: BTreeMap<PartitionName, u64> = BTreeMap::new();
    for group in groups {
        let ours = match last.get(&group.partition) {
            Some(last) if !exact => last.rows,
            Some(last) if group.batch_id.as_ref() == Some(&last.batch.to_string()) => group.rows,
            None | Some(_) => 0,
        };
        *foreign.entry(group.partition.clone()).or_default() += group.rows.saturating_sub(ours);
    }
    foreign.retain(|_, rows| *rows > 0);
    foreign
}

/// What is wrong with the width of its statements, for the widest partition there may be.
pub fn width_problem(definition: &Definition) -> Result<Option<String>, SqlError> {
    // A range needs an end, which the last of all days hasn't.
    let last = jiff::civil::Date::constant(9998, 12, 31);
    let values = definition.parts.iter().map(|part| match part.kind {
        PartKind::Date if part.range.is_some() => PartitionValue::Date(last),
        PartKind::Timestamp if part.range.is_some() => PartitionValue::Timestamp(last.at(23, 0, 0, 0)),
        PartKind::Date => PartitionValue::Date(jiff::civil::Date::MAX),
        PartKind::Integer => PartitionValue::Integer(i64::MIN),
        // A quote is doubled.
        PartKind::Text => PartitionValue::Text("'".repeat(LONGEST_VALUE / definition.parts.len().max(1))),
        PartKind::Timestamp => PartitionValue::Timestamp(jiff::civil::DateTime::MAX),
    });
    let values = values.collect();
    let long = "'".repeat(LONGEST_VALUE);
    let (Ok(name), Ok(stack)) = (PartitionName::new(long), StackName::new("s".repeat(128))) else {
        return Ok(None);
    };
    let bytes = widest_bytes(definition, &Partition { name, values }, &stack)?;
    let told = |dataset: &DatasetName| {
        format!(
            "{dataset}: a statement of its rebuilds may have {bytes} bytes, at most {WIDEST_STATEMENT_BYTES} are safe; \
             use fewer columns or shorter names"
        )
    };
    Ok((bytes > WIDEST_STATEMENT_BYTES).then(|| told(&definition.name)))
}

fn widest_bytes(definition: &Definition, partition: &Partition, stack: &StackName) -> Result<usize, SqlError> {
    let (hash, digest) = (definition.hash(), Digest::of([b"any".as_slice()]));
    let request = Request {
        definition,
        definition_hash: &hash,
        partition,
        stack,
        batch: BatchId(uuid::Uuid::max()),
        fence: Fence(u64::MAX),
        generation: Generation(u64::MAX),
        epoch: Epoch(u64::MAX),
        statement_timeout: Duration::from_hours(24),
        last: Some(LastBatch { batch: BatchId(uuid::Uuid::max()), rows: u64::MAX }),
        accept_foreign_rows: false,
        listed: Some(&digest),
    };
    let source = CopySource {
        manifest_url: format!("s3://{}", "m".repeat(1_024)),
        role: CopyRole::Arn("a".repeat(2_048)),
        region: Some("r".repeat(32)),
    };
    widest(&request, &source)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::definition::parse;
    use crate::id::Digest;

    const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal(12,2)"]
[orders.partition.dt]
type = "date"
[orders.provenance]
batch_id = "_batch_id"
"#;

    fn orders() -> Definition {
        parse(ORDERS).unwrap().remove(0)
    }

    /// Columns as `name type`, `!` in front of those that must be written.
    fn table(columns: &[&str]) -> Vec<TableColumn> {
        let column = |text: &&str| {
            let must_be_written = text.starts_with('!');
            let (name, sql_type) = text.trim_start_matches('!').split_once(' ').unwrap();
            let sql_type =
                SqlType::parse(sql_type).map_or_else(|_| TableType::Other(sql_type.into()), TableType::Known);
            TableColumn { name: ColumnName(name.into()), sql_type, must_be_written }
        };
        columns.iter().map(column).collect()
    }

    const GOOD: [&str; 5] =
        ["!order_id bigint", "amount decimal(12,2)", "!dt date", "_batch_id varchar(36)", "note varchar(10)"];

    #[test]
    fn a_target_has_every_column_that_is_written_and_none_that_must_be_but_is_not() {
        assert_eq!(column_problems(&orders(), Some(&table(&GOOD))), [""; 0]);
        let there = table(&["!order_id bigint", "amount decimal(12,2)", "!tenant bigint"]);
        let told = column_problems(&orders(), Some(&there));
        let said = |words: &str| told.iter().any(|problem| problem.contains(words));
        assert_eq!(told.len(), 3, "{told:#?}");
        for words in [
            "sales.orders has no column `dt`; add it to the table as date",
            "no column `_batch_id`; add it to the table as varchar(36)",
            "`tenant` of sales.orders is NOT NULL",
        ] {
            assert!(said(words), "{words}: {told:#?}");
        }
        assert!(column_problems(&orders(), None)[0].contains("no table sales.orders"));
    }

    #[test]
    fn a_column_that_is_narrower_or_of_another_kind_is_told_with_what_to_do() {
        for (at, column, words) in [
            (
                0,
                "!order_id integer",
                "is integer, which is narrower than the bigint of the files; alter the table, or say integer",
            ),
            (0, "!order_id varchar(20)", "is varchar(20), which doesn't fit the bigint"),
            (1, "amount decimal(10,2)", "is narrower than the decimal(12,2)"),
            (1, "amount double precision", "doesn't fit the decimal(12,2)"),
            (1, "amount geometry", "is geometry, which no rebuild can write"),
            (
                2,
                "!dt varchar(10)",
                "is varchar(10), but the part's type is date; alter the table, or the part's `type`",
            ),
            (3, "_batch_id varchar(32)", "a batch's id needs varchar(36)"),
        ] {
            let mut columns = GOOD;
            columns[at] = column;
            let told = column_problems(&orders(), Some(&table(&columns)));
            assert_eq!(told.len(), 1, "{column}: {told:#?}");
            assert!(told[0].contains(words), "{column}: {told:#?}");
        }
        let mut columns = GOOD;
        columns[1] = "amount super";
        assert_eq!(column_problems(&orders(), Some(&table(&columns))), [""; 0]);
    }

    #[test]
    fn a_type_holds_what_it_holds_without_loss() {
        let parse = |text: &str| SqlType::parse(text).unwrap();
        for (into, from) in [
            ("bigint", "smallint"),
            ("decimal(19,0)", "bigint"),
            ("double precision", "integer"),
            ("double precision", "real"),
            ("decimal(14,3)", "decimal(12,2)"),
            ("varchar(64)", "varchar(64)"),
            ("varchar(64)", "char(10)"),
            ("timestamp", "date"),
        ] {
            assert!(holds(parse(into), parse(from)), "{into} holds {from}");
            assert!(into == from || !holds(parse(from), parse(into)), "{from} doesn't hold {into}");
        }
        for (into, from) in [
            ("real", "integer"),
            ("double precision", "bigint"),
            ("decimal(19,1)", "bigint"),
            ("decimal(12,3)", "decimal(12,2)"),
            ("char(64)", "varchar(64)"),
            ("timestamptz", "timestamp"),
            ("boolean", "smallint"),
            ("date", "timestamp"),
        ] {
            assert!(!holds(parse(into), parse(from)), "{into} doesn't hold {from}");
        }
    }

    fn group(day: &str, batch_id: Option<&str>, rows: u64) -> RowGroup {
        RowGroup { partition: PartitionName::new(day).unwrap(), batch_id: batch_id.map(Into::into), rows }
    }

    /// What batch "nil" wrote of the first.
    fn last(rows: u64) -> BTreeMap<PartitionName, Committed> {
        let last = Committed {
            batch: BatchId(uuid::Uuid::nil()),
            generation: Generation(1),
            fence: Fence(1),
            digest: Digest::stored("d"),
            inventory: "i".into(),
            rows,
            took_seconds: 1,
            committed_at: Timestamp::UNIX_EPOCH,
        };
        BTreeMap::from([(PartitionName::new("dt=2026-11-01").unwrap(), last)])
    }

    fn foreign(definition: &Definition, groups: &[RowGroup]) -> Vec<(String, u64)> {
        let foreign = foreign_rows(definition, groups, &last(10));
        foreign.into_iter().map(|(partition, rows)| (partition.to_string(), rows)).collect()
    }

    #[test]
    fn with_a_provenance_column_rows_are_foreign_that_the_last_batch_did_not_write() {
        let ours = uuid::Uuid::nil().to_string();
        let (day, orders) = ("dt=2026-11-01", orders());
        assert_eq!(foreign(&orders, &[group(day, Some(&ours), 10)]), []);
        assert_eq!(foreign(&orders, &[group(day, Some(&ours), 10), group(day, Some("x"), 2)]), [(day.into(), 2)]);
        assert_eq!(foreign(&orders, &[group(day, Some(&ours), 10), group(day, None, 2)]), [(day.into(), 2)]);
    }

    #[test]
    fn without_one_rows_are_foreign_that_are_more_than_the_last_batch_wrote() {
        let mut orders = orders();
        orders.provenance.batch_id = None;
        assert_eq!(foreign(&orders, &[group("dt=2026-11-01", None, 10)]), []);
        assert_eq!(foreign(&orders, &[group("dt=2026-11-01", None, 12)]), [("dt=2026-11-01".into(), 2)]);
        assert_eq!(foreign(&orders, &[group("dt=2026-11-02", None, 3)]), [("dt=2026-11-02".into(), 3)]);
    }

    #[test]
    fn a_definition_whose_statements_are_too_wide_is_told() {
        assert_eq!(width_problem(&orders()).unwrap(), None);
        let columns: Vec<String> = (0..900).map(|n| format!("\"{}_{n} bigint\"", "c".repeat(120))).collect();
        let text = ORDERS.replace("\"order_id bigint\", \"amount decimal(12,2)\"", &columns.join(", "));
        let told = width_problem(&parse(&text).unwrap()[0]).unwrap().unwrap();
        assert!(told.contains("orders: a statement"), "{told}");
    }
}
