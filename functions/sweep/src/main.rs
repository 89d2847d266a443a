//! The sweep function: each minute, what messages missed.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use tidemark_aws::config::Purpose;
use tidemark_aws::telemetry::{self, Metric, Unit};
use tidemark_aws::{clients, lambda};
use tidemark_engine::Engine;
use tidemark_engine::sweep::Swept;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = clients::start(Purpose::Sweep).await?;
    lambda_runtime::run(service_fn(|event| handle(&engine, event))).await
}

async fn handle(engine: &Engine, event: LambdaEvent<Value>) -> Result<(), Error> {
    for swept in engine.sweep(lambda::deadline(event.context.deadline)).await? {
        report(&swept);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "gauges are read as floating point anyway")]
fn report(swept: &Swept) {
    let gauge = |name, value| Metric { name, unit: Unit::Count, value };
    let gauges = [
        gauge("Dirty", swept.dirty as f64),
        gauge("Parked", swept.parked as f64),
        gauge("Woken", swept.woken as f64),
        Metric { name: "OldestDirtyAge", unit: Unit::Seconds, value: swept.oldest_dirty_seconds as f64 },
    ];
    telemetry::emit("sweep", Some(swept.dataset.as_str()), &gauges);
    tracing::info!(dataset = %swept.dataset, dirty = swept.dirty, parked = swept.parked, woken = swept.woken, "swept");
}
