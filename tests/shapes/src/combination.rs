//! One combination: a dataset as its owner would write it, and whether it may be written so.

use tidemark_domain::definition;
use tidemark_kit::files::{Compression, Format, Type};

use crate::layout::{LAYOUTS, Layout, Part};
use crate::mode::Mode;
use crate::rows;
use crate::stage::SCHEMA;

/// A format, a compression, a layout and a mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combination {
    pub(crate) format: Format,
    pub(crate) compression: Compression,
    pub(crate) layout: &'static Layout,
    pub(crate) mode: Mode,
}

/// What the definition's reader makes of it, held against what it should.
pub(crate) enum Validity {
    /// It can be applied.
    Valid,
    /// It is refused, as it must be, for the reason it must be.
    Refused,
    /// Refused without need, for another reason, or not at all.
    Wrong(String),
}

impl Combination {
    /// `replace` in the full product; every other mode with each format and compression in one layout, and with each layout in
    /// one of them: what a mode does with rows is the same wherever they come from, and a run must end in minutes.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for format in Format::ALL {
            for &compression in format.compressions() {
                for layout in LAYOUTS {
                    all.extend(Mode::ALL.map(|mode| Self { format, compression, layout, mode }));
                }
            }
        }
        all.retain(|one| {
            let usual = one.format == Format::Csv && one.compression == Compression::Gzip;
            let played = one.mode == Mode::Replace || usual || one.layout.name == one.mode.usual_layout();
            played && one.mode.is_for(one.layout)
        });
        all
    }

    /// The dataset's name, the target's too.
    pub(crate) fn name(&self) -> String {
        let (format, compression) = (self.format.name(), self.compression.name());
        format!("{format}_{compression}_{}_{}", self.layout.name, self.mode.name())
    }

    /// The first rows of the files and the target: name and type of each column.
    pub(crate) fn file_columns(&self) -> Vec<(String, Type)> {
        let in_files = self.layout.parts.iter().filter(|part| part.in_files);
        let parts = in_files.map(|part| (part.column, part.sql));
        rows::COLUMNS.into_iter().chain(parts).map(|(name, kind)| (name.to_owned(), kind)).collect()
    }

    /// The dataset's tables in `datasets.toml`.
    pub(crate) fn definition(&self) -> String {
        let name = self.name();
        let columns = self.file_columns().into_iter().map(|(name, kind)| format!("\"{name} {}\"", kind.sql()));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let mut tables = vec![format!(
            "[{name}]\nsource = \"s3://lake-raw/{name}/\"\nlayout = \"{}\"\nformat = \"{}\"\ntarget = \"{SCHEMA}.{name}\"\n\
             columns = [{columns}]\nkey = [\"id\"]\nrequired = [\"id\"]\ninterval = \"0s\"\n{}",
            self.layout.levels,
            self.format.name(),
            self.mode.keys(),
        )];
        tables.extend(self.layout.parts.iter().map(
            |Part { name: part, kind, column, in_files, range, .. }| match range {
                Some(keys) => {
                    format!("\n[{name}.partition.{part}]\ntype = \"{kind}\"\nrange_of = \"{column}\"\n{keys}")
                }
                None => format!(
                    "\n[{name}.partition.{part}]\ntype = \"{kind}\"\ncolumn = \"{column}\"\nin_files = {in_files}\n"
                ),
            },
        ));
        if self.format == Format::Csv {
            let compression = self.compression.name();
            tables.push(format!("\n[{name}.csv]\nignore_header = 1\ncompression = \"{compression}\"\n"));
        }
        if self.format == Format::Json {
            tables.push(format!("\n[{name}.json]\ncompression = \"{}\"\n", self.compression.name()));
        }
        tables.push(self.mode.tables(&name, self.format, self.layout));
        tables.concat()
    }

    /// What makes its target, as its owner would.
    pub(crate) fn create_target(&self) -> String {
        let mut columns: Vec<String> =
            self.file_columns().into_iter().map(|(name, kind)| format!("{name} {}", kind.sql())).collect();
        let from_path = self.layout.parts.iter().filter(|part| !part.in_files);
        columns.extend(from_path.map(|part| format!("{} {}", part.column, part.sql.sql())));
        columns.extend(self.mode.target_columns().iter().map(|column| (*column).to_owned()));
        format!("CREATE TABLE {SCHEMA}.{} ({})", self.name(), columns.join(", "))
    }

    /// Reads the definition, and holds the answer against what the manual says.
    pub(crate) fn check(&self) -> Validity {
        let expected = self.mode.refused(self.format, self.layout);
        match (definition::parse(&self.definition()), expected) {
            (Ok(_), None) => Validity::Valid,
            (Ok(_), Some(reason)) => Validity::Wrong(format!("it isn't refused, though {reason:?}")),
            (Err(problems), expected) => {
                let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                match expected {
                    Some(reason) if told.iter().all(|problem| problem.contains(reason)) => Validity::Refused,
                    _ => Validity::Wrong(format!("it is refused: {}", told.join(" / "))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_combination_is_valid_or_refused_for_its_reason() {
        for combination in Combination::all() {
            if let Validity::Wrong(why) = combination.check() {
                panic!("{}: {why}\n{}", combination.name(), combination.definition());
            }
        }
    }

    #[test]
    fn names_are_unique_and_short_enough() {
        let all = Combination::all();
        let names: BTreeSet<String> = all.iter().map(Combination::name).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.iter().all(|name| name.len() <= 63), "{names:?}");
    }
}
