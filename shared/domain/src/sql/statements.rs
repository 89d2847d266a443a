//! A batch of statements: one call of the Data API, one transaction, within its limits.

use super::identifier::InvalidIdentifier;
use super::literal::InvalidLiteral;
use crate::id::{DatasetName, PartitionName};

/// The most statements one call takes.
pub const MAX_STATEMENTS: usize = 40;
/// The most bytes of one statement's text. The service says 100 KB; this is the smaller reading of it.
pub const MAX_STATEMENT_BYTES: usize = 100_000;
/// The most bytes of a statement's name.
pub const MAX_NAME_BYTES: usize = 2_048;

/// Why no SQL could be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// A batch has too many statements.
    #[error("{name}: {count} statements, but one call of the Data API takes {MAX_STATEMENTS}")]
    TooManyStatements {
        /// The batch.
        name: String,
        /// How many it has.
        count: usize,
    },
    /// A statement is too long.
    #[error(
        "{name}: statement {number} has {bytes} bytes, but the Data API takes {MAX_STATEMENT_BYTES}: use fewer columns or shorter names"
    )]
    StatementTooLong {
        /// The batch.
        name: String,
        /// Which statement, from 1.
        number: usize,
        /// Its length.
        bytes: usize,
    },
    /// The partition's values aren't those of the definition's parts: never made into SQL, since a condition with a part missing
    /// would take in other partitions.
    #[error("partition {partition} doesn't fit the parts of dataset {dataset}")]
    Partition {
        /// The dataset.
        dataset: DatasetName,
        /// The partition.
        partition: PartitionName,
    },
    /// A value has no literal.
    #[error(transparent)]
    Literal(#[from] InvalidLiteral),
    /// A name is no identifier.
    #[error(transparent)]
    Identifier(#[from] InvalidIdentifier),
}

/// The number of a statement in its batch, from 1, as the Data API numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubStatement(pub usize);

impl SubStatement {
    /// The id under which the Data API knows it: `id:n`.
    pub fn id(self, batch_statement_id: &str) -> String {
        format!("{batch_statement_id}:{}", self.0)
    }
}

/// Statements that are submitted in one call and run in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    name: String,
    statements: Vec<String>,
}

impl Batch {
    /// Takes statements that keep the limits. The name only tells: control characters become `?`, and beyond
    /// [`MAX_NAME_BYTES`] it is cut.
    pub fn new(name: impl AsRef<str>, statements: Vec<String>) -> Result<Self, SqlError> {
        let mut name = name.as_ref().replace(char::is_control, "?");
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        if statements.len() > MAX_STATEMENTS {
            return Err(SqlError::TooManyStatements { name, count: statements.len() });
        }
        if let Some((index, long)) = statements.iter().enumerate().find(|(_, sql)| sql.len() > MAX_STATEMENT_BYTES) {
            return Err(SqlError::StatementTooLong { name, number: index + 1, bytes: long.len() });
        }
        Ok(Self { name, statements })
    }

    /// The statement's name for the Data API: dataset, partition, batch and phase.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The statements, in order.
    pub fn statements(&self) -> &[String] {
        &self.statements
    }

    /// The last statement: the one with the result, in a batch that asks something.
    pub fn last(&self) -> SubStatement {
        SubStatement(self.statements.len())
    }
}
