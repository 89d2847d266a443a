//! The mark function: S3 events from the events queue become marks and messages.

#[cfg(test)]
mod tests;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use tidemark_aws::config::Purpose;
use tidemark_aws::{clients, lambda, telemetry};
use tidemark_domain::measure;
use tidemark_domain::route::Claim;
use tidemark_engine::Engine;
use tidemark_engine::mark::{CatalogCache, EventMessage, Marked};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = clients::start(Purpose::Mark).await?;
    let catalog = CatalogCache::default();
    lambda_runtime::run(service_fn(|event| handle(&engine, &catalog, event))).await
}

async fn handle(engine: &Engine, catalog: &CatalogCache, event: LambdaEvent<Value>) -> Result<Value, Error> {
    telemetry::of_invocation(&event.context.request_id);
    let messages = lambda::messages(&event.payload)?;
    // A message is known by its place in the batch: its id may be absent.
    let places: Vec<String> = (0..messages.len()).map(|place| place.to_string()).collect();
    let given = messages.iter().zip(&places).map(|(message, place)| EventMessage { id: place, body: &message.body });
    let marked = engine.mark(catalog, &given.collect::<Vec<_>>()).await?;
    report(&marked);
    let failed = messages.iter().zip(&places).filter(|(_, place)| marked.failed.contains(*place));
    Ok(lambda::answer(failed.map(|(message, _)| message))?)
}

fn report(marked: &Marked) {
    for (dataset, partitions) in &marked.marked {
        telemetry::emit(Some(dataset), &[measure::MARKED.count(*partitions)]);
    }
    let ignored = marked.ignored.values().sum();
    let failed = u64::try_from(marked.failed.len()).unwrap_or(u64::MAX);
    let unclaimed = marked.ignored.get(Claim::Unclaimed.label()).copied().unwrap_or(0);
    let measures = [
        measure::IGNORED.count(ignored),
        measure::UNCLAIMED.count(unclaimed),
        measure::FAILED.count(failed),
        measure::UNSENT.count(marked.unsent),
    ];
    telemetry::emit(None, &measures);
    tracing::info!(marked = ?marked.marked, sent = marked.sent, ignored = ?marked.ignored, failed, "marked");
}
