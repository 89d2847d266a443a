//! A lane: a stack of its own in which points are tried one after the other, always on the same partition, which grows.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::story::View;
use tidemark_kit::{Dataset, Partition, Settings, World, orders};

use crate::oracle::{Before, Seen};
use crate::plan::{Fired, Plan, now};
use crate::play::Play;
use crate::points::Point;
use crate::report::Row;
use crate::scenario::Scenario;
use crate::trial;

/// Messages of functions that were killed before they said how long come back so soon; the template's time is minutes.
pub(crate) const COMES_BACK_SECONDS: u32 = 12;
/// Rebuild's time-out: the least the template allows.
const TIMEOUT_SECONDS: u32 = 10;
/// Seconds a lock outlasts rebuild's time-out.
const LEASE_MARGIN_SECONDS: u32 = 2;
/// How often a point that isn't met is tried.
const TRIES: u32 = 3;
/// Days of the year that lanes use.
const DAYS: u32 = 28;

/// The datasets of lanes: guards have as much patience as by default, waiting for locks is over as soon as may be, and sweep
/// looks at every day.
pub(crate) fn definitions() -> String {
    let definitions = Settings::default().definitions;
    let definitions = definitions.replace("patience = \"2s\"", "patience = \"15m\"");
    let definitions = definitions.replace("load_window = \"30m\"", "load_window = \"1m\"");
    definitions.replace("lookback = \"3d\"", "lookback = \"3660d\"")
}

pub(crate) struct Lane {
    pub(crate) world: World,
    pub(crate) plan: Plan,
    day: RefCell<Partition>,
    /// Numbers given away: each names a file and the rows in it.
    used: Cell<i64>,
    days: Cell<u32>,
}

/// What was seen while a point healed.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    pub(crate) woken: bool,
    pub(crate) found: String,
    /// Of the last kill.
    pub(crate) failed_at: Duration,
    /// When it was parked, where it was: a wrong file ends there, what follows is its owner's.
    parked_at: Option<Duration>,
}

impl Healing {
    /// After a failure then, by which the work was left in that state.
    pub(crate) fn of(found: String, failed_at: Duration) -> Self {
        Self { found, failed_at, ..Self::default() }
    }

    /// From the last failure to the state in which it was to end.
    pub(crate) fn seconds(&self) -> f64 {
        self.parked_at.unwrap_or_else(now).saturating_sub(self.failed_at).as_secs_f64()
    }
}

impl Lane {
    /// A stack with a partition that was built once.
    pub(crate) async fn open() -> Result<Self> {
        let settings = Settings {
            definitions: definitions(),
            rebuild_timeout_seconds: TIMEOUT_SECONDS,
            lease_margin_seconds: LEASE_MARGIN_SECONDS,
            ..Settings::default()
        };
        let world = World::with(&settings).await?;
        for queue in [Queue::Events, Queue::Partitions] {
            world.come_back_after(queue, COMES_BACK_SECONDS).await?;
        }
        // Sweep runs when it is needed. The first time it makes its cursors, which is no point of any scenario.
        world.stack.unschedule().await?;
        world.sweep().await?;
        let plan = Plan::of(&world)?;
        let day = RefCell::new(Dataset::Orders.day("2026-11-01"));
        let lane = Self { world, plan, day, used: Cell::new(0), days: Cell::new(0) };
        lane.fresh_day().await?;
        Ok(lane)
    }

    pub(crate) fn day(&self) -> Partition {
        self.day.borrow().clone()
    }

    pub(crate) async fn fresh_day(&self) -> Result<()> {
        let days = self.days.get() + 1;
        self.days.set(days);
        let day = Dataset::Orders.day(&format!("2026-{:02}-{:02}", 1 + days / DAYS, 1 + days % DAYS));
        let first = orders::orders(self.number() * 1_000, 50);
        self.world.put_orders(&day.file("first.parquet"), &first).await?;
        *self.day.borrow_mut() = day;
        self.until_true().await?;
        self.until_quiet().await
    }

    fn number(&self) -> i64 {
        self.used.set(self.used.get() + 1);
        self.used.get()
    }

    /// Sets the scene; what was before it.
    pub(crate) async fn play(&self, scenario: Scenario) -> Result<(Play<'_>, Before)> {
        if scenario.wants_fresh_day() {
            self.fresh_day().await?;
        }
        let number = self.number();
        let margin = Duration::from_secs(u64::from(LEASE_MARGIN_SECONDS));
        let play = Play::new(&self.world, &self.plan, self.day(), scenario, number, margin);
        play.before().await?;
        let fence = self.item().await?.number("fence");
        Ok((play, Before { fence, landed: self.world.landed(&self.day()).await?.len() }))
    }

    /// The effects a scenario makes when nothing goes wrong, in their order. Where the machine was so busy that time brought in
    /// some that aren't its own, it is run once more.
    pub(crate) async fn trace(&self, scenario: Scenario) -> Result<Vec<String>> {
        let mut tries = 1;
        loop {
            let effects = self.trace_once(scenario).await?;
            let Some(foreign) = effects.iter().find(|effect| scenario.is_late_for(effect)) else { return Ok(effects) };
            ensure!(tries < TRIES, "the machine is too busy: in {TRIES} tries it made {foreign}, which isn't its own");
            tries += 1;
        }
    }

    async fn trace_once(&self, scenario: Scenario) -> Result<Vec<String>> {
        let (play, before) = self.play(scenario).await?;
        if let Some((at, action)) = play.ahead() {
            self.plan.arm(&[(&at, action)])?;
        }
        self.plan.start_trace()?;
        play.begin().await?;
        let view = self.until_right(&play, &before, &mut Healing::default()).await?;
        self.until_quiet().await?;
        let effects = self.plan.end_trace()?;
        play.go_on().await?;
        play.judge().await?;
        Seen::of(&self.world, &self.day(), view, &before).await?.is_right(scenario.copies_again())?;
        self.plan.disarm()?;
        Ok(effects)
    }

    /// Tries a point; a partition that ended wrong is left behind for another. What takes another way, since the machine is
    /// busy, may not come by the point: then it is tried again.
    pub(crate) async fn run(&self, point: &Point) -> Row {
        let mut row = Row::wrong(point, format!("it was not met in {TRIES} tries"));
        for _ in 0..TRIES {
            match trial::of(self, point).await {
                Ok(Some(row)) => return row,
                Ok(None) => {}
                Err(error) => {
                    row = Row::wrong(point, format!("{error:#}"));
                    break;
                }
            }
        }
        self.start_over().await;
        row
    }

    /// Leaves a partition that ended wrong behind. Best effort: if even that fails, what comes next says so.
    pub(crate) async fn start_over(&self) {
        let _ = self.plan.end_trace();
        let _ = self.plan.disarm();
        let _ = self.world.slow_copy(0).await;
        let _ = self.fresh_day().await;
    }

    /// Waits for a failpoint; `None`: all ended right, and it was not met.
    pub(crate) async fn until_fired(
        &self,
        play: &Play<'_>,
        before: &Before,
        count: usize,
        what: &str,
    ) -> Result<Option<Fired>> {
        let met = || self.plan.fired().into_iter().nth(count - 1);
        let fired = || async {
            if let Some(fired) = met() {
                return Ok(Some(Some(fired)));
            }
            let item = self.item().await?;
            if item.rests() && play.scenario.lands() && self.world.landed(&self.day()).await?.len() > before.landed {
                // A function that is still at work has its message in hand.
                if play.over().await? && self.world.is_quiet().await? && met().is_none() {
                    return Ok(Some(None));
                }
            }
            play.meanwhile(&item).await?;
            self.wake(play).await?;
            Ok(None)
        };
        self.until(&format!("a function to be {what}"), fired).await
    }

    /// Lets sweep run, where nothing else is left.
    pub(crate) async fn wake(&self, play: &Play<'_>) -> Result<bool> {
        if play.may_be_hurried() { self.world.wake(&self.day()).await } else { Ok(false) }
    }

    /// Waits until the partition is at rest and true, what the scenario is about has happened, and as much has landed as has to.
    pub(crate) async fn until_right(&self, play: &Play<'_>, before: &Before, healing: &mut Healing) -> Result<View> {
        let least = before.landed + usize::from(play.scenario.lands());
        let (woken, parked_at) = (Cell::new(healing.woken), Cell::new(healing.parked_at));
        let probe = || async {
            let item = self.item().await?;
            if item.parked().is_some() && parked_at.get().is_none() {
                parked_at.set(Some(now()));
            }
            play.meanwhile(&item).await?;
            if !item.rests() {
                woken.set(self.wake(play).await? || woken.get());
                return Ok(None);
            }
            let view = self.world.view(&self.day()).await?.filter(View::is_true);
            let Some(view) = view.filter(|view| view.landed.len() >= least) else { return Ok(None) };
            Ok(play.over().await?.then_some(view))
        };
        let view = self.until("the target to hold the rows of its files", probe).await?;
        (healing.woken, healing.parked_at) = (woken.get(), parked_at.get());
        Ok(view)
    }

    async fn until_true(&self) -> Result<View> {
        self.until("its rows", || async { Ok(self.world.view(&self.day()).await?.filter(View::is_true)) }).await
    }

    pub(crate) async fn until_quiet(&self) -> Result<()> {
        self.until("the queues to be empty", || async { Ok(self.world.is_quiet().await?.then_some(())) }).await
    }

    pub(crate) async fn until<T, F: Future<Output = Result<Option<T>>>>(
        &self,
        what: &str,
        probe: impl FnMut() -> F,
    ) -> Result<T> {
        self.world.wait(what, &self.day(), probe).await
    }

    pub(crate) async fn item(&self) -> Result<Item> {
        self.world.item(&self.day()).await?.context("the partition has no item")
    }

    /// At the end: nothing is left in any queue, nothing was given up, and what was true still is.
    pub(crate) async fn close(&self) -> Result<()> {
        self.until_quiet().await?;
        let view = self.world.view(&self.day()).await?.context("the partition has no item")?;
        ensure!(view.is_true(), "{} isn't true any more: {:#}", self.day(), view.item.0);
        let dead = self.world.depth(Queue::EventsDlq).await? + self.world.depth(Queue::PartitionsDlq).await?;
        ensure!(dead == 0, "{dead} messages were given up");
        Ok(())
    }
}
