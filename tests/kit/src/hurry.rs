//! What takes minutes or hours, cut short: holds, probes, rounds of sweep. Nothing else is changed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;

use crate::dataset::{Dataset, Partition};
use crate::state::Queue;
use crate::world::World;

const DAY: Duration = Duration::from_hours(24);

impl World {
    /// Makes messages that were received and not deleted come back so soon: a template's time-outs are long.
    pub async fn come_back_after(&self, queue: Queue, seconds: u32) -> Result<()> {
        let set = self.sqs.set_queue_attributes().queue_url(self.url(queue)?);
        let set = set.attributes(QueueAttributeName::VisibilityTimeout, seconds.to_string());
        set.send().await.context("cannot change a queue")?;
        Ok(())
    }

    /// Makes what is due later due now, so that sweep wakes it without minutes of waiting.
    pub async fn make_due(&self, partition: &Partition) -> Result<()> {
        self.make_due_named(partition.dataset.name(), &partition.name()).await
    }

    /// The same for a partition by its name, for datasets that [`crate::Dataset`] doesn't know.
    pub async fn make_due_named(&self, dataset: &str, partition: &str) -> Result<()> {
        let update = self.update_of(&format!("DATASET#{dataset}"), &format!("PARTITION#{partition}"))?;
        let update = update.update_expression("SET due_at = :now REMOVE not_before");
        let update = update.condition_expression("due_at > :now");
        if_so(update.expression_attribute_values(":now", now())).await
    }

    /// Lets a halted dataset be probed now instead of within the quarter of an hour.
    pub async fn probe_now(&self, dataset: Dataset) -> Result<()> {
        let update = self.update_of(&format!("DATASET#{}", dataset.name()), "DEFINITION")?;
        let update = update.update_expression("SET probe_at = :now").condition_expression("probe_at > :now");
        if_so(update.expression_attribute_values(":now", now())).await
    }

    /// Lets a task of sweep, such as `look`, have its next round now instead of within hours. Without a dataset: a task of the
    /// whole stack's.
    pub async fn round_now(&self, task: &str, dataset: Option<Dataset>) -> Result<()> {
        let update = self.update_of("SWEEP", &cursor(task, dataset))?;
        let update = update.update_expression("SET next_at = :now").condition_expression("next_at > :now");
        if_so(update.expression_attribute_values(":now", now())).await
    }

    /// Puts every round of sweep off for a day, so that none begins by itself.
    pub async fn put_rounds_off(&self) -> Result<()> {
        let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + DAY;
        for cursor in self.beginning_so("SWEEP", "CURSOR#").await? {
            let update = self.update_of("SWEEP", cursor["sk"].as_str().unwrap_or_default())?;
            let update =
                update.update_expression("SET next_at = :later").condition_expression("attribute_exists(next_at)");
            let later = AttributeValue::N(later.as_millis().to_string());
            if_so(update.expression_attribute_values(":later", later)).await?;
        }
        Ok(())
    }

    /// When the last round of a task began that came to its end, in milliseconds since 1970; `None`: none has.
    pub async fn last_round(&self, task: &str, dataset: Option<Dataset>) -> Result<Option<u64>> {
        Ok(self.item_of("SWEEP", &cursor(task, dataset)).await?.and_then(|cursor| cursor["done_at"].as_u64()))
    }

    /// Takes a dataset's watermark away, so that the next sweep that sees anything unbuilt writes it.
    pub async fn forget_watermark(&self, dataset: Dataset) -> Result<()> {
        let update = self.update_of(&format!("DATASET#{}", dataset.name()), "DEFINITION")?;
        if_so(update.update_expression("REMOVE watermark").condition_expression("attribute_exists(watermark)")).await
    }

    /// Lets the time be over in which alerts of a kind are gathered: what was counted is due to be told, and where nothing was,
    /// the next alert is mailed at once.
    pub async fn alerts_now(&self, dataset: Dataset) -> Result<()> {
        for kind in self.alert_kinds(dataset).await? {
            let update = self.update_of("SWEEP", &format!("ALERT#{}#{kind}", dataset.name()))?;
            let update = update.update_expression("SET #until = :now").condition_expression("#until > :now");
            let update = update.expression_attribute_names("#until", "until");
            if_so(update.expression_attribute_values(":now", now())).await?;
        }
        Ok(())
    }

    /// Lets the batch in progress, whose worker is dead, have been in statements for so long.
    pub async fn spend(&self, partition: &Partition, seconds: u64) -> Result<()> {
        let update = self
            .update_of(&format!("DATASET#{}", partition.dataset.name()), &format!("PARTITION#{}", partition.name()))?;
        let update =
            update.update_expression("SET #batch.spent_seconds = :spent").expression_attribute_names("#batch", "batch");
        let update = update.condition_expression("attribute_exists(#batch)");
        if_so(update.expression_attribute_values(":spent", AttributeValue::N(seconds.to_string()))).await
    }

    fn update_of(&self, pk: &str, sk: &str) -> Result<UpdateItemFluentBuilder> {
        let update = self.dynamodb.update_item().table_name(self.stack.output("TableName")?);
        let update = update.key("pk", AttributeValue::S(pk.to_owned()));
        Ok(update.key("sk", AttributeValue::S(sk.to_owned())))
    }
}

/// The sort key of a task's cursor.
fn cursor(task: &str, dataset: Option<Dataset>) -> String {
    dataset.map_or_else(|| format!("CURSOR#{task}"), |dataset| format!("CURSOR#{task}#{}", dataset.name()))
}

fn now() -> AttributeValue {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    AttributeValue::N(now.as_millis().to_string())
}

/// Writes where the condition holds; where it doesn't, nothing has to be cut short.
async fn if_so(update: UpdateItemFluentBuilder) -> Result<()> {
    match update.send().await {
        Err(error) if error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception) => {
            Ok(())
        }
        ended => ended.map(drop).context("cannot change the state table"),
    }
}
