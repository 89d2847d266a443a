//! A statement's failure, in the words Redshift's JDBC driver would give it.
//!
//! The Data API's `Error` is that driver's text: `ERROR: message`, then indented `Detail`, `Hint`, `Position` and
//! `Where` lines. [`Failure::from_postgres`] turns what PostgreSQL says into what Redshift would have said.

use std::fmt;

use tokio_postgres::error::{DbError, ErrorPosition, SqlState};

use crate::dialect::create_table::byte_limit_of_constraint;

/// The text of every statement of a batch that never ran (sic).
pub(crate) const NEVER_RAN: &str = "Connection or an prior query failed.";

/// Why a statement failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    text: Box<Text>,
    /// The connection is gone, nothing more can run on it.
    pub(crate) connection_lost: bool,
    /// `CancelStatement`, not a fault: the statement is `ABORTED`, not `FAILED`.
    pub(crate) cancelled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Text {
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    position: Option<usize>,
    context: Option<String>,
}

impl Failure {
    /// An error with nothing but a message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let text = Text { message: message.into(), ..Text::default() };
        Self { text: Box::new(text), connection_lost: false, cancelled: false }
    }

    /// A parser's error at the character `position` (1 is the first).
    pub(crate) fn syntax(near: &str, position: usize) -> Self {
        Self::new(format!("syntax error at or near \"{near}\"")).with_position(position)
    }

    /// What Redshift has and this stand-in doesn't.
    pub(crate) fn not_imitated(what: &str) -> Self {
        Self::new(format!("{what} is not imitated by the local Redshift Data API"))
    }

    /// The text of a cancelled statement, by `CancelStatement` or by `statement_timeout`.
    pub(crate) fn cancelled(query_id: i64, by_request: bool) -> Self {
        Self { cancelled: by_request, ..Self::new(format!("Query ({query_id}) canceled on user's request")) }
    }

    pub(crate) fn connection_lost(message: impl Into<String>) -> Self {
        Self { connection_lost: true, ..Self::new(message) }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.text.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_position(mut self, position: usize) -> Self {
        self.text.position = Some(position);
        self
    }

    /// What PostgreSQL said about the query `query_id` of backend `pid`. `table` is the oid of the table it wrote,
    /// 0 if unknown.
    pub(crate) fn from_postgres(error: &tokio_postgres::Error, query_id: i64, pid: i32, table: u32) -> Self {
        let Some(db) = error.as_db_error() else {
            return Self::connection_lost(if error.is_closed() {
                "terminating connection due to administrator command".to_owned()
            } else {
                format!("An I/O error occurred while talking to the backend: {error}")
            });
        };
        match *db.code() {
            SqlState::T_R_SERIALIZATION_FAILURE => Self::new("1023").with_detail(format!(
                "Serializable isolation violation on table - {table}, transactions forming the cycle are: {query_id}, \
                 {} (pid:{pid})",
                query_id + 1
            )),
            SqlState::QUERY_CANCELED => Self::cancelled(query_id, false),
            SqlState::NOT_NULL_VIOLATION => {
                Self::new(format!("Cannot insert a NULL value into column {}", db.column().unwrap_or("?")))
            }
            SqlState::CARDINALITY_VIOLATION if db.message().starts_with("MERGE") => {
                Self::new("Found multiple matches to update the same tuple.")
            }
            SqlState::CHECK_VIOLATION => match db.constraint().and_then(byte_limit_of_constraint) {
                Some((kind, limit)) => Self::new(format!("value too long for type {kind}({limit})")),
                None => Self::of(db),
            },
            // Keys are not enforced: only the catalogue has any, and two transactions made the same object.
            SqlState::UNIQUE_VIOLATION => Self::conflict(),
            SqlState::INTERNAL_ERROR if db.message() == "tuple concurrently updated" => Self::conflict(),
            SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => Self::connection_lost(db.message()),
            _ => Self::of(db),
        }
    }

    fn conflict() -> Self {
        Self::new("could not complete because of conflict with concurrent transaction")
    }

    fn of(db: &DbError) -> Self {
        let mut failure = Self::new(db.message());
        let text = failure.text.as_mut();
        text.detail = db.detail().map(str::to_owned);
        text.hint = db.hint().map(str::to_owned);
        text.position = match db.position() {
            Some(ErrorPosition::Original(at)) => usize::try_from(*at).ok(),
            _ => None,
        };
        text.context = db.where_().map(str::to_owned);
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Text { message, detail, hint, position, context } = self.text.as_ref();
        write!(f, "{}: {message}", if self.connection_lost { "FATAL" } else { "ERROR" })?;
        if let Some(detail) = detail {
            write!(f, "\n  Detail: {detail}")?;
        }
        if let Some(hint) = hint {
            write!(f, "\n  Hint: {hint}")?;
        }
        if let Some(position) = position {
            write!(f, "\n  Position: {position}")?;
        }
        if let Some(context) = context {
            write!(f, "\n  Where: {context}")?;
        }
        Ok(())
    }
}
