//! Rows of every type, made from a number: the same number makes the same rows.

use jiff::civil::{DateTime, date};
use jiff::{SignedDuration, Span};
use tidemark_kit::files::{Cell, Type};

/// The columns that every file has, before those of the partition.
pub(crate) const COLUMNS: [(&str, Type); 11] = [
    ("id", Type::BigInt),
    ("small", Type::SmallInt),
    ("pieces", Type::Integer),
    ("amount", Type::Decimal(12, 2)),
    ("rate", Type::Double),
    ("share", Type::Real),
    ("good", Type::Boolean),
    ("name", Type::Varchar(80)),
    ("born", Type::Date),
    ("seen", Type::Timestamp),
    ("told", Type::TimestampTz),
];

const NAMES: [&str; 9] =
    ["Ada", "O'Hara", "Müller, GmbH", "Li \"Lee\" Na", "D\\Angelo\\", "雪 😀 e\u{301}", "two\nlines", "", "  blanks  "];

/// Columns and the expressions in their place, where rows are shaped; [`shaped`] does the same to a row.
pub(crate) const SHAPED: [(&str, &str); 4] = [
    ("id", "id + 1000"),
    ("pieces", "case when pieces < 0 then 0 else pieces end"),
    ("good", "not good"),
    ("name", "coalesce(trim(name), 'nobody')"),
];

/// What the expressions of [`SHAPED`] make of a row.
pub(crate) fn shaped(row: &[Cell]) -> Vec<Cell> {
    let shape = |(cell, (column, _)): (&Cell, (&str, Type))| match (column, cell) {
        ("id", Cell::Int(id)) => Cell::Int(id + 1000),
        ("pieces", Cell::Int(pieces)) => Cell::Int(*pieces.max(&0)),
        ("good", Cell::Bool(good)) => Cell::Bool(!good),
        ("name", Cell::Text(name)) => Cell::Text(name.trim_matches(' ').to_owned()),
        ("name", Cell::Null) => Cell::Text("nobody".to_owned()),
        _ => cell.clone(),
    };
    row.iter().zip(COLUMNS).map(shape).collect()
}

/// Columns by which an upsert finds and weighs rows, and the expressions in their place; [`moved`] does the same to a row.
pub(crate) const MOVED: [(&str, &str); 2] = [("id", "id + 1000"), ("seen", "seen + interval '1 hour'")];

/// What the expressions of [`MOVED`] make of a row.
pub(crate) fn moved(row: &[Cell]) -> Vec<Cell> {
    let change = |(cell, (column, _)): (&Cell, (&str, Type))| match (column, cell) {
        ("id", Cell::Int(id)) => Cell::Int(id + 1000),
        ("seen", Cell::Timestamp(at)) => Cell::Timestamp(at.saturating_add(HOUR)),
        _ => cell.clone(),
    };
    row.iter().zip(COLUMNS).map(change).collect()
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// What a file holds where only an expression says which partition its rows are of: another value, often another partition's.
pub(crate) fn hidden(cell: Cell) -> Cell {
    match cell {
        Cell::Date(day) => Cell::Date(day.saturating_sub(Span::new().days(1))),
        Cell::Timestamp(at) => Cell::Timestamp(at.saturating_sub(HOUR)),
        Cell::Int(number) => Cell::Int(number - 7),
        Cell::Text(text) => Cell::Text(text + "##"),
        other => other,
    }
}

/// The expression that undoes [`hidden`].
pub(crate) fn shown(column: &str, kind: Type) -> String {
    match kind {
        Type::Date => format!("{column} + 1"),
        Type::Timestamp | Type::TimestampTz => format!("{column} + interval '1 hour'"),
        Type::Varchar(_) => format!("rtrim({column}, '#')"),
        _ => format!("{column} + 7"),
    }
}

/// What a row is told apart by.
pub(crate) fn id(row: &[Cell]) -> i64 {
    match row.first() {
        Some(Cell::Int(id)) => *id,
        _ => 0,
    }
}

/// When a row was `seen`: the greatest wins, and none loses to all.
pub(crate) fn seen(row: &[Cell]) -> Option<DateTime> {
    row.iter().zip(COLUMNS).find_map(|(cell, (column, _))| match cell {
        Cell::Timestamp(moment) if column == "seen" => Some(*moment),
        _ => None,
    })
}

/// Rows with the ids from `first` on; `version` tells two writings of one id apart. A tenth of the values is NULL.
pub(crate) fn rows(first: i64, count: i64, version: i64) -> Vec<Vec<Cell>> {
    (first..first + count).map(|id| row(id, version)).collect()
}

fn row(id: i64, version: i64) -> Vec<Cell> {
    let mut dice = Dice(id.cast_unsigned().wrapping_mul(1_000_003) ^ version.cast_unsigned());
    let mut cells = vec![Cell::Int(id)];
    for (_, kind) in &COLUMNS[1..] {
        let null = dice.below(10) == 0;
        let cell = cell(*kind, &mut dice);
        cells.push(if null { Cell::Null } else { cell });
    }
    cells
}

/// A value, the greatest and the smallest among them.
fn cell(kind: Type, dice: &mut Dice) -> Cell {
    let extreme = dice.below(8);
    let moment = |dice: &mut Dice| {
        let micros = dice.below(200 * 365 * 86_400) * 1_000_000 + dice.below(1_000_000);
        date(1900, 1, 1).at(0, 0, 0, 0).saturating_add(SignedDuration::from_micros(micros))
    };
    match kind {
        Type::SmallInt => Cell::Int(dice.among(extreme, i16::MIN.into(), i16::MAX.into())),
        Type::Integer => Cell::Int(dice.among(extreme, i32::MIN.into(), i32::MAX.into())),
        Type::BigInt => Cell::Int(dice.among(extreme, i64::MIN, i64::MAX)),
        Type::Decimal(_, scale) => Cell::Decimal(dice.among(extreme, -999_999_999_999, 999_999_999_999).into(), scale),
        // Eighths and quarters, which both binary and decimal text hold exactly.
        #[expect(clippy::cast_precision_loss, reason = "a million eighths are exact")]
        Type::Double | Type::Real => Cell::Float((dice.below(1_000_000) - 500_000) as f64 / 8.0),
        Type::Boolean => Cell::Bool(dice.below(2) == 0),
        Type::Varchar(_) => Cell::Text(NAMES[usize::try_from(dice.below(9)).unwrap_or(0)].to_owned()),
        Type::Date => Cell::Date(date(1, 1, 1).saturating_add(Span::new().days(dice.below(3_650_000)))),
        Type::Timestamp | Type::TimestampTz => Cell::Timestamp(moment(dice)),
    }
}

/// As PostgreSQL tells a value of that type.
pub(crate) fn told(cell: &Cell, kind: Type) -> Option<String> {
    match (cell, kind) {
        (Cell::Bool(value), _) => Some(if *value { "t" } else { "f" }.to_owned()),
        (Cell::Timestamp(_), Type::TimestampTz) => cell.text().map(|text| text + "+00"),
        _ => cell.text(),
    }
}

/// A value of a part of the partition, in files that hold it.
pub(crate) fn part_cell(text: &str, kind: Type) -> Cell {
    match kind {
        Type::Date => text.parse().map_or(Cell::Null, Cell::Date),
        Type::SmallInt | Type::Integer | Type::BigInt => text.parse().map_or(Cell::Null, Cell::Int),
        Type::Timestamp | Type::TimestampTz => text.trim_end_matches("+00").parse().map_or(Cell::Null, Cell::Timestamp),
        _ => Cell::Text(text.to_owned()),
    }
}

/// Random numbers without surprise (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: i64) -> i64 {
        (self.next() >> 1).cast_signed() % bound
    }

    fn among(&mut self, extreme: i64, least: i64, most: i64) -> i64 {
        match extreme {
            0 => least,
            1 => most,
            _ => self.below(20_001) - 10_000,
        }
    }
}
