//! What of a combination lies in S3: its files, and the rows that must stand in the target for them.

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

/// The files of a combination, as its producer wrote them last.
#[derive(Debug)]
pub(crate) struct Lake {
    pub(crate) combination: Combination,
    files: [Vec<Vec<Cell>>; 3],
}

/// Which of the two partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Partition = 0,
    Neighbour = 1,
}

impl Lake {
    /// Two files of the partition, in two of its spellings, and one of its neighbour.
    pub(crate) fn new(combination: Combination) -> Self {
        let files = [rows::rows(1, ROWS, 1), rows::rows(101, ROWS, 1), rows::rows(1, ROWS, 7)];
        Self { combination, files }
    }

    /// The first file's rows are others now, some of them of the same keys.
    pub(crate) fn overwrite(&mut self) {
        self.files[0] = rows::rows(5, ROWS, 2);
    }

    /// Puts a file: 0 and 1 are of the partition, 2 of its neighbour.
    pub(crate) async fn put(&self, world: &World, file: usize) -> Result<()> {
        let Combination { format, compression, layout, mode } = self.combination;
        let which = if file == 2 { Which::Neighbour } else { Which::Partition };
        let columns = self.combination.file_columns();
        let rows = self.files[file].iter().map(|row| {
            let in_files = layout.parts.iter().filter(|part| part.in_files);
            let parts = in_files.map(|part| rows::part_cell(part.value[which as usize], part.sql));
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
        let files: &[Vec<Vec<Cell>>] = if which == Which::Partition { &self.files[..2] } else { &self.files[2..] };
        let told = |row: &Vec<Cell>| {
            let own = row.iter().zip(rows::COLUMNS).map(|(cell, (_, kind))| rows::told(cell, kind));
            let parts = self.parts_in_order().map(|part| Some(part.value[which as usize].to_owned()));
            own.chain(parts).collect::<Row>()
        };
        let mut rows: Vec<Row> = files.iter().flatten().map(told).collect();
        rows.sort_unstable();
        rows
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
