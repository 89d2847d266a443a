//! SQS batches as Lambda hands them over, and the answer that says which messages come back.
//!
//! Read by hand from JSON: a typed event fails as a whole for one odd record, and then every message of the batch comes back.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

/// One message of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id; absent where the record has none, which only a broken or hand-made event does.
    pub id: Option<String>,
    /// Its body; empty where the record has none.
    pub body: String,
    /// The handle of this delivery; empty where the record has none.
    pub receipt: String,
    /// Its group on a FIFO queue.
    pub group: Option<String>,
}

/// Why a whole batch comes back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Not an event of SQS.
    #[error("not an event of sqs: it has no list `Records`")]
    NoRecords,
    /// Lambda reads an answer without the id as the failure of all or of none; so all come back, on purpose.
    #[error("a message without an id failed, so the whole batch comes back")]
    NoId,
}

/// The messages of a batch, in order.
pub fn messages(event: &Value) -> Result<Vec<Message>, BatchError> {
    let records = event["Records"].as_array().ok_or(BatchError::NoRecords)?;
    Ok(records.iter().map(message).collect())
}

fn message(record: &Value) -> Message {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    Message {
        id: text(&record["messageId"]),
        body: text(&record["body"]).unwrap_or_default(),
        receipt: text(&record["receiptHandle"]).unwrap_or_default(),
        group: text(&record["attributes"]["MessageGroupId"]),
    }
}

/// The answer that lets these messages come back and acknowledges the rest of the batch.
pub fn answer<'a>(failed: impl IntoIterator<Item = &'a Message>) -> Result<Value, BatchError> {
    let failed = failed.into_iter().map(|message| match &message.id {
        Some(id) => Ok(json!({"itemIdentifier": id})),
        None => Err(BatchError::NoId),
    });
    Ok(json!({"batchItemFailures": failed.collect::<Result<Vec<_>, _>>()?}))
}

/// Keeps order within the groups of a FIFO batch: after one message of a group comes back, the later ones do too.
#[derive(Debug, Default)]
pub struct Groups {
    failed: BTreeSet<Option<String>>,
}

impl Groups {
    /// Whether an earlier message of the group comes back. Messages without a group are one group.
    pub fn is_held_up(&self, message: &Message) -> bool {
        self.failed.contains(&message.group)
    }

    /// Notes that a message comes back.
    pub fn hold_up(&mut self, message: &Message) {
        self.failed.insert(message.group.clone());
    }
}

/// When the invocation is ended from outside, from the runtime's milliseconds since 1970.
pub fn deadline(milliseconds: u64) -> Timestamp {
    let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(records: &Value) -> Vec<Message> {
        messages(&json!({"Records": records})).unwrap()
    }

    #[test]
    fn c072_c206_the_answer_is_to_the_letter_what_lambda_reads() {
        let messages = batch(&json!([{"messageId": "m1", "body": "a"}, {"messageId": "m2", "body": "b"}]));
        let answer = answer(&messages[1..]).unwrap();
        assert_eq!(answer.to_string(), r#"{"batchItemFailures":[{"itemIdentifier":"m2"}]}"#);
    }

    #[test]
    fn c073_the_answer_has_nothing_else_at_its_top() {
        assert_eq!(answer([]).unwrap().to_string(), r#"{"batchItemFailures":[]}"#);
    }

    #[test]
    fn c071_a_failed_message_without_an_id_fails_the_batch_on_purpose() {
        for id in [Value::Null, "".into(), 7.into()] {
            assert_eq!(answer(&batch(&json!([{"messageId": id, "body": "a"}]))), Err(BatchError::NoId));
        }
        assert_eq!(answer(&batch(&json!(["odd"]))), Err(BatchError::NoId));
    }

    #[test]
    fn c089_a_record_of_id_and_body_alone_is_read() {
        let expected = Message { id: Some("m".into()), body: "b".into(), receipt: String::new(), group: None };
        assert_eq!(batch(&json!([{"messageId": "m", "body": "b"}])), [expected]);
    }

    #[test]
    fn c207_one_odd_record_leaves_the_others_as_they_are() {
        let messages = batch(&json!([{"messageId": "m1"}, null, {"messageId": "m3", "body": "b", "attributes": 7}]));
        let ids: Vec<_> = messages.iter().map(|m| m.id.as_deref()).collect();
        assert_eq!(ids, [Some("m1"), None, Some("m3")]);
        assert_eq!(messages[0].body, "");
    }

    #[test]
    fn c014_an_empty_batch_is_a_batch_and_anything_else_is_none() {
        assert_eq!(batch(&json!([])), []);
        for event in [json!({}), json!({"Records": {}}), json!([]), Value::Null] {
            assert_eq!(messages(&event), Err(BatchError::NoRecords));
        }
    }

    #[test]
    fn c076_a_failure_holds_up_its_own_group_only() {
        let record = |id: &str, group: &str| json!({"messageId": id, "attributes": {"MessageGroupId": group}});
        let messages = batch(&json!([record("m1", "orders#1"), record("m2", "orders#2"), record("m3", "orders#1")]));
        let mut groups = Groups::default();
        groups.hold_up(&messages[0]);
        let held_up: Vec<_> = messages[1..].iter().map(|m| groups.is_held_up(m)).collect();
        assert_eq!(held_up, [false, true]);
    }

    #[test]
    fn a_deadline_is_milliseconds() {
        assert_eq!(deadline(1_500), Timestamp::from_millisecond(1_500).unwrap());
        assert_eq!(deadline(u64::MAX), Timestamp::MAX);
    }
}
