//! One value of a file, held against its column and written as PostgreSQL's COPY reads it.
//!
//! Everything is checked here, so that an error can name file, line and column with Redshift's code and text; what
//! passes, PostgreSQL accepts.

use std::borrow::Cow;

use jiff::civil::Time;
use tokio_postgres::types::Type;

use super::moment;
use crate::dialect::copy::CopyCommand;

/// Redshift's load error codes.
pub(crate) mod code {
    pub(crate) const EXTRA_COLUMNS: i32 = 1202;
    pub(crate) const TOO_LONG: i32 = 1204;
    pub(crate) const DATE: i32 = 1205;
    pub(crate) const TIMESTAMP: i32 = 1206;
    pub(crate) const DIGIT: i32 = 1207;
    pub(crate) const FLOAT: i32 = 1208;
    pub(crate) const DECIMAL: i32 = 1209;
    pub(crate) const BOOLEAN: i32 = 1210;
    pub(crate) const NULL: i32 = 1213;
    pub(crate) const DELIMITER: i32 = 1214;
    pub(crate) const CHAR: i32 = 1215;
    pub(crate) const INVALID_LINE: i32 = 1216;
    pub(crate) const UTF8: i32 = 1220;
    pub(crate) const OVERFLOW: i32 = 1222;
    pub(crate) const SUPER: i32 = 1224;
}

/// Why a value, or a line, can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    SmallInt,
    Integer,
    BigInt,
    Decimal { precision: u32, scale: u32 },
    Real,
    Double,
    Boolean,
    Char { bytes: usize },
    Varchar { bytes: usize },
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Super,
}

impl Kind {
    /// The kind of a PostgreSQL column, if a COPY can fill it.
    pub(crate) fn of(kind: &Type, modifier: i32) -> Option<Self> {
        let length = usize::try_from(modifier - 4).unwrap_or(65_535);
        Some(match *kind {
            Type::INT2 => Self::SmallInt,
            Type::INT4 => Self::Integer,
            Type::INT8 => Self::BigInt,
            Type::NUMERIC => {
                let packed = u32::try_from(modifier - 4).unwrap_or(38 << 16);
                Self::Decimal { precision: packed >> 16, scale: packed & 0xffff }
            }
            Type::FLOAT4 => Self::Real,
            Type::FLOAT8 => Self::Double,
            Type::BOOL => Self::Boolean,
            Type::BPCHAR => Self::Char { bytes: length },
            Type::VARCHAR | Type::TEXT => Self::Varchar { bytes: length },
            Type::DATE => Self::Date,
            Type::TIME => Self::Time,
            Type::TIMESTAMP => Self::Timestamp,
            Type::TIMESTAMPTZ => Self::TimestampTz,
            Type::JSONB => Self::Super,
            _ => return None,
        })
    }

    /// As `column_type` of the error view has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SmallInt => "int2",
            Self::Integer => "int4",
            Self::BigInt => "int8",
            Self::Decimal { .. } => "numeric",
            Self::Real => "float4",
            Self::Double => "float8",
            Self::Boolean => "bool",
            Self::Char { .. } => "char",
            Self::Varchar { .. } => "varchar",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::TimestampTz => "timestamptz",
            Self::Super => "super",
        }
    }

    /// As `column_length` of the error view has it.
    pub(crate) fn length(self) -> String {
        match self {
            Self::Char { bytes } | Self::Varchar { bytes } => bytes.to_string(),
            Self::Decimal { precision, scale } => format!("{precision}, {scale}"),
            _ => "0".to_owned(),
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Self::Char { .. } | Self::Varchar { .. })
    }
}

/// A field of a text file: what to load, None for NULL.
pub(crate) fn from_text<'a>(raw: &'a [u8], kind: Kind, command: &CopyCommand) -> Result<Option<Cow<'a, str>>, Problem> {
    if raw == command.null_as.as_bytes() {
        return Ok(None);
    }
    if raw.is_empty() {
        return Ok(if kind.is_text() && !command.empty_as_null { Some(Cow::Borrowed("")) } else { None });
    }
    if kind.is_text() {
        if command.blanks_as_null && raw.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let end = raw.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
        let trimmed = if command.trim_blanks && matches!(kind, Kind::Varchar { .. }) { &raw[..end] } else { raw };
        return text(trimmed, kind, command).map(Some);
    }
    let value = utf8(raw)?.trim();
    if value.is_empty() {
        return Ok(None);
    }
    scalar(value, kind, command).map(|value| Some(Cow::Owned(value)))
}

fn utf8(raw: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(raw).map_err(|error| {
        let bad = &raw[error.valid_up_to()..(error.valid_up_to() + error.error_len().unwrap_or(1)).min(raw.len())];
        Problem::new(
            code::UTF8,
            format!(
                "String contains invalid or unsupported UTF8 codepoints. Bad UTF8 hex sequence: {} (error 3)",
                hex::encode(bad)
            ),
        )
    })
}

/// A character value, its length in bytes.
pub(crate) fn text<'a>(raw: &'a [u8], kind: Kind, command: &CopyCommand) -> Result<Cow<'a, str>, Problem> {
    let value = match (utf8(raw), command.accept_invalid) {
        (Ok(value), _) => Cow::Borrowed(value),
        (Err(_), Some(with)) if matches!(kind, Kind::Varchar { .. }) => {
            Cow::Owned(String::from_utf8_lossy(raw).replace('\u{fffd}', &with.to_string()))
        }
        (Err(problem), _) => return Err(problem),
    };
    if value.contains('\0') {
        return Err(Problem::new(code::INVALID_LINE, "Missing newline: Unexpected character 0x00 found"));
    }
    let limit = match kind {
        Kind::Char { bytes } => {
            if let Some(wide) = value.chars().find(|c| !c.is_ascii()) {
                let mut buffer = [0; 4];
                let hex = hex::encode(wide.encode_utf8(&mut buffer));
                let text = format!(
                    "Multibyte character not supported for CHAR (Hint: try using VARCHAR). Invalid char: {hex}"
                );
                return Err(Problem::new(code::CHAR, text));
            }
            bytes
        }
        Kind::Varchar { bytes } => bytes,
        _ => usize::MAX,
    };
    if value.len() <= limit {
        return Ok(value);
    }
    if command.truncate_columns {
        let mut end = limit;
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        return Ok(Cow::Owned(value[..end].to_owned()));
    }
    Err(Problem::new(code::TOO_LONG, "String length exceeds DDL length"))
}

fn scalar(value: &str, kind: Kind, command: &CopyCommand) -> Result<String, Problem> {
    match kind {
        Kind::SmallInt => integer(value, "Short", i64::from(i16::MIN), i64::from(i16::MAX)),
        Kind::Integer => integer(value, "Integer", i64::from(i32::MIN), i64::from(i32::MAX)),
        Kind::BigInt => integer(value, "Long", i64::MIN, i64::MAX),
        Kind::Decimal { precision, scale } => decimal(value, precision, scale, command.round_decimals),
        Kind::Real | Kind::Double => match value.parse::<f64>() {
            Ok(_) => Ok(value.to_owned()),
            Err(_) => Err(Problem::new(code::FLOAT, format!("Invalid floating-point format or value: '{value}'"))),
        },
        Kind::Boolean => match value.to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "y" | "yes" => Ok("t".to_owned()),
            "f" | "false" | "0" | "n" | "no" => Ok("f".to_owned()),
            _ => Err(Problem::new(code::BOOLEAN, "Unknown boolean format")),
        },
        Kind::Date => moment::date(value, &command.date),
        Kind::Time => match value.parse::<Time>() {
            Ok(time) => Ok(time.to_string()),
            Err(_) => Err(Problem::new(code::TIMESTAMP, "Invalid time format or value [HH24:MI:SS]")),
        },
        Kind::Timestamp => moment::timestamp(value, &command.time, false),
        Kind::TimestampTz => moment::timestamp(value, &command.time, true),
        Kind::Super => match serde_json::from_str::<&serde_json::value::RawValue>(value) {
            Ok(_) => Ok(value.to_owned()),
            Err(error) => Err(Problem::new(code::SUPER, format!("Invalid JSON for SUPER: {error}"))),
        },
        Kind::Char { .. } | Kind::Varchar { .. } => Ok(value.to_owned()),
    }
}

fn bad_digit(value: &str, position: usize, kind: &str) -> Problem {
    let digit = value[position..].chars().next().map(String::from).unwrap_or_default();
    Problem::new(code::DIGIT, format!("Invalid digit, Value '{digit}', Pos {position}, Type: {kind}"))
}

fn integer(value: &str, word: &str, least: i64, most: i64) -> Result<String, Problem> {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    if let Some(position) = value.char_indices().skip(value.len() - digits.len()).find(|(_, c)| !c.is_ascii_digit()) {
        return Err(bad_digit(value, position.0, word));
    }
    if digits.is_empty() {
        return Err(bad_digit(value, 0, word));
    }
    match value.parse::<i64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
        _ => Err(Problem::new(code::OVERFLOW, format!("Value out of range, Value '{value}', Type: {word}"))),
    }
}

/// A decimal; digits beyond the scale are cut, which is what COPY does without ROUNDEC.
pub(crate) fn decimal(value: &str, precision: u32, scale: u32, round: bool) -> Result<String, Problem> {
    let unsigned = value.strip_prefix(['-', '+']).unwrap_or(value);
    let offset = value.len() - unsigned.len();
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let position = offset + mantissa.len();
            (
                mantissa,
                exponent
                    .parse::<i32>()
                    .ok()
                    .filter(|e| e.abs() < 400)
                    .ok_or_else(|| bad_digit(value, position, "Decimal"))?,
            )
        }
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if let Some(bad) = mantissa.char_indices().find(|(at, c)| !c.is_ascii_digit() && *at != whole.len()) {
        return Err(bad_digit(value, offset + bad.0, "Decimal"));
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(bad_digit(value, 0, "Decimal"));
    }
    // All digits, and where the point stands among them.
    let digits = format!("{whole}{fraction}");
    let point = i32::try_from(whole.len()).unwrap_or(i32::MAX).saturating_add(exponent);
    let keep = point.saturating_add(i32::try_from(scale).unwrap_or(0));
    let mut kept: Vec<u8> = (0..keep.max(0))
        .map(|at| usize::try_from(at).ok().and_then(|at| digits.as_bytes().get(at)).copied().unwrap_or(b'0'))
        .collect();
    let next = usize::try_from(keep).ok().and_then(|at| digits.as_bytes().get(at)).copied().unwrap_or(b'0');
    if round && next >= b'5' {
        add_one(&mut kept);
    }
    let significant: Vec<u8> = kept.iter().copied().skip_while(|digit| *digit == b'0').collect();
    if significant.len() > usize::try_from(precision).unwrap_or(usize::MAX) {
        return Err(Problem::new(code::DECIMAL, "Numeric data overflow (result precision)"));
    }
    let scale = usize::try_from(scale).unwrap_or(0);
    let padded = format!("{:0>width$}", String::from_utf8_lossy(&significant), width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    let sign = if value.starts_with('-') && !significant.is_empty() { "-" } else { "" };
    Ok(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

fn add_one(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// Writes a value as the text format of PostgreSQL's COPY has it.
pub(crate) fn encode(out: &mut Vec<u8>, value: Option<&str>) {
    let Some(value) = value else { return out.extend_from_slice(b"\\N") };
    for byte in value.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::lex::Lexed;

    fn command(options: &str) -> CopyCommand {
        let sql = format!("COPY t FROM 's3://b/k' IAM_ROLE default FORMAT CSV {options}");
        crate::dialect::copy::parse(&Lexed::new(&sql).unwrap()).unwrap()
    }

    fn load(raw: &str, kind: Kind, options: &str) -> Result<Option<String>, (i32, String)> {
        from_text(raw.as_bytes(), kind, &command(options))
            .map(|value| value.map(Cow::into_owned))
            .map_err(|problem| (problem.code, problem.message))
    }

    #[test]
    fn decimals_are_cut_unless_rounding_is_asked_for() {
        let kind = Kind::Decimal { precision: 5, scale: 2 };
        assert_eq!(load("1.999", kind, ""), Ok(Some("1.99".to_owned())));
        assert_eq!(load("-1.999", kind, "ROUNDEC"), Ok(Some("-2.00".to_owned())));
        assert_eq!(load("0.994", kind, ""), Ok(Some("0.99".to_owned())));
        assert_eq!(load("-0.001", kind, ""), Ok(Some("0.00".to_owned())));
        assert_eq!(load("1.5e2", kind, ""), Ok(Some("150.00".to_owned())));
        assert_eq!(load("999.99", kind, ""), Ok(Some("999.99".to_owned())));
        assert_eq!(load("1000", kind, "").unwrap_err().0, code::DECIMAL);
        assert_eq!(load("1x", kind, "").unwrap_err().1, "Invalid digit, Value 'x', Pos 1, Type: Decimal");
        assert_eq!(load("12", Kind::Decimal { precision: 5, scale: 0 }, ""), Ok(Some("12".to_owned())));
    }

    #[test]
    fn integers() {
        assert_eq!(load(" 42 ", Kind::Integer, ""), Ok(Some("42".to_owned())));
        assert_eq!(
            load("abc", Kind::Integer, "").unwrap_err(),
            (1207, "Invalid digit, Value 'a', Pos 0, Type: Integer".into())
        );
        assert_eq!(load("1.5", Kind::BigInt, "").unwrap_err().1, "Invalid digit, Value '.', Pos 1, Type: Long");
        assert_eq!(load("40000", Kind::SmallInt, "").unwrap_err().0, code::OVERFLOW);
    }

    #[test]
    fn text_is_counted_in_bytes() {
        let kind = Kind::Varchar { bytes: 30 };
        let name = "Señorío de adultos de Gonzále";
        assert_eq!((name.chars().count(), name.len()), (29, 32));
        assert_eq!(load(name, kind, "").unwrap_err(), (1204, "String length exceeds DDL length".into()));
        assert_eq!(load(name, kind, "TRUNCATECOLUMNS"), Ok(Some("Señorío de adultos de Gonzá".to_owned())));
        assert_eq!(load("é", Kind::Char { bytes: 4 }, "").unwrap_err().0, code::CHAR);
    }

    #[test]
    fn nulls_and_blanks() {
        let text = Kind::Varchar { bytes: 9 };
        assert_eq!(load("\\N", text, ""), Ok(None));
        assert_eq!(load("", text, ""), Ok(Some(String::new())));
        assert_eq!(load("", text, "EMPTYASNULL"), Ok(None));
        assert_eq!(load("  ", text, "BLANKSASNULL"), Ok(None));
        assert_eq!(load("", Kind::Integer, ""), Ok(None));
        assert_eq!(load("NULL", Kind::Integer, "NULL AS 'NULL'"), Ok(None));
    }

    #[test]
    fn dates_and_timestamps() {
        assert_eq!(load("2026-11-01", Kind::Date, ""), Ok(Some("2026-11-01".to_owned())));
        assert_eq!(load("2026-02-30", Kind::Date, "").unwrap_err().0, code::DATE);
        assert_eq!(load("11/01/2026", Kind::Date, "").unwrap_err().0, code::DATE);
        assert_eq!(load("11/01/2026", Kind::Date, "DATEFORMAT 'auto'"), Ok(Some("2026-11-01".to_owned())));
        assert_eq!(load("1793491200000", Kind::Date, "TIMEFORMAT 'epochmillisecs'").unwrap_err().0, code::DATE);
        assert_eq!(
            load("1793491200000", Kind::Timestamp, "TIMEFORMAT 'epochmillisecs'"),
            Ok(Some("2026-11-01 00:00:00".to_owned()))
        );
        assert_eq!(
            load("2026-11-01 10:20:30.123456", Kind::Timestamp, ""),
            Ok(Some("2026-11-01 10:20:30.123456".to_owned()))
        );
        assert_eq!(load("2026-11-01T10:20:30Z", Kind::Timestamp, "").unwrap_err().0, code::TIMESTAMP);
        assert_eq!(
            load("2026-11-01T10:20:30Z", Kind::Timestamp, "TIMEFORMAT 'auto'"),
            Ok(Some("2026-11-01 10:20:30".to_owned()))
        );
        assert_eq!(
            load("2026-11-01 10:20:30+02", Kind::TimestampTz, ""),
            Ok(Some("2026-11-01 08:20:30+00".to_owned()))
        );
    }
}
