//! The partitions queue and its dead-letter queue on SQS FIFO.

#[cfg(test)]
mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use sha2::{Digest as _, Sha256};
use tidemark_engine::ports::{Effect, Outgoing, PartitionQueue, QueueError};
use uuid::Uuid;

use crate::error::{Cause, Fault};
use crate::retry;

/// What SQS takes in one call: ten messages, and so many bytes together (AWS has raised this since; older queues have not).
const BATCH: usize = 10;
const BATCH_BYTES: usize = 256 * 1024;

/// SQS hides a message at most this long.
const LONGEST_HIDDEN: Duration = Duration::from_hours(12);

/// A reason longer than this is cut; it stands in an attribute for people.
const REASON_BYTES: usize = 1024;

/// The partitions queue.
#[derive(Debug, Clone)]
pub struct SqsPartitionQueue {
    client: Client,
    url: String,
    dead_letter_url: Option<String>,
}

impl SqsPartitionQueue {
    /// The queue of this URL; only who works on messages needs the dead-letter queue's.
    pub fn new(client: Client, url: impl Into<String>, dead_letter_url: Option<String>) -> Self {
        Self { client, url: url.into(), dead_letter_url }
    }

    /// Sends one call's worth of messages; those refused for a passing reason alone again. Adds what isn't sent to `unsent`.
    async fn send_batch(&self, batch: &[Entry], unsent: &mut Vec<(usize, String)>) -> Result<(), Fault> {
        let operation = "SendMessageBatch";
        let mut left: Vec<&Entry> = batch.iter().collect();
        let mut reasons = BTreeMap::new();
        for attempt in 0..retry::ATTEMPTS {
            retry::pause(attempt).await;
            let entries = left.iter().map(|e| e.request()).collect::<Result<Vec<_>, _>>();
            let entries = entries.map_err(|e| Fault::unknown(operation, "Client", e.to_string()))?;
            let request = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
            let answer = request.send().await.map_err(|e| Fault::of(operation, &e))?;
            let outcome = Outcome::of(&answer, &left);
            unsent.extend(outcome.refused);
            reasons = outcome.again;
            left.retain(|e| reasons.contains_key(&e.index));
            if left.is_empty() {
                break;
            }
        }
        unsent.extend(reasons);
        Ok(())
    }
}

#[async_trait]
impl PartitionQueue for SqsPartitionQueue {
    async fn send(&self, messages: &[Outgoing]) -> Result<Vec<(usize, String)>, QueueError> {
        let mut unsent = Vec::new();
        let mut sent_any = false;
        for batch in batches(messages, &mut unsent) {
            self.send_batch(&batch, &mut unsent).await.map_err(|mut fault| {
                if sent_any {
                    fault.effect = Effect::Unknown;
                }
                QueueError::from(fault)
            })?;
            sent_any = true;
        }
        unsent.sort();
        Ok(unsent)
    }

    async fn give_back(&self, receipt: &str, after: Duration) -> Result<(), QueueError> {
        // Rounded up: a message that comes back before the lease of its dead worker is over only finds the lock busy.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        let seconds = i32::try_from(seconds.min(LONGEST_HIDDEN.as_secs())).unwrap_or(i32::MAX);
        let request = self.client.change_message_visibility().queue_url(&self.url).receipt_handle(receipt);
        let Err(error) = request.visibility_timeout(seconds).send().await else { return Ok(()) };
        match Fault::of("ChangeMessageVisibility", &error) {
            // It is visible again already, or gone: what was wanted, or nothing to want.
            fault if is_no_longer_in_hand(&fault) => Ok(()),
            fault => Err(fault.into()),
        }
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> Result<(), QueueError> {
        let Some(url) = &self.dead_letter_url else {
            return Err(QueueError::Misconfigured("no dead-letter queue is set".to_owned()));
        };
        let operation = "SendMessage";
        let attribute = MessageAttributeValue::builder().data_type("String").string_value(attribute_text(reason));
        let attribute = attribute.build().map_err(|e| QueueError::Misconfigured(e.to_string()))?;
        let request = self.client.send_message().queue_url(url).message_body(body);
        let request = request.message_group_id(hex::encode(Sha256::digest(body)));
        let request = request.message_deduplication_id(Uuid::new_v4().to_string());
        request.message_attributes("reason", attribute).send().await.map_err(|e| Fault::of(operation, &e))?;
        Ok(())
    }
}

/// A message on its way: which of the caller's it is, and all that is sent.
#[derive(Debug, Clone)]
struct Entry {
    index: usize,
    body: String,
    group: String,
    deduplication_id: String,
}

impl Entry {
    fn of(index: usize, outgoing: &Outgoing) -> Self {
        Self {
            index,
            body: outgoing.message.body(),
            group: hex::encode(Sha256::digest(outgoing.scope.as_str())),
            deduplication_id: Uuid::new_v4().to_string(),
        }
    }

    fn request(&self) -> Result<SendMessageBatchRequestEntry, aws_sdk_sqs::error::BuildError> {
        SendMessageBatchRequestEntry::builder()
            .id(self.index.to_string())
            .message_body(&self.body)
            .message_group_id(&self.group)
            .message_deduplication_id(&self.deduplication_id)
            .build()
    }
}

/// Splits messages by number and by bytes together. One that fits into no call is unsent.
fn batches(messages: &[Outgoing], unsent: &mut Vec<(usize, String)>) -> Vec<Vec<Entry>> {
    let mut batches: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for (index, outgoing) in messages.iter().enumerate() {
        let entry = Entry::of(index, outgoing);
        if entry.body.len() > BATCH_BYTES {
            let size = entry.body.len();
            unsent.push((
                index,
                format!("message of {size} bytes for {}; {BATCH_BYTES} can be sent", outgoing.message.id),
            ));
            continue;
        }
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes + entry.body.len() <= BATCH_BYTES => {
                bytes += entry.body.len();
                batch.push(entry);
            }
            _ => {
                bytes = entry.body.len();
                batches.push(vec![entry]);
            }
        }
    }
    batches
}

/// What became of the messages of one call, by the caller's index.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    refused: Vec<(usize, String)>,
    again: BTreeMap<usize, String>,
}

impl Outcome {
    fn of(answer: &SendMessageBatchOutput, asked: &[&Entry]) -> Self {
        let sent: BTreeSet<_> = answer.successful().iter().map(|s| s.id().to_owned()).collect();
        let mut outcome = Self { refused: Vec::new(), again: BTreeMap::new() };
        for entry in asked {
            let id = entry.index.to_string();
            let failed = answer.failed().iter().find(|f| f.id() == id);
            match failed {
                Some(failed) => {
                    let reason = format!("{}: {}", failed.code(), failed.message().unwrap_or("no message"));
                    if failed.sender_fault() {
                        outcome.refused.push((entry.index, reason));
                    } else {
                        outcome.again.insert(entry.index, reason);
                    }
                }
                None if sent.contains(&id) => {}
                None => outcome.refused.push((entry.index, "the answer doesn't say what became of it".to_owned())),
            }
        }
        outcome
    }
}

pub(crate) fn is_no_longer_in_hand(fault: &Fault) -> bool {
    fault.code.contains("MessageNotInflight")
        || fault.code.contains("ReceiptHandleIsInvalid")
        || fault.message.contains("not available for visibility timeout change")
}

/// An attribute's text: not empty, of characters that SQS takes, and not long.
fn attribute_text(reason: &str) -> String {
    let mut text: String =
        reason.chars().map(|c| if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') { ' ' } else { c }).collect();
    text.truncate(text.floor_char_boundary(REASON_BYTES));
    if text.trim().is_empty() { "no reason".to_owned() } else { text }
}

impl From<Fault> for QueueError {
    fn from(fault: Fault) -> Self {
        match fault.cause {
            Cause::Refused => Self::Misconfigured(fault.to_string()),
            Cause::Throttled | Cause::Unreachable => {
                Self::Unavailable { message: fault.to_string(), effect: fault.effect }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchResultEntry};
    use tidemark_domain::definition::Concurrency;
    use tidemark_domain::id::{DatasetName, Generation, PartitionId, PartitionName};
    use tidemark_domain::lock::Scope;
    use tidemark_domain::message::{PartitionMessage, Replay, Wish};

    use super::*;

    fn outgoing(partition: &str, reason_bytes: usize) -> Outgoing {
        let id = PartitionId {
            dataset: DatasetName::new("orders").unwrap(),
            partition: PartitionName::new(partition).unwrap(),
        };
        let scope = Scope::of(&id, Concurrency::Partition);
        let message = match reason_bytes {
            0 => PartitionMessage::look(id, Generation(1)),
            n => PartitionMessage {
                id,
                wish: Wish::Replay(Replay { reason: Some("x".repeat(n)), force: true, ..Replay::default() }),
            },
        };
        Outgoing { message, scope }
    }

    #[test]
    fn c086_batches_are_split_by_number_and_by_summed_bytes() {
        let mut unsent = Vec::new();
        let small: Vec<_> = (0..23).map(|n| outgoing(&format!("n={n}"), 0)).collect();
        let sizes: Vec<_> = batches(&small, &mut unsent).iter().map(Vec::len).collect();
        assert_eq!(sizes, [10, 10, 3]);
        let large: Vec<_> = (0..10).map(|n| outgoing(&format!("n={n}"), 30 * 1024)).collect();
        let batches = batches(&large, &mut unsent);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [8, 2]);
        assert!(batches.iter().all(|b| b.iter().map(|e| e.body.len()).sum::<usize>() <= BATCH_BYTES));
        assert_eq!(unsent, []);
    }

    #[test]
    fn c087_one_that_never_fits_is_told_by_name_and_two_that_do_not_fit_together_go_one_by_one() {
        let mut unsent = Vec::new();
        let messages = [outgoing("n=1", 200 * 1024), outgoing("n=2", 300 * 1024), outgoing("n=3", 200 * 1024)];
        let batches = batches(&messages, &mut unsent);
        assert_eq!(batches.iter().map(|b| b.iter().map(|e| e.index).collect()).collect::<Vec<Vec<_>>>(), [[0], [2]]);
        assert!(unsent[0].0 == 1 && unsent[0].1.contains("orders n=2"), "{unsent:?}");
    }

    #[test]
    fn c084_an_answer_is_read_entry_by_entry() {
        let entries: Vec<_> = (0..4).map(|n| Entry::of(n, &outgoing(&format!("n={n}"), 0))).collect();
        let failed = |id: &str, sender: bool, code: &str| {
            BatchResultErrorEntry::builder().id(id).sender_fault(sender).code(code).build().unwrap()
        };
        let sent = SendMessageBatchResultEntry::builder().id("0").message_id("m").md5_of_message_body("d");
        let answer = SendMessageBatchOutput::builder()
            .successful(sent.build().unwrap())
            .failed(failed("1", false, "ServiceUnavailable"))
            .failed(failed("2", true, "InvalidMessageContents"))
            .build()
            .unwrap();
        let outcome = Outcome::of(&answer, &entries.iter().collect::<Vec<_>>());
        assert_eq!(outcome.again.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(outcome.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn one_group_a_scope_and_a_fresh_deduplication_id_a_send() {
        let (a, b) = (Entry::of(0, &outgoing("n=1", 0)), Entry::of(1, &outgoing("n=1", 0)));
        assert_eq!(a.group, hex::encode(Sha256::digest("orders#n=1")));
        assert!(a.group == b.group && a.deduplication_id != b.deduplication_id);
    }

    #[test]
    fn a_reason_is_cut_and_cleaned() {
        assert_eq!(attribute_text("bad\u{0}\nbody \u{1f980}\u{ffff}"), "bad  body \u{1f980} ");
        assert_eq!(attribute_text(""), "no reason");
        assert!(attribute_text(&"ü".repeat(2000)).len() <= REASON_BYTES);
    }
}
