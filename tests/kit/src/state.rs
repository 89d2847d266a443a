//! What stands in the state table and in the queues, read with the SDK alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use serde_json::{Map, Value};

use crate::dataset::{Dataset, Partition};
use crate::world::World;

/// A partition's item, as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Item(pub Value);

/// An item of the state table, put aside.
#[derive(Debug, Clone)]
pub struct Backup(HashMap<String, AttributeValue>);

/// The stack's queues, by the name of the output that tells their URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// S3 events, for mark.
    Events,
    /// What of them can't be marked.
    EventsDlq,
    /// Partition messages, for rebuild.
    Partitions,
    /// What of them can't be read.
    PartitionsDlq,
}

/// A message of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its body.
    pub body: String,
    /// Its attribute `reason`.
    pub reason: Option<String>,
}

impl Item {
    /// A number, 0 where absent.
    pub fn number(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or(0)
    }

    /// Nothing to do, nothing in progress, not parked.
    pub fn rests(&self) -> bool {
        self.0.get("batch").is_none() && self.0.get("parked").is_none() && self.number("built") == self.number("marked")
    }

    /// Kind and message, while it is parked.
    pub fn parked(&self) -> Option<(&str, &str)> {
        let parked = self.0.get("parked")?;
        let current = parked["generation"].as_i64() >= self.0["marked"].as_i64();
        current.then(|| (parked["kind"].as_str().unwrap_or_default(), parked["message"].as_str().unwrap_or_default()))
    }

    /// What it is put off for, while it is.
    pub fn held(&self) -> Option<&str> {
        self.0["holds"]["kind"].as_str()
    }

    /// Whether the statement that swaps was submitted, as far as the item tells.
    pub fn is_swapping(&self) -> bool {
        self.phase() == Some("swapping") && !self.0["batch"]["statement"].is_null()
    }

    /// Whether the statement that loads was submitted, as far as the item tells.
    pub fn is_loading(&self) -> bool {
        self.phase() == Some("staging") && !self.0["batch"]["statement"].is_null()
    }

    /// Phase of the batch in progress.
    pub fn phase(&self) -> Option<&str> {
        self.0["batch"]["phase"].as_str()
    }
}

impl Queue {
    const ALL: [Self; 4] = [Self::Events, Self::EventsDlq, Self::Partitions, Self::PartitionsDlq];

    fn output(self) -> &'static str {
        match self {
            Self::Events => "EventsQueueUrl",
            Self::EventsDlq => "EventsDlqUrl",
            Self::Partitions => "PartitionsQueueUrl",
            Self::PartitionsDlq => "PartitionsDlqUrl",
        }
    }
}

impl World {
    /// A partition's item; `None` where it was never marked.
    pub async fn item(&self, partition: &Partition) -> Result<Option<Item>> {
        self.item_named(partition.dataset.name(), &partition.name()).await
    }

    /// The item of a partition by its name, for datasets that [`crate::Dataset`] doesn't know.
    pub async fn item_named(&self, dataset: &str, partition: &str) -> Result<Option<Item>> {
        Ok(self.stored(dataset, &format!("PARTITION#{partition}")).await?.map(Item))
    }

    /// In which of the four states a confirmed batch was found after its worker had died, by its story; `None`: none died.
    pub async fn recovered_from(&self, partition: &Partition, batch: &str) -> Result<Option<String>> {
        let story = self.stored(partition.dataset.name(), &format!("BATCH#{batch}")).await?;
        let story = story.with_context(|| format!("batch {batch} of {partition} has no story"))?;
        Ok(story["recovered_from"].as_str().map(|state| state.replace('_', " ")))
    }

    /// The batches that are told as committed of a partition, by their stories.
    pub async fn told_committed(&self, partition: &Partition) -> Result<BTreeSet<String>> {
        let stories = self.beginning_so(&format!("DATASET#{}", partition.dataset.name()), "BATCH#").await?;
        let committed =
            |story: &&Value| story["partition"] == partition.name().as_str() && story["outcome"] == "committed";
        let batch = |story: &Value| story["sk"].as_str().unwrap_or_default().trim_start_matches("BATCH#").to_owned();
        Ok(stories.iter().filter(committed).map(batch).collect())
    }

    /// The items of a key whose sort keys begin so.
    pub(crate) async fn beginning_so(&self, pk: &str, prefix: &str) -> Result<Vec<Value>> {
        let query = self.dynamodb.query().table_name(self.stack.output("TableName")?).consistent_read(true);
        let query = query.key_condition_expression("pk = :pk AND begins_with(sk, :prefix)");
        let query = query.expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()));
        let query = query.expression_attribute_values(":prefix", AttributeValue::S(prefix.to_owned()));
        let mut pages = query.into_paginator().items().send();
        let mut items = Vec::new();
        while let Some(item) = pages.next().await {
            items.push(object(&item.with_context(|| format!("cannot read {prefix}… of {pk}"))?)?);
        }
        Ok(items)
    }

    /// The kinds of which alerts are gathered at present.
    pub(crate) async fn alert_kinds(&self, dataset: Dataset) -> Result<Vec<String>> {
        let prefix = format!("ALERT#{}#", dataset.name());
        let windows = self.beginning_so("SWEEP", &prefix).await?;
        let kind = |window: &Value| window["sk"].as_str().and_then(|sk| sk.strip_prefix(&prefix)).map(str::to_owned);
        Ok(windows.iter().filter_map(kind).collect())
    }

    /// How many alerts were counted that nobody was told of yet.
    pub async fn untold_alerts(&self, dataset: Dataset) -> Result<u64> {
        let windows = self.beginning_so("SWEEP", &format!("ALERT#{}#", dataset.name())).await?;
        Ok(windows.iter().filter_map(|window| window["more"].as_u64()).sum())
    }

    /// Whether a job of the dataset has anything left to mark.
    pub async fn has_open_job(&self, dataset: Dataset) -> Result<bool> {
        let jobs = self.beginning_so("JOBS", &format!("{}#", dataset.name())).await?;
        Ok(jobs.iter().any(|job| job["ended_at"].is_null()))
    }

    /// A partition's item as it is now, to be put back later, as a restore from a backup would.
    pub async fn back_up(&self, partition: &Partition) -> Result<Backup> {
        let get = self.dynamodb.get_item().table_name(self.stack.output("TableName")?).consistent_read(true);
        let get = get.key("pk", AttributeValue::S(format!("DATASET#{}", partition.dataset.name())));
        let got = get.key("sk", AttributeValue::S(format!("PARTITION#{}", partition.name()))).send().await?;
        Ok(Backup(got.item.context("there is nothing to back up")?))
    }

    /// Puts an item back.
    pub async fn restore(&self, backup: &Backup) -> Result<()> {
        let put = self.dynamodb.put_item().table_name(self.stack.output("TableName")?);
        put.set_item(Some(backup.0.clone())).send().await.context("cannot put an item back")?;
        Ok(())
    }

    /// When the lease of the partition's lock is over, in milliseconds since 1970; `None`: nobody holds it.
    pub async fn lease(&self, partition: &Partition) -> Result<Option<u64>> {
        let scope = format!("LOCK#{}#{}", partition.dataset.name(), partition.name());
        Ok(self.item_of(&scope, "LOCK").await?.and_then(|lock| lock["lease"].as_u64()))
    }

    /// Whether the dataset is halted.
    pub async fn halted(&self, dataset: Dataset) -> Result<bool> {
        Ok(self.stored(dataset.name(), "DEFINITION").await?.is_some_and(|head| head["mode"] == "halted"))
    }

    async fn stored(&self, dataset: &str, sort_key: &str) -> Result<Option<Value>> {
        self.item_of(&format!("DATASET#{dataset}"), sort_key).await
    }

    /// An item of the state table by its keys.
    pub(crate) async fn item_of(&self, pk: &str, sk: &str) -> Result<Option<Value>> {
        let get = self.dynamodb.get_item().table_name(self.stack.output("TableName")?).consistent_read(true);
        let get = get.key("pk", AttributeValue::S(pk.to_owned())).key("sk", AttributeValue::S(sk.to_owned()));
        let got = get.send().await.with_context(|| format!("cannot read {sk} of {pk}"))?;
        got.item.as_ref().map(object).transpose()
    }

    /// The URL of a queue.
    pub(crate) fn url(&self, queue: Queue) -> Result<&str> {
        self.stack.output(queue.output())
    }

    /// Messages of a queue: visible, in flight and delayed.
    pub async fn depth(&self, queue: Queue) -> Result<u64> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        self.messages(queue, &names).await
    }

    /// Messages of a queue that were received and are not deleted: a function has them, or had them when it was killed.
    pub async fn in_hand(&self, queue: Queue) -> Result<u64> {
        self.messages(queue, &[QueueAttributeName::ApproximateNumberOfMessagesNotVisible]).await
    }

    async fn messages(&self, queue: Queue, names: &[QueueAttributeName]) -> Result<u64> {
        let asked = self.sqs.get_queue_attributes().queue_url(self.url(queue)?);
        let told = asked.attribute_names(QueueAttributeName::All).send().await.context("cannot ask a queue")?;
        let attributes = told.attributes.unwrap_or_default();
        let counts = names.iter().filter_map(|name| attributes.get(name)?.parse::<u64>().ok());
        Ok(counts.sum())
    }

    /// The depth of every queue, for a reader.
    pub async fn depths(&self) -> Result<String> {
        let mut told = Vec::new();
        for queue in Queue::ALL {
            told.push(format!("{queue:?} {}", self.depth(queue).await?));
        }
        Ok(told.join(", "))
    }

    /// Sends a body as it is; to the partitions queue as an operator would.
    pub async fn send(&self, queue: Queue, body: &str) -> Result<()> {
        self.send_in_group(queue, body, "by-hand").await
    }

    /// The same in a group nobody else uses, where it waits for no other message.
    pub async fn send_alone(&self, queue: Queue, body: &str) -> Result<()> {
        self.send_in_group(queue, body, &fresh()).await
    }

    /// The same in a group of the partitions queue; the other queues have none.
    pub async fn send_in_group(&self, queue: Queue, body: &str, group: &str) -> Result<()> {
        let mut send = self.sqs.send_message().queue_url(self.url(queue)?).message_body(body);
        if queue == Queue::Partitions {
            send = send.message_group_id(group).message_deduplication_id(fresh());
        }
        send.send().await.with_context(|| format!("cannot send to {queue:?}"))?;
        Ok(())
    }

    /// Takes up to ten messages out of a queue, waiting a second for the first.
    pub async fn receive(&self, queue: Queue) -> Result<Vec<Message>> {
        let url = self.url(queue)?;
        let receive = self.sqs.receive_message().queue_url(url).max_number_of_messages(10).wait_time_seconds(1);
        let receive = receive.message_attribute_names("All");
        let got = receive.message_system_attribute_names(MessageSystemAttributeName::All).send().await?;
        let mut messages = Vec::new();
        for message in got.messages.unwrap_or_default() {
            let handle = message.receipt_handle.unwrap_or_default();
            self.sqs.delete_message().queue_url(url).receipt_handle(handle).send().await?;
            let reason = message.message_attributes.unwrap_or_default().remove("reason");
            messages.push(Message {
                body: message.body.unwrap_or_default(),
                reason: reason.and_then(|value| value.string_value),
            });
        }
        Ok(messages)
    }
}

/// A text nobody else has.
fn fresh() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{now}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn object(item: &HashMap<String, AttributeValue>) -> Result<Value> {
    let fields = item.iter().map(|(name, value)| Ok((name.clone(), json(value)?)));
    Ok(Value::Object(fields.collect::<Result<Map<_, _>>>()?))
}

fn json(value: &AttributeValue) -> Result<Value> {
    Ok(match value {
        AttributeValue::S(text) => Value::from(text.clone()),
        AttributeValue::N(number) => serde_json::from_str(number)?,
        AttributeValue::Bool(truth) => Value::from(*truth),
        AttributeValue::L(list) => Value::Array(list.iter().map(json).collect::<Result<_>>()?),
        AttributeValue::M(map) => object(map)?,
        AttributeValue::Ss(set) => Value::from(set.clone()),
        other => bail!("an item holds {other:?}"),
    })
}
