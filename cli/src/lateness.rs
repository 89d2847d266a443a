//! `tidemark lateness DATASET`: how late files come, as a plot, and which window would have caught how many of them.

mod plot;

use clap::Args;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::DatasetName;
use tidemark_domain::lateness::{Arrivals, Delays, Month};
use tidemark_engine::read::lateness::{LatenessError, by_inventories, by_ledger};

use crate::cloud::{Cloud, Known};
use crate::console;
use crate::exit::{Failure, Outcome};

pub(crate) use plot::histogram;

/// The windows whose catch is told.
pub(crate) const WINDOWS: [SignedDuration; 7] = [
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(6),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(2 * 24),
    SignedDuration::from_hours(3 * 24),
    SignedDuration::from_hours(7 * 24),
    SignedDuration::from_hours(30 * 24),
];

/// Tell how late a dataset's files come, and which window would have caught how many
///
/// The delay of a file is its last modification against the end of its partition; each file (key and ETag) counts once.
#[derive(Debug, Args)]
pub(crate) struct Lateness {
    /// The dataset
    pub(crate) dataset: String,
    /// Only partitions of this month, such as 2026-11
    #[arg(long)]
    pub(crate) month: Option<Month>,
    /// The share of files that a window may miss
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    pub(crate) miss: f64,
    /// Read the inventories in the control bucket instead of the ledger in Redshift: slower, and up to the last commit
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / of);
    share.filter(|share| (0.0..1.0).contains(share)).ok_or_else(|| "write a share below 100%, such as 1%".to_owned())
}

/// All that is told.
pub(crate) struct Told<'a> {
    /// The dataset.
    pub(crate) dataset: &'a DatasetName,
    /// The month that was asked for.
    pub(crate) month: Option<Month>,
    /// Its months.
    pub(crate) arrivals: &'a Arrivals,
    /// Those of the month, or all.
    pub(crate) delays: &'a Delays,
    /// The dataset's own window.
    pub(crate) lookback: Option<SignedDuration>,
    /// The share that may be missed.
    pub(crate) miss: f64,
}

/// Shows it.
pub(crate) async fn run(arguments: &Lateness) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let Known { dataset, definition, .. } = cloud.dataset(&arguments.dataset).await?;
    let arrivals = arrivals(&cloud, &dataset, &definition, arguments.offline).await.map_err(|error| {
        let remedy = if arguments.offline { "" } else { "; --offline reads the inventories instead" };
        Failure::Unavailable(format!("{error}{remedy}"))
    })?;
    let delays = match arguments.month {
        Some(month) => arrivals.months.get(&month).cloned().unwrap_or_default(),
        None => arrivals.all(),
    };
    let told = Told {
        dataset: &dataset,
        month: arguments.month,
        arrivals: &arrivals,
        delays: &delays,
        lookback: lookback(&definition),
        miss: arguments.miss,
    };
    if arguments.json {
        console::print_json(&as_json(&told))?;
    } else {
        console::print(&plot::plot(&told, console::width()))?;
    }
    Ok(Outcome::Done)
}

/// A dataset's arrivals, by the ledger or offline.
pub(crate) async fn arrivals(
    cloud: &Cloud,
    dataset: &DatasetName,
    definition: &Definition,
    offline: bool,
) -> Result<Arrivals, String> {
    let told = |error: LatenessError| error.to_string();
    if !offline {
        return by_ledger(&cloud.ports, &cloud.config.stack, dataset, definition).await.map_err(told);
    }
    by_inventories(&cloud.ports, cloud.control_bucket(), dataset, definition).await.map_err(told)
}

/// The dataset's own window.
pub(crate) fn lookback(definition: &Definition) -> Option<SignedDuration> {
    definition.lookback.and_then(|lookback| SignedDuration::try_from(lookback).ok())
}

fn as_json(told: &Told<'_>) -> Value {
    let Told { dataset, month, arrivals, delays, lookback, miss } = *told;
    let window = |window: SignedDuration| json!({ "seconds": window.as_secs(), "caught": delays.before(window), "missed": delays.objects() - delays.before(window) });
    json!({
        "dataset": dataset,
        "month": month.map(|month| month.to_string()),
        "files": delays.objects(),
        "in_time": delays.in_time(),
        "without_time": arrivals.timeless,
        "unread": arrivals.unread,
        "histogram": histogram(delays),
        "windows": WINDOWS.map(window),
        "lookback": lookback.map(window),
        "miss": miss,
        "smallest_window_seconds": delays.smallest_window(miss).map(|window| window.as_secs()),
        "months": arrivals.months.iter().map(|(month, delays)| json!({
            "month": month.to_string(),
            "files": delays.objects(),
            "late": delays.objects() - delays.in_time(),
            "missed_by_lookback": lookback.map(|window| delays.objects() - delays.before(window)),
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_as_people_write_it() {
        for (text, expected) in [("1%", 0.01), ("0.1%", 0.001), ("0", 0.0), ("0.05", 0.05), ("5 %", 0.05)] {
            assert!((share(text).unwrap() - expected).abs() < 1e-12, "{text}");
        }
        for text in ["", "%", "100%", "-1%", "1.5", "nan", "one"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
