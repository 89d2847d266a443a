//! The sweep function: each minute, what messages missed.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use tidemark_aws::config::Purpose;
use tidemark_aws::{clients, lambda, telemetry};
use tidemark_domain::measure;
use tidemark_engine::Engine;
use tidemark_engine::sweep::Swept;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = clients::start(Purpose::Sweep).await?;
    lambda_runtime::run(service_fn(|event| handle(&engine, event))).await
}

async fn handle(engine: &Engine, event: LambdaEvent<Value>) -> Result<(), Error> {
    telemetry::of_invocation(&event.context.request_id);
    for swept in engine.sweep(lambda::deadline(event.context.deadline)).await? {
        report(&swept);
    }
    Ok(())
}

fn report(swept: &Swept) {
    let mut gauges = vec![
        measure::WOKEN.count(swept.woken),
        measure::HALTED.count(u64::from(swept.halted)),
        measure::OLDEST_DIRTY_AGE.count(u64::try_from(swept.oldest_dirty_seconds).unwrap_or(0)),
    ];
    if swept.counted {
        gauges.extend([measure::DIRTY.count(swept.dirty), measure::PARKED.count(swept.parked)]);
    }
    if swept.missed > 0 {
        gauges.push(measure::MISSED.count(swept.missed));
    }
    telemetry::emit(Some(swept.dataset.as_str()), &gauges);
    let Swept { dataset, dirty, parked, woken, by_jobs, found, missed, .. } = swept;
    tracing::info!(%dataset, dirty, parked, woken, by_jobs, found, missed, "swept");
}
