//! The one text of a definition: what is stored under its hash, and read back by the same parser.
//!
//! Every key is written, defaults too, in a fixed order: definitions that mean the same have the same text and hash, and a
//! default that changes in a later version doesn't change what was stored. A key that a later version adds is to be written
//! only where it differs from its default, so that the hashes of today stay.

use std::fmt::{Display, Write as _};

use super::{
    Concurrency, Definition, EmptySource, ForeignRows, Format, Interval, MissingObjects, RowDrop, Tolerance, WriteMode,
    copy, duration, options,
};
use crate::id::DefinitionHash;

impl Definition {
    /// The definition as `datasets.toml`, normalised; `parse` makes an equal one of it.
    pub fn to_text(&self) -> String {
        let mut text = Text::default();
        text.table(&self.name);
        self.write_what(&mut text);
        self.write_how(&mut text);
        self.write_select(&mut text);
        self.write_parts(&mut text);
        self.write_provenance(&mut text);
        copy::write(self.name.as_str(), self.format, &self.copy, &mut text);
        text.table(format_args!("{}.tolerance", self.name));
        write_tolerance(&self.tolerance, &mut text);
        text.0
    }

    /// The hash of the normalised text.
    pub fn hash(&self) -> DefinitionHash {
        DefinitionHash::of([self.to_text().as_bytes()])
    }

    /// What shapes the rows of a partition, given its objects: part of an inventory's digest. Unlike the hash it stays when
    /// only tolerances, times or checks change.
    pub fn rows_hash_part(&self) -> Vec<u8> {
        let mut text = Text::default();
        text.table(&self.name);
        text.word("format", self.format);
        self.write_target(&mut text);
        text.list("columns", &self.columns);
        self.write_mode(&mut text);
        if self.write == WriteMode::Upsert {
            text.list("key", &self.key);
        }
        self.write_select(&mut text);
        self.write_parts(&mut text);
        self.write_provenance(&mut text);
        copy::write(self.name.as_str(), self.format, &self.copy, &mut text);
        text.0.into_bytes()
    }

    /// What decides which rows a partition owns: where it changes, the target's epoch must rise.
    pub fn owns_hash_part(&self) -> Vec<u8> {
        let mut text = Text::default();
        text.word("layout", &self.layout);
        self.write_parts(&mut text);
        text.0.into_bytes()
    }

    fn write_what(&self, text: &mut Text) {
        text.word("source", &self.source);
        text.word("layout", &self.layout);
        text.word("format", self.format);
        self.write_target(text);
        text.list("columns", &self.columns);
        text.list("key", &self.key);
        text.list("required", &self.required);
    }

    fn write_target(&self, text: &mut Text) {
        match &self.database {
            Some(database) => text.word("target", format_args!("{database}.{}", self.target)),
            None => text.word("target", &self.target),
        }
    }

    fn write_how(&self, text: &mut Text) {
        self.write_mode(text);
        text.word(
            "concurrency",
            match self.concurrency {
                Concurrency::Table => "table",
                Concurrency::Partition => "partition",
            },
        );
        if let Some(lookback) = self.lookback {
            text.word("lookback", duration::text(lookback));
        }
        text.word(
            "interval",
            match self.interval {
                Interval::Auto => "auto".to_owned(),
                Interval::Fixed(interval) => duration::text(interval),
            },
        );
        text.word("load_window", duration::text(self.load_window));
    }

    fn write_mode(&self, text: &mut Text) {
        text.word("write", self.write);
        if let Some(order_by) = &self.order_by {
            text.word("order_by", order_by);
        }
    }

    fn write_select(&self, text: &mut Text) {
        if !self.select.is_empty() {
            text.table(format_args!("{}.select", self.name));
        }
        for (column, expression) in &self.select {
            text.word(&quoted(&column.0), expression);
        }
    }

    fn write_parts(&self, text: &mut Text) {
        for part in &self.parts {
            text.table(format_args!("{}.partition.{}", self.name, part.name));
            text.word("type", part.kind);
            let Some(range) = &part.range else {
                text.word("column", &part.column);
                text.plain("in_files", part.in_files);
                continue;
            };
            text.word("range_of", &part.column);
            text.word("grain", range.grain);
            if let Some(zone) = &range.timezone {
                text.word("timezone", zone);
            }
        }
    }

    fn write_provenance(&self, text: &mut Text) {
        let columns = [("batch_id", &self.provenance.batch_id), ("loaded_at", &self.provenance.loaded_at)];
        if columns.iter().any(|(_, column)| column.is_some()) {
            text.table(format_args!("{}.provenance", self.name));
        }
        for (key, column) in columns {
            if let Some(column) = column {
                text.word(key, column);
            }
        }
    }
}

fn write_tolerance(tolerance: &Tolerance, text: &mut Text) {
    text.plain("row_variance", tolerance.row_variance);
    text.plain("rejected_rows", tolerance.rejected_rows);
    text.plain("duplicate_keys", tolerance.duplicate_keys);
    text.word(
        "missing_objects",
        match tolerance.missing_objects {
            MissingObjects::Told => "told",
            MissingObjects::Refuse => "refuse",
            MissingObjects::Accept => "accept",
        },
    );
    text.word(
        "empty_source",
        match tolerance.empty_source {
            EmptySource::Refuse => "refuse",
            EmptySource::Delete => "delete",
        },
    );
    text.word(
        "row_drop",
        match tolerance.row_drop {
            RowDrop::UpTo(share) => options::share_text(share),
            RowDrop::Refuse => "refuse".to_owned(),
            RowDrop::Accept => "accept".to_owned(),
        },
    );
    text.word(
        "foreign_rows",
        match tolerance.foreign_rows {
            ForeignRows::Refuse => "refuse",
            ForeignRows::Accept => "accept",
        },
    );
    text.word("patience", duration::text(tolerance.patience));
}

/// TOML, written line by line. Writing to a `String` can't fail.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn table(&mut self, path: impl Display) {
        let blank = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{blank}[{path}]");
    }

    pub(super) fn plain(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    pub(super) fn word(&mut self, key: &str, value: impl Display) {
        self.plain(key, quoted(&value.to_string()));
    }

    fn list(&mut self, key: &str, values: &[impl Display]) {
        let values: Vec<String> = values.iter().map(|value| quoted(&value.to_string())).collect();
        self.plain(key, format_args!("[{}]", values.join(", ")));
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

impl Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for WriteMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Replace => "replace",
            Self::Upsert => "upsert",
        })
    }
}
