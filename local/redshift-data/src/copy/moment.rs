//! Dates and timestamps of text files, in the formats that COPY knows.

use jiff::civil::{Date, DateTime, Time};

use super::value::{Problem, code};
use crate::dialect::copy::{DateFormat, TimeFormat};

/// A `DATE`, as `DATEFORMAT` has it.
pub(crate) fn date(value: &str, format: &DateFormat) -> Result<String, Problem> {
    if let DateFormat::Pattern(pattern) = format {
        let date = by_pattern(value, pattern).map(|(at, _)| at.date().to_string());
        return date.ok_or_else(|| Problem::new(code::DATE, format!("Invalid Date Format or value [{pattern}]")));
    }
    if value.len() < 8 || *format == DateFormat::Iso && value.len() < 10 {
        return Err(Problem::new(code::DATE, "Invalid Date Format - length must be 10 or more"));
    }
    let iso = iso_date(value);
    let found = match format {
        DateFormat::Iso | DateFormat::Pattern(_) => iso,
        DateFormat::Auto => iso.or_else(|| other_date(value)).or_else(|| {
            iso_date(value.get(..10)?).filter(|_| {
                matches!(value.as_bytes().get(10), Some(b' ' | b'T'))
                    && value[11..].trim_end_matches('Z').parse::<Time>().is_ok()
            })
        }),
    };
    found
        .map(|date| date.to_string())
        .ok_or_else(|| Problem::new(code::DATE, "Invalid Date Format or value [YYYY-MM-DD]"))
}

/// `YYYY-MM-DD`, nothing after it.
fn iso_date(value: &str) -> Option<Date> {
    let mut parts = value.split('-');
    let date = date_of(parts.next()?, parts.next()?, parts.next()?)?;
    parts.next().is_none().then_some(date)
}

/// `YYYY/MM/DD`, `YYYY.MM.DD`, `YYYYMMDD` and `MM/DD/YYYY`, of the forms that 'auto' knows.
fn other_date(value: &str) -> Option<Date> {
    if value.len() == 8 && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return date_of(&value[..4], &value[4..6], &value[6..]);
    }
    let parts: Vec<&str> = value.split(['/', '.']).collect();
    match parts.as_slice() {
        [year, month, day] if year.len() == 4 => date_of(year, month, day),
        [month, day, year] if year.len() == 4 => date_of(year, month, day),
        _ => None,
    }
}

fn date_of(year: &str, month: &str, day: &str) -> Option<Date> {
    if year.len() != 4
        || [year, month, day].iter().any(|part| part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()))
    {
        return None;
    }
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

/// A `TIMESTAMP` or, `zoned`, a `TIMESTAMPTZ`, as `TIMEFORMAT` has it.
pub(crate) fn timestamp(value: &str, format: &TimeFormat, zoned: bool) -> Result<String, Problem> {
    let bad = || Problem::new(code::TIMESTAMP, "Invalid timestamp format or value [YYYY-MM-DD HH24:MI:SS]");
    let epoch = |per_second: i64| -> Result<String, Problem> {
        let number: i64 = value.split('.').next().and_then(|whole| whole.parse().ok()).ok_or_else(bad)?;
        let at = jiff::Timestamp::from_microsecond(number.checked_mul(1_000_000 / per_second).ok_or_else(bad)?)
            .map_err(|_| bad())?;
        Ok(utc(at, zoned))
    };
    match format {
        TimeFormat::Pattern(pattern) => by_pattern(value, pattern)
            .and_then(|(at, offset)| {
                let at = at.to_zoned_datetime(jiff::tz::TimeZone::UTC).ok()?.timestamp();
                at.checked_sub(jiff::SignedDuration::from_secs(offset)).ok()
            })
            .map(|at| utc(at, zoned))
            .ok_or_else(|| Problem::new(code::TIMESTAMP, format!("Invalid timestamp format or value [{pattern}]"))),
        TimeFormat::EpochSeconds => epoch(1),
        TimeFormat::EpochMilliseconds => epoch(1_000),
        TimeFormat::Iso => parse_timestamp(value, b" ", zoned, false).map(|at| utc(at, zoned)).ok_or_else(bad),
        TimeFormat::Auto => parse_timestamp(value, b" T", true, true).map(|at| utc(at, zoned)).ok_or_else(bad),
    }
}

/// A date, one of the separators, a time, and an offset where one may be.
fn parse_timestamp(value: &str, separators: &[u8], offset: bool, date_alone: bool) -> Option<jiff::Timestamp> {
    let split = value.bytes().position(|byte| separators.contains(&byte));
    let (date, rest) = match split {
        Some(at) => (&value[..at], value[at + 1..].trim()),
        None if date_alone || value.len() == 10 => (value, "00:00:00"),
        None => return None,
    };
    let date = iso_date(date).or_else(|| if date_alone { other_date(date) } else { None })?;
    let zone_at = rest.find(['Z', '+', '-']).or_else(|| rest.find(" UTC")).filter(|_| offset);
    let (clock, zone) = rest.split_at(zone_at.unwrap_or(rest.len()));
    let clock = if clock.matches(':').count() == 1 { format!("{clock}:00") } else { clock.to_owned() };
    let time: Time = clock.parse().ok()?;
    let at = DateTime::from_parts(date, time).to_zoned_datetime(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    at.checked_sub(jiff::SignedDuration::from_secs(offset_seconds(zone.trim())?)).ok()
}

fn offset_seconds(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "UTC") {
        return Some(0);
    }
    let (sign, digits) = (if zone.starts_with('-') { -1 } else { 1 }, zone.get(1..)?.replace(':', ""));
    let hours: i64 = digits.get(..2)?.parse().ok()?;
    let minutes: i64 = if digits.len() == 4 { digits[2..].parse().ok()? } else { 0 };
    (digits.len() <= 4 && hours <= 15 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Reads a text by a pattern of Redshift's pieces; the moment and its offset from UTC in seconds.
fn by_pattern(value: &str, pattern: &str) -> Option<(DateTime, i64)> {
    const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    // What is longer stands before what it begins with.
    const PIECES: [&str; 13] = ["YYYY", "YY", "MON", "MM", "DD", "HH24", "HH12", "HH", "MI", "SS", "AM", "PM", "OF"];
    let (mut rest, mut pattern) = (value, pattern);
    let (mut year, mut month, mut day, mut offset) = (None, None, None, 0);
    let (mut hour, mut minute, mut second, mut nanos, mut afternoon) = (0, 0, 0, 0, None);
    while let Some(next) = pattern.chars().next() {
        let Some(piece) = PIECES.into_iter().find(|piece| pattern.starts_with(piece)) else {
            rest = rest.strip_prefix(next)?;
            pattern = &pattern[next.len_utf8()..];
            continue;
        };
        pattern = &pattern[piece.len()..];
        // Pieces that follow each other at once are of fixed width.
        let least = if pattern.starts_with(|c: char| c.is_ascii_alphabetic() && c != 'T') { 2 } else { 1 };
        match piece {
            "YYYY" => year = Some(i16::try_from(number(&mut rest, 4, 4)?).ok()?),
            "YY" => year = Some(i16::try_from(number(&mut rest, 2, 2)?).ok().map(|short| 2000 + short)?),
            "MM" => month = Some(number(&mut rest, least, 2)?),
            "MON" => {
                let word = rest.get(..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()))?;
                rest = &rest[word.len()..];
                let place = MONTHS.iter().position(|month| word.to_ascii_uppercase().starts_with(month))?;
                month = Some(i32::try_from(place).ok()? + 1);
            }
            "DD" => day = Some(number(&mut rest, least, 2)?),
            "MI" => minute = number(&mut rest, least, 2)?,
            "SS" => {
                second = number(&mut rest, least, 2)?;
                if let Some(fraction) = rest.strip_prefix('.') {
                    let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
                    nanos = format!("{:0<9.9}", &fraction[..end]).parse().ok()?;
                    rest = &fraction[end..];
                }
            }
            "AM" | "PM" => {
                afternoon = Some(rest.get(..2)?.eq_ignore_ascii_case("PM"));
                rest = &rest[2..];
            }
            "OF" => {
                offset = offset_seconds(rest.trim())?;
                rest = "";
            }
            _ => hour = number(&mut rest, least, 2)?,
        }
    }
    hour = match afternoon {
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        _ => hour,
    };
    let small = |value: i32| i8::try_from(value).ok();
    let date = Date::new(year?, small(month?)?, small(day?)?).ok()?;
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, nanos).ok()?;
    rest.trim().is_empty().then(|| (DateTime::from_parts(date, time), offset))
}

/// So many digits off the front.
fn number(rest: &mut &str, least: usize, most: usize) -> Option<i32> {
    let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, after) = rest.split_at_checked(digits).filter(|_| digits >= least)?;
    *rest = after;
    number.parse().ok()
}

/// A moment as PostgreSQL reads it, in UTC, to the microsecond.
pub(crate) fn utc(at: jiff::Timestamp, zoned: bool) -> String {
    let micros = jiff::Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    let text = micros.to_zoned_datetime(jiff::tz::TimeZone::UTC).datetime().to_string().replace('T', " ");
    if zoned { format!("{text}+00") } else { text }
}
