//! Rounds of sweep in scenarios: when they are due, what they are to find, and what must be true once they came to their end.

use anyhow::{Result, ensure};
use tidemark_kit::Dataset;
use tidemark_kit::state::Item;

use crate::oracle::books_are_right;
use crate::play::Play;
use crate::scenario::Scenario;

/// More partitions than sweep marks by itself.
const MANY: u32 = 51;
/// Names of partitions that only the ledger knows: of a layout that orders had before.
const LOST: &str = "lost=";
/// Sweep keeps staging tables for a week.
const DAY_MILLISECONDS: u128 = 24 * 3_600_000;

/// The rounds a scenario is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    task: &'static str,
    dataset: Option<Dataset>,
    /// So many, one after the other.
    pub(crate) many: u32,
}

impl Scenario {
    pub(crate) fn rounds(self) -> Option<Rounds> {
        let orders = Some(Dataset::Orders);
        match self {
            // The second finds nothing.
            Self::Unheard => Some(Rounds { task: "look", dataset: orders, many: 2 }),
            Self::Booked => Some(Rounds { task: "book", dataset: None, many: 1 }),
            Self::Older | Self::ManyOlder => Some(Rounds { task: "tidy", dataset: orders, many: 1 }),
            Self::LeftOver => Some(Rounds { task: "staging", dataset: None, many: 1 }),
            _ => None,
        }
    }
}

impl Play<'_> {
    /// Lets sweep have its round while the partition is at rest, again and again until one came to its end; whether one has.
    pub(crate) async fn round(&self, item: &Item) -> Result<bool> {
        let (Some(Rounds { task, dataset, .. }), true) = (self.scenario.rounds(), item.rests()) else {
            return Ok(false);
        };
        if !self.quiet().await? {
            return Ok(false);
        }
        let last = self.world.last_round(task, dataset).await?;
        if last.is_some_and(|began| u128::from(began) >= self.since.get().as_millis()) {
            return Ok(true);
        }
        self.world.round_now(task, dataset).await?;
        self.world.sweep().await?;
        Ok(false)
    }

    /// The ledger knows many partitions that the state table doesn't.
    pub(crate) async fn lose_others(&self) -> Result<()> {
        let lose = format!(
            "DELETE FROM tidemark.batches WHERE partition_name LIKE '{LOST}%'; \
             CREATE TEMP TABLE lost AS SELECT b.*, n FROM (SELECT * FROM tidemark.batches LIMIT 1) AS b, generate_series(1, {MANY}) AS n; \
             UPDATE lost SET partition_name = '{LOST}' || n, source_objects = 0, \
             batch_id = '01936000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'); \
             ALTER TABLE lost DROP COLUMN n; INSERT INTO tidemark.batches SELECT * FROM lost; DROP TABLE lost"
        );
        self.world.execute(&lose).await
    }

    /// Two staging tables whose batches are over: one is older than sweep keeps them, the other isn't.
    pub(crate) async fn leave_staging(&self) -> Result<()> {
        for days in [6, 8] {
            let name = self.staged(days);
            self.world.execute(&format!("CREATE TABLE IF NOT EXISTS tidemark_staging.\"{name}\" (n int)")).await?;
        }
        Ok(())
    }

    /// The staging table of a batch that began so many days before the scenario.
    fn staged(&self, days: u128) -> String {
        let born = format!("{:012x}", self.began.as_millis() - days * DAY_MILLISECONDS);
        let (high, low) = born.split_at(8);
        format!("batch_{high}-{low}-7000-8000-{days:012x}")
    }

    /// What must be true beside the partition: the error tells what isn't. Puts away what the scenario brought.
    pub(crate) async fn judge(&self) -> Result<()> {
        let world = self.world;
        match self.scenario {
            Scenario::Booked => books_are_right(world, &self.day).await,
            Scenario::ManyOlder => {
                world.execute(&format!("DELETE FROM tidemark.batches WHERE partition_name LIKE '{LOST}%'")).await
            }
            Scenario::LeftOver => {
                let there = async |days| {
                    let name = self.staged(days);
                    let count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'tidemark_staging' AND tablename =";
                    world.count(&format!("{count} '{name}'")).await
                };
                ensure!(there(8).await? == 0, "a staging table of eight days is still there");
                ensure!(there(6).await? == 1, "a staging table of six days is gone");
                world.execute(&format!("DROP TABLE tidemark_staging.\"{}\"", self.staged(6))).await
            }
            _ => Ok(()),
        }
    }
}
