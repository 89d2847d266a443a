//! Redshift's column types, a closed list, and what stands for each in PostgreSQL.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use crate::failure::Failure;

/// The most bytes a VARCHAR may have, which is also what `MAX` means.
const VARCHAR_MAX: u32 = 65_535;
/// A VARCHAR or TEXT of no given length.
const VARCHAR_DEFAULT: u32 = 256;
const CHAR_MAX: u32 = 4_096;

/// A type as PostgreSQL shall have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnType {
    pub(crate) sql: String,
    /// For character types: the name Redshift's message uses, and how many bytes fit.
    pub(crate) bytes: Option<(&'static str, u32)>,
}

/// Reads the type that begins at the token `at`; gives it and the index after it.
pub(crate) fn column_type(lexed: &Lexed, at: usize) -> Result<(ColumnType, usize), Failure> {
    let (words, name) = type_name(lexed, at);
    let mut next = at + words;
    let mut arguments = Vec::new();
    if lexed.is(next, &Token::LParen) {
        let end = lexed.after_parenthesis(next)?;
        arguments = (next + 1..end - 1)
            .filter(|index| !lexed.is(*index, &Token::Comma))
            .map(|index| lexed.slice(&lexed.tokens[index]).to_ascii_uppercase())
            .collect();
        next = end;
    }
    let plain = |sql: &str| Ok(ColumnType { sql: sql.to_owned(), bytes: None });
    let no_arguments = arguments.is_empty();
    let found = match name.as_str() {
        "SMALLINT" | "INT2" if no_arguments => plain("smallint"),
        "INTEGER" | "INT" | "INT4" if no_arguments => plain("integer"),
        "BIGINT" | "INT8" if no_arguments => plain("bigint"),
        "REAL" | "FLOAT4" if no_arguments => plain("real"),
        "DOUBLE PRECISION" | "FLOAT8" | "FLOAT" if no_arguments => plain("double precision"),
        "BOOLEAN" | "BOOL" if no_arguments => plain("boolean"),
        "DATE" if no_arguments => plain("date"),
        "TIME" | "TIME WITHOUT TIME ZONE" if no_arguments => plain("time"),
        "TIMETZ" | "TIME WITH TIME ZONE" if no_arguments => plain("timetz"),
        "TIMESTAMP" | "TIMESTAMP WITHOUT TIME ZONE" if no_arguments => plain("timestamp"),
        "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE" if no_arguments => plain("timestamptz"),
        "SUPER" if no_arguments => plain("jsonb"),
        "VARBYTE" | "VARBINARY" | "BINARY VARYING" => plain("bytea"),
        "DECIMAL" | "NUMERIC" => decimal(&arguments),
        "VARCHAR" | "CHARACTER VARYING" | "NVARCHAR" | "TEXT" => varchar(&name, &arguments),
        "CHAR" | "CHARACTER" | "NCHAR" | "BPCHAR" => char(&name, &arguments),
        "GEOMETRY" | "GEOGRAPHY" | "HLLSKETCH" | "INTERVAL" => {
            return Err(Failure::not_imitated(&format!("type {name}")));
        }
        "" => return Err(lexed.error_at(at)),
        _ => return Err(Failure::new(format!("type \"{}\" does not exist", name.to_ascii_lowercase()))),
    }?;
    // Redshift has no arrays but in SUPER.
    if lexed.is(next, &Token::LBracket) {
        return Err(lexed.error_at(next));
    }
    Ok((found, next))
}

/// The type's words, how many and which.
fn type_name(lexed: &Lexed, at: usize) -> (usize, String) {
    const LONGER: [&[&str]; 7] = [
        &["DOUBLE", "PRECISION"],
        &["CHARACTER", "VARYING"],
        &["BINARY", "VARYING"],
        &["TIMESTAMP", "WITH", "TIME", "ZONE"],
        &["TIMESTAMP", "WITHOUT", "TIME", "ZONE"],
        &["TIME", "WITH", "TIME", "ZONE"],
        &["TIME", "WITHOUT", "TIME", "ZONE"],
    ];
    LONGER
        .iter()
        .find(|words| lexed.words_are(at, words))
        .map_or_else(|| (1, lexed.word(at)), |words| (words.len(), words.join(" ")))
}

fn decimal(arguments: &[String]) -> Result<ColumnType, Failure> {
    let numbers: Vec<u32> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let (precision, scale) = match (arguments.len(), numbers.as_slice()) {
        (0, _) => (18, 0),
        (1, [precision]) => (*precision, 0),
        (2, [precision, scale]) => (*precision, *scale),
        _ => return Err(Failure::new(format!("syntax error at or near \"{}\"", arguments.join(", ")))),
    };
    if !(1..=38).contains(&precision) {
        return Err(Failure::new(format!("DECIMAL precision {precision} must be between 1 and 38")));
    }
    if scale > precision.min(37) {
        return Err(Failure::new(format!("DECIMAL scale {scale} must be between 0 and {}", precision.min(37))));
    }
    Ok(ColumnType { sql: format!("numeric({precision},{scale})"), bytes: None })
}

fn varchar(name: &str, arguments: &[String]) -> Result<ColumnType, Failure> {
    let length = match arguments {
        // TEXT takes no notice of a length.
        [..] if name == "TEXT" => VARCHAR_DEFAULT,
        [] => VARCHAR_DEFAULT,
        [max] if max == "MAX" => VARCHAR_MAX,
        [length] => parse_length(length)?,
        _ => return Err(Failure::new(format!("syntax error at or near \"{}\"", arguments.join(", ")))),
    };
    if length > VARCHAR_MAX {
        return Err(Failure::new(format!("length for type varchar cannot exceed {VARCHAR_MAX}")));
    }
    Ok(ColumnType { sql: format!("varchar({length})"), bytes: Some(("character varying", length)) })
}

fn char(name: &str, arguments: &[String]) -> Result<ColumnType, Failure> {
    let length = match arguments {
        [..] if name == "BPCHAR" => 256,
        [] => 1,
        [length] => parse_length(length)?,
        _ => return Err(Failure::new(format!("syntax error at or near \"{}\"", arguments.join(", ")))),
    };
    if length > CHAR_MAX {
        return Err(Failure::new(format!("length for type char cannot exceed {CHAR_MAX}")));
    }
    Ok(ColumnType { sql: format!("char({length})"), bytes: Some(("character", length)) })
}

fn parse_length(text: &str) -> Result<u32, Failure> {
    match text.parse() {
        Ok(0) => Err(Failure::new("length for type varchar must be at least 1")),
        Ok(length) => Ok(length),
        Err(_) => Err(Failure::new(format!("syntax error at or near \"{}\"", text.to_ascii_lowercase()))),
    }
}
