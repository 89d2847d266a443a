//! Lengths of time as owners write them: a whole number and one of `s`, `m`, `h`, `d`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Flaw;

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads `3d`, `15m`; the bounds are in seconds.
pub(super) fn parse(text: &str, key: &str, bounds: &RangeInclusive<u64>) -> Result<Duration, Flaw> {
    let range = format!("from {} to {}", seconds(*bounds.start()), seconds(*bounds.end()));
    let flaw =
        || Flaw::new(format!("`{key}` is {text:?}"), format!("write a whole number and one of s, m, h, d, {range}"));
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit)).ok_or_else(flaw)?;
    let number =
        text.strip_suffix(unit.0).filter(|number| number.bytes().all(|b| b.is_ascii_digit())).ok_or_else(flaw)?;
    let total = number.parse().ok().and_then(|number: u64| number.checked_mul(unit.1)).ok_or_else(flaw)?;
    if bounds.contains(&total) { Ok(Duration::from_secs(total)) } else { Err(flaw()) }
}

/// Writes it with the greatest unit that divides it.
pub(super) fn text(duration: Duration) -> String {
    seconds(duration.as_secs())
}

fn seconds(total: u64) -> String {
    let unit = UNITS.iter().find(|(_, size)| total != 0 && total.is_multiple_of(*size));
    let (unit, size) = unit.copied().unwrap_or(('s', 1));
    format!("{}{unit}", total / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_in_one_way() {
        let read = |text| parse(text, "patience", &(0..=864_000)).map(super::text);
        for (text, normalised) in [("3d", "3d"), ("90m", "90m"), ("120m", "2h"), ("0m", "0s"), ("048h", "2d")] {
            assert_eq!(read(text).unwrap(), normalised);
        }
        for text in ["", "d", "3", "3 d", "-1d", "1.5h", "3w", "11d", "99999999999999999999d", "1d12h"] {
            let flaw = read(text).unwrap_err();
            assert!(flaw.remedy.ends_with("one of s, m, h, d, from 0s to 10d"), "{flaw}");
        }
    }
}
