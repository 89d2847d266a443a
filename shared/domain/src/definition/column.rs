//! Names and types of columns, as Redshift takes them.

use std::fmt;

use super::{Column, ColumnName, Flaw, SqlType, TableName};

/// Redshift's limit, in bytes.
const MAX_IDENTIFIER: usize = 127;

/// Names that each Redshift table already has.
const SYSTEM_COLUMNS: [&str; 9] = ["oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "deletexid", "insertxid"];

/// Types of Redshift that aren't taken: why, and what to do.
const REFUSED_TYPES: [(&str, &str, &str); 7] = [
    ("varbyte", HEXADECIMAL, "load it as varchar of hexadecimal digits"),
    ("varbinary", HEXADECIMAL, "load it as varchar of hexadecimal digits"),
    ("geometry", HEXADECIMAL, "load it as varchar, and let a view make geometry of it"),
    ("geography", HEXADECIMAL, "load it as varchar, and let a view make geography of it"),
    ("hllsketch", "holds no rows' data but a count of them", "load what was counted"),
    ("timetz", "has no order: one moment has many texts", "load it as time in UTC, or as timestamptz"),
    ("interval", "can't be loaded by COPY", "load it as a number of seconds"),
];

const HEXADECIMAL: &str = "is read by COPY from hexadecimal digits in text and from nothing in columnar files";

/// Reads a name as Redshift does: 1 to 127 bytes, a letter or `_` first, ASCII folded to lower case. `what` is told.
pub(super) fn identifier(text: &str, what: &str) -> Result<String, Flaw> {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let valid = text.starts_with(letter)
        && text.chars().all(|c| (letter(c) || c.is_ascii_digit() || c == '$') && !c.is_control() && !c.is_whitespace());
    if valid && text.len() <= MAX_IDENTIFIER {
        return Ok(text.to_ascii_lowercase());
    }
    let remedy = format!("write 1 to {MAX_IDENTIFIER} bytes of letters, digits, _ and $, beginning with a letter or _");
    Err(Flaw::new(format!("{what} {text:?} is no name"), remedy))
}

impl ColumnName {
    /// Reads a column's name, folded to lower case; not one that Redshift gives each table.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let name = identifier(text, "column")?;
        if SYSTEM_COLUMNS.contains(&name.as_str()) {
            return Err(Flaw::new(format!("column `{name}` is a system column of Redshift"), "give it another name"));
        }
        Ok(Self(name))
    }
}

impl Column {
    /// Reads `name type`, such as `amount decimal(12,2)`.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let Some((name, sql_type)) = text.trim().split_once(char::is_whitespace) else {
            return Err(Flaw::new(
                format!("column {text:?} has no type"),
                "write a name and a type, such as `id bigint`",
            ));
        };
        Ok(Self { name: ColumnName::parse(name)?, sql_type: SqlType::parse(sql_type)? })
    }
}

/// As it is read back: `name type`.
impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.sql_type)
    }
}

impl SqlType {
    /// Reads a type of Redshift, in any of its spellings and any case.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let lower = text.to_ascii_lowercase();
        let (words, arguments) = match lower.split_once('(') {
            Some((words, rest)) => (words, Some(rest.trim_end())),
            None => (lower.as_str(), None),
        };
        let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let arguments: Vec<&str> = match arguments.map(|rest| rest.strip_suffix(')')) {
            None => Vec::new(),
            Some(Some(inner)) => inner.split(',').map(str::trim).collect(),
            Some(None) => return Err(unknown(text)),
        };
        match (name.as_str(), arguments.as_slice()) {
            ("smallint" | "int2", []) => Ok(Self::SmallInt),
            ("integer" | "int" | "int4", []) => Ok(Self::Integer),
            ("bigint" | "int8", []) => Ok(Self::BigInt),
            ("real" | "float4", []) => Ok(Self::Real),
            ("double precision" | "float8" | "float", []) => Ok(Self::Double),
            ("boolean" | "bool", []) => Ok(Self::Boolean),
            ("date", []) => Ok(Self::Date),
            ("timestamp" | "timestamp without time zone", []) => Ok(Self::Timestamp),
            ("timestamptz" | "timestamp with time zone", []) => Ok(Self::TimestampTz),
            ("decimal" | "numeric", []) => Ok(Self::Decimal { precision: 18, scale: 0 }),
            ("decimal" | "numeric", [precision]) => decimal(text, precision, "0"),
            ("decimal" | "numeric", [precision, scale]) => decimal(text, precision, scale),
            ("char" | "character" | "nchar", []) => Ok(Self::Char(1)),
            ("char" | "character" | "nchar", [length]) => bytes(text, length, 4_096).map(Self::Char),
            ("text" | "varchar" | "nvarchar" | "character varying", []) => Ok(Self::Varchar(256)),
            ("varchar" | "nvarchar" | "character varying", ["max"]) => Ok(Self::Varchar(65_535)),
            ("varchar" | "nvarchar" | "character varying", [length]) => bytes(text, length, 65_535).map(Self::Varchar),
            ("time" | "time without time zone", []) => Ok(Self::Time),
            ("super", []) => Ok(Self::Super),
            ("time with time zone", []) => Err(refused("timetz").unwrap_or_else(|| unknown(text))),
            (name, _) => Err(refused(name).unwrap_or_else(|| unknown(text))),
        }
    }
}

fn refused(name: &str) -> Option<Flaw> {
    let first = name.split(' ').next();
    let (name, why, remedy) = REFUSED_TYPES.iter().find(|(refused, ..)| Some(*refused) == first)?;
    Some(Flaw::new(format!("type `{name}` {why}"), *remedy))
}

fn unknown(text: &str) -> Flaw {
    let remedy = "write smallint, integer, bigint, decimal(p,s), real, double precision, boolean, char(n), varchar(n), date, \
                  timestamp, timestamptz, time or super, and nothing after it (not null goes into `required`)";
    Flaw::new(format!("type {text:?} is unknown"), remedy)
}

fn decimal(text: &str, precision: &str, scale: &str) -> Result<SqlType, Flaw> {
    match (precision.parse::<u8>(), scale.parse::<u8>()) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision.min(37) => Ok(SqlType::Decimal { precision, scale }),
        _ => Err(Flaw::new(
            format!("type {text:?} is out of range"),
            "write 1 to 38 digits, of them 0 to 37 after the point",
        )),
    }
}

fn bytes(text: &str, length: &str, most: u16) -> Result<u16, Flaw> {
    let length = length.parse::<u16>().ok().filter(|length| (1..=most).contains(length));
    length.ok_or_else(|| {
        Flaw::new(format!("type {text:?} is out of range"), format!("write a length of 1 to {most} bytes"))
    })
}

/// The one spelling that is stored, and valid in SQL.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallInt => f.write_str("smallint"),
            Self::Integer => f.write_str("integer"),
            Self::BigInt => f.write_str("bigint"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Real => f.write_str("real"),
            Self::Double => f.write_str("double precision"),
            Self::Boolean => f.write_str("boolean"),
            Self::Char(length) => write!(f, "char({length})"),
            Self::Varchar(length) => write!(f, "varchar({length})"),
            Self::Date => f.write_str("date"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::TimestampTz => f.write_str("timestamptz"),
            Self::Time => f.write_str("time"),
            Self::Super => f.write_str("super"),
        }
    }
}

impl TableName {
    /// Reads `schema.table` or `database.schema.table`, folded to lower case; the database comes apart.
    pub fn parse(text: &str) -> Result<(Option<String>, Self), Flaw> {
        let names: Vec<&str> = text.split('.').collect();
        let (database, schema, table) = match names.as_slice() {
            [schema, table] => (None, schema, table),
            [database, schema, table] => (Some(identifier(database, "database")?), schema, table),
            _ => return Err(Flaw::new(format!("target {text:?} is no table"), "write `schema.table`")),
        };
        let schema = identifier(schema, "schema")?;
        let ours = schema == "tidemark" || schema == "tidemark_staging";
        if ours || schema == "information_schema" || schema.starts_with("pg_") {
            let whose = if ours { "Tidemark's own" } else { "Redshift's own" };
            return Err(Flaw::new(format!("schema `{schema}` of the target is {whose}"), "use a schema of yours"));
        }
        Ok((database, Self { schema, table: identifier(table, "table")? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_in_every_spelling_and_written_in_one() {
        for (text, normalised) in [
            ("BIGINT", "bigint"),
            ("int4", "integer"),
            ("numeric", "decimal(18,0)"),
            ("decimal ( 12 , 2 )", "decimal(12,2)"),
            ("decimal(38,37)", "decimal(38,37)"),
            ("Double  Precision", "double precision"),
            ("character varying(64)", "varchar(64)"),
            ("varchar(MAX)", "varchar(65535)"),
            ("varchar", "varchar(256)"),
            ("text", "varchar(256)"),
            ("char", "char(1)"),
            ("timestamp with time zone", "timestamptz"),
        ] {
            assert_eq!(SqlType::parse(text).unwrap().to_string(), normalised);
            assert_eq!(SqlType::parse(normalised).unwrap().to_string(), normalised);
        }
    }

    #[test]
    fn types_out_of_range_or_unknown_are_refused() {
        for text in ["varchar(65536)", "varchar(0)", "char(4097)", "decimal(39)", "decimal(10,11)", "decimal(38,38)"] {
            assert!(SqlType::parse(text).unwrap_err().what.ends_with("is out of range"), "{text}");
        }
        for text in ["strin", "bigint not null", "varchar(64", "bigint(3)", "varchar(1,2)", "int; drop table x", ""] {
            assert!(SqlType::parse(text).unwrap_err().what.ends_with("is unknown"), "{text}");
        }
        assert_eq!(
            SqlType::parse("interval day to second").unwrap_err().what,
            "type `interval` can't be loaded by COPY"
        );
        let offsets = "type `timetz` has no order: one moment has many texts";
        assert_eq!(SqlType::parse("time with time zone").unwrap_err().what, offsets);
    }

    #[test]
    fn names_have_1_to_127_bytes_and_no_quotes() {
        assert_eq!(ColumnName::parse("Order_ID$1").unwrap().0, "order_id$1");
        assert_eq!(ColumnName::parse("größe").unwrap().0, "größe");
        assert!(ColumnName::parse(&"x".repeat(127)).is_ok());
        let long = "ö".repeat(64);
        for text in ["", "1a", "a b", "a\"b", "a;", "a-b", "a\u{a0}b", &"x".repeat(128), &long] {
            assert!(ColumnName::parse(text).is_err(), "{text}");
        }
        assert_eq!(ColumnName::parse("XMIN").unwrap_err().what, "column `xmin` is a system column of Redshift");
    }

    #[test]
    fn targets_are_folded_and_never_ours() {
        let (database, table) = TableName::parse("Sales.Orders").unwrap();
        assert_eq!((database, table.to_string()), (None, "sales.orders".to_owned()));
        assert_eq!(TableName::parse("Dev.sales.orders").unwrap().0.as_deref(), Some("dev"));
        for text in
            ["orders", "a.b.c.d", "tidemark.batches", "PG_catalog.x", "information_schema.x", "sales.", "s.\"x\""]
        {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
    }
}
