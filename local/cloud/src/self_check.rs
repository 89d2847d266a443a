//! Does the emulator keep the promises Tidemark rests on? A test that is green on an emulator with broken locks proves
//! nothing, so this is asked first, of the very server the tests will use, in some two seconds.
//!
//! - DynamoDB: of sixteen writers with one condition exactly one wins, alone and in a transaction; no increment is lost.
//! - S3: a notification's key is form-encoded with `/` left as it is, as S3 sends it.
//! - SQS: a FIFO group waits while one of its messages is in flight, other groups don't; a message received as often as the
//!   redrive policy allows is found in the dead-letter queue.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, Put, ScalarAttributeType,
    TransactWriteItem,
};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Event, NotificationConfiguration, QueueConfiguration};
use aws_sdk_sqs::types::QueueAttributeName;
use tokio::task::JoinSet;

use crate::cloud::LocalCloud;
use crate::wait::wait_until;

/// An account of its own: nothing else sees what is made here.
const ACCOUNT: &str = "999999999999";
const ROUNDS: u32 = 20;
const WRITERS: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(10);
const TABLE: &str = "self-check";

/// Fails, naming the promise, if the emulator cannot be trusted.
pub(crate) async fn run(cloud: &LocalCloud) -> Result<()> {
    let config = cloud.sdk_config(ACCOUNT).await;
    let dynamodb = aws_sdk_dynamodb::Client::new(&config);
    let s3 = aws_sdk_s3::Client::new(&config);
    let sqs = aws_sdk_sqs::Client::new(&config);
    let checks = async {
        check_locks(&dynamodb).await.context("DynamoDB: conditional writes")?;
        check_event_key(&s3, &sqs).await.context("S3: form of a notification")?;
        check_groups(&sqs).await.context("SQS: FIFO groups")?;
        check_redrive(&sqs).await.context("SQS: redrive")
    };
    checks.await.with_context(|| {
        format!(
            "this version of the emulator cannot be trusted (local/cloud/requirements.txt); logs in {}",
            cloud.logs().display()
        )
    })
}

async fn check_locks(dynamodb: &aws_sdk_dynamodb::Client) -> Result<()> {
    make_table(dynamodb).await?;
    for round in 0..ROUNDS {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let dynamodb = dynamodb.clone();
            writers.spawn(async move {
                let alone = take(&dynamodb, round, writer).await?;
                let both = take_both(&dynamodb, round, writer).await?;
                count(&dynamodb).await?;
                anyhow::Ok((alone, both))
            });
        }
        let (mut alone, mut both) = (0, 0);
        while let Some(won) = writers.join_next().await {
            let (first, second) = won??;
            alone += u32::from(first);
            both += u32::from(second);
        }
        ensure!(alone == 1, "round {round}: {alone} of {WRITERS} writers won one lock");
        ensure!(both == 1, "round {round}: {both} of {WRITERS} transactions won one lock");
    }
    let item = dynamodb.get_item().table_name(TABLE).key("pk", text("counter")).consistent_read(true).send().await?;
    let counted = item.item().and_then(|item| item.get("n")?.as_n().ok().cloned()).unwrap_or_default();
    ensure!(counted == (ROUNDS * WRITERS).to_string(), "{counted} of {} increments were kept", ROUNDS * WRITERS);
    Ok(())
}

async fn make_table(dynamodb: &aws_sdk_dynamodb::Client) -> Result<()> {
    let attribute =
        AttributeDefinition::builder().attribute_name("pk").attribute_type(ScalarAttributeType::S).build()?;
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build()?;
    let made = dynamodb.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
    made.attribute_definitions(attribute).key_schema(key).send().await?;
    Ok(())
}

/// Whether this writer got the lock of the round.
async fn take(dynamodb: &aws_sdk_dynamodb::Client, round: u32, writer: u32) -> Result<bool> {
    let write = dynamodb.update_item().table_name(TABLE).key("pk", text(&format!("lock-{round}")));
    let write = write.update_expression("SET holder = :w").condition_expression("attribute_not_exists(holder)");
    match write.expression_attribute_values(":w", text(&writer.to_string())).send().await {
        Ok(_) => Ok(true),
        Err(error) if error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether this writer got two locks in one transaction.
async fn take_both(dynamodb: &aws_sdk_dynamodb::Client, round: u32, writer: u32) -> Result<bool> {
    let mut request = dynamodb.transact_write_items();
    for name in ["first", "second"] {
        let put = Put::builder().table_name(TABLE).item("pk", text(&format!("{name}-{round}")));
        let put = put.item("holder", text(&writer.to_string())).condition_expression("attribute_not_exists(pk)");
        request = request.transact_items(TransactWriteItem::builder().put(put.build()?).build());
    }
    match request.send().await {
        Ok(_) => Ok(true),
        Err(error)
            if error.as_service_error().is_some_and(TransactWriteItemsError::is_transaction_canceled_exception) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

async fn count(dynamodb: &aws_sdk_dynamodb::Client) -> Result<()> {
    let write = dynamodb.update_item().table_name(TABLE).key("pk", text("counter")).update_expression("ADD n :one");
    write.expression_attribute_values(":one", AttributeValue::N("1".to_owned())).send().await?;
    Ok(())
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

async fn check_event_key(s3: &aws_sdk_s3::Client, sqs: &aws_sdk_sqs::Client) -> Result<()> {
    let bucket = "self-check";
    let (queue, arn) = make_queue(sqs, "self-check-events", &[]).await?;
    s3.create_bucket().bucket(bucket).send().await?;
    let target = QueueConfiguration::builder().queue_arn(arn).events(Event::from("s3:ObjectCreated:*")).build()?;
    let notification = NotificationConfiguration::builder().queue_configurations(target).build();
    let request = s3.put_bucket_notification_configuration().bucket(bucket);
    request.notification_configuration(notification).send().await?;
    let object = s3.put_object().bucket(bucket).key("dt=2024-01-01/a b+c%é.csv");
    object.body(ByteStream::from_static(b"1")).send().await?;

    let key = wait_until("the notification of an object", PATIENCE, async || {
        let bodies = receive(sqs, &queue).await?;
        Ok(bodies.iter().find_map(|body| key_of(body)))
    })
    .await?;
    let expected = "dt%3D2024-01-01/a+b%2Bc%25%C3%A9.csv";
    ensure!(key == expected, "the key arrived as {key}, not as {expected}");
    Ok(())
}

/// The key in an event; `None` for the test event that is sent when a notification is set.
fn key_of(body: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(body).ok()?;
    event.pointer("/Records/0/s3/object/key")?.as_str().map(str::to_owned)
}

async fn check_groups(sqs: &aws_sdk_sqs::Client) -> Result<()> {
    let (queue, _) = make_queue(sqs, "self-check.fifo", &[(QueueAttributeName::FifoQueue, "true")]).await?;
    for (group, body) in [("a", "a1"), ("a", "a2"), ("b", "b1")] {
        let message = sqs.send_message().queue_url(&queue).message_body(body);
        message.message_group_id(group).message_deduplication_id(body).send().await?;
    }
    let (first, second, third) =
        (receive_one(sqs, &queue).await?, receive_one(sqs, &queue).await?, receive_one(sqs, &queue).await?);
    ensure!(first.as_deref() == Some("a1"), "the first message came as {first:?}");
    ensure!(second.as_deref() == Some("b1"), "with a1 in flight {second:?} came, not b1");
    ensure!(third.is_none(), "with both groups in flight {third:?} came");
    Ok(())
}

async fn check_redrive(sqs: &aws_sdk_sqs::Client) -> Result<()> {
    let (dead_letters, arn) = make_queue(sqs, "self-check-dead", &[]).await?;
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":2}}"#);
    let attributes =
        [(QueueAttributeName::RedrivePolicy, policy.as_str()), (QueueAttributeName::VisibilityTimeout, "0")];
    let (queue, _) = make_queue(sqs, "self-check-redriven", &attributes).await?;
    sqs.send_message().queue_url(&queue).message_body("bad").send().await?;
    for receive in 1..=2 {
        let body = receive_one(sqs, &queue).await?;
        ensure!(body.as_deref() == Some("bad"), "receive {receive} of 2 gave {body:?}");
    }
    let body = receive_one(sqs, &queue).await?;
    ensure!(body.is_none(), "a third receive gave {body:?}, though two are the most");
    let body = receive_one(sqs, &dead_letters).await?;
    ensure!(body.as_deref() == Some("bad"), "the dead-letter queue gave {body:?}");
    Ok(())
}

/// URL and ARN of a new queue.
async fn make_queue(
    sqs: &aws_sdk_sqs::Client,
    name: &str,
    attributes: &[(QueueAttributeName, &str)],
) -> Result<(String, String)> {
    let mut request = sqs.create_queue().queue_name(name);
    for (attribute, value) in attributes {
        request = request.attributes(attribute.clone(), *value);
    }
    let url = request.send().await?.queue_url.context("a new queue has no URL")?;
    let asked = sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::QueueArn).send().await?;
    let arn =
        asked.attributes().and_then(|all| all.get(&QueueAttributeName::QueueArn)).context("a new queue has no ARN")?;
    Ok((url, arn.clone()))
}

async fn receive(sqs: &aws_sdk_sqs::Client, queue: &str) -> Result<Vec<String>> {
    let received = sqs.receive_message().queue_url(queue).max_number_of_messages(10).send().await?;
    Ok(received.messages.unwrap_or_default().into_iter().filter_map(|message| message.body).collect())
}

async fn receive_one(sqs: &aws_sdk_sqs::Client, queue: &str) -> Result<Option<String>> {
    let received = sqs.receive_message().queue_url(queue).max_number_of_messages(1).send().await?;
    Ok(received.messages.unwrap_or_default().into_iter().find_map(|message| message.body))
}
