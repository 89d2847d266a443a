//! What happens around the functions in a scenario: files land, Redshift fails, owners and operators do what they would.
//!
//! Nothing here helps a function that was killed. What heals (a right file in a wrong one's place, a target that is back) is
//! what the alert asks for, and it comes whether or not anything was killed.

use std::cell::{Cell, RefCell};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::{Dataset, Order, Partition, World, orders};
use tokio_postgres::Client;

use crate::lane::definitions;
use crate::plan::{Action, At, Fired, Moment, Plan, now};
use crate::scenario::Scenario;
use crate::worker::{self, Worker};

/// Rows of each file.
const ROWS: usize = 20;
/// Longer than rebuild may work: it hands itself on.
const LONG_COPY_SECONDS: u32 = 12;
/// Long enough to put another file meanwhile.
const COPY_SECONDS: u32 = 2;
/// More than the load window of the lanes' datasets.
const OVER_THE_WINDOW_SECONDS: u64 = 61;
/// A worker keeps so much of its time for leaving; see `tidemark_engine::rebuild`. A little of that has gone when it goes on.
const LEAVING: Duration = Duration::from_millis(2_900);

/// A scenario, as it is played in a partition.
pub(crate) struct Play<'a> {
    pub(crate) world: &'a World,
    pub(crate) plan: &'a Plan,
    pub(crate) day: Partition,
    pub(crate) scenario: Scenario,
    /// A number nobody used in this partition.
    n: i64,
    /// How long a lock outlasts its worker's time-out.
    lease_margin: Duration,
    /// When it began, since 1970.
    pub(crate) began: Duration,
    /// How far those around have got.
    pub(crate) step: Cell<u32>,
    /// Rounds of sweep count that began after this.
    pub(crate) since: Cell<Duration>,
    /// Whoever holds a lock in Redshift.
    blocker: RefCell<Option<Client>>,
    /// The worker that stands still, and its process.
    worker: RefCell<Option<Worker>>,
    stopped: Cell<u32>,
}

impl<'a> Play<'a> {
    pub(crate) fn new(
        world: &'a World,
        plan: &'a Plan,
        day: Partition,
        scenario: Scenario,
        n: i64,
        lease_margin: Duration,
    ) -> Self {
        let (began, since) = (now(), Cell::new(now()));
        let (step, stopped) = (Cell::new(0), Cell::new(0));
        let (blocker, worker) = (RefCell::new(None), RefCell::new(None));
        Self { world, plan, day, scenario, n, lease_margin, began, step, since, blocker, worker, stopped }
    }

    /// What has happened before anything is looked at.
    pub(crate) async fn before(&self) -> Result<()> {
        self.world.alerts_now(Dataset::Orders).await?;
        // Those of the full hour, or of the night, are no effects of this.
        self.world.put_rounds_off().await?;
        if self.scenario == Scenario::Woken {
            self.world.forget_watermark(Dataset::Orders).await?;
        }
        if let Some((moment, effect)) = self.scenario.killed_before() {
            self.put_late_and_kill(At { effect: effect.to_owned(), number: 1, moment }).await?;
        }
        match self.scenario {
            Scenario::Blocked => self.block().await,
            Scenario::Halted => self.world.execute("ALTER TABLE sales.orders RENAME TO orders_away").await,
            Scenario::Booked => {
                self.put_late().await?;
                self.world.wait_true(&self.day).await?;
                self.world.wait_quiet(&self.day).await
            }
            Scenario::Restored | Scenario::Older | Scenario::ManyOlder => {
                let backup = self.world.back_up(&self.day).await?;
                self.put_late().await?;
                self.world.wait_true(&self.day).await?;
                self.world.wait_quiet(&self.day).await?;
                self.world.restore(&backup).await
            }
            Scenario::Overtaken => self.overtake().await,
            Scenario::ToldTogether => {
                let other = Dataset::Orders.day(&format!("2025-{:02}-{:02}", 1 + self.n / 28 % 12, 1 + self.n % 28));
                self.world.put_orders(&other.file("doubled.parquet"), &doubled(self.n)).await?;
                self.world.wait_parked(&other).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// What is armed beside a point's own kills, ahead of them.
    pub(crate) fn ahead(&self) -> Option<(At, Action)> {
        let at = At { effect: "put part".to_owned(), number: 1, moment: Moment::Before };
        (self.scenario == Scenario::ListedInParts).then_some((at, Action::Stop))
    }

    /// Sets it going.
    pub(crate) async fn begin(&self) -> Result<()> {
        let Self { world, day, .. } = self;
        self.since.set(now());
        match self.scenario {
            Scenario::Late | Scenario::Halted => self.put_late().await,
            Scenario::Fenced => self.drop_staging().await,
            Scenario::Woken | Scenario::Blocked | Scenario::Booked | Scenario::Older => Ok(()),
            Scenario::ManyOlder => self.lose_others().await,
            Scenario::LeftOver => self.leave_staging().await,
            Scenario::HandedOff => {
                world.slow_copy(LONG_COPY_SECONDS).await?;
                self.put_late().await
            }
            Scenario::MarkedAgain => {
                world.slow_copy(COPY_SECONDS).await?;
                self.put_late().await?;
                let loading = || async { Ok(world.item(day).await?.filter(Item::is_loading)) };
                world.wait("a COPY to run", day, loading).await?;
                self.put(&format!("{}-again", self.n), 500).await
            }
            Scenario::Replayed => {
                let replay = json!({
                    "version": 1, "dataset": "orders", "partition": day.name(), "reason": "killed on purpose",
                });
                world.send(Queue::Partitions, &replay.to_string()).await
            }
            Scenario::Parked | Scenario::ToldTogether => world.put_orders(&self.file(), &doubled(self.n)).await,
            Scenario::Refused => {
                let mut rows = orders::orders(self.n * 1_000, ROWS);
                rows[ROWS / 2].customer = "longer than its column takes ".repeat(4);
                world.put_orders(&self.file(), &rows).await
            }
            Scenario::PutOff => world.put_orders(&day.file("first.parquet"), &orders::orders(self.n * 1_000, 1)).await,
            Scenario::Forgotten => world.redshift_refuses("DescribeStatement", "ResourceNotFoundException", 1).await,
            Scenario::Recounted => {
                world.redshift_forgets_results(1).await?;
                self.put_late().await
            }
            Scenario::ListedInParts => {
                self.put_late().await?;
                self.stop_until_late().await
            }
            Scenario::Retired => {
                let definitions = definitions();
                let (_, returns) = definitions.split_once("\n[returns]").context("there are no returns")?;
                world.apply(&format!("[returns]{returns}")).await?;
                world.look(day).await
            }
            Scenario::Restored => self.put("restored", 300).await,
            Scenario::Unheard => {
                let notifications = world.silence_bucket().await?;
                self.put_late().await?;
                world.notify(notifications).await
            }
            Scenario::Backfilled => {
                let name = day.name();
                world.tidemark_well(&["backfill", "orders", "--from", &name, "--to", &name, "--yes"]).await.map(drop)
            }
            Scenario::Unreadable => world.send(Queue::Partitions, "{\"version\":1,").await,
            Scenario::Overtaken => self.go_on_with_worker(),
        }
    }

    /// What owners, operators and time do, as the partition is seen to stand; asked again and again.
    pub(crate) async fn meanwhile(&self, item: &Item) -> Result<()> {
        let Self { world, day, .. } = self;
        let step = self.step.get();
        let done = match (self.scenario, step) {
            (Scenario::Parked | Scenario::Refused | Scenario::ToldTogether, 0) if item.parked().is_some() => {
                self.put_late().await
            }
            (Scenario::ToldTogether, 1) if item.rests() => {
                if world.untold_alerts(Dataset::Orders).await? == 0 {
                    Ok(())
                } else {
                    world.alerts_now(Dataset::Orders).await?;
                    return world.sweep().await;
                }
            }
            (Scenario::PutOff, 0) if item.held().is_some() => world.look(day).await,
            (Scenario::PutOff, 1) if self.quiet().await? => self.put("first", 600).await,
            (Scenario::Blocked, 0) if item.held().is_some() => self.unblock().await,
            (Scenario::Halted, 0) if world.halted(Dataset::Orders).await? => {
                world.execute("ALTER TABLE sales.orders_away RENAME TO orders").await
            }
            (Scenario::Halted, 1) => {
                // A probe that died is made good by the next.
                return if self.quiet().await? { world.probe_now(Dataset::Orders).await } else { Ok(()) };
            }
            (Scenario::Retired, 0) if self.quiet().await? => world.apply(&definitions()).await.map(drop),
            (Scenario::Backfilled, 0) => world.sweep().await,
            (scenario, step) if scenario.rounds().is_some_and(|rounds| step < rounds.many) => {
                if !self.round(item).await? {
                    return Ok(());
                }
                Ok(())
            }
            (Scenario::ManyOlder, _) if world.has_open_job(Dataset::Orders).await? => return world.sweep().await,
            _ => return Ok(()),
        };
        done?;
        self.step.set(step + 1);
        self.since.set(now());
        Ok(())
    }

    /// What is done once the first kill was seen, or the end in a run without kills.
    pub(crate) async fn go_on(&self) -> Result<()> {
        match self.scenario {
            Scenario::HandedOff | Scenario::MarkedAgain => self.world.slow_copy(0).await,
            Scenario::Blocked => self.unblock().await,
            _ => Ok(()),
        }
    }

    /// Whether what it is about has happened, beside what must be true of the partition.
    pub(crate) async fn over(&self) -> Result<bool> {
        match self.scenario {
            Scenario::Unreadable => {
                if self.world.depth(Queue::PartitionsDlq).await? == 0 || !self.quiet().await? {
                    return Ok(false);
                }
                let messages = self.world.receive(Queue::PartitionsDlq).await?;
                let as_sent = |message: &&tidemark_kit::state::Message| {
                    message.body == "{\"version\":1," && message.reason.is_some()
                };
                ensure!(messages.iter().all(|m| as_sent(&m)) && !messages.is_empty(), "in the DLQ: {messages:?}");
                Ok(true)
            }
            // It answers, or is killed.
            Scenario::Overtaken => Ok(!self.plan.fired().is_empty() || self.has_ended()?.is_some()),
            Scenario::ManyOlder => Ok(self.step.get() > 0 && !self.world.has_open_job(Dataset::Orders).await?),
            Scenario::ToldTogether => Ok(self.step.get() > 1),
            Scenario::Parked | Scenario::Refused | Scenario::Halted | Scenario::Retired | Scenario::PutOff => {
                Ok(self.step.get() > 0)
            }
            scenario => Ok(scenario.rounds().is_none_or(|rounds| self.step.get() >= rounds.many)),
        }
    }

    /// Whether what is put off for minutes may be cut short: not before what comes meanwhile has come.
    pub(crate) fn may_be_hurried(&self) -> bool {
        self.scenario != Scenario::PutOff || self.step.get() > 1
    }

    pub(crate) async fn quiet(&self) -> Result<bool> {
        self.world.is_quiet().await
    }

    fn file(&self) -> String {
        self.day.file(&format!("{}.parquet", self.n))
    }

    async fn put_late(&self) -> Result<()> {
        self.put(&self.n.to_string(), 0).await
    }

    /// A file of rows nobody has yet, from `offset` on.
    async fn put(&self, name: &str, offset: i64) -> Result<()> {
        let rows = orders::orders(self.n * 1_000 + offset, if name == "first" { 60 } else { ROWS });
        self.world.put_orders(&self.day.file(&format!("{name}.parquet")), &rows).await
    }

    /// Drops what the batch in progress has staged.
    async fn drop_staging(&self) -> Result<()> {
        let item = self.world.item(&self.day).await?.context("the partition has no item")?;
        let batch = item.0["batch"]["id"].as_str().context("no batch is in progress")?;
        let dropped = self.world.drop_staging(batch).await?;
        ensure!(dropped == 1, "batch {batch} had {dropped} staging tables");
        Ok(())
    }

    /// A swap that waits for somebody else's lock beyond its load window, and whose worker is dead.
    async fn block(&self) -> Result<()> {
        *self.blocker.borrow_mut() = Some(self.world.hold_target().await?);
        self.put_late().await?;
        let waits = || async {
            let swapping = self.world.item(&self.day).await?.is_some_and(|item| item.is_swapping());
            Ok((swapping && self.world.waiting_statements().await? > 0).then_some(()))
        };
        self.world.wait("a swap to wait for a lock", &self.day, waits).await?;
        self.world.kill_rebuild()?;
        self.world.spend(&self.day, OVER_THE_WINDOW_SECONDS).await
    }

    async fn unblock(&self) -> Result<()> {
        let blocker = self.blocker.borrow_mut().take();
        match blocker {
            Some(blocker) => Ok(blocker.batch_execute("COMMIT").await?),
            None => Ok(()),
        }
    }

    /// A late file, and whoever comes by there is killed.
    async fn put_late_and_kill(&self, at: At) -> Result<()> {
        self.plan.arm(&[(&at, Action::Kill)])?;
        self.put_late().await?;
        self.wait_fired(1).await?;
        self.plan.disarm()
    }

    /// A worker that is stopped before its swap, while another takes over and ends.
    async fn overtake(&self) -> Result<()> {
        let at = At { effect: "record swapping statement".to_owned(), number: 1, moment: Moment::Before };
        self.stop_worker(&at).await?.context("the worker came by no swap")?;
        self.plan.disarm()?;
        self.world.wait_true_with_sweeps(&self.day).await.map(drop)
    }

    /// A late file, and a worker of our own on it that stands still there; `None`: it ended and didn't come by.
    pub(crate) async fn stop_worker(&self, at: &At) -> Result<Option<Fired>> {
        // No message tells anybody else, and the event of the mark that was killed has come again.
        self.put_late_and_kill(At { effect: "mark".to_owned(), number: 1, moment: Moment::After }).await?;
        self.world.wait_quiet(&self.day).await?;
        self.plan.arm(&[(at, Action::Stop)])?;
        let worker = Worker::start(self.world, &self.day, self.lease_margin).await?;
        *self.worker.borrow_mut() = Some(worker);
        let stopped = || async {
            let fired = self.plan.fired().into_iter().next();
            Ok(fired.map(Some).or(self.has_ended()?.map(|()| None)))
        };
        let stopped = self.world.wait("a worker to stand still", &self.day, stopped).await?;
        self.stopped.set(stopped.as_ref().map_or(0, |fired| fired.pid));
        Ok(stopped)
    }

    /// When the lease of the worker that stood still then is surely over.
    pub(crate) fn lease_over(&self, stopped: &Fired) -> Duration {
        stopped.at + worker::TIME + self.lease_margin
    }

    /// Lets the worker that stands still go on.
    pub(crate) fn go_on_with_worker(&self) -> Result<()> {
        continue_process(self.stopped.get())
    }

    /// Whether the worker of our own has answered; an error where it failed.
    pub(crate) fn has_ended(&self) -> Result<Option<()>> {
        let mut worker = self.worker.borrow_mut();
        Ok(worker.as_mut().context("there is no worker of our own")?.answer()?.map(drop))
    }

    /// Lets the worker that is stopped go on once it has no time left but to leave.
    async fn stop_until_late(&self) -> Result<()> {
        let stopped = self.wait_fired(1).await?;
        let lease = self.world.lease(&self.day).await?.context("nobody holds the lock")?;
        let deadline = Duration::from_millis(lease).saturating_sub(self.lease_margin);
        tokio::time::sleep(deadline.saturating_sub(LEAVING).saturating_sub(now())).await;
        continue_process(stopped)
    }

    /// Waits until so many failpoints fired; gives the process that met the last of them.
    async fn wait_fired(&self, count: usize) -> Result<u32> {
        let fired = || async { Ok(self.plan.fired().into_iter().nth(count - 1)) };
        Ok(self.world.wait("a function to meet its failpoint", &self.day, fired).await?.pid)
    }
}

/// Rows that each stand twice.
fn doubled(n: i64) -> Vec<Order> {
    let rows = orders::orders(n * 1_000, ROWS);
    [rows.as_slice(), &rows].concat()
}

/// SIGCONT.
fn continue_process(pid: u32) -> Result<()> {
    let continued = Command::new("kill").args(["-CONT", &pid.to_string()]).status()?;
    ensure!(continued.success(), "process {pid} was gone before it could go on");
    Ok(())
}
