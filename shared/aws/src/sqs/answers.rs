//! Tests: what is sent to SQS, and what becomes of its odd answers.

use std::time::Duration;

use serde_json::json;
use tidemark_domain::definition::Concurrency;
use tidemark_domain::id::{DatasetName, Generation, PartitionId, PartitionName};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_engine::ports::{Effect, Outgoing, PartitionQueue as _, QueueError};

use super::SqsPartitionQueue;
use crate::retry;
use crate::stub::{Answer, Stub, refusal};

fn queue(stub: &Stub) -> SqsPartitionQueue {
    SqsPartitionQueue::new(aws_sdk_sqs::Client::new(&stub.sdk), "http://q/p.fifo", Some("http://q/d.fifo".into()))
}

fn messages(n: u64) -> Vec<Outgoing> {
    (0..n)
        .map(|n| {
            let id = PartitionId {
                dataset: DatasetName::new("orders").unwrap(),
                partition: PartitionName::new(format!("n={n}")).unwrap(),
            };
            Outgoing { scope: Scope::of(&id, Concurrency::Table), message: PartitionMessage::look(id, Generation(n)) }
        })
        .collect()
}

fn answer(sent: &[&str], failed: &[(&str, bool)]) -> Answer {
    // The digest isn't held against the body: the SDK leaves that to its callers.
    let sent: Vec<_> = sent.iter().map(|id| json!({"Id": id, "MessageId": "m", "MD5OfMessageBody": "d"})).collect();
    let failed: Vec<_> =
        failed.iter().map(|(id, fault)| json!({"Id": id, "SenderFault": fault, "Code": "C"})).collect();
    (200, json!({"Successful": sent, "Failed": failed}))
}

#[tokio::test]
async fn c084_a_passing_refusal_is_sent_again_alone_and_the_senders_fault_is_not() {
    let stub = Stub::answering([answer(&["0"], &[("1", false), ("2", true)]), answer(&["1"], &[])]).await;
    let unsent = queue(&stub).send(&messages(4)).await.unwrap();
    assert_eq!(unsent.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2, 3]);
    let again = &stub.asked()[1].body["Entries"];
    assert_eq!((again.as_array().unwrap().len(), again[0]["Id"].as_str()), (1, Some("1")));
    assert_eq!(again[0]["MessageDeduplicationId"], stub.asked()[0].body["Entries"][1]["MessageDeduplicationId"]);
}

#[tokio::test]
async fn c084_a_refusal_that_lasts_is_told() {
    let stub = Stub::answering((0..retry::ATTEMPTS).map(|_| answer(&[], &[("0", false)]))).await;
    let unsent = queue(&stub).send(&messages(1)).await.unwrap();
    assert_eq!(unsent, [(0, "C: no message".to_owned())]);
    assert!(stub.is_done());
}

#[tokio::test]
async fn a_message_is_grouped_by_its_scope() {
    let stub = Stub::answering([answer(&["0", "1"], &[])]).await;
    assert_eq!(queue(&stub).send(&messages(2)).await.unwrap(), []);
    let entries = &stub.asked()[0].body["Entries"];
    assert_eq!(entries[0]["MessageGroupId"], entries[1]["MessageGroupId"]);
    assert_ne!(entries[0]["MessageDeduplicationId"], entries[1]["MessageDeduplicationId"]);
    assert_eq!(entries[1]["MessageBody"], r#"{"version":1,"dataset":"orders","partition":"n=1","generation":1}"#);
    assert_eq!(entries[1].get("DelaySeconds"), None, "a FIFO queue refuses a delay of one message");
}

#[tokio::test]
async fn a_queue_that_is_throttled_or_broken_is_unavailable() {
    for (status, code) in [(400, "RequestThrottled"), (503, "ServiceUnavailable")] {
        let stub = Stub::answering((0..3).map(|_| refusal(status, code, "later"))).await;
        let error = queue(&stub).send(&messages(1)).await.unwrap_err();
        assert!(matches!(error, QueueError::Unavailable { effect: Effect::Unknown, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_missing_queue_is_a_matter_of_configuration() {
    let stub = Stub::answering([refusal(400, "com.amazonaws.sqs#QueueDoesNotExist", "no such queue")]).await;
    let error = queue(&stub).send(&messages(1)).await.unwrap_err();
    assert!(matches!(error, QueueError::Misconfigured(_)), "{error}");
}

#[tokio::test]
async fn a_message_no_longer_in_hand_needs_no_giving_back() {
    let stub = Stub::answering([
        (200, json!({})),
        refusal(400, "com.amazonaws.sqs#MessageNotInflight", "not in flight"),
        refusal(403, "AccessDenied", "no"),
    ])
    .await;
    let queue = queue(&stub);
    queue.give_back("r", Duration::from_hours(24)).await.unwrap();
    queue.give_back("r", Duration::ZERO).await.unwrap();
    assert!(matches!(queue.give_back("r", Duration::ZERO).await, Err(QueueError::Misconfigured(_))));
    assert_eq!(stub.asked()[0].body["VisibilityTimeout"], 43_200);
}

#[tokio::test]
async fn a_dead_letter_is_the_body_unchanged_with_its_reason() {
    let stub = Stub::answering([(200, json!({"MessageId": "m"}))]).await;
    queue(&stub).dead_letter("not json\u{9}", "not a partition message").await.unwrap();
    let body = &stub.asked()[0].body;
    assert_eq!(
        (body["QueueUrl"].as_str(), body["MessageBody"].as_str()),
        (Some("http://q/d.fifo"), Some("not json\u{9}"))
    );
    assert_eq!(body["MessageAttributes"]["reason"]["StringValue"], "not a partition message");
    assert_eq!(body["MessageGroupId"].as_str().unwrap().len(), 64);
}
