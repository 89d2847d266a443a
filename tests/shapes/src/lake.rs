//! What of a combination lies in S3: its files, and the rows that must stand in the target for them.

use std::collections::BTreeMap;
use std::mem;

use anyhow::Result;
use tidemark_kit::World;
use tidemark_kit::files::{self, Cell, Table};

use crate::combination::Combination;
use crate::mode::Mode;
use crate::rows;
use crate::stage::SCHEMA;

/// Rows of a file.
const ROWS: i64 = 12;

/// A row as PostgreSQL tells it, column by column.
pub(crate) type Row = Vec<Option<String>>;

/// A row as it is put into a file.
type Cells = Vec<Cell>;

/// The files of a combination, as its producer wrote them last.
#[derive(Debug)]
pub(crate) struct Lake {
    pub(crate) combination: Combination,
    files: [Vec<Cells>; 3],
    /// What the first file held before it was overwritten.
    overwritten: Vec<Cells>,
}

/// Which of the two partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Partition = 0,
    Neighbour = 1,
}

impl Lake {
    /// Two files of the partition, in two of its spellings, and one of its neighbour. Keys are in several files just where
    /// the mode permits it.
    pub(crate) fn new(combination: Combination) -> Self {
        let (second, neighbour) = match combination.mode {
            Mode::Upsert => (101, 201),
            Mode::Newest | Mode::Traced => (7, 3),
            _ => (101, 1),
        };
        let files = [rows::rows(1, ROWS, 1), rows::rows(second, ROWS, 3), rows::rows(neighbour, ROWS, 7)];
        Self { combination, files, overwritten: Vec::new() }
    }

    /// The first file's rows are others now, some of them of the same keys.
    pub(crate) fn overwrite(&mut self) {
        self.overwritten = mem::replace(&mut self.files[0], rows::rows(5, ROWS, 2));
    }

    /// Puts a file: 0 and 1 are of the partition, 2 of its neighbour.
    pub(crate) async fn put(&self, world: &World, file: usize) -> Result<()> {
        let Combination { format, compression, layout, mode } = self.combination;
        let which = if file == 2 { Which::Neighbour } else { Which::Partition };
        let columns = self.combination.file_columns();
        let rows = self.files[file].iter().map(|row| {
            let in_files = layout.parts.iter().filter(|part| part.in_files);
            let parts = in_files.map(|part| rows::part_cell(part.value[which as usize], part.sql));
            let parts = parts.map(|cell| if mode == Mode::Shaped { rows::hidden(cell) } else { cell });
            row.iter().cloned().chain(parts).collect()
        });
        let table = Table { columns, rows: rows.collect() };
        let bytes = match mode {
            Mode::Options => files::write_csv_as(compression, &table, b'|', b'\'', "(null)")?,
            _ => files::write(format, compression, &table)?,
        };
        let folder = match file {
            0 => layout.spellings[0],
            1 => layout.spellings[layout.spellings.len() - 1],
            _ => layout.elsewhere,
        };
        world.put(&format!("{}/{folder}file {file}+é.data", self.combination.name()), bytes).await
    }

    /// The rows that must stand in the target for the partition, or its neighbour.
    pub(crate) fn expected(&self, which: Which) -> Vec<Row> {
        let told = |row: Cells| {
            let own = row.iter().zip(rows::COLUMNS).map(|(cell, (_, kind))| rows::told(cell, kind));
            let parts = self.parts_in_order().map(|part| Some(part.value[which as usize].to_owned()));
            own.chain(parts).collect::<Row>()
        };
        let standing = self.standing().into_iter().filter(|(of, _)| *of == which);
        let mut rows: Vec<Row> = standing.map(|(_, row)| told(row)).collect();
        rows.sort_unstable();
        rows
    }

    /// The target's rows: of a replaced partition those in its files, else for each key one of all that were ever written.
    fn standing(&self) -> Vec<(Which, Cells)> {
        let [first, second, neighbour] = &self.files;
        let of = |which: Which, rows: &[Cells]| rows.iter().map(|row| (which, row.clone())).collect::<Vec<_>>();
        let in_files = [of(Which::Partition, first), of(Which::Partition, second), of(Which::Neighbour, neighbour)];
        let written = of(Which::Partition, &self.overwritten).into_iter().chain(in_files.concat());
        let mut by_key = BTreeMap::<i64, (Which, Cells)>::new();
        match self.combination.mode {
            Mode::Replace | Mode::Provenance | Mode::Options | Mode::Shaped => return in_files.concat(),
            Mode::Select => return in_files.concat().iter().map(|(which, row)| (*which, rows::shaped(row))).collect(),
            Mode::Upsert | Mode::Torn => by_key.extend(written.map(|(which, row)| (rows::id(&row), (which, row)))),
            Mode::Newest | Mode::Traced => {
                for (which, row) in written {
                    let standing = by_key.get(&rows::id(&row)).map(|(_, standing)| rows::seen(standing));
                    if standing.is_none_or(|standing| standing < rows::seen(&row)) {
                        by_key.insert(rows::id(&row), (which, row));
                    }
                }
            }
        }
        let moves = self.combination.mode == Mode::Traced;
        let told = |(which, row): (Which, Cells)| (which, if moves { rows::moved(&row) } else { row });
        by_key.into_values().map(told).collect()
    }

    /// The query that gives them.
    pub(crate) fn query(&self, which: Which) -> String {
        let own = rows::COLUMNS.iter().map(|(name, _)| *name);
        let columns: Vec<&str> = own.chain(self.parts_in_order().map(|part| part.column)).collect();
        let parts = self.combination.layout.parts.iter();
        let terms = parts.map(|part| format!("{} = '{}'", part.column, part.value[which as usize].replace('\'', "''")));
        let terms: Vec<String> = terms.collect();
        let (columns, terms) = (columns.join(", "), terms.join(" AND "));
        format!("SELECT {columns} FROM {}.{} WHERE {terms}", SCHEMA, self.combination.name())
    }

    /// In the target those of the files come first.
    fn parts_in_order(&self) -> impl Iterator<Item = &'static crate::layout::Part> + use<> {
        let parts = self.combination.layout.parts;
        parts.iter().filter(|part| part.in_files).chain(parts.iter().filter(|part| !part.in_files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lake(mode: Mode) -> Lake {
        let found = Combination::all().into_iter().find(|one| one.mode == mode);
        Lake::new(found.expect("each mode is played"))
    }

    /// The ids and what tells the writings of one apart.
    fn told(lake: &Lake, which: Which) -> Vec<i64> {
        let standing = lake.standing().into_iter().filter(|(of, _)| *of == which);
        standing.map(|(_, row)| rows::id(&row)).collect()
    }

    #[test]
    fn upserted_rows_stay_when_they_vanish_from_the_files() {
        let mut lake = lake(Mode::Upsert);
        lake.overwrite();
        assert_eq!(told(&lake, Which::Partition), (1..17).chain(101..113).collect::<Vec<_>>());
        assert_eq!(told(&lake, Which::Neighbour), (201..213).collect::<Vec<_>>());
        let fifth = lake.standing().into_iter().find(|(_, row)| rows::id(row) == 5).map(|(_, row)| row);
        assert_eq!(fifth.as_ref(), lake.files[0].first(), "the last writing replaces");
    }

    #[test]
    fn the_greatest_is_found_in_each_file_and_is_never_a_tie() {
        let mut lake = lake(Mode::Newest);
        lake.overwrite();
        let written: Vec<&Cells> = lake.files.iter().flatten().chain(&lake.overwritten).collect();
        for one in &written {
            let of_key = written.iter().filter(|other| rows::id(other) == rows::id(one));
            let alike = of_key.filter(|other| rows::seen(other) == rows::seen(one)).count();
            assert_eq!(alike, 1, "{one:?}: which of them wins is told by nothing");
        }
        let standing = lake.standing();
        for rows in lake.files.iter().chain([&lake.overwritten]) {
            assert!(rows.iter().any(|row| standing.iter().any(|(_, winner)| winner == row)), "{rows:?} never win");
            assert!(rows.iter().any(|row| standing.iter().all(|(_, winner)| winner != row)), "{rows:?} never lose");
        }
    }
}
