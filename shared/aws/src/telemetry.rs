//! Logs and metrics, both as lines on standard output: one JSON object each.
//!
//! A log line has `timestamp`, `level` and `message`, as Lambda's JSON log format wants them, and the fields of the event and
//! its spans. A metric line is in `CloudWatch`'s embedded metric format: `CloudWatch` Logs reads metrics out of it. That of a
//! take carries its summary as well: batch, invocation, counts, times, how it ended.

use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidemark_domain::id::DatasetName;
use tidemark_domain::measure::{Measure, Summary, Unit};
use tidemark_engine::ports::Telemetry;
use tracing_subscriber::EnvFilter;

/// The namespace of all metrics.
const NAMESPACE: &str = "Tidemark";

/// The stack that metrics are of: two stacks of one account must not share a gauge.
static STACK: OnceLock<String> = OnceLock::new();

/// Says whose metrics are written from now on. A second call changes nothing.
pub(crate) fn of_stack(stack: &str) {
    STACK.get_or_init(|| stack.to_owned());
}

/// Starts logging; `level` as in `TIDEMARK_LOG`. A second call changes nothing.
pub fn init(level: &str) {
    let filter = filter(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(true) // the outermost span has the invocation's id
        .with_target(false)
        .with_env_filter(filter);
    // Only a second call fails.
    let _ = lines.try_init();
}

/// The crates that a bare `debug` or `trace` is about.
const OURS: [&str; 6] = ["tidemark_domain", "tidemark_engine", "tidemark_aws", "mark", "rebuild", "sweep"];

/// What is logged, read as `RUST_LOG` is, except that a bare `debug` or `trace` leaves everybody else's crates at `info`; the
/// error says what is wrong with the text.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, String> {
    let ours = |level: &str| OURS.map(|name| format!(",{name}={level}")).concat();
    // The SDK has some four hundred lines of these an invocation.
    let fine = ["debug", "trace"].into_iter().find(|fine| level.trim().eq_ignore_ascii_case(fine));
    EnvFilter::try_new(fine.map_or_else(|| level.to_owned(), |fine| format!("info{}", ours(fine))))
        .map_err(|e| format!("{level:?} is no log filter, such as `info` or `warn,tidemark_engine=debug`: {e}"))
}

/// The invocation that what is told now belongs to; an environment has one at a time.
static INVOCATION: Mutex<String> = Mutex::new(String::new());

/// Says whose measures are told from now on.
pub fn of_invocation(id: &str) {
    id.clone_into(&mut INVOCATION.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Tells measures as lines on standard output.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetricLines;

impl Telemetry for MetricLines {
    fn measured(&self, dataset: Option<&DatasetName>, measures: &[Measure]) {
        emit(dataset.map(DatasetName::as_str), measures);
    }

    fn taken(&self, summary: &Summary, measures: &[Measure]) {
        let told = match serde_json::to_value(summary) {
            Ok(Value::Object(told)) => told,
            _ => Map::new(),
        };
        write(Some(summary.id.dataset.as_str()), measures, told);
    }
}

/// Writes measures of one function, and of one dataset where given, as one line.
pub fn emit(dataset: Option<&str>, measures: &[Measure]) {
    if !measures.is_empty() {
        write(dataset, measures, Map::new());
    }
}

fn write(dataset: Option<&str>, measures: &[Measure], mut more: Map<String, Value>) {
    let stack = STACK.get().map_or("", String::as_str);
    let invocation = INVOCATION.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !invocation.is_empty() {
        more.insert("invocation".to_owned(), invocation.into());
    }
    println!("{}", line(Timestamp::now(), stack, dataset, measures, more));
}

/// The line. What is `more` is searched for, not measured: properties, in the format's words. Without measures it has no
/// directive, since one must name a metric.
fn line(now: Timestamp, stack: &str, dataset: Option<&str>, measures: &[Measure], more: Map<String, Value>) -> Value {
    let mut line = more;
    let Some(by) = measures.first().map(|measure| measure.metric.by) else { return Value::Object(line) };
    let mut dimensions = vec![vec!["Stack", "Function"]];
    line.insert("Stack".to_owned(), json!(stack));
    line.insert("Function".to_owned(), json!(by.name()));
    if let Some(dataset) = dataset {
        dimensions.push(vec!["Stack", "Function", "Dataset"]);
        line.insert("Dataset".to_owned(), json!(dataset));
    }
    let described: Vec<_> =
        measures.iter().map(|m| json!({"Name": m.metric.name, "Unit": unit(m.metric.unit)})).collect();
    line.extend(measures.iter().map(|m| (m.metric.name.to_owned(), json!(m.value))));
    let directive = json!({"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": described});
    line.insert("_aws".to_owned(), json!({"Timestamp": now.as_millisecond(), "CloudWatchMetrics": [directive]}));
    Value::Object(line)
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "Count",
        Unit::Seconds => "Seconds",
        Unit::Percent => "Percent",
    }
}

#[cfg(test)]
mod tests {
    use tidemark_domain::id::{PartitionId, PartitionName};
    use tidemark_domain::measure;

    use super::*;

    fn measured(measures: &[Measure]) -> Value {
        line(Timestamp::UNIX_EPOCH, "tidemark", Some("orders"), measures, Map::new())
    }

    #[test]
    fn a_metric_line_is_in_the_embedded_metric_format() {
        let expected = json!({
            "Stack": "tidemark",
            "Function": "mark",
            "Dataset": "orders",
            "Marked": 3.0,
            "_aws": {"Timestamp": 0, "CloudWatchMetrics": [{
                "Namespace": "Tidemark",
                "Dimensions": [["Stack", "Function"], ["Stack", "Function", "Dataset"]],
                "Metrics": [{"Name": "Marked", "Unit": "Count"}],
            }]},
        });
        assert_eq!(measured(&[measure::MARKED.count(3)]), expected);
    }

    /// The specification's own rules: every dimension and every metric has its member at the root, dimensions are texts,
    /// values are numbers, names are used once and in bounds, units are CloudWatch's.
    fn assert_valid(line: &Value) {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert!(line["_aws"]["Timestamp"].is_i64() || line["_aws"]["Timestamp"].is_u64());
        assert!(directive["Namespace"].as_str().is_some_and(|name| (1..=1024).contains(&name.len())));
        let dimensions = directive["Dimensions"].as_array().unwrap();
        for dimension in dimensions.iter().flat_map(|set| set.as_array().unwrap()) {
            let value = line[dimension.as_str().unwrap()].as_str().unwrap();
            assert!((1..=1024).contains(&value.len()), "{dimension}: {value:?}");
        }
        assert!(dimensions.iter().all(|set| set.as_array().unwrap().len() <= 30));
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()));
        let names: std::collections::BTreeSet<&str> = metrics.iter().map(|m| m["Name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), metrics.len(), "a metric is named once");
        for metric in metrics {
            assert!(line[metric["Name"].as_str().unwrap()].is_f64(), "{metric}");
            assert!(["Count", "Seconds", "Percent"].contains(&metric["Unit"].as_str().unwrap()));
        }
    }

    #[test]
    fn every_metric_there_is_makes_a_valid_line() {
        for metric in measure::ALL {
            assert_valid(&measured(&[metric.count(1)]));
        }
        let of_rebuild: Vec<_> = measure::ALL.iter().filter(|m| m.by == measure::Teller::Rebuild).collect();
        assert_valid(&measured(&of_rebuild.iter().map(|metric| metric.count(1)).collect::<Vec<_>>()));
    }

    #[test]
    fn properties_stand_beside_metrics_and_without_any_there_is_no_directive() {
        let summary = Summary {
            message: measure::BATCH_ENDED,
            id: PartitionId {
                dataset: DatasetName::new("orders").unwrap(),
                partition: PartitionName::new("dt=2026-11-01").unwrap(),
            },
            batch: "b".into(),
            generation: 1,
            fence: 2,
            phase: "swapping",
            status: "committed",
            recovered_from: None,
            source_objects: Some(3),
            source_rows: None,
            staged_rows: Some(4),
            target_rows: Some(4),
            merge_started_at: Some(Timestamp::UNIX_EPOCH),
            merge_ended_at: Some(Timestamp::UNIX_EPOCH),
            lookback_seconds: Some(5),
        };
        let Value::Object(told) = serde_json::to_value(&summary).unwrap() else { unreachable!() };
        let with = line(Timestamp::UNIX_EPOCH, "s", Some("orders"), &[measure::REBUILDS.count(1)], told.clone());
        assert_valid(&with);
        assert_eq!(
            (&with["partition"], &with["merge_ended_at"]),
            (&json!("dt=2026-11-01"), &json!("1970-01-01T00:00:00Z"))
        );
        let without = line(Timestamp::UNIX_EPOCH, "s", Some("orders"), &[], told);
        assert_eq!((without.get("_aws"), &without["status"]), (None, &json!("committed")));
    }

    #[test]
    fn without_a_dataset_there_is_no_such_dimension() {
        let line = line(Timestamp::UNIX_EPOCH, "tidemark", None, &[measure::WOKEN.count(0)], Map::new());
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Stack", "Function"]]));
        assert_eq!(line.get("Dataset"), None);
    }

    #[test]
    fn a_filter_is_read_as_rust_log_is() {
        assert!(filter("warn,tidemark_engine=debug").is_ok());
        let debug = filter("debug").unwrap().to_string();
        assert!(debug.contains("tidemark_engine=debug") && debug.contains("info"), "{debug}");
        assert!(filter("tidemark=loud").unwrap_err().contains("tidemark=loud"));
    }
}
