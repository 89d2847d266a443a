//! A lane: a stack of its own in which points are tried one after the other, always on the same partition, which grows.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::story::View;
use tidemark_kit::{Dataset, Partition, Settings, World, orders};
use tidemark_local::wait_until;

use crate::plan::{Action, At, Fired, Plan, now};
use crate::points::{Point, Way};
use crate::report::Row;
use crate::scenario::Scenario;

/// How long anything may take that is waited for: a killed function costs its time-out, and points are tried side by side.
const PATIENCE: Duration = Duration::from_mins(2);
/// Messages of functions that were killed before they said how long come back so soon; the template's time is minutes.
pub(crate) const COMES_BACK_SECONDS: u32 = 12;
/// What is due later than this, with nothing on its way, only sweep brings back.
const FAR: Duration = Duration::from_secs(30);
/// What is overdue for so long, with nothing on its way, waits for sweep's schedule alone.
const LATE: Duration = Duration::from_secs(2);
/// How often, and how far apart, queues have to be empty until nothing is on its way.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

pub(crate) struct Lane {
    world: World,
    plan: Plan,
    day: Partition,
    used: i64,
    days: u32,
}

/// What was seen while a point healed.
#[derive(Debug, Default)]
struct Healing {
    woken: bool,
    found: String,
    /// Of the last kill.
    failed_at: Duration,
}

impl Lane {
    /// A stack with a partition that was built once. `timeout_seconds` is rebuild's.
    pub(crate) async fn open(timeout_seconds: u32) -> Result<Self> {
        let settings =
            Settings { rebuild_timeout_seconds: timeout_seconds, lease_margin_seconds: 2, ..Settings::default() };
        let world = World::with(&settings).await?;
        for queue in [Queue::Events, Queue::Partitions] {
            world.come_back_after(queue, COMES_BACK_SECONDS).await?;
        }
        let plan = Plan::of(&world)?;
        let mut lane = Self { world, plan, day: Dataset::Orders.day("2026-11-01"), used: 0, days: 0 };
        lane.fresh_day().await?;
        Ok(lane)
    }

    async fn fresh_day(&mut self) -> Result<()> {
        self.days += 1;
        self.day = Dataset::Orders.day(&format!("2026-11-{:02}", self.days));
        self.used += 1;
        let first = orders::orders(self.used * 1_000, 50);
        self.world.put_orders(&self.day.file("first.parquet"), &first).await?;
        self.world.wait_true(&self.day).await?;
        self.world.wait_quiet(&self.day).await
    }

    /// The effects a scenario makes when nothing goes wrong, in their order.
    pub(crate) async fn trace(&mut self, scenario: Scenario) -> Result<Vec<String>> {
        self.used += 1;
        let landed = self.landed().await?;
        self.prelude(scenario).await?;
        self.plan.start_trace()?;
        scenario.begin(&self.world, &self.day, self.used).await?;
        if scenario == Scenario::Parked {
            self.world.wait_parked(&self.day).await?;
            self.world.wait_quiet(&self.day).await?;
        } else {
            self.until_true(landed, &mut Healing::default()).await?;
        }
        let effects = self.plan.end_trace()?;
        if scenario == Scenario::Parked {
            Scenario::heal(&self.world, &self.day, self.used).await?;
            self.until_true(landed, &mut Healing::default()).await?;
        }
        scenario.go_on(&self.world).await?;
        self.world.wait_quiet(&self.day).await?;
        Ok(effects)
    }

    /// Tries a point; a partition that ended wrong is left behind for another.
    pub(crate) async fn run(&mut self, point: &Point) -> Row {
        let row = match self.tried(point).await {
            Ok(row) => return row,
            Err(error) => Row::wrong(point, format!("{error:#}")),
        };
        // Best effort: if even that fails, the next point says so.
        let _ = self.plan.disarm();
        let _ = self.world.slow_copy(0).await;
        let _ = self.fresh_day().await;
        row
    }

    async fn tried(&mut self, point: &Point) -> Result<Row> {
        self.used += 1;
        let before = self.world.item(&self.day).await?.context("the partition has no item")?;
        let landed = self.landed().await?;
        let mut healing = Healing::default();
        match &point.way {
            Way::Kill(kills) => self.kill(point.scenario, kills, &mut healing).await?,
            Way::Stop(at) => return self.zombie(point, at, &before, landed).await,
            Way::BreakCopy => self.break_copy(&mut healing).await?,
            Way::BreakSwap => self.break_swap(&mut healing).await?,
            Way::LoseAnswer => {
                self.world.redshift_loses_answer("BatchExecuteStatement", "InternalServerException").await?;
                Scenario::Late.begin(&self.world, &self.day, self.used).await?;
                healing = Healing { failed_at: now(), found: "the answer is lost".to_owned(), ..Healing::default() };
            }
        }
        if point.scenario == Scenario::Parked {
            let parked = || async { Ok(self.item().await?.parked().map(|(kind, _)| kind.to_owned())) };
            let kind = self.wait("to be parked", parked).await?;
            ensure!(kind == "duplicate_keys", "it is parked as {kind}");
            let seconds = since(healing.failed_at);
            Scenario::heal(&self.world, &self.day, self.used).await?;
            let view = self.until_true(landed, &mut healing).await?;
            return self.row(point, &before, landed, &view, &healing, seconds).await;
        }
        let view = self.until_true(landed, &mut healing).await?;
        let seconds = since(healing.failed_at);
        self.row(point, &before, landed, &view, &healing, seconds).await
    }

    /// Kills as often as there are points; one that isn't met any more, since nothing was left to do, is no failure.
    async fn kill(&mut self, scenario: Scenario, kills: &[At], healing: &mut Healing) -> Result<()> {
        self.prelude(scenario).await?;
        self.plan.arm(&kills.iter().map(|at| (at, Action::Kill)).collect::<Vec<_>>())?;
        scenario.begin(&self.world, &self.day, self.used).await?;
        for (index, at) in kills.iter().enumerate() {
            let fired = self.wait_fired(index + 1, &at.to_string()).await?;
            healing.failed_at = fired.at;
            if index == 0 {
                healing.found = state_of(&self.item().await?);
                scenario.go_on(&self.world).await?;
            }
        }
        Ok(())
    }

    /// What a scenario needs to have happened before: a function that was killed at a certain point.
    async fn prelude(&mut self, scenario: Scenario) -> Result<()> {
        let Some((moment, effect)) = scenario.prelude() else { return Ok(()) };
        let at = At { effect: effect.to_owned(), number: 1, moment };
        self.plan.arm(&[(&at, Action::Kill)])?;
        Scenario::Late.begin(&self.world, &self.day, self.used).await?;
        self.wait_fired(1, &format!("killed {at}")).await?;
        self.plan.disarm()
    }

    /// A worker that stands still longer than its lease, while another takes over, and then goes on.
    async fn zombie(&mut self, point: &Point, at: &At, before: &Item, landed: usize) -> Result<Row> {
        self.plan.arm(&[(at, Action::Stop)])?;
        point.scenario.begin(&self.world, &self.day, self.used).await?;
        let stopped = self.wait_fired(1, &at.to_string()).await?;
        let mut healing = Healing { found: state_of(&self.item().await?), ..Healing::default() };
        // A function is ended at its time-out, and so before its lease is over; a zombie needs a clock that is wrong.
        self.world.end_lease(&self.day).await?;
        let view = self.until_true(landed, &mut healing).await?;
        let seconds = since(stopped.at);
        let pid = stopped.pid.to_string();
        let continued = Command::new("kill").args(["-CONT", &pid]).status()?;
        ensure!(continued.success(), "the zombie, process {pid}, was gone before it could go on");
        self.world.wait_quiet(&self.day).await?;
        let after = self.until_true(landed, &mut healing).await?;
        ensure!(after.landed == view.landed, "something landed after the zombie went on: {:?}", after.landed);
        self.row(point, before, landed, &after, &healing, seconds).await
    }

    async fn break_copy(&mut self, healing: &mut Healing) -> Result<()> {
        self.world.slow_copy(6).await?;
        Scenario::Late.begin(&self.world, &self.day, self.used).await?;
        let loading = || async { Ok(Some(self.item().await?).filter(Item::is_loading)) };
        let item = self.wait("a COPY to run", loading).await?;
        let batch = item.0["batch"]["id"].as_str().context("no batch is in progress")?;
        let broken = || async { Ok(Some(self.world.break_connection(batch).await?).filter(|broken| *broken > 0)) };
        self.wait("its statement to run, and break", broken).await?;
        *healing = Healing { found: state_of(&item), failed_at: now(), woken: false };
        self.world.slow_copy(0).await
    }

    async fn break_swap(&mut self, healing: &mut Healing) -> Result<()> {
        let blocker = self.world.hold_swaps().await?;
        Scenario::Late.begin(&self.world, &self.day, self.used).await?;
        let swapping = || async { Ok(Some(self.item().await?).filter(Item::is_swapping)) };
        let item = self.wait("a swap to run", swapping).await?;
        let broken = || async { Ok(Some(self.world.break_waiting_statements().await?).filter(|broken| *broken > 0)) };
        self.wait("the swap to wait for its lock, and break", broken).await?;
        *healing = Healing { found: state_of(&item), failed_at: now(), woken: false };
        Ok(blocker.batch_execute("COMMIT").await?)
    }

    async fn wait_fired(&self, count: usize, what: &str) -> Result<Fired> {
        let fired = || async {
            wake(&self.world, &self.day).await?;
            Ok(self.plan.fired().into_iter().nth(count - 1))
        };
        self.wait(&format!("a function to be {what}"), fired).await
    }

    /// Waits until the partition is at rest and true, and more has landed than before, or just as much.
    async fn until_true(&self, landed: usize, healing: &mut Healing) -> Result<View> {
        let woken = std::cell::Cell::new(false);
        let probe = || async {
            if !self.item().await?.rests() {
                woken.set(wake(&self.world, &self.day).await? || woken.get());
                return Ok(None);
            }
            Ok(self.world.view(&self.day).await?.filter(View::is_true).filter(|view| view.landed.len() > landed))
        };
        let view = self.wait("the target to hold the rows of its files", probe).await?;
        healing.woken |= woken.get();
        Ok(view)
    }

    async fn wait<T, F: Future<Output = Result<Option<T>>>>(&self, what: &str, probe: impl FnMut() -> F) -> Result<T> {
        match wait_until(&format!("{}: {what}", self.day), PATIENCE, probe).await {
            Ok(value) => Ok(value),
            Err(error) => Err(error.context(self.world.diagnosis(&self.day).await)),
        }
    }

    async fn item(&self) -> Result<Item> {
        self.world.item(&self.day).await?.context("the partition has no item")
    }

    async fn landed(&self) -> Result<usize> {
        Ok(self.world.landed(&self.day).await?.len())
    }

    /// Everything that must hold beside rows and rest, and what is told of the point.
    async fn row(
        &self,
        point: &Point,
        before: &Item,
        landed: usize,
        view: &View,
        healing: &Healing,
        seconds: f64,
    ) -> Result<Row> {
        let fences: Vec<i64> = view.landed.iter().map(|landed| landed.fence).collect();
        ensure!(fences.windows(2).all(|pair| pair[0] < pair[1]), "a fence stands twice in the ledger: {fences:?}");
        let new = &view.landed[landed..];
        for landed in new {
            let copies = self.world.copies(&landed.batch).await?;
            ensure!(copies == 1 || point.may_copy_again(), "batch {} was loaded {copies} times", landed.batch);
        }
        let last = new.last().context("nothing landed")?;
        let recovered = self.world.recovered_from(&self.day, &last.batch).await?;
        if point.ends_before_swap() {
            ensure!(recovered.as_deref() == Some("before commit"), "no swap was sent, but it is told as {recovered:?}");
        }
        let takes = view.item.number("fence") - before.number("fence");
        let same = new.len() == 1 && last.fence == before.number("fence") + 1;
        let mut recovery = match (takes, same) {
            (1, _) => "nothing to continue: one take in all".to_owned(),
            (takes, true) => format!("continued: take {takes} ended the batch of the first"),
            (takes, false) => format!(
                "{takes} takes, {} batch(es) landed, the last of take {}",
                new.len(),
                last.fence - before.number("fence")
            ),
        };
        if healing.woken {
            recovery.push_str(", woken by sweep");
        }
        Ok(Row {
            scenario: point.scenario.name(),
            point: point.to_string(),
            found: recovered.unwrap_or_else(|| healing.found.clone()),
            recovery,
            seconds: Some(seconds),
            problem: None,
        })
    }

    /// At the end: nothing is left in any queue, nothing was given up, and what was true still is.
    pub(crate) async fn close(&self) -> Result<()> {
        self.world.wait_quiet(&self.day).await?;
        let view = self.world.view(&self.day).await?.context("the partition has no item")?;
        ensure!(view.is_true(), "{} isn't true any more: {:#}", self.day, view.item.0);
        let dead = self.world.depth(Queue::EventsDlq).await? + self.world.depth(Queue::PartitionsDlq).await?;
        ensure!(dead == 0, "{dead} messages were given up");
        Ok(())
    }
}

/// Where nothing but sweep's wake is left, does what the schedule would do within minutes: cuts short the five minutes until
/// the partition is due, and lets sweep run.
pub(crate) async fn wake(world: &World, day: &Partition) -> Result<bool> {
    let Some(item) = world.item(day).await?.filter(|item| !item.rests()) else { return Ok(false) };
    let due = Duration::from_millis(u64::try_from(item.number("due_at")).unwrap_or(0));
    let (far, over) = (due > now() + FAR, due + LATE < now());
    if !(far || over) {
        return Ok(false);
    }
    // Asked several times: a message that is just being handed out is counted nowhere.
    for _ in 0..LOOKS {
        if world.depth(Queue::Events).await? + world.depth(Queue::Partitions).await? > 0 {
            return Ok(false);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    if far {
        world.make_due(day).await?;
    }
    world.sweep().await?;
    Ok(true)
}

/// What the item tells of a worker that is dead, in the words of the four states.
fn state_of(item: &Item) -> String {
    let state = match item.phase() {
        None if item.rests() => "at rest",
        None => "not taken",
        Some("fencing" | "listing") => "before staging",
        Some("staging") => "during staging",
        Some(_) => "before commit",
    };
    state.to_owned()
}

fn since(then: Duration) -> f64 {
    now().saturating_sub(then).as_secs_f64()
}
