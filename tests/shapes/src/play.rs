//! Plays the combinations: all in one stack, side by side, in two waves of files.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use tidemark_kit::World;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::combination::Combination;
use crate::lake::{Lake, Row, Which};
use crate::report::{Outcome, Report};
use crate::stage::{self, SCHEMA};

/// Files put at once.
const AT_ONCE: usize = 16;
/// Nothing landed for so long: what isn't right by now never will be.
const PATIENCE: Duration = Duration::from_secs(45);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Committed batches by dataset.
type Ledger = BTreeMap<String, i64>;

/// Plays all of them and tells what came of each.
pub(crate) async fn play(combinations: &[Combination], report: &mut Report) -> Result<()> {
    if combinations.is_empty() {
        return Ok(());
    }
    let began = Instant::now();
    let world = stage::deploy(
        combinations.iter().map(Combination::definition).collect(),
        combinations.iter().map(Combination::create_target).collect(),
    )
    .await?;
    println!("{} combinations are applied after {:.0} s", combinations.len(), began.elapsed().as_secs_f64());
    let sql = world.connect().await?;
    let mut lakes: Vec<Lake> = combinations.iter().map(|combination| Lake::new(*combination)).collect();
    lakes = wave(&world, &sql, lakes, &[0, 1, 2], "first load", report).await?;
    println!("first load: {} right after {:.0} s", lakes.len(), began.elapsed().as_secs_f64());
    for lake in &mut lakes {
        lake.overwrite();
    }
    lakes = wave(&world, &sql, lakes, &[0], "after an overwrite", report).await?;
    println!("after an overwrite: {} right after {:.0} s", lakes.len(), began.elapsed().as_secs_f64());
    for lake in &lakes {
        report.add(&lake.combination, Outcome::Right);
    }
    Ok(())
}

/// Puts these files of each and waits; gives those that became right, and tells of the others.
async fn wave(
    world: &World,
    sql: &Client,
    lakes: Vec<Lake>,
    files: &[usize],
    name: &str,
    report: &mut Report,
) -> Result<Vec<Lake>> {
    let before = ledger(sql).await?;
    let puts = lakes.iter().flat_map(|lake| files.iter().map(move |file| (lake, *file)));
    stream::iter(puts).map(Ok).try_for_each_concurrent(AT_ONCE, |(lake, file)| lake.put(world, file)).await?;
    let (mut right, mut waiting) = (Vec::new(), lakes);
    let (mut seen, mut changed_at) = (before, Instant::now());
    while !waiting.is_empty() && changed_at.elapsed() < PATIENCE {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let now = ledger(sql).await?;
        if now != seen {
            changed_at = Instant::now();
        }
        let mut still = Vec::new();
        for lake in waiting {
            let name = lake.combination.name();
            let landed = now.get(&name) != seen.get(&name) || changed_at.elapsed() > BETWEEN_LOOKS * 4;
            let done = landed && problem(world, sql, &lake).await?.is_none();
            if done { right.push(lake) } else { still.push(lake) }
        }
        (waiting, seen) = (still, now);
    }
    for lake in waiting {
        let why = problem(world, sql, &lake).await?.unwrap_or_else(|| "it became right too late".to_owned());
        report.add(&lake.combination, Outcome::Wrong(format!("{name}: {why}")));
    }
    Ok(right)
}

async fn ledger(sql: &Client) -> Result<Ledger> {
    let rows = sql.query("SELECT dataset, count(*) FROM tidemark.batches GROUP BY dataset", &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// What isn't as it must be; `None` where all is right.
async fn problem(world: &World, sql: &Client, lake: &Lake) -> Result<Option<String>> {
    let layout = lake.combination.layout;
    let dataset = lake.combination.name();
    for (which, partition) in [(Which::Partition, layout.partition), (Which::Neighbour, layout.neighbour)] {
        let (expected, found) = (lake.expected(which), found(sql, lake, which).await?);
        if expected != found {
            let item = world.item_named(&dataset, partition).await?;
            let state = item.map_or_else(
                || "it was never marked".to_owned(),
                |item| item.parked().map_or_else(|| format!("{:#}", item.0), |(kind, why)| format!("{kind}: {why}")),
            );
            return Ok(Some(format!("{partition} {}; {state}", difference(&expected, &found))));
        }
        let rests = world.item_named(&dataset, partition).await?.is_some_and(|item| item.rests());
        if !rests {
            return Ok(Some(format!("{partition} isn't at rest")));
        }
    }
    provenance(sql, lake).await
}

/// Each row names a batch of its dataset, and the whole partition one.
async fn provenance(sql: &Client, lake: &Lake) -> Result<Option<String>> {
    if !lake.combination.mode.has_provenance() {
        return Ok(None);
    }
    let dataset = lake.combination.name();
    let statement = format!(
        "SELECT count(*) FROM {SCHEMA}.{dataset} AS t LEFT JOIN tidemark.batches AS b \
         ON b.batch_id = t._batch AND b.dataset = $1 WHERE b.batch_id IS NULL OR t._loaded IS NULL"
    );
    let strangers: i64 = sql.query_one(&statement, &[&dataset]).await?.try_get(0)?;
    Ok((strangers > 0).then(|| format!("{strangers} rows don't tell their batch")))
}

async fn found(sql: &Client, lake: &Lake, which: Which) -> Result<Vec<Row>> {
    let query = lake.query(which);
    let messages = sql.simple_query(&query).await.with_context(|| query.clone())?;
    let mut rows = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|place| row.get(place).map(str::to_owned)).collect::<Row>());
        }
    }
    rows.sort_unstable();
    ensure!(rows.iter().all(|row| !row.is_empty()), "{query} gives no columns");
    Ok(rows)
}

/// The first row that is on one side only.
fn difference(expected: &[Row], found: &[Row]) -> String {
    let missing = expected.iter().find(|row| !found.contains(row));
    let surplus = found.iter().find(|row| !expected.contains(row));
    format!(
        "has {} rows, not {}; missing: {}; surplus: {}",
        found.len(),
        expected.len(),
        missing.map_or_else(|| "none".to_owned(), |row| format!("{row:?}")),
        surplus.map_or_else(|| "none".to_owned(), |row| format!("{row:?}")),
    )
}
