//! What people are mailed: every message that is really published at the stack's topic.

use anyhow::{Context, Result};
use serde_json::Value;
use tidemark_kit::World;

/// A queue that subscribes to a stack's alerts.
pub(super) struct Mails {
    sqs: aws_sdk_sqs::Client,
    queue: String,
}

impl Mails {
    /// Everything that is published from now on.
    pub(super) async fn of(world: &World) -> Result<Self> {
        let sdk = world.cloud.sdk_config(world.stack.account()).await;
        let (sqs, sns) = (aws_sdk_sqs::Client::new(&sdk), aws_sdk_sns::Client::new(&sdk));
        let queue = sqs.create_queue().queue_name("mails").send().await?;
        let queue = queue.queue_url().context("a queue has a URL")?.to_owned();
        let arn = format!("arn:aws:sqs:us-east-1:{}:mails", world.stack.account());
        let topic = world.stack.output("AlertTopicArn")?;
        sns.subscribe().topic_arn(topic).protocol("sqs").endpoint(arn).send().await?;
        Ok(Self { sqs, queue })
    }

    /// Subject and body of each since the last time.
    pub(super) async fn new_ones(&self) -> Result<Vec<(String, String)>> {
        let mut mails = Vec::new();
        loop {
            let got = self.sqs.receive_message().queue_url(&self.queue).max_number_of_messages(10);
            let got = got.wait_time_seconds(1).visibility_timeout(3_600).send().await?;
            if got.messages().is_empty() {
                return Ok(mails);
            }
            for message in got.messages() {
                let body: Value = serde_json::from_str(message.body().unwrap_or_default())?;
                let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
                mails.push((text("Subject"), text("Message")));
            }
        }
    }

    /// The subjects of all since the last time.
    pub(super) async fn subjects(&self) -> Result<Vec<String>> {
        Ok(self.new_ones().await?.into_iter().map(|(subject, _)| subject).collect())
    }
}
