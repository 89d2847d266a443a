//! What Parquet and ORC files have in common: columns by position, held against the table's, and rows written as
//! PostgreSQL's COPY reads them.

use std::fmt::Display;

use super::spectrum;
use super::target::{Column, Target};
use super::value::{self, Kind};
use crate::dialect::copy::CopyCommand;
use crate::failure::Failure;

/// A value to load, none for NULL.
pub(super) type Value = Result<Option<String>, Bad>;

/// Why a value can't be loaded.
#[derive(Debug, Clone)]
pub(super) enum Bad {
    TooLong { limit: usize, found: usize },
    Value(String),
}

impl Bad {
    #[expect(clippy::needless_pass_by_value, reason = "so that it can be named where an error is mapped")]
    pub(super) fn value(why: impl ToString) -> Self {
        Self::Value(why.to_string())
    }
}

/// One file of a COPY.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// As messages name it.
    pub(super) format: &'static str,
    pub(super) url: &'a str,
    pub(super) target: &'a Target,
    pub(super) command: &'a CopyCommand,
    pub(super) query_id: i64,
}

impl Source<'_> {
    pub(super) fn damaged(&self, why: impl Display) -> Failure {
        damaged(self.url, why, self.query_id)
    }

    /// Fails where a file of so many columns can't fill the table.
    pub(super) fn check_number_of_columns(&self, found: usize) -> Result<(), Failure> {
        let table = self.target.columns.len();
        if found == table || found < table && self.command.fill_record {
            return Ok(());
        }
        let text = format!(
            "Unmatched number of columns between table and file. Table columns: {table}, Data columns: {found}, File name: {}",
            self.url
        );
        Err(spectrum(15_007, &text, self.query_id))
    }

    /// Fails where a nested column, which only a SUPER takes, and asked for by SERIALIZETOJSON, stands before this one.
    pub(super) fn check_nested(&self, column: &Column) -> Result<(), Failure> {
        if column.kind == Kind::Super && self.command.serialize_to_json {
            return Ok(());
        }
        let detail = super::source::block("Assert", 1000, "Unreachable - Invalid type: 4000", self.query_id);
        Err(Failure::new("Assert").with_detail(detail))
    }

    /// The file's column is of a type that doesn't fill the table's.
    pub(super) fn incompatible(&self, column: &Column, found: &str) -> Failure {
        let text = format!(
            "File '{}' has an incompatible {} schema for column '{}'. Column type: {}, {} schema: {found}",
            self.url,
            self.format,
            column.name,
            column.kind.name().to_ascii_uppercase(),
            self.format,
        );
        spectrum(15_007, &text, self.query_id)
    }

    fn refused(&self, bad: Bad, column: &Column, row: u64) -> Failure {
        let text = match bad {
            Bad::TooLong { limit, found } => format!(
                "The length of the data column {} is longer than the length defined in the table. Table: {limit}, Data: \
                 {found}, File name: {}",
                column.name, self.url
            ),
            Bad::Value(why) => {
                format!("Invalid value for column {} in row {row}: {why}, File name: {}", column.name, self.url)
            }
        };
        spectrum(15_001, &text, self.query_id)
    }
}

/// A file can't be read as what it should be.
pub(super) fn damaged(url: &str, why: impl Display, query_id: i64) -> Failure {
    spectrum(15_001, &format!("File '{url}' has an invalid version number or is damaged: {why}"), query_id)
}

/// Rows on their way to PostgreSQL, many at a time.
#[derive(Debug)]
pub(super) struct Rows<'a, E> {
    source: Source<'a>,
    emit: E,
    buffer: Vec<u8>,
    written: u64,
}

impl<'a, E: FnMut(Vec<u8>) -> bool> Rows<'a, E> {
    pub(super) fn new(source: Source<'a>, emit: E) -> Self {
        Self { source, emit, buffer: Vec::with_capacity(super::CHUNK * 2), written: 0 }
    }

    /// Writes a row; columns of the table beyond the file's are NULL. Says whether to go on.
    pub(super) fn write(&mut self, mut values: impl Iterator<Item = Value>) -> Result<bool, Failure> {
        let source = self.source;
        for (index, column) in source.target.columns.iter().enumerate() {
            if index > 0 {
                self.buffer.push(b'\t');
            }
            let text = values.next().unwrap_or(Ok(None));
            let text = text.map_err(|bad| source.refused(bad, column, self.written + 1))?;
            if text.is_none() && column.not_null {
                let why = format!("NULL value in {} data", source.format);
                return Err(Failure::new(format!("Cannot insert a NULL value into column {}", column.name))
                    .with_detail(super::source::block(&why, 1213, source.url, source.query_id)));
            }
            value::encode(&mut self.buffer, text.as_deref());
        }
        self.buffer.push(b'\n');
        self.written += 1;
        if self.buffer.len() <= super::CHUNK {
            return Ok(true);
        }
        let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(super::CHUNK * 2));
        Ok((self.emit)(full))
    }

    /// Hands over what is left. The number of rows.
    pub(super) fn end(mut self) -> u64 {
        (self.emit)(self.buffer);
        self.written
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }
}

/// A text for a column of the table.
pub(super) fn characters(bytes: &[u8], kind: Kind, command: &CopyCommand) -> Value {
    value::text(bytes, kind, command).map(|text| Some(text.into_owned())).map_err(|problem| {
        match (problem.code, kind) {
            (value::code::TOO_LONG, Kind::Char { bytes: limit } | Kind::Varchar { bytes: limit }) => {
                Bad::TooLong { limit, found: bytes.len() }
            }
            _ => Bad::Value(problem.message),
        }
    })
}

/// A decimal, written as a number with so many digits after the point, for a column of the table.
pub(super) fn decimal(number: &str, precision: u32, scale: u32) -> Value {
    value::decimal(number, precision, scale, false).map(Some).map_err(|problem| Bad::Value(problem.message))
}

/// The day so many days after 1970-01-01.
pub(super) fn day(days: i32) -> Result<String, Bad> {
    let span = jiff::Span::new().try_days(days).map_err(Bad::value)?;
    jiff::civil::date(1970, 1, 1).checked_add(span).map(|day| day.to_string()).map_err(Bad::value)
}

/// A text as JSON has it.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Writes items between a bracket and its fellow, commas between them.
pub(super) fn write_between<T>(
    [open, close]: [char; 2],
    items: impl Iterator<Item = Result<T, Bad>>,
    out: &mut String,
    mut write: impl FnMut(T, &mut String) -> Result<(), Bad>,
) -> Result<(), Bad> {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item?, out)?;
    }
    out.push(close);
    Ok(())
}
