//! `tidemark doctor`: each check is shown to fail, with its remedy, by breaking what it looks at; and to be well again once the
//! remedy was followed. One world, one fault after the other.

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;
use tidemark_kit::{Dataset, Partition, World, orders};

/// The checks of one run.
struct Checks(Vec<Value>);

impl Checks {
    /// What a check of something came to: result, what was seen, remedy.
    fn found(&self, check: &str, of: &str) -> (&str, &str, &str) {
        let is = |c: &&Value| c["check"] == check && c["of"].as_str().is_some_and(|o| o.contains(of));
        let found = self.0.iter().find(is);
        assert!(found.is_some(), "no check {check} of {of}: {:#?}", self.0);
        let text = |name: &str| found.and_then(|found| found[name].as_str()).unwrap_or_default();
        (text("result"), text("seen"), text("remedy"))
    }

    fn failed(&self, check: &str, of: &str, seen: &str, remedy: &str) {
        let told = self.found(check, of);
        let is = told.0 == "failed" && told.1.contains(seen) && told.2.contains(remedy);
        assert!(is, "{check} of {of} should fail with {seen:?} and {remedy:?}: {told:?}");
    }

    fn well(&self, check: &str, of: &str) {
        let told = self.found(check, of);
        assert_eq!(told.0, "ok", "{check} of {of}: {told:?}");
    }

    fn all_well(&self) {
        assert!(self.0.iter().all(|check| check["result"] != "failed"), "{:#?}", self.0);
    }
}

/// The checks of one run; its exit code says whether one of them failed.
async fn doctor(world: &World) -> Result<Checks> {
    let told = world.tidemark(&["doctor", "--json"]).await?;
    let report = told.json()?;
    let checks = Checks(report["checks"].as_array().context("checks")?.clone());
    let failed = checks.0.iter().any(|check| check["result"] == "failed");
    assert_eq!(told.code(), Some(i32::from(failed)), "{told:?}");
    Ok(checks)
}

#[tokio::test]
async fn each_check_finds_what_it_is_there_for_and_has_a_remedy() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&day).await?;
    world.stack.unschedule().await?;
    world.wait_quiet(&day).await?;

    let (checks, bucket) = (doctor(&world).await?, world.stack.data_bucket());
    checks.all_well();
    for (check, of) in [
        ("table", ""),
        ("control bucket", ""),
        ("notification", bucket),
        ("queue policy", bucket),
        ("events queue", ""),
        ("events key", ""),
        ("partitions queue", ""),
        ("partitions key", ""),
        ("redshift", ""),
        ("target", "orders"),
        ("grants", "orders"),
        ("guard row", "orders"),
        ("copy role", "orders"),
    ] {
        checks.well(check, of);
    }
    assert_eq!(checks.found("copy role", "returns").0, "unknown", "none of it has landed");

    the_way_in(&world, &day).await?;
    rights_and_the_role_of_copy(&world, &day).await?;
    owner_and_fence(&world).await?;
    schemas(&world).await?;
    what_is_gone(&world).await
}

/// Nobody sends, nobody takes, no dead-letter queue, a key that senders can't use, a policy that lets others in.
async fn the_way_in(world: &World, day: &Partition) -> Result<()> {
    let config = world.cloud.sdk_config(world.stack.account()).await;
    let (sqs, dynamodb) = (aws_sdk_sqs::Client::new(&config), aws_sdk_dynamodb::Client::new(&config));
    let output = |name| world.stack.output(name);
    let (bucket, table) = (world.stack.data_bucket(), output("TableName")?);
    let (events, partitions) = (output("EventsQueueUrl")?, output("PartitionsQueueUrl")?);
    let (mark, rebuild) = (output("MarkFunctionName")?, output("RebuildFunctionName")?);
    for function in [mark, rebuild] {
        world.stack.deliver(function, false).await?;
    }
    world.put_orders(&day.file("b.parquet"), &orders::orders(10, 10)).await?;
    world.look(day).await?;
    // The partitions queue delays its messages.
    let visible = || async {
        for queue in [events, partitions] {
            let name = QueueAttributeName::ApproximateNumberOfMessages;
            let told = sqs.get_queue_attributes().queue_url(queue).attribute_names(name.clone()).send().await?;
            if told.attributes.unwrap_or_default().get(&name).is_none_or(|count| count != "1") {
                return Ok(None);
            }
        }
        Ok(Some(()))
    };
    world.wait("both messages to wait", day, visible).await?;
    let notifications = world.silence_bucket().await?;
    let mut kept = Vec::new();
    for queue in [events, partitions] {
        let told = sqs.get_queue_attributes().queue_url(queue).attribute_names(QueueAttributeName::All).send().await?;
        let told = told.attributes.unwrap_or_default();
        for (name, broken) in
            [(QueueAttributeName::RedrivePolicy, ""), (QueueAttributeName::KmsMasterKeyId, "alias/aws/sqs")]
        {
            kept.push((queue, name.clone(), told.get(&name).cloned().unwrap_or_default()));
            sqs.set_queue_attributes().queue_url(queue).attributes(name, broken).send().await?;
        }
        kept.push((
            queue,
            QueueAttributeName::Policy,
            told.get(&QueueAttributeName::Policy).cloned().unwrap_or_default(),
        ));
    }
    let cursor = [("pk", "SWEEP"), ("sk", "CURSOR#look#orders")];
    let mut put = dynamodb.put_item().table_name(table).item("next_at", AttributeValue::N("1000".into()));
    for (name, value) in cursor {
        put = put.item(name, AttributeValue::S(value.to_owned()));
    }
    put.send().await?;
    let checks = doctor(world).await?;
    checks.failed("notification", bucket, "no event of bucket", "docs/deploy.md");
    checks.failed("events queue", "", "no dead-letter queue", "deploy the stack again");
    checks.failed("events key", "", "alias/aws/sqs", "KmsKeyArn");
    checks.failed("partitions queue", "", "no dead-letter queue", "deploy the stack again");
    checks.failed("partitions key", "", "alias/aws/sqs", "KmsKeyArn");
    checks.failed("function", mark, "1 message waits and nobody takes it", "event source mapping of");
    checks.failed("function", rebuild, "1 message waits and nobody takes it", "event source mapping of");
    checks.failed("function", output("SweepFunctionName")?, "was due at", "sweep-missing.md");

    world.notify(notifications).await?;
    let theirs = r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*"}]}"#;
    sqs.set_queue_attributes().queue_url(events).attributes(QueueAttributeName::Policy, theirs).send().await?;
    let checks = doctor(world).await?;
    checks.well("notification", bucket);
    checks.failed("queue policy", bucket, "doesn't let s3.amazonaws.com send", "allow sqs:SendMessage");
    for (queue, name, value) in kept {
        sqs.set_queue_attributes().queue_url(queue).attributes(name, value).send().await?;
    }
    let mut delete = dynamodb.delete_item().table_name(table);
    for (name, value) in cursor {
        delete = delete.key(name, AttributeValue::S(value.to_owned()));
    }
    delete.send().await?;
    Ok(())
}

/// COPY's role is taken from the warehouse, and a rebuild halts for it; grants are revoked, and given again as the remedy says.
async fn rights_and_the_role_of_copy(world: &World, day: &Partition) -> Result<()> {
    world.attach_copy_role(false).await?;
    for function in ["MarkFunctionName", "RebuildFunctionName"] {
        world.stack.deliver(world.stack.output(function)?, true).await?;
    }
    let halted = || async { Ok(world.halted(Dataset::Orders).await?.then_some(())) };
    world.wait("to be halted", day, halted).await?;

    let role = format!("granted_{}", world.stack.account());
    world
        .execute(&format!(
            "CREATE ROLE {role}; GRANT USAGE, CREATE ON SCHEMA tidemark, tidemark_staging TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidemark TO {role}; \
             GRANT USAGE ON SCHEMA sales TO {role}; GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA sales TO {role}; \
             REVOKE CREATE ON SCHEMA tidemark_staging FROM {role}; ALTER TABLE sales.returns RENAME COLUMN quantity TO pieces; \
             DO $$ BEGIN EXECUTE format('REVOKE TEMP ON DATABASE %I FROM PUBLIC', current_database()); \
             EXECUTE format('ALTER ROLE %I IN DATABASE %I SET role = %L', current_user, current_database(), '{role}'); END $$"
        ))
        .await?;
    let checks = doctor(world).await?;
    let why = "is not authorized to assume IAM Role default";
    checks.failed("dataset", "orders", why, "tidemark resume orders");
    checks.failed("copy role", "orders", why, "attach the role");
    checks.failed("target", "returns", "no column `quantity`; add it to the table", "tidemark resume");
    checks.failed(
        "grants",
        "orders",
        &format!("user {role} lacks create on \"tidemark_staging\", insert on"),
        "GRANT INSERT ON TABLE",
    );
    let remedy = checks.found("grants", "orders").2;
    world.execute(remedy).await.with_context(|| format!("the remedy is no statement: {remedy}"))?;
    world.execute("ALTER TABLE sales.returns RENAME COLUMN pieces TO quantity").await?;
    world.execute(&format!("REVOKE USAGE ON SCHEMA tidemark FROM {role}")).await?;
    let checks = doctor(world).await?;
    checks.failed("redshift", "", "permission denied for schema tidemark", "infra/redshift/grants.sql");

    world.execute(&format!("GRANT USAGE ON SCHEMA tidemark TO {role}")).await?;
    let checks = doctor(world).await?;
    for (check, of) in [("redshift", ""), ("grants", "orders"), ("target", "returns"), ("guard row", "orders")] {
        checks.well(check, of);
    }
    world
        .execute("DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET role', current_user, current_database()); END $$")
        .await?;
    world.attach_copy_role(true).await?;
    world.tidemark_well(&["resume", "orders"]).await?;
    world.wait_true(day).await?;
    Ok(())
}

/// A statement on a target's fence table, as its first place `{}`.
async fn on_fence(world: &World, target: &str, statement: &str) -> Result<()> {
    let (before, after) = statement.split_once("{}").context("it names no place")?;
    let quote = |text: &str| text.replace('\'', "''");
    world
        .execute(&format!(
            "DO $$ DECLARE fence text; BEGIN \
             SELECT quote_ident(tablename) INTO fence FROM pg_tables WHERE schemaname = 'tidemark' AND tablename LIKE '%{target}%'; \
             EXECUTE '{}tidemark.' || fence || '{}'; END $$",
            quote(before),
            quote(after)
        ))
        .await
}

/// Whose a target is, and of which epoch: what doctor says to run mends it.
async fn owner_and_fence(world: &World) -> Result<()> {
    let guard = "WHERE partition_name = ''";
    on_fence(world, "orders", &format!("UPDATE {{}} SET stack = 'other' {guard}")).await?;
    on_fence(world, "returns", &format!("UPDATE {{}} SET epoch = epoch + 3 {guard}")).await?;
    let checks = doctor(world).await?;
    checks.failed("guard row", "orders", "belongs to dataset orders of stack other", "--take-over orders");
    checks.failed("guard row", "returns", "its epoch is", "`tidemark apply`");
    let file = world.definitions.display().to_string();
    world.tidemark_well(&["apply", &file, "--yes", "--take-over", "orders"]).await?;
    let checks = doctor(world).await?;
    checks.all_well();
    checks.well("guard row", "returns");

    on_fence(world, "orders", &format!("UPDATE {{}} SET dataset = 'invoices' {guard}")).await?;
    on_fence(world, "returns", &format!("UPDATE {{}} SET epoch = 0 {guard}")).await?;
    let checks = doctor(world).await?;
    checks.failed("guard row", "orders", "belongs to dataset invoices of stack", "--take-over orders");
    checks.failed("guard row", "returns", "its epoch is 0, the dataset's", "`tidemark apply`");
    on_fence(world, "orders", "DROP TABLE {} CASCADE").await?;
    on_fence(world, "returns", &format!("DELETE FROM {{}} {guard}")).await?;
    let checks = doctor(world).await?;
    checks.failed("guard row", "orders", "sales.orders has no fence table", "`tidemark apply`");
    checks.failed("guard row", "returns", "sales.returns has no guard row", "`tidemark apply`");
    world.tidemark_well(&["apply", &file, "--yes"]).await?;
    doctor(world).await?.all_well();
    Ok(())
}

/// What `init` makes, missing in part and whole.
async fn schemas(world: &World) -> Result<()> {
    world.execute("DROP SCHEMA tidemark_staging CASCADE").await?;
    doctor(world).await?.failed("redshift", "", "there is no schema tidemark_staging", "run `tidemark init`");
    world.execute("DROP SCHEMA tidemark CASCADE").await?;
    let checks = doctor(world).await?;
    checks.failed("redshift", "", "there is no schema tidemark and tidemark_staging", "then `tidemark apply`");
    world.tidemark_well(&["init"]).await?;
    world.tidemark_well(&["apply", &world.definitions.display().to_string(), "--yes"]).await?;
    doctor(world).await?.all_well();
    world.execute("DROP TABLE tidemark.version").await?;
    doctor(world).await?.failed("redshift", "", "no table version", "run `tidemark init`");
    world.execute("DROP TABLE sales.orders CASCADE").await?;
    world.tidemark_well(&["init"]).await?;
    doctor(world).await?.failed(
        "target",
        "orders",
        "there is no table sales.orders, or its columns can't be seen; create it",
        "mend that",
    );
    Ok(())
}

/// What is gone, or doesn't answer.
async fn what_is_gone(world: &World) -> Result<()> {
    let config = world.cloud.sdk_config(world.stack.account()).await;
    let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(true).build();
    let (s3, sqs) = (aws_sdk_s3::Client::from_conf(s3), aws_sdk_sqs::Client::new(&config));
    let control = world.stack.output("ControlBucketName")?;
    let mut objects = s3.list_objects_v2().bucket(control).into_paginator().send();
    while let Some(page) = objects.next().await {
        for object in page?.contents() {
            s3.delete_object().bucket(control).key(object.key().unwrap_or_default()).send().await?;
        }
    }
    s3.delete_bucket().bucket(control).send().await?;
    for queue in ["EventsQueueUrl", "PartitionsQueueUrl"] {
        sqs.delete_queue().queue_url(world.stack.output(queue)?).send().await?;
    }
    let checks = doctor(world).await?;
    checks.failed("control bucket", control, "NoSuchBucket", "TIDEMARK_CONTROL_BUCKET");
    checks.failed("events queue", "", "NonExistentQueue", "deploy the stack again");
    checks.failed("partitions queue", "", "NonExistentQueue", "deploy the stack again");

    let dynamodb = aws_sdk_dynamodb::Client::new(&config);
    dynamodb.delete_table().table_name(world.stack.output("TableName")?).send().await?;
    world.redshift_down(120).await?;
    let checks = doctor(world).await?;
    checks.failed("table", "", "ResourceNotFoundException", "TIDEMARK_TABLE");
    checks.failed("redshift", "", "", "see that the warehouse runs");
    Ok(())
}
