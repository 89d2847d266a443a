//! Logs and metrics, both as lines on standard output: one JSON object each.
//!
//! A log line has `timestamp`, `level` and `message`, as Lambda's JSON log format wants them, and the fields of the event and
//! its span. A metric line is in `CloudWatch`'s embedded metric format: `CloudWatch` Logs reads metrics out of it.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
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
        .with_span_list(false)
        .with_target(false)
        .with_env_filter(filter);
    // Only a second call fails.
    let _ = lines.try_init();
}

/// What is logged, read as `RUST_LOG` is; the error says what is wrong with the text.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(level)
        .map_err(|e| format!("{level:?} is no log filter, such as `info` or `warn,tidemark_engine=debug`: {e}"))
}

/// One measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name, an interface: alarms and dashboards ask for it.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The value.
    pub value: f64,
}

/// Units of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A time.
    Seconds,
    /// A share, 0 to 100.
    Percent,
}

/// Writes metrics of the stack's `function`, and of one dataset where given, as one line.
pub fn emit(function: &str, dataset: Option<&str>, metrics: &[Metric]) {
    if metrics.is_empty() {
        return;
    }
    let stack = STACK.get().map_or("", String::as_str);
    println!("{}", line(Timestamp::now(), stack, function, dataset, metrics));
}

fn line(now: Timestamp, stack: &str, function: &str, dataset: Option<&str>, metrics: &[Metric]) -> Value {
    let mut dimensions = vec![vec!["Stack", "Function"]];
    let mut line = Map::from_iter([("Stack".to_owned(), json!(stack)), ("Function".to_owned(), json!(function))]);
    if let Some(dataset) = dataset {
        dimensions.push(vec!["Stack", "Function", "Dataset"]);
        line.insert("Dataset".to_owned(), json!(dataset));
    }
    let described: Vec<_> = metrics.iter().map(|m| json!({"Name": m.name, "Unit": m.unit.name()})).collect();
    line.extend(metrics.iter().map(|m| (m.name.to_owned(), json!(m.value))));
    let directive = json!({"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": described});
    line.insert("_aws".to_owned(), json!({"Timestamp": now.as_millisecond(), "CloudWatchMetrics": [directive]}));
    Value::Object(line)
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Seconds => "Seconds",
            Self::Percent => "Percent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_line_is_in_the_embedded_metric_format() {
        let metrics = [
            Metric { name: "Marked", unit: Unit::Count, value: 3.0 },
            Metric { name: "RebuildTime", unit: Unit::Seconds, value: 1.5 },
        ];
        let expected = json!({
            "Stack": "tidemark",
            "Function": "mark",
            "Dataset": "orders",
            "Marked": 3.0,
            "RebuildTime": 1.5,
            "_aws": {"Timestamp": 0, "CloudWatchMetrics": [{
                "Namespace": "Tidemark",
                "Dimensions": [["Stack", "Function"], ["Stack", "Function", "Dataset"]],
                "Metrics": [{"Name": "Marked", "Unit": "Count"}, {"Name": "RebuildTime", "Unit": "Seconds"}],
            }]},
        });
        assert_eq!(line(Timestamp::UNIX_EPOCH, "tidemark", "mark", Some("orders"), &metrics), expected);
    }

    #[test]
    fn without_a_dataset_there_is_no_such_dimension() {
        let line = line(
            Timestamp::UNIX_EPOCH,
            "tidemark",
            "sweep",
            None,
            &[Metric { name: "Woken", unit: Unit::Count, value: 0.0 }],
        );
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Stack", "Function"]]));
        assert_eq!(line.get("Dataset"), None);
    }

    #[test]
    fn a_filter_is_read_as_rust_log_is() {
        assert!(filter("warn,tidemark_engine=debug").is_ok());
        assert!(filter("tidemark=loud").unwrap_err().contains("tidemark=loud"));
    }
}
