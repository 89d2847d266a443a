//! Results of statements, typed. A row is what `GetStatementResult` gives: a list of fields.

use jiff::civil::DateTime;

use super::upsert;
use crate::definition::Definition;
use crate::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation};
use crate::verify::{LoadCounts, SourceCounts, StageCounts};

/// One value of a result, as the Data API types it (decimals and times come as text).
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// NULL.
    Null,
    /// Whole numbers up to 64 bits.
    Long(i64),
    /// Floating point.
    Double(f64),
    /// Boolean.
    Bool(bool),
    /// Everything else.
    Text(String),
}

/// A result that isn't what the statement asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RowError {
    /// Another number of rows.
    #[error("{what}: expected one row, got {rows}")]
    Rows {
        /// What was asked.
        what: &'static str,
        /// How many came.
        rows: usize,
    },
    /// Too few columns.
    #[error("{what}: column {column} is not in the result")]
    Missing {
        /// What was asked.
        what: &'static str,
        /// The column.
        column: String,
    },
    /// A value of another kind.
    #[error("{what}: column {column} should be {expected}, but is {found:?}")]
    Type {
        /// What was asked.
        what: &'static str,
        /// The column.
        column: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: Field,
    },
}

/// What the look found: one row, always.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The partition's fence in the fence table; `None` counts as oldest.
    pub stored_fence: Option<Fence>,
    /// The ledger row that was looked for.
    pub ledger: Option<LedgerRow>,
}

/// A committed batch.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    /// The batch.
    pub batch: BatchId,
    /// The generation it covered.
    pub generation: Generation,
    /// Its fence.
    pub fence: Fence,
    /// The target's epoch at that time.
    pub epoch: Epoch,
    /// The digest of inventory and definition.
    pub digest: Digest,
    /// The definition's hash.
    pub definition_hash: DefinitionHash,
    /// Where the inventory is.
    pub inventory_key: String,
    /// The source, counted.
    pub source: SourceCounts,
    /// Rows that COPY refused.
    pub rejected_rows: u64,
    /// Rows beyond the first of each key.
    pub duplicate_rows: u64,
    /// The rows moved.
    pub counts: SwapCounts,
    /// When the staged rows were verified, in UTC.
    pub staged_at: DateTime,
    /// When the swap wrote the row, in UTC.
    pub swapped_at: DateTime,
}

/// The rows a swap moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapCounts {
    /// Rows staged.
    pub staged_rows: u64,
    /// Rows of the partition deleted.
    pub deleted_rows: u64,
    /// Rows inserted.
    pub inserted_rows: u64,
    /// Rows of the partition when the batch had landed.
    pub target_rows: u64,
}

/// A row that COPY refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The file, cut at 256 bytes by Redshift.
    pub file: String,
    /// Its line, from 1, where there are lines.
    pub line: Option<i64>,
    /// The column.
    pub column: String,
    /// Redshift's code.
    pub code: i64,
    /// Redshift's words. Of the value they hold a character at most: this view, unlike those of clusters, tells none.
    pub message: String,
    /// The column's type, with its length where it has one, such as `varchar(40)` or `numeric(12, 2)`.
    pub column_type: String,
    /// Where in the line the value begins, from 0.
    pub position: Option<i64>,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line.filter(|line| *line > 0) {
            write!(f, " line {line}")?;
        }
        if let Some(position) = self.position.filter(|position| *position > 0) {
            write!(f, " from byte {position}")?;
        }
        if !self.column.is_empty() {
            write!(f, ", column {}", self.column)?;
        }
        if !self.column_type.is_empty() {
            write!(f, " {}", self.column_type)?;
        }
        write!(f, ": {} (code {})", self.message, self.code)
    }
}

/// Somebody who holds a lock on target or fence table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The session's process id.
    pub pid: i64,
    /// The database user.
    pub user: String,
    /// The lock's mode, in Redshift's words.
    pub lock_mode: String,
}

/// The columns of a ledger row, as the look-ups ask for them.
pub(super) const LEDGER_COLUMNS: [&str; 18] = [
    "batch_id",
    "generation",
    "fence",
    "epoch",
    "digest",
    "definition_hash",
    "inventory_key",
    "source_objects",
    "source_bytes",
    "source_rows",
    "rejected_rows",
    "duplicate_rows",
    "staged_rows",
    "deleted_rows",
    "inserted_rows",
    "target_rows",
    "staged_at",
    "swapped_at",
];

/// Reads the one row of [`StageCounts`].
pub fn stage_counts(definition: &Definition, rows: &[Vec<Field>]) -> Result<StageCounts, RowError> {
    let mut row = Reader::one("stage counts", rows)?;
    let staged_rows = row.count("staged_rows")?;
    let other_partition_rows = row.count("other_partition_rows")?;
    let duplicate_rows = row.count("duplicate_rows")?;
    let target_rows = row.count("target_rows")?;
    let foreign_rows = row.count("foreign_rows")?;
    let mut nulls = Vec::new();
    for column in &definition.required {
        let present = row.count(&column.0)?;
        nulls.push((column.clone(), staged_rows.saturating_sub(present)));
    }
    let elsewhere = upsert::refuses_keys_elsewhere(definition);
    let elsewhere_rows = if elsewhere { row.count("elsewhere_rows")? } else { 0 };
    let counts = StageCounts {
        staged_rows,
        other_partition_rows,
        duplicate_rows,
        target_rows,
        foreign_rows,
        elsewhere_rows,
        nulls,
    };
    Ok(counts)
}

/// Reads the one row of [`LoadCounts`].
pub fn load_counts(rows: &[Vec<Field>]) -> Result<LoadCounts, RowError> {
    let mut row = Reader::one("load counts", rows)?;
    Ok(LoadCounts {
        copy_query_id: row.optional_integer("copy_query_id")?,
        distinct_files: row.count("distinct_files")?,
        listed_files: row.count("listed_files")?,
        rejected_rows: row.count("rejected_rows")?,
    })
}

/// Reads the one row of [`Look`].
pub fn look(rows: &[Vec<Field>]) -> Result<Look, RowError> {
    let mut row = Reader::one("look", rows)?;
    let stored_fence = row.optional_count("stored_fence")?.map(Fence);
    let Some(batch) = row.optional_text("batch_id")? else {
        return Ok(Look { stored_fence, ledger: None });
    };
    let Ok(batch) = batch.parse() else {
        return Err(row.wrong("batch_id", "a UUID", Field::Text(batch)));
    };
    let ledger = read_ledger_row(&mut row, BatchId(batch))?;
    Ok(Look { stored_fence, ledger: Some(ledger) })
}

/// Reads what follows the batch in [`LEDGER_COLUMNS`].
pub(super) fn read_ledger_row(row: &mut Reader<'_>, batch: BatchId) -> Result<LedgerRow, RowError> {
    Ok(LedgerRow {
        batch,
        generation: Generation(row.count("generation")?),
        fence: Fence(row.count("fence")?),
        epoch: Epoch(row.count("epoch")?),
        digest: Digest::stored(row.text("digest")?),
        definition_hash: DefinitionHash::stored(row.text("definition_hash")?),
        inventory_key: row.text("inventory_key")?,
        source: SourceCounts {
            objects: row.count("source_objects")?,
            bytes: row.count("source_bytes")?,
            rows: row.optional_count("source_rows")?,
        },
        rejected_rows: row.count("rejected_rows")?,
        duplicate_rows: row.count("duplicate_rows")?,
        counts: read_swap_counts(row)?,
        staged_at: row.moment("staged_at")?,
        swapped_at: row.moment("swapped_at")?,
    })
}

/// Reads the one row of [`SwapCounts`].
pub fn swap_counts(rows: &[Vec<Field>]) -> Result<SwapCounts, RowError> {
    read_swap_counts(&mut Reader::one("swap counts", rows)?)
}

/// Reads the rows of [`LoadError`]; there may be none.
pub fn load_errors(rows: &[Vec<Field>]) -> Result<Vec<LoadError>, RowError> {
    let read = |row: &Vec<Field>| {
        let mut row = Reader::new("load errors", row);
        Ok(LoadError {
            file: row.text("file_name")?,
            line: row.optional_integer("line_number")?,
            column: row.optional_text("column_name")?.unwrap_or_default(),
            code: row.optional_integer("error_code")?.unwrap_or_default(),
            message: row.text("error_message")?,
            column_type: {
                let name = row.optional_text("column_type")?.unwrap_or_default();
                let length = row.optional_text("column_length")?.unwrap_or_default();
                if matches!(length.as_str(), "" | "0") { name } else { format!("{name}({length})") }
            },
            position: row.optional_integer("position")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Reads the rows of [`Blocker`]; there may be none.
pub fn blockers(rows: &[Vec<Field>]) -> Result<Vec<Blocker>, RowError> {
    let read = |row: &Vec<Field>| {
        let mut row = Reader::new("blockers", row);
        Ok(Blocker { pid: row.integer("pid")?, user: row.text("txn_owner")?, lock_mode: row.text("lock_mode")? })
    };
    rows.iter().map(read).collect()
}

/// Reads the one number of `install::installed_version`; `None` where the table is empty.
pub fn installed_version(rows: &[Vec<Field>]) -> Result<Option<u64>, RowError> {
    Reader::one("installed version", rows)?.optional_count("version")
}

fn read_swap_counts(row: &mut Reader<'_>) -> Result<SwapCounts, RowError> {
    Ok(SwapCounts {
        staged_rows: row.count("staged_rows")?,
        deleted_rows: row.count("deleted_rows")?,
        inserted_rows: row.count("inserted_rows")?,
        target_rows: row.count("target_rows")?,
    })
}

/// Reads a row's fields one after the other; the names are only for the errors.
pub(super) struct Reader<'a> {
    what: &'static str,
    fields: std::slice::Iter<'a, Field>,
}

impl<'a> Reader<'a> {
    fn one(what: &'static str, rows: &'a [Vec<Field>]) -> Result<Self, RowError> {
        match rows {
            [row] => Ok(Self::new(what, row)),
            _ => Err(RowError::Rows { what, rows: rows.len() }),
        }
    }

    pub(super) fn new(what: &'static str, row: &'a [Field]) -> Self {
        Self { what, fields: row.iter() }
    }

    pub(super) fn wrong(&self, column: &str, expected: &'static str, found: Field) -> RowError {
        RowError::Type { what: self.what, column: column.to_owned(), expected, found }
    }

    fn next(&mut self, column: &str) -> Result<&'a Field, RowError> {
        self.fields.next().ok_or_else(|| RowError::Missing { what: self.what, column: column.to_owned() })
    }

    fn optional_integer(&mut self, column: &str) -> Result<Option<i64>, RowError> {
        let field = self.next(column)?;
        let number = match field {
            Field::Null => return Ok(None),
            Field::Long(number) => Some(*number),
            // Decimals come as text.
            Field::Text(text) => text.trim().parse().ok(),
            Field::Double(_) | Field::Bool(_) => None,
        };
        number.map(Some).ok_or_else(|| self.wrong(column, "a whole number", field.clone()))
    }

    fn integer(&mut self, column: &str) -> Result<i64, RowError> {
        self.optional_integer(column)?.ok_or_else(|| self.wrong(column, "a whole number", Field::Null))
    }

    pub(super) fn batch(&mut self, column: &str) -> Result<BatchId, RowError> {
        let text = self.text(column)?;
        text.parse().map(BatchId).map_err(|_| self.wrong(column, "a UUID", Field::Text(text)))
    }

    pub(super) fn optional_count(&mut self, column: &str) -> Result<Option<u64>, RowError> {
        let Some(number) = self.optional_integer(column)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| self.wrong(column, "a number not below zero", Field::Long(number)))
    }

    pub(super) fn count(&mut self, column: &str) -> Result<u64, RowError> {
        self.optional_count(column)?.ok_or_else(|| self.wrong(column, "a number not below zero", Field::Null))
    }

    pub(super) fn optional_text(&mut self, column: &str) -> Result<Option<String>, RowError> {
        match self.next(column)? {
            Field::Null => Ok(None),
            Field::Text(text) => Ok(Some(text.clone())),
            other => Err(self.wrong(column, "a text", other.clone())),
        }
    }

    pub(super) fn text(&mut self, column: &str) -> Result<String, RowError> {
        self.optional_text(column)?.ok_or_else(|| self.wrong(column, "a text", Field::Null))
    }

    /// A timestamp as the Data API prints it: `2026-11-01 07:00:00.0`.
    fn moment(&mut self, column: &str) -> Result<DateTime, RowError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| self.wrong(column, "a timestamp", Field::Text(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ORDERS, definition};
    use super::*;

    fn long(numbers: &[i64]) -> Vec<Field> {
        numbers.iter().map(|number| Field::Long(*number)).collect()
    }

    fn text(content: &str) -> Field {
        Field::Text(content.to_owned())
    }

    #[test]
    fn stage_counts_turn_values_into_nulls() {
        let orders = definition(ORDERS);
        let counts = stage_counts(&orders, &[long(&[10, 1, 2, 9, 4, 10, 7])]).unwrap();
        assert_eq!((counts.staged_rows, counts.other_partition_rows), (10, 1));
        assert_eq!((counts.duplicate_rows, counts.target_rows, counts.foreign_rows), (2, 9, 4));
        assert_eq!(
            counts.nulls.iter().map(|(name, nulls)| (name.0.as_str(), *nulls)).collect::<Vec<_>>(),
            [("order_id", 0), ("amount", 3)]
        );
    }

    #[test]
    fn errors_name_the_column() {
        let orders = definition(ORDERS);
        let told = |row: Vec<Field>| stage_counts(&orders, &[row]).unwrap_err().to_string();
        assert_eq!(told(long(&[1, 0, 0, 0, 0, 1])), "stage counts: column amount is not in the result");
        assert_eq!(
            told(vec![Field::Bool(true)]),
            "stage counts: column staged_rows should be a whole number, but is Bool(true)"
        );
        assert_eq!(
            told(long(&[-1])),
            "stage counts: column staged_rows should be a number not below zero, but is Long(-1)"
        );
        assert_eq!(stage_counts(&orders, &[]).unwrap_err().to_string(), "stage counts: expected one row, got 0");
    }

    #[test]
    fn decimals_come_as_text() {
        let row = vec![Field::Long(7), text("3"), text("3"), text("0")];
        let expected = LoadCounts { copy_query_id: Some(7), distinct_files: 3, listed_files: 3, rejected_rows: 0 };
        assert_eq!(load_counts(&[row]).unwrap(), expected);
    }

    #[test]
    fn a_copy_the_views_do_not_show_is_unknown() {
        let row = vec![Field::Null, Field::Long(0), Field::Long(0), Field::Long(0)];
        assert_eq!(load_counts(&[row]).unwrap().copy_query_id, None);
    }

    fn ledger() -> Vec<Field> {
        let mut row = vec![Field::Long(7), text("01936000-0000-7000-8000-000000000002")];
        row.extend(long(&[12, 7, 3]));
        row.extend([text("d1"), text("h1"), text("inventories/a.json")]);
        row.extend([Field::Long(3), Field::Long(900), Field::Null]);
        row.extend(long(&[1, 2, 100, 90, 100, 100]));
        row.extend([text("2026-11-02 03:04:05.678"), text("2026-11-02 03:05:00.0")]);
        row
    }

    #[test]
    fn a_look_reads_fence_and_ledger_row() {
        let look = look(&[ledger()]).unwrap();
        assert_eq!(look.stored_fence, Some(Fence(7)));
        let row = look.ledger.unwrap();
        assert_eq!((row.generation, row.fence, row.epoch), (Generation(12), Fence(7), Epoch(3)));
        assert_eq!(row.source, SourceCounts { objects: 3, bytes: 900, rows: None });
        assert_eq!(row.counts, SwapCounts { staged_rows: 100, deleted_rows: 90, inserted_rows: 100, target_rows: 100 });
        assert_eq!(row.swapped_at.to_string(), "2026-11-02T03:05:00");
        assert_eq!(LEDGER_COLUMNS.len() + 1, ledger().len());
    }

    #[test]
    fn a_look_that_finds_nothing_is_a_row_of_nulls() {
        let nothing = vec![Field::Null; LEDGER_COLUMNS.len() + 1];
        assert_eq!(look(&[nothing]).unwrap(), Look { stored_fence: None, ledger: None });
        let mut odd = ledger();
        odd[1] = text("not a uuid");
        assert!(look(&[odd]).unwrap_err().to_string().starts_with("look: column batch_id should be a UUID"));
    }

    #[test]
    fn c121_load_errors_name_file_line_and_column() {
        let error = |column: &str, kind: &str, length: &str| {
            let (position, code) = (Field::Long(4), Field::Long(1207));
            let file = text("s3://b/k.csv");
            vec![file, Field::Long(3), text(column), code, text("Invalid digit"), text(kind), text(length), position]
        };
        let rows = [error("amount", "numeric", "12, 2"), error("id", "int8", "0"), error("", "", "")];
        let told: Vec<String> = load_errors(&rows).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "s3://b/k.csv line 3 from byte 4, column amount numeric(12, 2): Invalid digit (code 1207)",
                "s3://b/k.csv line 3 from byte 4, column id int8: Invalid digit (code 1207)",
                "s3://b/k.csv line 3 from byte 4: Invalid digit (code 1207)",
            ]
        );
        assert_eq!(load_errors(&[]).unwrap(), []);
        let blocker = vec![Field::Long(42), text("bi"), text("AccessShareLock")];
        assert_eq!(blockers(&[blocker]).unwrap()[0].pid, 42);
        assert_eq!(installed_version(&[vec![Field::Null]]).unwrap(), None);
    }
}
