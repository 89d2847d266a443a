//! A bad night: three hundred partitions that park at once are a handful of mails.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tidemark_kit::{Dataset, Partition, World, orders};

use super::mails::Mails;

/// Partitions that park at once.
const PARKED: usize = 300;
/// Files put at once.
const PUT_AT_ONCE: usize = 16;
/// They have to park within this time.
const PATIENCE: Duration = Duration::from_mins(10);

#[tokio::test]
async fn three_hundred_partitions_that_park_at_once_are_a_handful_of_mails() -> Result<()> {
    let world = World::new().await?;
    let mails = Mails::of(&world).await?;
    let mut cut = orders::parquet(&orders::orders(0, 20))?;
    cut.truncate(cut.len() / 2);
    let first = jiff::civil::date(2026, 1, 1);
    let days: Vec<Partition> = (0..PARKED)
        .map(|n| Ok(Dataset::Orders.day(&(first + jiff::Span::new().days(i64::try_from(n)?)).to_string())))
        .collect::<Result<_>>()?;
    let puts = stream::iter(days.clone()).map(|day| {
        let (world, cut) = (&world, cut.clone());
        async move { world.put(&day.file("cut.parquet"), cut).await }
    });
    puts.buffer_unordered(PUT_AT_ONCE).try_collect::<Vec<()>>().await?;

    let began = Instant::now();
    let parked = async || -> Result<usize> {
        let told = world.tidemark(&["status", "--json"]).await?;
        let status: serde_json::Value = serde_json::from_str(&told.out)?;
        let datasets = status["datasets"].as_array().cloned().unwrap_or_default();
        let of = datasets.iter().find(|dataset| dataset["dataset"] == "orders");
        let parked = of.map_or(0, |of| of["parked"].as_u64().unwrap_or(0));
        Ok(usize::try_from(parked)?)
    };
    let mut seen = String::new();
    while parked().await? < PARKED {
        ensure!(began.elapsed() < PATIENCE, "they didn't park: {seen}; {}", world.diagnosis(&days[0]).await);
        let _ = write!(seen, " {}", parked().await?);
        world.sweep().await?;
    }
    let at_once = mails.new_ones().await?;
    // A quarter of an hour later.
    world.alerts_now(Dataset::Orders).await?;
    world.sweep().await?;
    let later = mails.new_ones().await?;
    world.sweep().await?;
    let then = mails.new_ones().await?;
    println!(
        "{PARKED} parked in {} s; mails: {} + {} + {}",
        began.elapsed().as_secs(),
        at_once.len(),
        later.len(),
        then.len()
    );
    ensure!(at_once.len() == 1 && later.len() == 1 && then.is_empty(), "{at_once:?} {later:?} {then:?}");
    ensure!(later[0].0.contains(&format!("{} more", PARKED - 1)), "{later:?}");
    ensure!(world.untold_alerts(Dataset::Orders).await? == 0, "all were told of");
    Ok(())
}
