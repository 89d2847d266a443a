//! The rebuild function: one partition message, from take to confirm.

#[cfg(test)]
mod tests;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use tidemark_aws::clients;
use tidemark_aws::config::Purpose;
use tidemark_aws::lambda::{self, Groups};
use tidemark_aws::telemetry;
use tidemark_engine::Engine;
use tidemark_engine::rebuild::{Answer, Work};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let engine = clients::start(Purpose::Rebuild).await?;
    lambda_runtime::run(service_fn(|event| handle(&engine, event))).await
}

async fn handle(engine: &Engine, event: LambdaEvent<Value>) -> Result<Value, Error> {
    telemetry::of_invocation(&event.context.request_id);
    let deadline = lambda::deadline(event.context.deadline);
    let messages = lambda::messages(&event.payload)?;
    let mut groups = Groups::default();
    let mut back = Vec::new();
    for message in &messages {
        if groups.is_held_up(message) {
            back.push(message);
            continue;
        }
        let receipt = (!message.receipt.is_empty()).then_some(message.receipt.as_str());
        // Boxed: what the engine holds between its steps is large, and a function has one at a time.
        let answer = Box::pin(engine.rebuild(Work { body: &message.body, receipt, deadline })).await;
        tracing::info!(message_id = message.id, ?answer, "answered");
        if answer == Answer::Back {
            groups.hold_up(message);
            back.push(message);
        }
    }
    Ok(lambda::answer(back)?)
}
