//! The stack is updated in place and deleted while there is work: what is to be done is in the table, not in the stack.

use std::time::Duration;

use anyhow::Result;
use aws_sdk_s3::types::{EventBridgeConfiguration, NotificationConfiguration, TopicConfiguration};
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::{Dataset, Settings, World, orders};
use tidemark_local::{LocalCloud, Stack, StackOptions, wait_until};

#[tokio::test]
async fn an_update_in_place_loses_nothing_in_flight() -> Result<()> {
    let world = World::new().await?;
    let days = ["2026-11-01", "2026-11-02", "2026-11-03"].map(|day| Dataset::Orders.day(day));
    let [loading, waiting, during] = &days;
    // An update ends the emulator's functions at work, which AWS lets end by themselves: what they had in hand comes back.
    for queue in [Queue::Events, Queue::Partitions] {
        world.come_back_after(queue, 12).await?;
    }
    world.slow_copy(5).await?;
    world.put_orders(&loading.file("a.parquet"), &orders::orders(0, 50)).await?;
    let loads = || async { Ok(world.item(loading).await?.filter(Item::is_loading).map(|_| ())) };
    world.wait("a COPY to run", loading, loads).await?;
    world.put_orders(&waiting.file("a.parquet"), &orders::orders(1_000, 50)).await?;

    // New configuration for every function and queue, and files that land meanwhile.
    let mut stack = world.stack.clone();
    let update = stack.update([("SettleSeconds", "2"), ("RebuildTimeoutSeconds", "20"), ("LogLevel", "debug")]);
    let rows = orders::orders(2_000, 50);
    let file = during.file("a.parquet");
    let (updated, put) = tokio::join!(update, world.put_orders(&file, &rows));
    updated?;
    put?;
    // The environment for operators tells the settings; all else is what it was.
    let names = |of: &Stack| {
        of.outputs.iter().filter(|(name, _)| *name != "Environment").map(|(_, value)| value.clone()).collect()
    };
    let (after, before): (Vec<String>, Vec<String>) = (names(&stack), names(&world.stack));
    assert_eq!(after, before, "nothing was replaced");

    for day in &days {
        let view = world.wait_true_with_sweeps(day).await?;
        assert_eq!(view.target.rows.len(), 50);
    }
    for queue in [Queue::EventsDlq, Queue::PartitionsDlq] {
        assert_eq!(world.depth(queue).await?, 0, "{queue:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_deletion_leaves_state_files_and_ledger() -> Result<()> {
    let world = World::with(&Settings { settle_seconds: 2, ..Default::default() }).await?;
    let [built, dirty] = ["2026-11-01", "2026-11-02"].map(|day| Dataset::Orders.day(day));
    world.put_orders(&built.file("a.parquet"), &orders::orders(0, 50)).await?;
    world.wait_true(&built).await?;
    let before = (world.landed(&built).await?, world.target(&built).await?);
    world.redshift_down(3_600).await?;
    world.put_orders(&dirty.file("a.parquet"), &orders::orders(1_000, 50)).await?;
    let marked = || async { Ok(world.item(&dirty).await?.filter(|item| item.number("marked") > 0).map(|_| ())) };
    world.wait("the mark", &dirty, marked).await?;

    world.stack.clone().delete().await?;

    let item = world.item(&dirty).await?;
    assert!(item.is_some_and(|item| !item.rests()), "the table still says what is to be done");
    assert_eq!(world.files(&dirty).await?.len(), 1, "the data bucket is left alone");
    world.redshift_down(0).await?;
    assert_eq!((world.landed(&built).await?, world.target(&built).await?), before);
    let landed = before.0.last().map(|landed| world.inventory(landed));
    assert_eq!(landed.expect("it landed").await?.len(), 1, "the control bucket keeps its inventories");
    Ok(())
}

/// A stack for a bucket that is there already; each message of its function `mark`, once an object has landed.
async fn marks_of(name: &str, topic: Option<&str>) -> Result<String> {
    let cloud = LocalCloud::shared().await?;
    let account = cloud.fresh_account();
    let bucket = format!("{name}-{account}");
    let config = cloud.sdk_config(&account).await;
    let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(true).build();
    let s3 = aws_sdk_s3::Client::from_conf(s3);
    s3.create_bucket().bucket(&bucket).send().await?;
    let key = format!("arn:aws:kms:us-east-1:{account}:key/1234abcd-12ab-34cd-56ef-1234567890ab");
    let mut options = StackOptions::new(name, &account)
        .with("CreateDataBucket", "false")
        .with("DataBucketName", &bucket)
        .with("KmsKeyArn", key);
    let notifications = NotificationConfiguration::builder();
    let notifications = if let Some(topic) = topic {
        let sns = aws_sdk_sns::Client::new(&config);
        let arn = sns.create_topic().name(topic).send().await?.topic_arn.unwrap_or_default();
        options = options.with("DataTopicArn", &arn);
        let created = TopicConfiguration::builder().topic_arn(arn).events("s3:ObjectCreated:*".into()).build()?;
        notifications.topic_configurations(created)
    } else {
        notifications.event_bridge_configuration(EventBridgeConfiguration::builder().build())
    };
    let stack = cloud.deploy(options).await?;
    let put = s3.put_bucket_notification_configuration().bucket(&bucket);
    put.notification_configuration(notifications.build()).send().await?;

    s3.put_object().bucket(&bucket).key("orders/dt=2026-11-01/a.csv").send().await?;
    let mark = stack.output("MarkFunctionName")?;
    let told = wait_until("the object's event to reach mark", Duration::from_mins(1), async || {
        let logs = stack.function_logs(mark).await?;
        Ok(logs.into_iter().find(|line| line.contains("unclaimed")))
    });
    told.await
}

#[tokio::test]
async fn an_existing_bucket_is_heard_through_eventbridge() -> Result<()> {
    marks_of("by-eventbridge", None).await?;
    Ok(())
}

#[tokio::test]
async fn an_existing_bucket_is_heard_through_its_topic() -> Result<()> {
    marks_of("by-topic", Some("lake-events")).await?;
    Ok(())
}
