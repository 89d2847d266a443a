//! What the page shows, read and put into JSON. The page's script is its only reader: both ship together.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{BatchId, PartitionName, StackName};
use tidemark_domain::lateness::{Arrivals, Month, span};
use tidemark_domain::month::Figures;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::story::{self, Story};
use tidemark_engine::error::Error;
use tidemark_engine::read::datasets::Dataset;
use tidemark_engine::read::{partitions, stories};

use super::Report;
use crate::cloud::Cloud;
use crate::lateness::{self, histogram};
use crate::show::words::{self, State};

/// Batches are shown so far back.
const BATCHES: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Of a dataset at most so many, the newest.
const BATCHES_AT_MOST: usize = 2_000;
/// Of a dataset at most so many partitions are read.
const PARTITIONS_AT_MOST: usize = 100_000;

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// Now.
    pub(super) now: Timestamp,
    /// The first day of the calendar.
    pub(super) since: Date,
    /// The month of the measures.
    pub(super) month: Month,
    /// Arrivals come from the inventories.
    pub(super) offline: bool,
}

impl View {
    /// As it was asked for.
    pub(super) fn of(cloud: &Cloud, arguments: &Report) -> Self {
        let now = cloud.ports.clock.now();
        let today = day(now);
        let since = today.checked_sub(SignedDuration::from_hours(24 * i64::from(arguments.days))).unwrap_or(Date::MIN);
        Self { now, since, month: arguments.month.unwrap_or_else(|| Month::of(today)), offline: arguments.offline }
    }
}

fn day(at: Timestamp) -> Date {
    TimeZone::UTC.to_datetime(at).date()
}

/// One dataset. Only what stands in the state table must be readable; without Redshift the arrivals are told as unknown.
pub(super) async fn dataset(cloud: &Cloud, view: &View, dataset: Dataset) -> Result<Value, Error> {
    let definitions = &cloud.engine.definitions;
    let definition = definitions.get(cloud.ports.state.as_ref(), &dataset.name, &dataset.head.hash).await?;
    let partitions = partitions::all(&cloud.ports, &dataset.name, PARTITIONS_AT_MOST).await?;
    let (from, before) = view.month.bounds();
    let since = view.now.checked_sub(BATCHES).unwrap_or(Timestamp::UNIX_EPOCH);
    let stories = stories::between(&cloud.ports, &dataset.name, from.min(since), view.now).await?;
    let figures = Figures::of(
        stories.iter().filter(|(id, _)| (from..before).contains(&story::born(*id))).map(|(_, story)| story),
    );
    let arrivals = lateness::arrivals(cloud, &dataset.name, &definition, view.offline).await;
    let shown = Shown {
        dataset: &dataset,
        definition: &definition,
        partitions: &partitions,
        stories: &stories,
        figures: &figures,
        arrivals: &arrivals,
    };
    Ok(shown.to_json(view))
}

/// The whole page's data.
pub(super) fn all(stack: &StackName, view: &View, datasets: &[Value]) -> Value {
    json!({
        "stack": stack.as_str(),
        "at": view.now.as_millisecond(),
        "today": day(view.now).to_string(),
        "since": view.since.to_string(),
        "month": view.month.to_string(),
        "datasets": datasets,
    })
}

/// All that is known of a dataset.
pub(super) struct Shown<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) definition: &'a Definition,
    pub(super) partitions: &'a [(PartitionName, PartitionItem)],
    pub(super) stories: &'a [(BatchId, Story)],
    pub(super) figures: &'a Figures,
    pub(super) arrivals: &'a Result<Arrivals, String>,
}

impl Shown<'_> {
    /// As the page reads it.
    pub(super) fn to_json(&self, view: &View) -> Value {
        let head = &self.dataset.head;
        let mut left_out = 0_u64;
        let mut partitions = Vec::new();
        for (name, item) in self.partitions {
            let day = self
                .definition
                .partition(name)
                .ok()
                .and_then(|partition| span(self.definition, &partition))
                .map(|span| span.day);
            let state = words::state(item, view.now);
            if state == State::Clean && day.is_some_and(|day| day < view.since) {
                left_out += 1;
            } else {
                partitions.push(partition(name, item, state, day));
            }
        }
        let since = view.now.checked_sub(BATCHES).unwrap_or(Timestamp::UNIX_EPOCH);
        let batches = self.stories.iter().rev().filter(|(id, _)| story::born(*id) >= since).take(BATCHES_AT_MOST);
        json!({
            "name": self.dataset.name,
            "target": self.definition.target.to_string(),
            "mode": head.mode,
            "why": head.why,
            "partitions": partitions,
            "left_out": left_out,
            "batches": batches.map(|(id, story)| batch(*id, story)).collect::<Vec<_>>(),
            "arrivals": self.arrivals(),
            "figures": figures(self.figures),
        })
    }

    fn arrivals(&self) -> Value {
        let arrivals = match self.arrivals {
            Ok(arrivals) => arrivals,
            Err(error) => return json!({ "error": error }),
        };
        let (delays, lookback) = (arrivals.all(), lateness::lookback(self.definition));
        json!({
            "files": delays.objects(),
            "spans": histogram(&delays),
            "lookback_seconds": lookback.map(|window| window.as_secs()),
            "missed_by_lookback": lookback.map(|window| delays.objects() - delays.before(window)),
        })
    }
}

fn partition(name: &PartitionName, item: &PartitionItem, state: State, day: Option<Date>) -> Value {
    let last = item.last.as_ref();
    let parked = item.parked.as_ref().filter(|_| state == State::Parked);
    json!({
        "name": name,
        "day": day.map(|day| day.to_string()),
        "state": state.name(),
        "rows": last.map(|last| last.rows),
        "committed_at": last.map(|last| last.committed_at.as_millisecond()),
        "parked": parked.map(|parked| json!({
            "kind": parked.kind, "message": parked.message, "since": item.parked_since.map(Timestamp::as_millisecond),
        })),
    })
}

fn batch(id: BatchId, story: &Story) -> Value {
    json!({
        "id": id,
        "partition": story.partition,
        "outcome": story.outcome,
        "began_at": story.began_at.unwrap_or_else(|| story::born(id)).as_millisecond(),
        "ended_at": story.ended_at.as_millisecond(),
        "rows": story.rows,
        "why": story.why,
        "recovered_from": story.recovered_from,
    })
}

fn figures(figures: &Figures) -> Value {
    let longest = figures.longest_and_mean_recovery().map(|(longest, _)| longest.as_secs_f64());
    let recovered: &BTreeMap<&str, u64> = &figures.recovered;
    json!({
        "committed": figures.committed,
        "unchanged": figures.unchanged,
        "parked": figures.parked,
        "given_up": figures.given_up,
        "run_seconds": figures.run.as_secs_f64(),
        "merge_seconds": figures.merge.as_secs_f64(),
        "source_rows": figures.source_rows,
        "variance_rows": figures.variance_rows,
        "manual": figures.manual,
        "late_in_window": figures.late_in_window,
        "late_outside_window": figures.late_outside_window,
        "recovered": recovered,
        "recoveries": figures.recoveries.len(),
        "recovery_seconds": figures.recoveries.iter().map(SignedDuration::as_secs_f64).sum::<f64>(),
        "longest_recovery_seconds": longest,
    })
}
