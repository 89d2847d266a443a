//! Waiting for what must become true, for as long as anything goes on, and with all that helps when it doesn't.

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, ensure};
use tidemark_local::wait_until;

use crate::dataset::{Dataset, Partition};
use crate::source::Source;
use crate::state::{Item, Queue};
use crate::target::{Landed, Target};
use crate::world::World;

/// How long nothing may change in a world in which something is waited for.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How long anything may take: ten times that. A message whose function was killed comes back after its queue's time-out, which
/// is minutes.
const ROUNDS: u32 = 10;

/// Lines of a function's log that are told when something didn't come true.
const LOG_LINES: usize = 25;

/// A partition seen from all sides.
#[derive(Debug, Clone)]
pub struct View {
    /// What lies in S3.
    pub source: Source,
    /// What stands in Redshift.
    pub target: Target,
    /// Its committed batches, oldest first.
    pub landed: Vec<Landed>,
    /// Its item.
    pub item: Item,
}

/// What changes while anything goes on.
#[derive(Debug, PartialEq)]
struct Standing {
    item: Option<Item>,
    landed: i64,
    /// Messages that nobody has in hand.
    waiting: u64,
    /// Messages that a function has, or had when it was killed.
    in_hand: u64,
}

impl View {
    /// At rest, and the target holds just the rows of the files.
    pub fn is_true(&self) -> bool {
        self.item.rests() && self.source.rows == self.target.rows && self.target.duplicates == 0
    }
}

impl World {
    /// Waits until `probe` gives a value; else the error tells all that is known of `partition`.
    ///
    /// On a busy machine everything takes its time. So patience is over only when in all of it nothing has changed in
    /// partition, ledger and queues and no message is with a function; or after ten times as long.
    pub async fn wait<T, F, Fut>(&self, what: &str, partition: &Partition, probe: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>>>,
    {
        self.wait_named(what, partition.dataset.name(), &partition.name(), probe).await
    }

    /// The same for a partition by its name, for datasets that [`Dataset`] doesn't know.
    pub async fn wait_named<T, F, Fut>(&self, what: &str, dataset: &str, partition: &str, mut probe: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>>>,
    {
        let mut stood = self.standing(dataset, partition).await;
        for round in 1.. {
            let error = match wait_until(&format!("{dataset} {partition}: {what}"), PATIENCE, &mut probe).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let stands = self.standing(dataset, partition).await;
            let goes_on = stands.as_ref().is_ok_and(|stands| stands.in_hand > 0 || Some(stands) != stood.as_ref().ok());
            if !goes_on || round == ROUNDS {
                return Err(error.context(self.diagnosis_named(dataset, partition).await));
            }
            stood = stands;
        }
        unreachable!("the last round returns")
    }

    async fn standing(&self, dataset: &str, partition: &str) -> Result<Standing> {
        let item = self.item_named(dataset, partition).await?;
        let landed = "SELECT count(*) FROM tidemark.batches";
        let landed = self.count(landed).await.unwrap_or_default(); // before `init` there is no ledger
        let mut standing = Standing { item, landed, waiting: 0, in_hand: 0 };
        for queue in [Queue::Events, Queue::Partitions] {
            let in_hand = self.in_hand(queue).await?;
            standing.in_hand += in_hand;
            standing.waiting += self.depth(queue).await?.saturating_sub(in_hand);
        }
        Ok(standing)
    }

    /// Waits until the partition is at rest and its target holds just the rows of its files.
    pub async fn wait_true(&self, partition: &Partition) -> Result<View> {
        self.wait("the target to hold the rows of its files", partition, || self.true_view(partition)).await
    }

    /// The same, where it is put off for minutes in between, or where only sweep can wake it: that is done at once.
    pub async fn wait_true_with_sweeps(&self, partition: &Partition) -> Result<View> {
        let probe = || async {
            if self.item(partition).await?.is_some_and(|item| item.held().is_some()) {
                self.make_due(partition).await?;
                self.sweep().await?;
            } else {
                self.wake(partition).await?;
            }
            self.true_view(partition).await
        };
        self.wait("the target to hold the rows of its files", partition, probe).await
    }

    /// Waits until a query of an id and a text gives just these rows.
    pub async fn wait_rows(&self, query: &str, expected: &[(i64, String)]) -> Result<()> {
        let probe = || async {
            let rows = self.sql.query(query, &[]).await?;
            let rows = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
            let rows: Vec<(i64, String)> = rows.collect::<Result<_>>()?;
            ensure!(rows == expected, "{query} gives {rows:?}");
            Ok(Some(()))
        };
        self.wait(query, &Dataset::Orders.day("2026-11-01"), probe).await
    }

    /// Waits for a batch beyond the first `before`, and rest.
    pub async fn wait_landed(&self, partition: &Partition, before: usize) -> Result<View> {
        let probe = || async { Ok(self.true_view(partition).await?.filter(|view| view.landed.len() > before)) };
        self.wait("another batch to land", partition, probe).await
    }

    /// Waits until the partition is parked; gives kind and message.
    pub async fn wait_parked(&self, partition: &Partition) -> Result<(String, String)> {
        let told = |item: Item| item.parked().map(|(kind, message)| (kind.to_owned(), message.to_owned()));
        let probe = || async { Ok(self.item(partition).await?.and_then(told)) };
        self.wait("to be parked", partition, probe).await
    }

    /// Waits until both queues are empty: every event marked, every message done.
    pub async fn wait_quiet(&self, partition: &Partition) -> Result<()> {
        let probe = || async {
            let left = self.depth(Queue::Events).await? + self.depth(Queue::Partitions).await?;
            Ok((left == 0).then_some(()))
        };
        self.wait("the queues to be empty", partition, probe).await
    }

    /// The partition, once it is at rest and true. Its files, which may be many, are read only then.
    async fn true_view(&self, partition: &Partition) -> Result<Option<View>> {
        if !self.item(partition).await?.is_some_and(|item| item.rests()) {
            return Ok(None);
        }
        Ok(self.view(partition).await?.filter(View::is_true))
    }

    /// A partition seen from all sides; `None` where it was never marked.
    pub async fn view(&self, partition: &Partition) -> Result<Option<View>> {
        let Some(item) = self.item(partition).await? else { return Ok(None) };
        let landed = self.landed(partition).await?;
        let target = self.target(partition).await?;
        let source = self.source(partition).await?;
        Ok(Some(View { source, target, landed, item }))
    }

    /// All that is known of a partition, for whoever has to find out why.
    pub async fn diagnosis(&self, partition: &Partition) -> String {
        self.diagnosis_named(partition.dataset.name(), &partition.name()).await
    }

    async fn diagnosis_named(&self, dataset: &str, partition: &str) -> String {
        let item = match self.item_named(dataset, partition).await {
            Ok(Some(item)) => format!("{:#}", item.0),
            Ok(None) => "none".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let depths = self.depths().await.unwrap_or_else(|error| format!("{error:#}"));
        let mut told = vec![format!("state item of {dataset} {partition}: {item}"), format!("queues: {depths}")];
        for output in ["MarkFunctionName", "RebuildFunctionName", "SweepFunctionName"] {
            let lines = match self.stack.output(output) {
                Ok(function) => self.stack.function_logs(function).await,
                Err(error) => Err(error),
            };
            let lines = lines.unwrap_or_else(|error| vec![format!("{error:#}")]);
            let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
            told.push(format!("last lines of {output}:\n  {tail}"));
        }
        told.push(format!("server logs: {}", self.cloud.logs().display()));
        told.join("\n")
    }
}
