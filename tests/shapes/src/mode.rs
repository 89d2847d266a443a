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
    /// `write = "replace"` with expressions in the place of columns.
    Select,
}

impl Mode {
    pub(crate) const ALL: [Self; 6] =
        [Self::Replace, Self::Provenance, Self::Options, Self::Upsert, Self::Newest, Self::Select];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Provenance => "provenance",
            Self::Options => "options",
            Self::Upsert => "upsert",
            Self::Newest => "newest",
            Self::Select => "select",
        }
    }

    /// Keys of the dataset's own table.
    pub(crate) fn keys(self) -> &'static str {
        match self {
            Self::Replace | Self::Options | Self::Select => "write = \"replace\"\nconcurrency = \"table\"\n",
            Self::Provenance => "write = \"replace\"\nconcurrency = \"partition\"\n",
            Self::Upsert => "write = \"upsert\"\nconcurrency = \"table\"\n",
            Self::Newest => "write = \"upsert\"\nconcurrency = \"table\"\norder_by = \"seen\"\n",
        }
    }

    /// Further tables, or keys of the one that is written last, which is that of the format.
    pub(crate) fn tables(self, dataset: &str, format: Format) -> String {
        match self {
            Self::Replace | Self::Upsert | Self::Newest => String::new(),
            Self::Provenance => format!("\n[{dataset}.provenance]\nbatch_id = \"_batch\"\nloaded_at = \"_loaded\"\n"),
            Self::Options if format == Format::Csv => {
                "delimiter = \"|\"\nquote = \"'\"\nnull_as = \"(null)\"\n".to_owned()
            }
            Self::Options => format!("\n[{dataset}.csv]\ndelimiter = \"|\"\n"),
            Self::Select => {
                let shaped = rows::SHAPED.map(|(column, expression)| format!("{column} = \"{expression}\"\n"));
                format!("\n[{dataset}.select]\n{}", shaped.concat())
            }
        }
    }

    /// Columns that only the target has.
    pub(crate) fn target_columns(self) -> &'static [&'static str] {
        match self {
            Self::Provenance => &["_batch varchar(36)", "_loaded timestamp"],
            _ => &[],
        }
    }

    /// What the definition's reader must say, where the combination may not be written.
    pub(crate) fn refused(self, format: Format, _: &Layout) -> Option<&'static str> {
        let foreign = self == Self::Options && format != Format::Csv;
        foreign.then_some("there are csv options, but the format is")
    }
}
