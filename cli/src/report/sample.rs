//! A stack as one might be met at the end of a month: three datasets, some trouble, and some texts that mean ill.

use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::{BatchId, DatasetName, PartitionName, StackName};
use tidemark_domain::lateness::{Arrivals, Month, span};
use tidemark_domain::month::Figures;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::story::{self, Story};
use tidemark_engine::read::datasets::Dataset;

use super::data::{self, Shown, View};

/// What would run if a text were taken for HTML or for the end of the data.
pub(super) const HOSTILE: &str = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>";

const DEFINITIONS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint"]
lookback = "3d"
[orders.partition.dt]
type = "date"

[clicks]
source = "s3://lake-raw/clicks/"
layout = "dt={dt}/hour={hour}/"
format = "json"
target = "web.clicks"
columns = ["click_id bigint"]
lookback = "1d"
[clicks.partition.dt]
type = "date"
[clicks.partition.hour]
type = "integer"

[regions]
source = "s3://lake-raw/regions/"
layout = "region={region}/"
format = "csv"
target = "sales.regions"
columns = ["region_id bigint"]
[regions.partition.region]
type = "text"
"#;

/// A row of numbers that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The page's data.
pub(super) fn sample() -> Value {
    let now: Timestamp = "2026-11-30T09:40:00Z".parse().unwrap();
    let view = View { now, since: date(2026, 9, 1), month: Month::of(date(2026, 11, 1)), offline: false };
    let datasets = parse(DEFINITIONS).unwrap();
    let told: Vec<Value> = datasets.iter().map(|definition| dataset(definition, &view)).collect();
    data::all(&StackName::new("tidemark-prod").unwrap(), &view, &told)
}

fn dataset(definition: &Definition, view: &View) -> Value {
    let mut numbers = Numbers(definition.name.as_str().len() as u64);
    let partitions = partitions(definition, view.now, &mut numbers);
    let stories = stories(&partitions, view.now, &mut numbers);
    let (from, before) = view.month.bounds();
    let figures =
        Figures::of(stories.iter().filter(|(id, _)| (from..before).contains(&story::born(*id))).map(|(_, s)| s));
    let arrivals = match definition.name.as_str() {
        "regions" => Err("redshift data api BatchExecuteStatement: the workgroup is paused".to_owned()),
        _ => Ok(arrivals(definition, &partitions, &mut numbers)),
    };
    let halted = definition.name.as_str() == "regions";
    let head = json!({
        "hash": definition.hash(), "epoch": 1, "mode": if halted { "halted" } else { "active" }, "concurrency": "table",
        "since": 0, "by": "rebuild", "why": halted.then_some("permission denied for schema sales"),
    });
    let head = head.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
    let dataset = Dataset {
        name: DatasetName::new(definition.name.as_str()).unwrap(),
        head: serde_json::from_value(Value::Object(head)).unwrap(),
    };
    let shown = Shown {
        dataset: &dataset,
        definition,
        partitions: &partitions,
        stories: &stories,
        figures: &figures,
        arrivals: &arrivals,
    };
    shown.to_json(view)
}

type Partitions = Vec<(PartitionName, PartitionItem)>;

fn partitions(definition: &Definition, now: Timestamp, numbers: &mut Numbers) -> Partitions {
    let today = TimeZone::UTC.to_datetime(now).date();
    let mut names = Vec::new();
    match definition.name.as_str() {
        "orders" => names.extend((0..80).map(|back| format!("dt={}", today - SignedDuration::from_hours(24 * back)))),
        "clicks" => {
            for back in 0..20 {
                let hours = if back == 0 { 0..9 } else { 0..24 };
                let day = today - SignedDuration::from_hours(24 * back);
                names.extend(hours.map(|hour| format!("dt={day}/hour={hour}")));
            }
        }
        _ => names
            .extend(["region=eu", "region=us", "region=<b>nowhere<%2Fb>", "region=asia-pacific"].map(str::to_owned)),
    }
    names
        .into_iter()
        .enumerate()
        .map(|(at, name)| (PartitionName::new(name).unwrap(), item(at, now, numbers)))
        .collect()
}

fn item(at: usize, now: Timestamp, numbers: &mut Numbers) -> PartitionItem {
    let last = json!({
        "batch": "01936000-0000-7000-8000-000000000001", "generation": 2, "fence": 3, "digest": "d", "inventory": "i",
        "rows": 1_000_000 + numbers.below(400_000), "took_seconds": 40,
        "committed_at": (now - SignedDuration::from_hours(i64::try_from(at).unwrap())).as_millisecond(),
    });
    let mut item = json!({ "marked": 2, "built": 2, "marked_at": 0, "fence": 3, "last": last });
    let dirty =
        json!({ "marked": 3, "work": "orders", "due_at": now.as_millisecond(), "dirty_since": now.as_millisecond() });
    let batch = json!({ "batch": {
        "id": "01936000-0000-7000-8000-000000000009", "fence": 4, "covers": 3, "phase": "staging", "definition": "d", "epoch": 1,
        "began_at": now.as_millisecond(), "statement_timeout_seconds": 1_800, "attempt": 1,
    } });
    let held = json!({ "holds": { "kind": "empty_source", "count": 2 }, "not_before": now.as_millisecond() + 60_000 });
    let parked = |kind: &str, message: &str| {
        let since = (now - SignedDuration::from_hours(7)).as_millisecond();
        json!({ "marked": 3, "parked": { "generation": 3, "kind": kind, "message": message }, "parked_since": since, "parked_work": "orders" })
    };
    let more = match at {
        0 => vec![dirty, batch],
        1 | 30 => vec![dirty],
        3 => vec![dirty, held],
        12 => vec![parked(
            "row_drop",
            "7,204 rows are staged where the target's partition holds 1,204,113: a drop of 99.4 %, and 10 % is let pass; mend the files, or replay with accept row_drop",
        )],
        41 => vec![parked("rejected_data", &format!("part-0007.parquet, column amount: {HOSTILE}"))],
        _ => Vec::new(),
    };
    for fields in more {
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    serde_json::from_value(item).unwrap()
}

fn stories(partitions: &Partitions, now: Timestamp, numbers: &mut Numbers) -> Vec<(BatchId, Story)> {
    let mut at = now - SignedDuration::from_hours(30 * 24);
    let mut stories = Vec::new();
    while at < now {
        let took = 20_000 + numbers.below(2_400_000);
        let (name, _) = &partitions[usize::try_from(numbers.below(partitions.len() as u64)).unwrap()];
        let born = u64::try_from(at.as_millisecond()).unwrap();
        let id = BatchId(uuid::Builder::from_unix_timestamp_millis(born, &[7; 10]).into_uuid());
        let outcome = match numbers.below(24) {
            0 => "parked",
            1 => "given_up",
            2..=5 => "unchanged",
            _ => "committed",
        };
        let mut story = json!({
            "partition": name, "outcome": outcome, "generation": 1, "fence": 1, "began_at": born, "ended_at": born + took,
            "swap_at": born + took - took / 12, "rows": 1_000_000 + numbers.below(400_000),
            "counts": { "source_rows": 1_100_000, "staged_rows": 1_100_000, "late_in_window": numbers.below(3), "late_outside_window": numbers.below(40) / 39 },
        });
        if numbers.below(30) == 0 {
            story["recovered_from"] = "before_commit".into();
            story["failed_at"] = (born + took / 2).into();
        }
        if outcome == "parked" {
            story["why"] = format!("row_drop: {HOSTILE}").into();
            story["rows"].take();
        }
        story["forced"] = (numbers.below(25) == 0).into();
        stories.push((id, serde_json::from_value(story).unwrap()));
        at += SignedDuration::from_secs(3_600 + i64::try_from(numbers.below(14_000)).unwrap());
    }
    stories
}

fn arrivals(definition: &Definition, partitions: &Partitions, numbers: &mut Numbers) -> Arrivals {
    let mut arrivals = Arrivals::default();
    for (name, _) in partitions {
        let span = span(definition, &definition.partition(name).unwrap()).unwrap();
        for _ in 0..40 {
            let minutes = match numbers.below(200) {
                0 => 3_000 + numbers.below(9_000),
                1..=5 => 200 + numbers.below(2_000),
                6..=60 => numbers.below(90),
                _ => 0,
            };
            let came = span.end + SignedDuration::from_mins(i64::try_from(minutes).unwrap());
            arrivals.add(Some(span), if minutes == 0 { came - SignedDuration::from_mins(5) } else { came }, 1);
        }
    }
    arrivals
}
