//! A dataset held against its target as it stands: the columns, the rows that are there, the width of its statements.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::definition::{ColumnName, Definition, PartKind};
use crate::id::{BatchId, DatasetName, Epoch, Fence, Generation, PartitionName, StackName};
use crate::partition::Committed;
use crate::partition_value::{Partition, PartitionValue};
use crate::sql::SqlError;
use crate::sql::rebuild::{CopyRole, CopySource, LastBatch, Request, widest};
use crate::sql::survey::{RowGroup, TableColumn};

/// No statement of a rebuild may be longer; the Data API takes a little more.
pub const WIDEST_STATEMENT_BYTES: usize = 90_000;
/// Bytes of the longest value that a partition's name has room for.
const LONGEST_VALUE: usize = 1_000;

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
    for column in written.iter().filter(|column| table.iter().all(|there| there.name != ***column)) {
        problems.push(format!("{dataset}: {target} has no column `{column}`; add it to the table"));
    }
    for column in table.iter().filter(|there| there.must_be_written && !written.contains(&&there.name)) {
        let name = &column.name;
        problems.push(format!(
            "{dataset}: column `{name}` of {target} is NOT NULL and nothing writes it; add it to `columns`, or give it a default"
        ));
    }
    problems
}

/// The columns an insert names.
fn written_columns(definition: &Definition) -> Vec<&ColumnName> {
    let files = definition.columns.iter().map(|column| &column.name);
    let path = definition.parts.iter().filter(|part| !part.in_files).map(|part| &part.column);
    let provenance = [&definition.provenance.batch_id, &definition.provenance.loaded_at];
    files.chain(path).chain(provenance.into_iter().flatten()).collect()
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
    let values = definition.parts.iter().map(|part| match part.kind {
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
    let hash = definition.hash();
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

    fn table(columns: &[(&str, bool)]) -> Vec<TableColumn> {
        let column =
            |(name, must): &(&str, bool)| TableColumn { name: ColumnName((*name).into()), must_be_written: *must };
        columns.iter().map(column).collect()
    }

    #[test]
    fn a_target_has_every_column_that_is_written_and_none_that_must_be_but_is_not() {
        let all = [("order_id", true), ("amount", false), ("dt", true), ("_batch_id", false), ("note", false)];
        assert_eq!(column_problems(&orders(), Some(&table(&all))), [""; 0]);
        let told = column_problems(&orders(), Some(&table(&[("order_id", true), ("amount", false), ("tenant", true)])));
        let said = |words: &str| told.iter().any(|problem| problem.contains(words));
        assert_eq!(told.len(), 3, "{told:#?}");
        assert!(
            said("no column `dt`") && said("no column `_batch_id`") && said("`tenant` of sales.orders is NOT NULL")
        );
        assert!(column_problems(&orders(), None)[0].contains("no table sales.orders"));
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
