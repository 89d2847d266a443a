//! Times as people read them.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Unit};

/// A time to the second, and how far off it is in its greatest unit: `2026-11-01T07:00:00Z (3 minutes ago)`.
pub(crate) fn when(at: Timestamp, now: Timestamp) -> String {
    let rounded = at.round(Unit::Second).unwrap_or(at);
    let seconds = at.duration_since(now).as_secs();
    let size = length(seconds.unsigned_abs());
    match seconds {
        0 => format!("{rounded} (now)"),
        1.. => format!("{rounded} (in {size})"),
        _ => format!("{rounded} ({size} ago)"),
    }
}

/// So many seconds in their greatest unit: `90 seconds`, `3 minutes`.
pub(crate) fn length(seconds: u64) -> String {
    let (size, unit) = match seconds {
        size @ 0..=119 => (size, "second"),
        size @ 120..=7_199 => (size / 60, "minute"),
        size @ 7_200..=172_799 => (size / 3_600, "hour"),
        size => (size / 86_400, "day"),
    };
    let plural = if size == 1 { "" } else { "s" };
    format!("{size} {unit}{plural}")
}

/// A time to the second, as columns of tables have it.
pub(crate) fn to_second(at: Timestamp) -> String {
    at.round(Unit::Second).unwrap_or(at).to_string()
}

/// A moment as an operator writes it: a length of time before now, a day (from its beginning in UTC), or a moment.
pub(crate) fn since(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let utc = |at: DateTime| TimeZone::UTC.to_timestamp(at).ok();
    if let Some(day) = text.parse::<Date>().ok().and_then(|day| utc(day.to_datetime(Time::midnight()))) {
        return Ok(day);
    }
    let before = |length: Span| TimeZone::UTC.to_datetime(now).checked_sub(length.abs()).ok();
    let moment = text.parse::<Span>().ok().and_then(before).and_then(utc);
    moment.ok_or_else(|| format!("{text:?} is no time; write 7d, 12h, 2026-11-01 or 2026-11-01T07:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_greatest_unit() {
        let at = |seconds: i64| {
            when(Timestamp::from_second(1_000_000 + seconds).unwrap(), Timestamp::from_second(1_000_000).unwrap())
        };
        assert_eq!(at(0), "1970-01-12T13:46:40Z (now)");
        assert_eq!(at(-1), "1970-01-12T13:46:39Z (1 second ago)");
        assert_eq!(at(125), "1970-01-12T13:48:45Z (in 2 minutes)");
        assert!(at(-7_200).ends_with("(2 hours ago)") && at(-200_000).ends_with("(2 days ago)"));
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let read = |text| since(text, now).map(Timestamp::as_second);
        assert_eq!(read("7d"), Ok(1_000_000 - 7 * 86_400));
        assert_eq!(read("90m"), Ok(1_000_000 - 5_400));
        assert_eq!(read("1970-01-02"), Ok(86_400));
        assert_eq!(read("1970-01-01T00:00:09Z"), Ok(9));
        assert!(read("yesterday").unwrap_err().contains("write 7d"));
    }
}
