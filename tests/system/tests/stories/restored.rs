//! A warehouse restored from a snapshot, a state table restored from a backup: both heal, and people are told once. And what
//! sweep writes down for whoever asks from which files rows came.

use std::collections::HashMap;

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::AttributeValue;
use tidemark_kit::{Dataset, Partition, World, orders};

use super::mails::Mails;

type Item = HashMap<String, AttributeValue>;

/// The world, with eyes and hands of its own on table and topic.
struct Hands {
    world: World,
    table: String,
    dynamodb: aws_sdk_dynamodb::Client,
    mails: Mails,
}

impl Hands {
    async fn new() -> Result<Self> {
        let world = World::new().await?;
        let sdk = world.cloud.sdk_config(world.stack.account()).await;
        let mails = Mails::of(&world).await?;
        let table = world.stack.output("TableName")?.to_owned();
        Ok(Self { world, table, dynamodb: aws_sdk_dynamodb::Client::new(&sdk), mails })
    }

    /// A task of sweep has its next round now.
    async fn round(&self, cursor: &str) -> Result<()> {
        self.world.sweep().await?;
        let update = self.dynamodb.update_item().table_name(&self.table);
        let update = update.key("pk", AttributeValue::S("SWEEP".to_owned()));
        let update = update.key("sk", AttributeValue::S(format!("CURSOR#{cursor}")));
        let update = update.update_expression("SET next_at = :now");
        update.expression_attribute_values(":now", AttributeValue::N("0".to_owned())).send().await?;
        self.world.sweep().await
    }

    /// The items of a dataset's partitions.
    async fn items(&self) -> Result<Vec<Item>> {
        let query = self.dynamodb.query().table_name(&self.table).consistent_read(true);
        let query = query.key_condition_expression("pk = :pk AND begins_with(sk, :sk)");
        let query = query.expression_attribute_values(":pk", AttributeValue::S("DATASET#orders".to_owned()));
        let query = query.expression_attribute_values(":sk", AttributeValue::S("PARTITION#".to_owned()));
        Ok(query.send().await?.items.unwrap_or_default())
    }

    /// Puts the items of partitions back as they were; those that weren't there go.
    async fn put_back(&self, backup: &[Item]) -> Result<()> {
        for item in self.items().await? {
            let key = |name: &str| item[name].clone();
            let delete = self.dynamodb.delete_item().table_name(&self.table);
            delete.key("pk", key("pk")).key("sk", key("sk")).send().await?;
        }
        for item in backup {
            self.dynamodb.put_item().table_name(&self.table).set_item(Some(item.clone())).send().await?;
        }
        Ok(())
    }

    /// The target, the ledger and the fence table, by their names.
    async fn tables(&self) -> Result<Vec<String>> {
        let sql = self.world.connect().await?;
        let fence = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'tidemark' \
                     AND table_name LIKE 'fence_sales_orders%'";
        let fence: String = sql.query_one(fence, &[]).await?.try_get(0)?;
        let tables = ["sales.orders", "tidemark.batches", "tidemark.files"].map(str::to_owned);
        Ok(tables.into_iter().chain([format!("tidemark.\"{fence}\"")]).collect())
    }

    async fn take_snapshot(&self) -> Result<()> {
        for (n, table) in self.tables().await?.iter().enumerate() {
            self.world.execute(&format!("CREATE TABLE public.snapshot_{n} AS TABLE {table}")).await?;
        }
        Ok(())
    }

    async fn restore_snapshot(&self) -> Result<()> {
        let tables = self.tables().await?.into_iter().enumerate();
        let back = tables
            .map(|(n, table)| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM public.snapshot_{n};"));
        self.world.execute(&format!("BEGIN; {} COMMIT;", back.collect::<String>())).await
    }
}

/// Three days, of which the first two get another file after the moment that `moment` keeps, and a fourth day comes.
async fn three_days_and_more(hands: &Hands, moment: impl AsyncFnOnce() -> Result<()>) -> Result<Vec<Partition>> {
    let world = &hands.world;
    let days: Vec<Partition> = (1..=4).map(|n| Dataset::Orders.day(&format!("2026-11-0{n}"))).collect();
    for (n, day) in (0..).zip(&days[..3]) {
        world.put_orders(&day.file("a.parquet"), &orders::orders(n * 1_000, 20)).await?;
    }
    for day in &days[..3] {
        world.wait_true(day).await?;
    }
    world.wait_quiet(&days[0]).await?;
    moment().await?;
    for (n, day) in (0..).zip(&days[..2]) {
        world.put_orders(&day.file("b.parquet"), &orders::orders(n * 1_000 + 500, 30)).await?;
    }
    world.put_orders(&days[3].file("a.parquet"), &orders::orders(9_000, 10)).await?;
    for day in [&days[0], &days[1]] {
        world.wait_landed(day, 1).await?;
    }
    world.wait_true(&days[3]).await?;
    world.wait_quiet(&days[0]).await?;
    Ok(days)
}

#[tokio::test]
async fn a_warehouse_restored_from_a_snapshot_heals_and_one_mail_tells() -> Result<()> {
    let hands = Hands::new().await?;
    let days = three_days_and_more(&hands, async || hands.take_snapshot().await).await?;
    hands.restore_snapshot().await?;
    let count = "SELECT count(*) FROM sales.orders";
    assert_eq!(hands.world.count(count).await?, 60, "what came after the snapshot is gone");
    assert_eq!(hands.mails.subjects().await?, [""; 0]);

    hands.round("tidy#orders").await?;
    for day in &days {
        hands.world.wait_true(day).await?;
    }
    assert_eq!(hands.world.count(count).await?, 130);
    assert_eq!(hands.mails.subjects().await?, ["restored: orders is rebuilt"]);
    let newest = hands.world.landed(&days[2]).await?;
    assert_eq!(newest.len(), 1, "the day that was the same in both was left alone");
    hands.round("tidy#orders").await?;
    hands.world.wait_quiet(&days[0]).await?;
    assert_eq!(hands.mails.subjects().await?, [""; 0], "and that was it");
    Ok(())
}

#[tokio::test]
async fn a_state_table_restored_from_a_backup_heals_and_one_mail_tells() -> Result<()> {
    let hands = Hands::new().await?;
    let backup = std::sync::Mutex::new(Vec::new());
    let days = three_days_and_more(&hands, async || {
        let items = hands.items().await?;
        *backup.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = items;
        Ok(())
    })
    .await?;
    let backup = backup.into_inner().unwrap_or_default();
    assert_eq!(backup.len(), 3);
    hands.put_back(&backup).await?;

    hands.round("tidy#orders").await?;
    for (day, landed) in [(&days[0], 2), (&days[1], 2), (&days[3], 1)] {
        let view = hands.world.wait_landed(day, landed).await?;
        let last = view.landed.last().context("a batch landed")?;
        assert_eq!(view.item.0["last"]["batch"].as_str(), Some(last.batch.as_str()), "the newest ledger row is `last`");
    }
    hands.world.wait_true(&days[2]).await?;
    assert_eq!(hands.world.landed(&days[2]).await?.len(), 1, "the day that was the same in both was left alone");
    assert_eq!(hands.world.count("SELECT count(*) FROM sales.orders").await?, 130);
    assert_eq!(hands.mails.subjects().await?, ["restored: orders is rebuilt"]);
    Ok(())
}

/// From which files did these rows come? One query, and no file twice, however often it is booked.
#[tokio::test]
async fn the_ledger_tells_from_which_files_rows_came() -> Result<()> {
    let hands = Hands::new().await?;
    let days = three_days_and_more(&hands, async || Ok(())).await?;
    hands.round("book").await?;
    let world = &hands.world;
    assert_eq!(world.count("SELECT count(*) FROM tidemark.files").await?, 3 + 2 + 2 + 1);
    let sql = world.connect().await?;
    let asked = "SELECT f.key, f.etag FROM tidemark.files f WHERE f.batch_id = (SELECT DISTINCT _batch_id FROM \
                 sales.orders WHERE dt = DATE '2026-11-01')";
    let rows = sql.query(asked, &[]).await?;
    let told = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_>>()?;
    let view = world.wait_true(&days[0]).await?;
    assert_eq!(view.source.files, told, "key and ETag of each");
    let ages = "SELECT count(*) FROM tidemark.files WHERE last_modified > now() AT TIME ZONE 'UTC' - interval '1 hour' \
                AND last_modified <= now() AT TIME ZONE 'UTC' AND size > 0";
    assert_eq!(world.count(ages).await?, 8);

    // Its rows are lost, as if a load had been rolled back after its cursor was written: the next round finds them.
    world
        .execute("DELETE FROM tidemark.files WHERE batch_id IN (SELECT batch_id FROM tidemark.batches LIMIT 2)")
        .await?;
    hands.round("book").await?;
    assert_eq!(world.count("SELECT count(*) FROM tidemark.files").await?, 8);
    assert_eq!(world.count("SELECT count(*) - count(DISTINCT (batch_id, key)) FROM tidemark.files").await?, 0);
    Ok(())
}
