//! The two datasets of `datasets.toml`, as far as files are put and rows are compared.

use std::fmt;

/// One of the two datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dataset {
    /// `sales.orders`, from Parquet.
    Orders,
    /// `sales.returns`, from CSV.
    Returns,
}

impl Dataset {
    /// Its name in `datasets.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orders => "orders",
            Self::Returns => "returns",
        }
    }

    /// Its target table.
    pub fn target(self) -> &'static str {
        match self {
            Self::Orders => "sales.orders",
            Self::Returns => "sales.returns",
        }
    }

    /// Its business key.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Orders => "order_id",
            Self::Returns => "return_id",
        }
    }

    /// A target row as text, as [`crate::source`] tells the rows of the files.
    pub(crate) fn row_expression(self) -> &'static str {
        match self {
            Self::Orders => "concat_ws('|', order_id, customer, amount, to_char(ordered_at, 'YYYY-MM-DD HH24:MI:SS'))",
            Self::Returns => "concat_ws('|', return_id, order_id, reason, quantity)",
        }
    }

    /// What an owner does before Tidemark comes: makes the target.
    pub(crate) fn create_target(self) -> &'static str {
        match self {
            Self::Orders => {
                "CREATE TABLE sales.orders (order_id bigint, customer varchar(64), amount decimal(12,2), \
                 ordered_at timestamp, dt date, _batch_id varchar(36), _loaded_at timestamp)"
            }
            Self::Returns => {
                "CREATE TABLE sales.returns (return_id bigint, order_id bigint, reason varchar(40), \
                 quantity integer, dt date)"
            }
        }
    }

    /// The partition of a day, `YYYY-MM-DD`.
    pub fn day(self, day: &str) -> Partition {
        Partition { dataset: self, day: day.to_owned() }
    }
}

/// A partition: a day of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// Whose it is.
    pub dataset: Dataset,
    /// Its day, `YYYY-MM-DD`.
    pub day: String,
}

impl Partition {
    /// Its name, as messages have it.
    pub fn name(&self) -> String {
        format!("dt={}", self.day)
    }

    /// The key of a file of it.
    pub fn file(&self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    /// Where its files lie.
    pub fn prefix(&self) -> String {
        format!("{}/dt={}/", self.dataset.name(), self.day)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dataset.name(), self.name())
    }
}
