//! The telemetry that keeps all it is told.

use std::sync::{Arc, Mutex};

use tidemark_domain::id::DatasetName;
use tidemark_domain::measure::{Measure, Metric, Summary};

use super::lock;
use crate::ports::Telemetry;

/// Keeps measures and summaries in the order they came. Clones are the same telemetry.
#[derive(Debug, Clone, Default)]
pub struct MemoryTelemetry(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    measures: Vec<Measure>,
    summaries: Vec<Summary>,
}

impl MemoryTelemetry {
    /// Every value of a metric so far.
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        lock(&self.0).measures.iter().filter(|measure| measure.metric == metric).map(|measure| measure.value).collect()
    }

    /// The summaries of all takes so far.
    pub fn summaries(&self) -> Vec<Summary> {
        lock(&self.0).summaries.clone()
    }
}

impl Telemetry for MemoryTelemetry {
    fn measured(&self, _: Option<&DatasetName>, measures: &[Measure]) {
        lock(&self.0).measures.extend(measures);
    }

    fn taken(&self, summary: &Summary, measures: &[Measure]) {
        lock(&self.0).summaries.push(summary.clone());
        lock(&self.0).measures.extend(measures);
    }
}
