//! The plot: a bar for each span of delays, on a scale of time that grows, and what windows would have caught.

use std::fmt::Write as _;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemark_domain::lateness::{Delays, share};

use super::{Told, WINDOWS};
use crate::console::{BAD, FAINT, GOOD, NAME, PLAIN};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Where the spans of delays end, in seconds after the partition's end: the first is all that came before it, behind the last
/// come the rest.
const BUCKETS: [i64; 16] = [
    0,
    600,
    1_800,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    3 * DAY,
    7 * DAY,
    14 * DAY,
    30 * DAY,
    90 * DAY,
    365 * DAY,
];
/// Inventories that can't be read and are named.
const UNREAD_TOLD: usize = 5;
/// A bar's eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// Before the bar: label, number, share, and the blanks around them.
const BESIDE: usize = 2 + 14 + 12 + 11 + 1;

/// A length of time as it is written in a definition: `90m`, `6h`, `3d`, `1d 4h`.
fn length(time: SignedDuration) -> String {
    let minutes = time.as_mins();
    let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "m")];
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n != 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(" ") }
}

/// The spans with their files: where each ends (`None`: never) and how many came in it. What lies behind the last file isn't
/// told.
fn spans(delays: &Delays) -> Vec<(Option<SignedDuration>, u64)> {
    let mut spans = Vec::new();
    let mut before = 0;
    for end in BUCKETS.map(SignedDuration::from_secs) {
        let caught = delays.before(end);
        spans.push((Some(end), caught - before));
        before = caught;
        if before == delays.objects() {
            return spans;
        }
    }
    spans.push((None, delays.objects() - before));
    spans
}

/// The histogram as JSON: `before_seconds` is where a span ends.
pub(crate) fn histogram(delays: &Delays) -> Vec<Value> {
    let span = |(end, files): (Option<SignedDuration>, u64)| json!({ "before_seconds": end.map(|end| end.as_secs()), "files": files });
    spans(delays).into_iter().map(span).collect()
}

/// The whole screen, `width` columns wide.
pub(super) fn plot(told: &Told<'_>, width: usize) -> String {
    let Told { dataset, month, arrivals, delays, .. } = *told;
    let of = month.map_or_else(|| months_of(told), |month| format!(" {month}"));
    let mut text = format!("{NAME}{dataset}{PLAIN}{FAINT}{of}{PLAIN}\n");
    // Writing to a String can't fail.
    if arrivals.timeless > 0 {
        let _ = writeln!(
            text,
            "{} files are of partitions that stand for no time, and aren't counted",
            count(arrivals.timeless)
        );
    }
    for unread in told.arrivals.unread.iter().take(UNREAD_TOLD) {
        let _ = writeln!(text, "{BAD}not counted{PLAIN}: {unread}");
    }
    if let Some(more @ 1..) = told.arrivals.unread.len().checked_sub(UNREAD_TOLD) {
        let _ = writeln!(text, "{BAD}not counted{PLAIN}: {more} inventories more (--json names all)");
    }
    if delays.objects() == 0 {
        text += "no file of a committed batch is known; the ledger is told of files within the hour (--offline doesn't wait)\n";
        return text;
    }
    let _ = writeln!(
        text,
        "{} files, of which {} came before their partition was over\n\n  came                 files     caught",
        count(delays.objects()),
        count(delays.in_time()),
    );
    text += &bars(delays, width);
    text += &windows(told);
    text += &by_month(told);
    text
}

fn months_of(told: &Told<'_>) -> String {
    let mut months = told.arrivals.months.keys();
    match (months.next(), months.next_back()) {
        (Some(first), Some(last)) => format!(" {first} to {last}"),
        (Some(only), None) => format!(" {only}"),
        (None, _) => String::new(),
    }
}

fn bars(delays: &Delays, width: usize) -> String {
    let spans = spans(delays);
    let most = spans.iter().map(|(_, files)| *files).max().unwrap_or(1).max(1);
    let room = width.saturating_sub(BESIDE).clamp(8, 80);
    let (mut text, mut caught, mut from) = (String::new(), 0, SignedDuration::ZERO);
    for (end, files) in spans {
        caught += files;
        let label = match end {
            Some(end) if end.is_zero() => "before its end".to_owned(),
            Some(end) => format!("within {}", length(end)),
            None => format!("after {}", length(from)),
        };
        from = end.unwrap_or(from);
        let shown = percent(share(caught, delays.objects()));
        let line = format!("  {label:<14}{:>12}{shown:>11} {}", count(files), bar(files, most, room));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A bar of at most `room` columns; whatever is there at all is seen.
fn bar(files: u64, most: u64, room: usize) -> String {
    let eighths = u128::from(files) * u128::try_from(room * 8).unwrap_or(0) / u128::from(most);
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(files > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn windows(told: &Told<'_>) -> String {
    let Told { delays, lookback, miss, .. } = *told;
    let mut windows: Vec<(SignedDuration, bool)> = WINDOWS.iter().map(|window| (*window, false)).collect();
    if let Some(lookback) = lookback {
        windows.retain(|(window, _)| *window != lookback);
        windows.push((lookback, true));
    }
    windows.sort_unstable();
    let mut text = "\n  a window of    catches     misses\n".to_owned();
    for (window, own) in windows {
        let (caught, own) = (delays.before(window), if own { "  the dataset's lookback" } else { "" });
        let missed = count(delays.objects() - caught);
        let shown = percent(share(caught, delays.objects()));
        let _ = writeln!(text, "  {:<11}{shown:>11}{missed:>11}{NAME}{own}{PLAIN}", length(window));
    }
    if let Some(smallest) = delays.smallest_window(miss) {
        let enough = lookback.is_none_or(|lookback| lookback >= smallest);
        let style = if enough { GOOD } else { BAD };
        let _ = writeln!(
            text,
            "\nthe smallest window that misses at most {}: {style}{}{PLAIN}",
            percent(miss),
            length(smallest)
        );
    }
    text
}

fn by_month(told: &Told<'_>) -> String {
    if told.month.is_some() || told.arrivals.months.len() < 2 {
        return String::new();
    }
    let mut text = format!("\n  month{:>12}{:>11}{:>26}\n", "files", "late", "missed by the lookback");
    for (month, delays) in &told.arrivals.months {
        let missed =
            told.lookback.map_or_else(|| "-".to_owned(), |window| count(delays.objects() - delays.before(window)));
        let late = count(delays.objects() - delays.in_time());
        let _ = writeln!(text, "  {month}{:>10}{late:>11}{missed:>26}", count(delays.objects()));
    }
    text
}

/// `1,234,567`
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Cut, not rounded: 100 % is all of them.
fn percent(share: f64) -> String {
    format!("{:.2} %", (share * 10_000.0 + 1e-6).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jiff::Timestamp;
    use jiff::civil::date;
    use tidemark_domain::id::DatasetName;
    use tidemark_domain::lateness::{Arrivals, Span};

    use super::*;

    /// Two months; files before the end, soon after it, and far too late.
    fn arrivals() -> Arrivals {
        let mut arrivals = Arrivals::default();
        for (day, end) in [(date(2026, 10, 31), "2026-11-01T00:00:00Z"), (date(2026, 11, 1), "2026-11-02T00:00:00Z")] {
            let end: Timestamp = end.parse().unwrap();
            for (minutes, files) in [(-30, 1_200), (5, 400), (59, 37), (25 * 60, 3), (6_000, 1)] {
                arrivals.add(Some(Span { day, end }), end + SignedDuration::from_mins(minutes), files);
            }
        }
        arrivals.add(None, Timestamp::UNIX_EPOCH, 2);
        arrivals
    }

    fn shown(arrivals: &Arrivals, width: usize) -> String {
        let (dataset, delays) = (DatasetName::new("orders").unwrap(), arrivals.all());
        let lookback = Some(SignedDuration::from_hours(72));
        let told = Told { dataset: &dataset, month: None, arrivals, delays: &delays, lookback, miss: 0.001 };
        anstream::adapter::strip_str(&plot(&told, width)).to_string()
    }

    #[test]
    fn a_plot_with_its_windows() {
        expect![[r#"
            orders 2026-10 to 2026-11
            2 files are of partitions that stand for no time, and aren't counted
            3,282 files, of which 2,400 came before their partition was over

              came                 files     caught
              before its end       2,400    73.12 % ████████████████████████████████
              within 10m             800    97.50 % ██████████▋
              within 30m               0    97.50 %
              within 1h               74    99.75 % ▉
              within 2h                0    99.75 %
              within 3h                0    99.75 %
              within 6h                0    99.75 %
              within 12h               0    99.75 %
              within 1d                0    99.75 %
              within 2d                6    99.93 % ▏
              within 3d                0    99.93 %
              within 7d                2   100.00 % ▏

              a window of    catches     misses
              1h             99.75 %          8
              6h             99.75 %          8
              1d             99.75 %          8
              2d             99.93 %          2
              3d             99.93 %          2  the dataset's lookback
              7d            100.00 %          0
              30d           100.00 %          0

            the smallest window that misses at most 0.10 %: 1d 1h 10m

              month       files       late    missed by the lookback
              2026-10     1,641        441                         1
              2026-11     1,641        441                         1
        "#]]
        .assert_eq(&shown(&arrivals(), 72));
    }

    #[test]
    fn it_keeps_to_the_width_and_shows_whatever_is_there() {
        for width in [50, 72, 110, 300] {
            let shown = shown(&arrivals(), width);
            let bars = shown.lines().filter(|line| line.ends_with(['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉']));
            assert!(bars.clone().all(|line| line.chars().count() <= width), "{width}:\n{shown}");
            assert_eq!(bars.count(), 5, "{width}:\n{shown}");
        }
    }

    #[test]
    fn without_files_it_says_so() {
        expect![[r#"
            orders
            no file of a committed batch is known; the ledger is told of files within the hour (--offline doesn't wait)
        "#]]
        .assert_eq(&shown(&Arrivals::default(), 80));
    }

    #[test]
    fn lengths_and_shares_are_told_exactly() {
        let told = |minutes: i64| length(SignedDuration::from_mins(minutes));
        assert_eq!([0, 10, 60, 90, 1_440, 1_680, 4_320].map(told), ["0", "10m", "1h", "1h 30m", "1d", "1d 4h", "3d"]);
        assert_eq!([0.999_99, 1.0, 0.29, 0.0].map(percent), ["99.99 %", "100.00 %", "29.00 %", "0.00 %"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
