//! The layouts: how a partition is spelt, what it is called, and what its columns must hold.

use tidemark_kit::files::Type;

/// A layout with one partition in every spelling, and a neighbour of it.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    /// As the definition has it.
    pub(crate) levels: &'static str,
    pub(crate) parts: &'static [Part],
    /// Folders below the root that all mean the partition.
    pub(crate) spellings: &'static [&'static str],
    /// The partition's name.
    pub(crate) partition: &'static str,
    /// A folder of another partition, which must stay as it is.
    pub(crate) elsewhere: &'static str,
    /// That partition's name.
    pub(crate) neighbour: &'static str,
}

/// A part of it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) column: &'static str,
    pub(crate) sql: Type,
    pub(crate) in_files: bool,
    /// Where its rows are those of a range of the column: the keys that say so.
    pub(crate) range: Option<&'static str>,
    /// What the column holds in the partition, and in its neighbour, as text.
    pub(crate) value: [&'static str; 2],
}

const fn part(name: &'static str, kind: &'static str, sql: Type, value: [&'static str; 2]) -> Part {
    Part { name, kind, column: name, sql, in_files: false, range: None, value }
}

/// A part whose rows lie in a range of the column `moment`, which the files hold.
const fn range(
    name: &'static str,
    kind: &'static str,
    keys: &'static str,
    sql: Type,
    value: [&'static str; 2],
) -> Part {
    Part { name, kind, column: "moment", sql, in_files: true, range: Some(keys), value }
}

pub(crate) const LAYOUTS: &[Layout] = &[
    Layout {
        name: "day",
        levels: "dt={dt}/",
        parts: &[part("dt", "date", Type::Date, ["2026-11-01", "2026-11-02"])],
        spellings: &["dt=2026-11-01/", "DT=2026-11-01/"],
        partition: "dt=2026-11-01",
        elsewhere: "dt=2026-11-02/",
        neighbour: "dt=2026-11-02",
    },
    Layout {
        name: "dayinfiles",
        levels: "dt={dt}/",
        parts: &[Part {
            column: "of_day",
            in_files: true,
            ..part("dt", "date", Type::Date, ["2028-02-29", "2028-03-01"])
        }],
        spellings: &["dt=2028-02-29/"],
        partition: "dt=2028-02-29",
        elsewhere: "dt=2028-03-01/",
        neighbour: "dt=2028-03-01",
    },
    Layout {
        name: "path",
        levels: "{yyyy}/{mm}/{dd}/",
        parts: &[part("day", "date", Type::Date, ["2026-11-01", "2026-01-11"])],
        spellings: &["2026/11/01/", "2026/11/1/"],
        partition: "day=2026-11-01",
        elsewhere: "2026/01/11/",
        neighbour: "day=2026-01-11",
    },
    Layout {
        name: "hour",
        levels: "year={yyyy}/month={mm}/day={dd}/hour={hh}/",
        parts: &[part("arrived", "timestamp", Type::Timestamp, ["2026-11-01 07:00:00", "2026-11-01 17:00:00"])],
        spellings: &["year=2026/month=11/day=01/hour=07/", "year=2026/month=11/day=1/hour=7/"],
        partition: "arrived=2026-11-01T07:00:00",
        elsewhere: "year=2026/month=11/day=01/hour=17/",
        neighbour: "arrived=2026-11-01T17:00:00",
    },
    Layout {
        name: "hourfolders",
        levels: "{yyyy}/{mm}/{dd}/{hh}/",
        parts: &[part("day", "date", Type::Date, ["2026-11-01", "2026-11-10"])],
        spellings: &["2026/11/01/00/", "2026/11/01/23/"],
        partition: "day=2026-11-01",
        elsewhere: "2026/11/10/00/",
        neighbour: "day=2026-11-10",
    },
    Layout {
        name: "minute",
        levels: "at={at}/",
        parts: &[part("at", "timestamp", Type::Timestamp, ["2026-11-01 07:30:00", "2026-11-01 07:30:01"])],
        spellings: &["at=2026-11-01 07%3A30/", "at=2026-11-01T07%3A30%3A00/"],
        partition: "at=2026-11-01T07:30:00",
        elsewhere: "at=2026-11-01 07%3A30%3A01/",
        neighbour: "at=2026-11-01T07:30:01",
    },
    Layout {
        name: "week",
        levels: "region={region}/year={year}/week={week}/",
        parts: &[
            Part { in_files: true, ..part("region", "text", Type::Varchar(40), ["O'Brien \\ 雪/ü", "O'Brien"]) },
            part("year", "integer", Type::SmallInt, ["2026", "2026"]),
            part("week", "integer", Type::Integer, ["1", "1"]),
        ],
        spellings: &[
            "region=O%27Brien %5C 雪%2Fü/year=2026/week=01/",
            "region=O'Brien \\ %E9%9B%AA%2F%C3%BC/year=02026/week=1/",
        ],
        partition: "region=O'Brien \\ 雪%2Fü/year=2026/week=1",
        elsewhere: "region=O'Brien/year=2026/week=1/",
        neighbour: "region=O'Brien/year=2026/week=1",
    },
    Layout {
        name: "bare",
        levels: "data/{region}/dt={dt}/*.data",
        parts: &[
            part("region", "text", Type::Varchar(40), ["a+b%41 c", "a+b"]),
            part("dt", "date", Type::Date, ["2026-11-01", "2026-11-01"]),
        ],
        spellings: &["data/a+b%41 c/dt=2026-11-01/"],
        partition: "region=a+b%2541 c/dt=2026-11-01",
        elsewhere: "data/a+b/dt=2026-11-01/",
        neighbour: "region=a+b/dt=2026-11-01",
    },
    Layout {
        name: "rangeday",
        levels: "dt={dt}/",
        parts: &[range(
            "dt",
            "date",
            "grain = \"day\"\ntimezone = \"Europe/Berlin\"\n",
            Type::Timestamp,
            ["2026-10-25 22:59:59", "2026-10-25 23:00:00"],
        )],
        spellings: &["dt=2026-10-25/"],
        partition: "dt=2026-10-25",
        elsewhere: "dt=2026-10-26/",
        neighbour: "dt=2026-10-26",
    },
    Layout {
        name: "rangetwice",
        levels: "{yyyy}/{mm}/{dd}/{hh}/",
        parts: &[range(
            "hour",
            "timestamp",
            "timezone = \"Europe/Berlin\"\n",
            Type::TimestampTz,
            ["2026-10-25 01:59:59+00", "2026-10-25 02:00:00+00"],
        )],
        spellings: &["2026/10/25/02/", "2026/10/25/2/"],
        partition: "hour=2026-10-25T02:00:00",
        elsewhere: "2026/10/25/03/",
        neighbour: "hour=2026-10-25T03:00:00",
    },
    Layout {
        name: "rangehour",
        levels: "dt={yyyy-mm-dd}/hour={hh}/",
        parts: &[range("hour", "timestamp", "", Type::Timestamp, ["2026-11-01 07:59:59", "2026-11-01 08:00:00"])],
        spellings: &["dt=2026-11-01/hour=07/", "DT=2026-11-01/hour=7/"],
        partition: "hour=2026-11-01T07:00:00",
        elsewhere: "dt=2026-11-01/hour=08/",
        neighbour: "hour=2026-11-01T08:00:00",
    },
    Layout {
        name: "rangemonth",
        levels: "year={yyyy}/month={mm}/{dd}/",
        parts: &[range("month", "date", "grain = \"month\"\n", Type::Date, ["2028-02-29", "2028-03-01"])],
        spellings: &["year=2028/month=02/01/", "year=2028/month=2/29/"],
        partition: "month=2028-02-01",
        elsewhere: "year=2028/month=03/01/",
        neighbour: "month=2028-03-01",
    },
    Layout {
        name: "rangeyear",
        levels: "region={region}/year={year}/",
        parts: &[
            part("region", "text", Type::Varchar(40), ["eu", "eu"]),
            range(
                "year",
                "date",
                "grain = \"year\"\n",
                Type::Timestamp,
                ["2026-12-31 23:59:59", "2027-01-01 00:00:00"],
            ),
        ],
        spellings: &["region=eu/year=2026/", "region=eu/year=2026-07-01/"],
        partition: "region=eu/year=2026-01-01",
        elsewhere: "region=eu/year=2027/",
        neighbour: "region=eu/year=2027-01-01",
    },
];
