//! `tidemark status --month`: the five measures of a month, dataset by dataset.

use std::fmt::Write as _;
use std::str::FromStr;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemark_domain::lateness::{Month, NotAMonth};
use tidemark_domain::month::Figures;
use tidemark_engine::read::datasets::Dataset;
use tidemark_engine::read::stories;

use crate::cloud::{Cloud, unavailable};
use crate::console::{self, BAD, FAINT, NAME, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::table::{Cell, table};

/// Datasets read at once.
const AT_ONCE: usize = 8;

/// A month, or the current one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// That in which we are.
    Current,
    /// This one.
    Month(Month),
}

impl FromStr for Wanted {
    type Err = NotAMonth;

    fn from_str(text: &str) -> Result<Self, NotAMonth> {
        if text == "current" { Ok(Self::Current) } else { text.parse().map(Self::Month) }
    }
}

impl Wanted {
    /// The month that is meant at this time, in UTC.
    pub(crate) fn at(self, now: Timestamp) -> Month {
        match self {
            Self::Current => Month::of(TimeZone::UTC.to_datetime(now).date()),
            Self::Month(month) => month,
        }
    }
}

/// Shows it. Figures are no problems: it ends well.
pub(super) async fn run(cloud: &Cloud, chosen: Vec<Dataset>, wanted: Wanted, json: bool) -> Result<Outcome, Failure> {
    let month = wanted.at(cloud.ports.clock.now());
    let figures = stream::iter(chosen).map(|dataset| figures(cloud, month, dataset)).buffered(AT_ONCE).try_collect();
    let figures: Vec<(String, Figures)> = figures.await?;
    if json {
        let told: Vec<Value> = figures.iter().map(|(name, figures)| as_json(name, figures)).collect();
        console::print_json(
            &json!({ "stack": cloud.config.stack.as_str(), "month": month.to_string(), "datasets": told }),
        )?;
    } else {
        console::print(&screen(cloud.config.stack.as_str(), month, &figures))?;
    }
    Ok(Outcome::Done)
}

async fn figures(cloud: &Cloud, month: Month, dataset: Dataset) -> Result<(String, Figures), Failure> {
    let (from, before) = month.bounds();
    let stories = stories::between(&cloud.ports, &dataset.name, from, before).await.map_err(unavailable)?;
    Ok((dataset.name.to_string(), Figures::of(stories.iter().map(|(_, story)| story))))
}

fn screen(stack: &str, month: Month, figures: &[(String, Figures)]) -> String {
    let mut text = format!("{NAME}{stack}{PLAIN} {FAINT}{month}{PLAIN}\n\n");
    let headings = [
        "dataset",
        "committed",
        "merge share",
        "variance",
        "manual",
        "late outside",
        "(inside)",
        "failures",
        "confirmed in",
    ];
    text += &table(&headings, figures.iter().map(|(name, figures)| row(name, figures)).collect());
    // Writing to a String can't fail.
    let _ = writeln!(
        text,
        "\n{FAINT}merge share: of the run time, how much was the swap; variance: rows between files and staging, of all rows;\n\
         manual: rebuilds somebody asked for; late outside: files that came when lookback didn't reach their partition;\n\
         confirmed in: longest time from a worker's death to a known state{PLAIN}"
    );
    text
}

fn row(name: &str, figures: &Figures) -> Vec<Cell> {
    let bad = |cell: Cell, number: u64| if number > 0 { cell.styled(BAD) } else { cell };
    let none = || "-".to_owned();
    let merge = figures.merge_share().map_or_else(none, |share| format!("{:.1} %", share * 100.0));
    let variance = match figures.source_rows {
        0 => none(),
        source => format!("{} of {source}", figures.variance_rows),
    };
    let longest = figures.longest_and_mean_recovery().map_or_else(none, |(longest, _)| seconds(longest));
    vec![
        Cell::text(name),
        Cell::number(&figures.committed),
        Cell::number(&merge),
        bad(Cell::number(&variance), figures.variance_rows),
        Cell::number(&figures.manual),
        bad(Cell::number(&figures.late_outside_window), figures.late_outside_window),
        Cell::number(&figures.late_in_window),
        Cell::number(&figures.recovered.values().sum::<u64>()),
        Cell::number(&longest),
    ]
}

fn seconds(time: SignedDuration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

fn as_json(name: &str, figures: &Figures) -> Value {
    let recovery = figures.longest_and_mean_recovery();
    json!({
        "dataset": name,
        "batches": {
            "committed": figures.committed, "unchanged": figures.unchanged, "parked": figures.parked,
            "given_up": figures.given_up,
        },
        "merge_share": figures.merge_share(),
        "variance_rows": figures.variance_rows,
        "source_rows": figures.source_rows,
        "manual_recoveries": figures.manual,
        "late_in_window": figures.late_in_window,
        "late_outside_window": figures.late_outside_window,
        "recovered": figures.recovered,
        "longest_seconds_to_confirmed": recovery.map(|(longest, _)| longest.as_secs_f64()),
        "mean_seconds_to_confirmed": recovery.map(|(_, mean)| mean.as_secs_f64()),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_month_is_one_line_a_dataset() {
        let orders = Figures {
            committed: 61,
            run: SignedDuration::from_secs(2_000),
            merge: SignedDuration::from_secs(150),
            source_rows: 1_000_000,
            manual: 2,
            late_in_window: 12,
            late_outside_window: 3,
            recovered: [("before_commit", 1)].into(),
            recoveries: vec![SignedDuration::from_secs(94)],
            ..Figures::default()
        };
        let figures = [("orders".to_owned(), orders), ("returns".to_owned(), Figures::default())];
        let shown = screen("tidemark", "2026-11".parse().unwrap(), &figures);
        expect![[r#"
            tidemark 2026-11

            dataset  committed  merge share      variance  manual  late outside  (inside)  failures  confirmed in
            orders          61        7.5 %  0 of 1000000       2             3        12         1          94 s
            returns          0            -             -       0             0         0         0             -

            merge share: of the run time, how much was the swap; variance: rows between files and staging, of all rows;
            manual: rebuilds somebody asked for; late outside: files that came when lookback didn't reach their partition;
            confirmed in: longest time from a worker's death to a known state
        "#]].assert_eq(&anstream::adapter::strip_str(&shown).to_string());
    }

    #[test]
    fn the_current_month_is_that_of_the_clock() {
        let now: Timestamp = "2026-11-30T23:59:59Z".parse().unwrap();
        assert_eq!("current".parse::<Wanted>().unwrap().at(now).to_string(), "2026-11");
        assert_eq!("2026-02".parse::<Wanted>().unwrap().at(now).to_string(), "2026-02");
        assert!("february".parse::<Wanted>().is_err());
    }
}
