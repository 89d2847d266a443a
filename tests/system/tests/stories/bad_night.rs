//! A bad night: a fault of the warehouse halts a dataset, which goes on by itself once it is mended; and three hundred partitions
//! that park at once are a handful of mails.

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

async fn wait_halted(world: &World, day: &Partition) -> Result<()> {
    world.wait("halted", day, async || Ok(world.halted(Dataset::Orders).await?.then_some(()))).await
}

/// What is broken, and what mends it.
struct Broken {
    breaks: &'static str,
    mends: &'static str,
    told: &'static str,
}

#[tokio::test]
async fn a_halted_dataset_probes_and_goes_on_by_itself_when_the_fault_is_gone() -> Result<()> {
    let world = World::new().await?;
    let mails = Mails::of(&world).await?;
    let [first, second, third] = ["2026-11-01", "2026-11-02", "2026-11-03"].map(|day| Dataset::Orders.day(day));
    world.put_orders(&first.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&first).await?;
    let faults = [
        Broken {
            breaks: "ALTER SCHEMA sales RENAME TO sales_moved",
            mends: "ALTER SCHEMA sales_moved RENAME TO sales",
            told: "sales",
        },
        Broken {
            breaks: "ALTER TABLE sales.orders RENAME COLUMN amount TO amount_old",
            mends: "ALTER TABLE sales.orders RENAME COLUMN amount_old TO amount",
            told: "amount",
        },
    ];
    for (fault, (day, n)) in faults.iter().zip([(&second, 100), (&third, 200)]) {
        world.execute(fault.breaks).await?;
        world.put_orders(&day.file("a.parquet"), &orders::orders(n, 10)).await?;
        wait_halted(&world, day).await?;
        // Another file comes meanwhile, for a day that was built.
        world.put_orders(&first.file(&format!("{n}.parquet")), &orders::orders(n + 50, 5)).await?;
        let told = async || Ok(Some(mails.new_ones().await?).filter(|told| !told.is_empty()));
        let told = world.wait("told", day, told).await?;
        ensure!(told.len() == 1, "one mail: {told:?}");
        ensure!(told[0].1.contains(fault.told), "it names what is missing: {told:?}");
        // A probe that still finds the fault changes nothing and tells nobody again.
        world.probe_now(Dataset::Orders).await?;
        world.sweep().await?;
        world.wait("probed", day, async || Ok(world.is_quiet().await?.then_some(()))).await?;
        ensure!(world.halted(Dataset::Orders).await?, "{}", world.diagnosis(day).await);

        world.execute(fault.mends).await?;
        // Nobody does anything; only the quarter of an hour until the next probe is cut short.
        world.probe_now(Dataset::Orders).await?;
        for day in [day, &first] {
            world.wait_true_with_sweeps(day).await?;
        }
        ensure!(!world.halted(Dataset::Orders).await?, "{}", world.diagnosis(day).await);
        ensure!(mails.subjects().await?.is_empty(), "nobody is told of a probe, nor that it goes on");
        // The next fault comes another day: alerts of a kind that follow within a quarter of an hour are gathered.
        world.alerts_now(Dataset::Orders).await?;
    }
    Ok(())
}

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
        let status = told.json()?;
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
