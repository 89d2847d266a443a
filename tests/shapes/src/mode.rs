//! The modes: how staged rows get into the target, under which lock, with which options.

use tidemark_kit::files::Format;

use crate::layout::Layout;
use crate::rows;

/// What of a dataset is neither format nor layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `write = "replace"` under the table's lock, with nothing else said.
    Replace,
    /// The same under a lock for each partition, with columns that tell where a row came from.
    Provenance,
    /// The same with options of CSV; for CSV only.
    Options,
    /// `write = "upsert"` without an order: no key stands in two files.
    Upsert,
    /// The same with `order_by`: the greatest of all that were ever written wins, whichever partition it is in.
    Newest,
    /// `write = "replace"` with expressions in the place of columns, the key among them.
    Select,
    /// The same under a lock for each partition, where only the expressions say which partition a row is of; for parts in files.
    Shaped,
    /// `Newest` with expressions in the place of `key` and `order_by`, and with columns that tell where a row came from.
    Traced,
    /// `write = "upsert"` under a lock for each partition, which nobody may write.
    Torn,
}

impl Mode {
    pub(crate) const ALL: [Self; 9] = [
        Self::Replace,
        Self::Provenance,
        Self::Options,
        Self::Upsert,
        Self::Newest,
        Self::Select,
        Self::Shaped,
        Self::Traced,
        Self::Torn,
    ];

    /// The layout in which it is played with each format.
    pub(crate) fn usual_layout(self) -> &'static str {
        if self == Self::Shaped { "rangeday" } else { "day" }
    }

    /// Whether it says anything about that layout.
    pub(crate) fn is_for(self, layout: &Layout) -> bool {
        self != Self::Shaped || layout.parts.iter().any(|part| part.in_files)
    }

    /// Whether the target's rows tell their batch.
    pub(crate) fn has_provenance(self) -> bool {
        matches!(self, Self::Provenance | Self::Traced)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Provenance => "provenance",
            Self::Options => "options",
            Self::Upsert => "upsert",
            Self::Newest => "newest",
            Self::Select => "select",
            Self::Shaped => "shaped",
            Self::Traced => "traced",
            Self::Torn => "torn",
        }
    }

    /// Keys of the dataset's own table.
    pub(crate) fn keys(self) -> &'static str {
        match self {
            Self::Replace | Self::Options | Self::Select => "write = \"replace\"\nconcurrency = \"table\"\n",
            Self::Provenance | Self::Shaped => "write = \"replace\"\nconcurrency = \"partition\"\n",
            Self::Upsert => "write = \"upsert\"\nconcurrency = \"table\"\n",
            Self::Torn => "write = \"upsert\"\nconcurrency = \"partition\"\n",
            Self::Newest | Self::Traced => "write = \"upsert\"\nconcurrency = \"table\"\norder_by = \"seen\"\n",
        }
    }

    /// Further tables, or keys of the one that is written last, which is that of the format.
    pub(crate) fn tables(self, dataset: &str, format: Format, layout: &Layout) -> String {
        let provenance = format!("\n[{dataset}.provenance]\nbatch_id = \"_batch\"\nloaded_at = \"_loaded\"\n");
        let select = |expressions: &[(&str, String)]| {
            let lines = expressions.iter().map(|(column, expression)| format!("{column} = \"{expression}\"\n"));
            format!("\n[{dataset}.select]\n{}", lines.collect::<String>())
        };
        match self {
            Self::Replace | Self::Upsert | Self::Newest | Self::Torn => String::new(),
            Self::Provenance => provenance,
            Self::Options if format == Format::Csv => {
                "delimiter = \"|\"\nquote = \"'\"\nnull_as = \"(null)\"\n".to_owned()
            }
            Self::Options => format!("\n[{dataset}.csv]\ndelimiter = \"|\"\n"),
            Self::Select => select(&rows::SHAPED.map(|(column, expression)| (column, expression.to_owned()))),
            Self::Traced => {
                let expressions = rows::MOVED.map(|(column, expression)| (column, expression.to_owned()));
                select(&expressions) + &provenance
            }
            Self::Shaped => {
                let parts = layout.parts.iter().filter(|part| part.in_files);
                let shown = parts.map(|part| (part.column, rows::shown(part.column, part.sql)));
                select(&shown.collect::<Vec<_>>())
            }
        }
    }

    /// Columns that only the target has.
    pub(crate) fn target_columns(self) -> &'static [&'static str] {
        match self {
            Self::Provenance | Self::Traced => &["_batch varchar(36)", "_loaded timestamp"],
            _ => &[],
        }
    }

    /// What the definition's reader must say, where the combination may not be written.
    pub(crate) fn refused(self, format: Format, _: &Layout) -> Option<&'static str> {
        match self {
            Self::Options if format != Format::Csv => Some("there are csv options, but the format is"),
            Self::Torn => Some("two partitions may hold one key"),
            _ => None,
        }
    }
}
