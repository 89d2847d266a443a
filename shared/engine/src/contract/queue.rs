//! The guarantees of [`PartitionQueue`].

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tidemark_domain::definition::Concurrency;
use tidemark_domain::id::{DatasetName, Generation, PartitionId, PartitionName};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;

use super::fresh;
use crate::ports::{Outgoing, PartitionQueue};

/// A message as a worker gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The body.
    pub body: String,
    /// The handle of this delivery.
    pub receipt: String,
}

/// The worker's side of the queue, and the dead-letter queue: read by the test.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// The next message, waited for as long as the queue's own delay and a little more; `None` where none comes.
    async fn receive(&self) -> Option<Received>;
    /// Acknowledges a message.
    async fn delete(&self, receipt: &str);
    /// All messages on the dead-letter queue, as body and reason.
    async fn dead_letters(&self) -> Vec<(String, Option<String>)>;
}

/// Every guarantee, on a FIFO queue that nobody else reads and that is empty.
pub async fn all(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    what_is_sent_arrives_in_order_within_its_group(queue, inbox).await;
    equal_messages_both_arrive(queue, inbox).await;
    a_message_in_hand_keeps_back_its_group_only(queue, inbox).await;
    a_message_given_back_is_first_in_its_group(queue, inbox).await;
    a_dead_letter_is_unchanged(queue, inbox).await;
    sending_nothing_is_no_error(queue, inbox).await;
}

fn outgoing(dataset: &DatasetName, partition: &str, generation: u64, concurrency: Concurrency) -> Outgoing {
    let id = PartitionId { dataset: dataset.clone(), partition: PartitionName::new(partition).unwrap() };
    let scope = Scope::of(&id, concurrency);
    Outgoing { message: PartitionMessage::look(id, Generation(generation)), scope }
}

fn dataset() -> DatasetName {
    DatasetName::new(format!("t{}", fresh())).unwrap()
}

async fn send(queue: &dyn PartitionQueue, messages: &[Outgoing]) {
    assert_eq!(queue.send(messages).await.unwrap(), vec![], "every message is taken");
}

async fn receive(inbox: &dyn Inbox) -> Received {
    let received = inbox.receive().await;
    received.unwrap_or_else(|| panic!("a message that was sent doesn't arrive"))
}

/// More messages than one call takes, also of names with any characters, arrive all, in order within their group.
pub async fn what_is_sent_arrives_in_order_within_its_group(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    let dataset = dataset();
    let partitions = ["dt=2026-11-01", "name=O'Brien \"x\"\\", "name=\u{e9}\u{1f980}/%20 +"];
    let messages: Vec<Outgoing> = (1..=25)
        .map(|n| outgoing(&dataset, partitions[usize::try_from(n).unwrap() % 3], n, Concurrency::Partition))
        .collect();
    send(queue, &messages).await;
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for sent in &messages {
        expected.entry(sent.message.id.partition.to_string()).or_default().push(sent.message.body());
    }
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in &messages {
        let received = receive(inbox).await;
        let message = PartitionMessage::parse(&received.body).unwrap();
        found.entry(message.id.partition.to_string()).or_default().push(received.body);
        inbox.delete(&received.receipt).await;
    }
    assert_eq!(found, expected, "bodies by partition");
    assert_eq!(inbox.receive().await, None, "nothing arrives twice");
}

/// The same message sent twice arrives twice: each send has a fresh deduplication id.
pub async fn equal_messages_both_arrive(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    let message = outgoing(&dataset(), "dt=1", 7, Concurrency::Table);
    send(queue, std::slice::from_ref(&message)).await;
    send(queue, std::slice::from_ref(&message)).await;
    send(queue, &[message.clone(), message.clone()]).await;
    for n in 1..=4 {
        let received = receive(inbox).await;
        assert_eq!(received.body, message.message.body(), "copy {n} of 4");
        inbox.delete(&received.receipt).await;
    }
}

/// A scope's messages are one group: while one is in hand, the next isn't delivered, and another scope's is.
pub async fn a_message_in_hand_keeps_back_its_group_only(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    let (table, other) = (dataset(), dataset());
    let first = outgoing(&table, "dt=1", 1, Concurrency::Table);
    let second = outgoing(&table, "dt=2", 1, Concurrency::Table);
    send(queue, &[first.clone(), second.clone()]).await;
    let in_hand = receive(inbox).await;
    assert_eq!(in_hand.body, first.message.body());
    assert_eq!(inbox.receive().await, None, "the lock's scope is the table, and its group is taken");
    let elsewhere = outgoing(&other, "dt=1", 1, Concurrency::Table);
    send(queue, std::slice::from_ref(&elsewhere)).await;
    let received = receive(inbox).await;
    assert_eq!(received.body, elsewhere.message.body(), "another group goes on");
    inbox.delete(&received.receipt).await;
    inbox.delete(&in_hand.receipt).await;
    let received = receive(inbox).await;
    assert_eq!(received.body, second.message.body(), "the next of the group comes once the first is acknowledged");
    inbox.delete(&received.receipt).await;
    // Partitions with a lock each are a group each.
    let alone = [1, 2].map(|n| outgoing(&table, &format!("dt={n}"), 2, Concurrency::Partition));
    send(queue, &alone).await;
    let both = [receive(inbox).await, receive(inbox).await];
    for received in both {
        inbox.delete(&received.receipt).await;
    }
}

/// A message given back at once comes again at once, before the rest of its group, with another receipt; one given back for
/// later doesn't come yet, and keeps its group back.
pub async fn a_message_given_back_is_first_in_its_group(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    let dataset = dataset();
    let messages = [1, 2].map(|n| outgoing(&dataset, "dt=1", n, Concurrency::Table));
    send(queue, &messages).await;
    let received = receive(inbox).await;
    queue.give_back(&received.receipt, Duration::ZERO).await.unwrap();
    let again = receive(inbox).await;
    assert_eq!(again.body, messages[0].message.body(), "what was given back comes first");
    assert_ne!(again.receipt, received.receipt, "a new delivery, a new receipt");
    queue.give_back(&again.receipt, Duration::from_mins(10)).await.unwrap();
    assert_eq!(inbox.receive().await, None, "it is given back for later, and its group waits with it");
    // Its receipt is the newest, so it can still be acknowledged.
    inbox.delete(&again.receipt).await;
    let next = receive(inbox).await;
    assert_eq!(next.body, messages[1].message.body());
    inbox.delete(&next.receipt).await;
}

/// A dead letter has the body as it was, whatever it is, and the reason.
pub async fn a_dead_letter_is_unchanged(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    let bodies =
        [format!("not json {}", fresh()), format!("{{\"a\": \"\u{e9}\u{1f980}\\n\", \"b\": \"{}\"}}", fresh())];
    for body in &bodies {
        queue.dead_letter(body, "not a partition message: expected ident at line 1 column 2").await.unwrap();
    }
    let mut letters = vec![];
    for body in &bodies {
        let expected = (body.clone(), Some("not a partition message: expected ident at line 1 column 2".to_owned()));
        for _ in 0..100 {
            letters = inbox.dead_letters().await;
            if letters.contains(&expected) {
                break;
            }
        }
        assert!(letters.contains(&expected), "{expected:?} should be among {letters:?}");
    }
}

/// No messages, no call that fails.
pub async fn sending_nothing_is_no_error(queue: &dyn PartitionQueue, inbox: &dyn Inbox) {
    send(queue, &[]).await;
    assert_eq!(inbox.receive().await, None);
}
