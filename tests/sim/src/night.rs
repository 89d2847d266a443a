//! What may happen at night: the lake changes, workers interleave, stall and die, statements end late or lie about how they ended,
//! messages are lost, doubled and late, clocks jump and disagree, services throttle, operators change things in flight.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::SignedDuration;
use tidemark_domain::dataset::Mode;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{Epoch, PartitionId, PartitionName};
use tidemark_domain::writes;
use tidemark_engine::mark::{CatalogCache, EventMessage};
use tidemark_engine::memory::{Delivery, End, Pace};
use tidemark_engine::ports::{Clock as _, StateStore as _};
use tidemark_engine::rebuild::{Answer, Work};

use crate::chance::Chance;
use crate::chaos::Luck;
use crate::flaw::Flaw;
use crate::world::{World, definition, finish};

/// How long an invocation may work.
pub const INVOCATION: SignedDuration = SignedDuration::from_secs(120);
/// Nothing is on the wire for longer.
const ON_THE_WIRE: u64 = 60;
/// Seconds that go by: a moment, a delivery, a lease, a load window, a token, a memory of the Data API.
const WAITS: [u64; 14] = [1, 5, 20, 31, 31, 40, 40, 61, 150, 400, 1_000, 2_000, 9 * 3_600, 25 * 3_600];
/// Partitions of a wide night.
const WIDE: u32 = 200;

/// What came of an invocation.
enum Ended {
    Rebuild(Delivery, Answer),
    Mark(Vec<String>, Option<BTreeSet<String>>),
    Sweep,
}

pub(crate) struct Invocation {
    name: String,
    luck: Luck,
    /// Events that come back if it dies.
    events: Vec<String>,
    future: Pin<Box<dyn Future<Output = Ended>>>,
}

/// A definition on its way into force, as apply brings it: guard row, head, marks.
pub(crate) struct Apply {
    definition: Definition,
    epoch: Epoch,
    raised: bool,
    stage: u8,
}

/// A night.
pub struct Night {
    /// Its world.
    pub world: World,
    chance: Chance,
    pub(crate) invocations: Vec<Invocation>,
    catalog: Arc<CatalogCache>,
    pub(crate) apply: Option<Apply>,
    flaw: Option<Flaw>,
    slow: bool,
    begun: u32,
    files: u32,
}

impl Night {
    /// The night of a seed: every 50th is wide (hundreds of partitions), every second has locks for partitions.
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut chance = Chance::new(seed);
        let partitions = if seed % 50 == 7 { WIDE } else { *chance.of(&[1, 1, 2, 4]) };
        let scope = if chance.once_in(2) { "table" } else { "partition" };
        let world = World::new(partitions, scope, seed, flaw);
        world.scene.tell(format!("{partitions} partitions, locks of a {scope}"));
        let slow = chance.once_in(3);
        Self {
            world,
            chance,
            invocations: vec![],
            catalog: Arc::default(),
            apply: None,
            flaw,
            slow,
            begun: 0,
            files: 0,
        }
    }

    /// Something happens.
    pub fn act(&mut self) {
        if self.slow && self.chance.once_in(5) {
            self.act_slowly();
        } else {
            self.act_quickly();
        }
        self.world.eye.look();
    }

    fn act_quickly(&mut self) {
        match self.chance.below(70) {
            0..=5 => self.change(),
            6..=9 => self.begin_mark(),
            10..=19 => self.begin_rebuild(),
            20 => self.begin_sweep(),
            21..=43 => self.poll(),
            44..=49 => self.wait(),
            50..=53 => self.trouble(),
            54 => self.end_something(),
            55 => self.mislay(),
            56..=57 => self.arrive(),
            58 => self.throttle(),
            59..=60 => self.apply(),
            61..=62 => self.replay(),
            63 => self.pause(),
            _ => self.double(),
        }
    }

    /// In a slow night swaps stay out, definitions change under them and batches are given up.
    fn act_slowly(&mut self) {
        match self.chance.below(8) {
            0..=1 => {
                self.tell("swaps stay out");
                self.world.warehouse.set_pace("/swap", Pace::ByHand);
            }
            2..=3 => self.end_something(),
            4..=5 => self.apply(),
            _ => self.wait(),
        }
    }

    fn wide(&self) -> bool {
        self.world.partitions.len() > 8
    }

    pub(crate) fn tell(&self, what: impl AsRef<str>) {
        let now = self.world.clock.now().strftime("%d %H:%M:%S").to_string();
        self.world.scene.tell(format!("{now} {}", what.as_ref()));
    }

    fn partition(&mut self) -> String {
        self.chance.of(&self.world.partitions).clone()
    }

    /// The lake changes: in a wide night at many places at once.
    fn change(&mut self) {
        for _ in 0..if self.wide() { 25 } else { 1 } {
            self.files += 1;
            let name = format!("{}/{}.csv", self.partition(), self.chance.below(3));
            let n = self.files;
            match self.chance.below(8) {
                0 => self.world.delete(&name),
                1 => self.world.put(&name, &format!("{n}\nx#bad\n")),
                _ => self.world.put(&name, &format!("{n}a\n{n}b\n")),
            }
            self.tell(format!("{name} changes"));
        }
    }

    /// A worker of its own luck, by a clock of its own.
    fn worker(&mut self, what: &str) -> (String, Luck, SignedDuration) {
        self.begun += 1;
        let name = format!("{what}{}", self.begun);
        let one_in = *self.chance.of(&[0, 0, 10, 25, 60]);
        let skew = *self.chance.of(&[0, 0, 0, 0, 2, -2, 45, -45, 400, -400]);
        let luck = Luck::new(&self.world.scene, &name, one_in, self.chance.draw());
        self.tell(format!("{name} begins; its clock is {skew} s before, one call in {one_in} goes wrong"));
        (name, luck, SignedDuration::from_secs(skew))
    }

    pub(crate) fn begin_mark(&mut self) {
        if self.world.events.is_empty() {
            return;
        }
        let (name, luck, skew) = self.worker("mark");
        // Out of order, and some of them only.
        let mut bodies = vec![];
        for _ in 0..=self.chance.below(self.world.events.len()) {
            let at = self.chance.below(self.world.events.len());
            bodies.extend(self.world.events.remove(at));
        }
        let (engine, cache, events) = (self.world.engine(&luck, skew), self.catalog.clone(), bodies.clone());
        let future = Box::pin(async move {
            let ids: Vec<String> = (0..bodies.len()).map(|n| n.to_string()).collect();
            let messages: Vec<_> = ids.iter().zip(&bodies).map(|(id, body)| EventMessage { id, body }).collect();
            let failed = engine.mark(&cache, &messages).await.ok().map(|report| report.failed);
            Ended::Mark(bodies, failed)
        });
        self.invocations.push(Invocation { name, luck, events, future });
    }

    pub(crate) fn begin_rebuild(&mut self) {
        let Some(delivery) = self.world.queue.deliver() else { return };
        let (name, luck, skew) = self.worker("rebuild");
        self.tell(format!("{name} has {}", delivery.body));
        let engine = self.world.engine(&luck, skew);
        let deadline = self.world.clock.now() + INVOCATION;
        let future = Box::pin(async move {
            let work = Work { body: &delivery.body, receipt: Some(&delivery.receipt), deadline };
            let answer = engine.rebuild(work).await;
            Ended::Rebuild(delivery, answer)
        });
        self.invocations.push(Invocation { name, luck, events: vec![], future });
    }

    pub(crate) fn begin_sweep(&mut self) {
        if self.flaw == Some(Flaw::NoWake) {
            return;
        }
        let (name, luck, skew) = self.worker("sweep");
        let engine = self.world.engine(&luck, skew);
        let deadline = self.world.clock.now() + INVOCATION;
        let future = Box::pin(async move {
            let _swept = engine.sweep(deadline).await;
            Ended::Sweep
        });
        self.invocations.push(Invocation { name, luck, events: vec![], future });
    }

    /// One of the invocations gets some steps further; the others stall meanwhile.
    pub(crate) fn poll(&mut self) {
        if self.invocations.is_empty() {
            return;
        }
        let at = self.chance.below(self.invocations.len());
        let steps = 1 + self.chance.below(if self.wide() { 100 } else { 14 });
        for _ in 0..steps {
            let invocation = &mut self.invocations[at];
            let polled = invocation.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let (dead, name) = (invocation.luck.is_dead(), invocation.name.clone());
            if let Poll::Ready(ended) = polled {
                drop(self.invocations.swap_remove(at));
                self.ended(&name, ended);
                return;
            }
            if dead {
                let invocation = self.invocations.swap_remove(at);
                self.world.events.extend(invocation.events);
                self.tell(format!("{name} is dead"));
                return;
            }
        }
    }

    fn ended(&mut self, name: &str, ended: Ended) {
        match ended {
            Ended::Rebuild(delivery, answer) => {
                self.tell(format!("{name} ends: {answer:?}"));
                if let Answer::Done(_) = answer {
                    self.world.queue.delete(&delivery.receipt);
                }
            }
            Ended::Mark(bodies, failed) => {
                self.tell(format!("{name} ends: {failed:?} come back"));
                let back = |n: &usize| failed.as_ref().is_none_or(|failed| failed.contains(&n.to_string()));
                let back = bodies.into_iter().enumerate().filter(|(n, _)| back(n)).map(|(_, body)| body);
                self.world.events.extend(back.collect::<Vec<_>>());
            }
            Ended::Sweep => self.tell(format!("{name} ends")),
        }
    }

    fn wait(&mut self) {
        let seconds = *self.chance.of(&WAITS);
        if self.paused() {
            self.pause();
        }
        while seconds > ON_THE_WIRE && self.arrives(false) {}
        self.tell(format!("{seconds} s go by"));
        self.world.clock.advance(Duration::from_secs(seconds));
    }

    /// Something that was late arrives; whatever was sent after it may have been there before.
    pub(crate) fn arrive(&mut self) {
        self.arrives(true);
    }

    fn arrives(&mut self, unsent: bool) -> bool {
        let late = self.world.scene.late(unsent);
        if late.is_empty() {
            return false;
        }
        let (what, effect) = self.world.scene.take_late(*self.chance.of(&late));
        self.tell(format!("late: {what}"));
        finish(effect);
        true
    }

    /// Statements take their time, or end badly.
    fn trouble(&mut self) {
        let suffix = *self.chance.of(&["/fence", "/stage", "/swap"]);
        if self.chance.once_in(2) {
            let long = Pace::After(Duration::from_secs(70));
            let pace = *self.chance.of(&[Pace::AtOnce, Pace::AtOnce, long, Pace::ByHand]);
            self.tell(format!("{suffix} ends {pace:?}"));
            self.world.warehouse.set_pace(suffix, pace);
        } else {
            let fail = |words: &str| End::Fail(words.to_owned());
            let ends = [
                End::RunButFail("The connection attempt failed.".to_owned()),
                fail("The connection attempt failed."),
                fail("ERROR: could not complete because of conflict with concurrent transaction"),
                fail("ERROR: permission denied for schema tidemark_staging"),
            ];
            let denied = self.chance.once_in(15);
            let end = if denied { ends[3].clone() } else { self.chance.of(&ends[..3]).clone() };
            self.world.scene.count_fault();
            self.tell(format!("the next {suffix}: {end:?}"));
            self.world.warehouse.end_next(suffix, end);
        }
    }

    fn end_something(&mut self) {
        let running = self.world.warehouse.running();
        if !running.is_empty() {
            let running = self.chance.of(&running).clone();
            self.tell(format!("{} runs now", running.name));
            self.world.warehouse.end(&running.id, &End::Run);
        }
    }

    /// Messages are lost.
    fn mislay(&mut self) {
        self.tell("the partitions queue loses everything");
        self.world.scene.count_fault();
        self.world.queue.lose_all();
    }

    /// Messages are doubled, and come in another group than the one that keeps them in order.
    fn double(&mut self) {
        if let Some(event) = self.world.events.front().cloned() {
            self.world.events.push_back(event);
        }
        let body = format!(r#"{{"version":1,"dataset":"orders","partition":"{}","generation":1}}"#, self.partition());
        self.tell(format!("an event is doubled, somebody sends {body}"));
        self.world.queue.put(&body, &format!("group {}", self.chance.below(8)));
    }

    fn throttle(&mut self) {
        let calls = *self.chance.of(&[None, Some("state."), Some("warehouse."), Some("queue."), Some("objects.")]);
        self.tell(format!("throttled: {calls:?}"));
        self.world.scene.throttle(calls);
    }

    fn replay(&mut self) {
        let force = self.chance.once_in(2);
        let partition = self.partition();
        self.tell(format!("an operator replays {partition}, force {force}"));
        let body = format!(r#"{{"version":1,"dataset":"orders","partition":"{partition}","force":{force}}}"#);
        self.world.queue.put(&body, "by hand");
    }

    fn pause(&mut self) {
        let mode = if self.paused() { "active" } else { "paused" };
        self.tell(format!("the dataset is {mode}"));
        self.world.set_head(&[("mode", mode.into())]);
    }

    pub(crate) fn paused(&self) -> bool {
        self.world.head().is_some_and(|head| head.mode == Mode::Paused)
    }

    /// A definition gets a step further into force: guard row, then head and catalog, then marks.
    pub(crate) fn apply(&mut self) {
        let Some(mut apply) = self.apply.take() else {
            let (width, scope) =
                (12 + u32::try_from(self.chance.below(3)).unwrap(), *self.chance.of(&["table", "partition"]));
            let raised = self.chance.once_in(2);
            let epoch = self.world.head().map_or(Epoch(1), |head| head.epoch);
            let epoch = if raised { epoch.next() } else { epoch };
            self.apply = Some(Apply { definition: definition(width, scope), epoch, raised, stage: 0 });
            return self.apply();
        };
        match apply.stage {
            0 if apply.raised => {
                self.tell(format!("the guard row is of epoch {}", apply.epoch));
                self.world.own(apply.epoch);
            }
            0 => {}
            1 => {
                let columns = apply.definition.columns.last().map(|column| format!("{:?}", column.sql_type));
                self.tell(format!("in force: {columns:?}, {:?}", apply.definition.concurrency));
                self.world.put_in_force(&apply.definition, apply.epoch);
                self.world.definition = apply.definition.clone();
                self.world.definitions.insert(apply.definition.hash(), apply.definition.clone());
            }
            _ => {
                for partition in self.world.items().into_keys() {
                    let id = PartitionId {
                        dataset: self.world.dataset(),
                        partition: PartitionName::new(partition).unwrap(),
                    };
                    let mark = writes::mark(&id, 0, self.world.clock.now());
                    finish(self.world.state.write(&[mark], "")).unwrap();
                }
                self.tell("all partitions are marked");
                return;
            }
        }
        apply.stage += 1;
        self.apply = Some(apply);
    }
}
