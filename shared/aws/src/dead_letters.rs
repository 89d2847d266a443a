//! A dead-letter queue and the queue it is of, for an operator: what lies there, and back with what can be worked on.
//!
//! Looking takes nothing away: a message that was looked at is visible again at once. Going back is send first, delete second:
//! a crash between leaves it in both queues, and messages are hints. A letter that isn't sent back stays.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use jiff::Timestamp;
use tidemark_engine::ports::QueueError;
use uuid::Uuid;

use crate::error::Fault;

/// A letter in hand is hidden from others for so long; whoever dies meanwhile costs no more.
const HIDDEN_SECONDS: i32 = 60;
/// SQS gives so many at once.
const BATCH: i32 = 10;

/// A dead-letter queue.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    client: Client,
    url: String,
    source_url: String,
}

/// A message that lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its id.
    pub id: String,
    /// Its body, unchanged.
    pub body: String,
    /// Why it was put there, where that was told; a letter without it was received too often.
    pub reason: Option<String>,
    /// When it was sent: to the dead-letter queue where we put it there, else to the queue it came from.
    pub sent_at: Option<Timestamp>,
    /// How often it was received in all, this time included.
    pub received: u64,
    receipt: String,
    group: Option<String>,
}

impl DeadLetters {
    /// The dead-letter queue at `url` of the queue at `source_url`.
    pub fn new(client: Client, url: impl Into<String>, source_url: impl Into<String>) -> Self {
        Self { client, url: url.into(), source_url: source_url.into() }
    }

    /// About how many lie there, visible or not.
    pub async fn count(&self) -> Result<u64, QueueError> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let request = self.client.get_queue_attributes().queue_url(&self.url).set_attribute_names(Some(names.into()));
        let told = request.send().await.map_err(|error| Fault::of("GetQueueAttributes", &error))?;
        let counts = told.attributes.unwrap_or_default();
        Ok(counts.values().filter_map(|count| count.parse::<u64>().ok()).sum())
    }

    /// The next letters that nobody has in hand, ten at most; none: there are no more. They are in hand until they are let go,
    /// deleted, or a minute is over. Of a FIFO queue, a group with a letter in hand shows no others.
    pub async fn next(&self) -> Result<Vec<Letter>, QueueError> {
        let request = self.client.receive_message().queue_url(&self.url).max_number_of_messages(BATCH);
        let request = request.visibility_timeout(HIDDEN_SECONDS).wait_time_seconds(1);
        let request = request.message_attribute_names("reason");
        let request = request.message_system_attribute_names(MessageSystemAttributeName::All);
        let got = request.send().await.map_err(|error| Fault::of("ReceiveMessage", &error))?;
        Ok(got.messages.unwrap_or_default().into_iter().map(Letter::of).collect())
    }

    /// Makes a letter visible again. One that is by now is no failure.
    pub async fn let_go(&self, letter: &Letter) -> Result<(), QueueError> {
        let request = self.client.change_message_visibility().queue_url(&self.url).receipt_handle(&letter.receipt);
        let Err(error) = request.visibility_timeout(0).send().await else { return Ok(()) };
        match Fault::of("ChangeMessageVisibility", &error) {
            fault if crate::sqs::is_no_longer_in_hand(&fault) => Ok(()),
            fault => Err(fault.into()),
        }
    }

    /// Sends a letter's body back to the queue it is of, unchanged. Acknowledged when this comes back well.
    pub async fn send_back(&self, letter: &Letter) -> Result<(), QueueError> {
        let mut request = self.client.send_message().queue_url(&self.source_url).message_body(&letter.body);
        if let Some(group) = &letter.group {
            request = request.message_group_id(group).message_deduplication_id(Uuid::new_v4().to_string());
        }
        request.send().await.map_err(|error| Fault::of("SendMessage", &error))?;
        Ok(())
    }

    /// Deletes a letter that was sent back.
    pub async fn delete(&self, letter: &Letter) -> Result<(), QueueError> {
        let request = self.client.delete_message().queue_url(&self.url).receipt_handle(&letter.receipt);
        request.send().await.map_err(|error| Fault::of("DeleteMessage", &error))?;
        Ok(())
    }
}

impl Letter {
    fn of(message: Message) -> Self {
        let attributes: HashMap<MessageSystemAttributeName, String> = message.attributes.unwrap_or_default();
        let number = |name| attributes.get(&name).and_then(|text| text.parse::<i64>().ok());
        let reason = message.message_attributes.unwrap_or_default().remove("reason");
        let sent = number(MessageSystemAttributeName::SentTimestamp);
        let received = number(MessageSystemAttributeName::ApproximateReceiveCount);
        Self {
            id: message.message_id.unwrap_or_default(),
            body: message.body.unwrap_or_default(),
            reason: reason.and_then(|value| value.string_value),
            sent_at: sent.and_then(|ms| Timestamp::from_millisecond(ms).ok()),
            received: received.and_then(|n| u64::try_from(n).ok()).unwrap_or_default(),
            receipt: message.receipt_handle.unwrap_or_default(),
            group: attributes.get(&MessageSystemAttributeName::MessageGroupId).cloned(),
        }
    }
}
