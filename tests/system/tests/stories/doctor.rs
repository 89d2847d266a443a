//! `tidemark doctor`: each check is shown to fail, with its remedy, by breaking what it looks at.

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::types::NotificationConfiguration;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;
use tidemark_kit::{Dataset, World, orders};

/// The checks of one run, and its exit code.
async fn doctor(world: &World) -> Result<(Vec<Value>, Option<i32>)> {
    let told = world.tidemark(&["doctor", "--json"]).await?;
    let report: Value = serde_json::from_str(&told.out).with_context(|| format!("no JSON: {told:?}"))?;
    Ok((report["checks"].as_array().context("checks")?.clone(), told.status.code()))
}

/// What a check of something came to: result, what was seen, remedy.
fn found(checks: &[Value], check: &str, of: &str) -> Result<(String, String, String)> {
    let found = checks.iter().find(|c| c["check"] == check && c["of"].as_str().is_some_and(|o| o.contains(of)));
    let found = found.with_context(|| format!("no check {check} of {of}: {checks:#?}"))?;
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    Ok((text("result"), text("seen"), text("remedy")))
}

fn assert_failed(checks: &[Value], check: &str, of: &str, seen: &str, remedy: &str) -> Result<()> {
    let told = found(checks, check, of)?;
    let is = told.0 == "failed" && told.1.contains(seen) && told.2.contains(remedy);
    assert!(is, "{check} of {of} should fail with {seen:?} and {remedy:?}: {told:?}");
    Ok(())
}

#[tokio::test]
async fn each_check_finds_what_it_is_there_for_and_has_a_remedy() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&day).await?;
    world.stack.unschedule().await?;
    let config = world.cloud.sdk_config(world.stack.account()).await;
    let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(true).build();
    let (s3, sqs) = (aws_sdk_s3::Client::from_conf(s3), aws_sdk_sqs::Client::new(&config));
    let dynamodb = aws_sdk_dynamodb::Client::new(&config);
    let (bucket, table) = (world.stack.data_bucket(), world.stack.output("TableName")?);
    let [events, partitions] = [world.stack.output("EventsQueueUrl")?, world.stack.output("PartitionsQueueUrl")?];

    let (checks, code) = doctor(&world).await?;
    assert_eq!(code, Some(0), "{checks:#?}");
    assert!(checks.iter().all(|check| check["result"] != "failed"), "{checks:#?}");
    for (check, of) in [
        ("table", ""),
        ("control bucket", ""),
        ("notification", bucket),
        ("queue policy", bucket),
        ("events queue", ""),
        ("events key", ""),
        ("partitions queue", ""),
        ("redshift", ""),
        ("target", "orders"),
        ("grants", "orders"),
        ("guard row", "orders"),
        ("copy role", "orders"),
    ] {
        assert_eq!(found(&checks, check, of)?.0, "ok", "{check} of {of}");
    }
    assert_eq!(found(&checks, "copy role", "returns")?.0, "unknown", "none of it has landed");

    // The way in: nobody sends, no dead-letter queue, a key that senders can't use. Sweep, a halted dataset, columns, rights.
    let notified = s3.get_bucket_notification_configuration().bucket(bucket).send().await?;
    let none = NotificationConfiguration::builder().build();
    s3.put_bucket_notification_configuration().bucket(bucket).notification_configuration(none).send().await?;
    for (queue, name, value) in [
        (events, QueueAttributeName::RedrivePolicy, ""),
        (events, QueueAttributeName::KmsMasterKeyId, "alias/aws/sqs"),
        (partitions, QueueAttributeName::RedrivePolicy, ""),
    ] {
        sqs.set_queue_attributes().queue_url(queue).attributes(name, value).send().await?;
    }
    let cursor = dynamodb.put_item().table_name(table).item("pk", AttributeValue::S("SWEEP".into()));
    let cursor = cursor.item("sk", AttributeValue::S("CURSOR#look#orders".into()));
    cursor.item("next_at", AttributeValue::N("1000".into())).send().await?;
    let head = dynamodb.update_item().table_name(table).key("pk", AttributeValue::S("DATASET#orders".into()));
    let head = head.key("sk", AttributeValue::S("DEFINITION".into()));
    let head = head.update_expression("SET #mode = :halted, why = :why").expression_attribute_names("#mode", "mode");
    let head = head.expression_attribute_values(":halted", AttributeValue::S("halted".into()));
    let why = "User arn:aws:redshift:x is not authorized to assume IAM Role";
    head.expression_attribute_values(":why", AttributeValue::S(why.into())).send().await?;
    world.execute("ALTER TABLE sales.returns RENAME COLUMN quantity TO pieces").await?;
    let role = format!("granted_{}", world.stack.account());
    world
        .execute(&format!(
            "CREATE ROLE {role}; GRANT USAGE, CREATE ON SCHEMA tidemark, tidemark_staging TO {role}; \
             GRANT USAGE ON SCHEMA sales TO {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidemark TO {role}; \
             GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA sales TO {role}; \
             DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I SET role = %L', current_user, current_database(), '{role}'); \
             END $$"
        ))
        .await?;
    let (checks, code) = doctor(&world).await?;
    assert_eq!(code, Some(1));
    assert_failed(&checks, "notification", bucket, "no event of bucket", "docs/deploy.md")?;
    assert_failed(&checks, "events queue", "", "no dead-letter queue", "deploy the stack again")?;
    assert_failed(&checks, "events key", "", "alias/aws/sqs", "KmsKeyArn")?;
    assert_failed(&checks, "function", world.stack.output("SweepFunctionName")?, "was due at", "sweep-missing.md")?;
    assert_failed(&checks, "dataset", "orders", why, "tidemark resume orders")?;
    assert_failed(&checks, "copy role", "orders", why, "attach the role")?;
    assert_failed(&checks, "target", "returns", "no column `quantity`", "")?;
    assert_failed(&checks, "grants", "orders", "lacks insert on", "GRANT INSERT ON TABLE")?;

    // Whose target it is, and whom the queue lets in.
    world
        .execute("DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET role', current_user, current_database()); END $$")
        .await?;
    let back = NotificationConfiguration::builder().set_queue_configurations(notified.queue_configurations).build();
    s3.put_bucket_notification_configuration().bucket(bucket).notification_configuration(back).send().await?;
    let theirs = r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*"}]}"#;
    sqs.set_queue_attributes().queue_url(events).attributes(QueueAttributeName::Policy, theirs).send().await?;
    world
        .execute(
            "DO $$ DECLARE fence text; BEGIN \
             SELECT quote_ident(tablename) INTO fence FROM pg_tables WHERE schemaname = 'tidemark' AND tablename LIKE '%orders%'; \
             EXECUTE 'UPDATE tidemark.' || fence || ' SET stack = ''other'' WHERE partition_name = '''''; END $$",
        )
        .await?;
    let (checks, _) = doctor(&world).await?;
    assert_failed(&checks, "queue policy", bucket, "doesn't let s3.amazonaws.com send", "allow sqs:SendMessage")?;
    assert_failed(&checks, "guard row", "orders", "of stack other", "--take-over orders")?;
    assert_eq!(found(&checks, "grants", "orders")?.0, "ok");

    // What is gone, or doesn't answer.
    sqs.delete_queue().queue_url(events).send().await?;
    world.redshift_down(120).await?;
    let (checks, _) = doctor(&world).await?;
    assert_failed(&checks, "events queue", "", "NonExistentQueue", "deploy the stack again")?;
    assert_failed(&checks, "redshift", "", "", "see that the warehouse runs")?;
    Ok(())
}
