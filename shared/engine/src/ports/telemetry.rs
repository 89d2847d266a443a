//! Who is told what was measured.

use tidemark_domain::id::DatasetName;
use tidemark_domain::measure::{Measure, Summary};

/// Takes measures, and the summaries of takes and of batches that end. Measures at most once: what a worker that is killed
/// had measured is not told. It can't fail, waits for nothing and changes nothing: no decision hangs on it.
pub trait Telemetry: Send + Sync {
    /// Measures of a dataset, or of the stack; all of one function.
    fn measured(&self, dataset: Option<&DatasetName>, measures: &[Measure]);
    /// A take that left its partition, with its measures; or a batch that ends, without.
    fn taken(&self, summary: &Summary, measures: &[Measure]);
}

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Untold;

impl Telemetry for Untold {
    fn measured(&self, _: Option<&DatasetName>, _: &[Measure]) {}
    fn taken(&self, _: &Summary, _: &[Measure]) {}
}
