//! Nights as a seed has them: workers that interleave, stall and die, statements that end late or lie about how they ended,
//! messages lost, doubled and late, clocks that jump. Whatever happened, once it stops the target holds the lake.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::SignedDuration;
use tidemark_engine::mark::{CatalogCache, EventMessage};
use tidemark_engine::memory::{Delivery, End, Fault, Pace, Plan};
use tidemark_engine::ports::Clock as _;
use tidemark_engine::rebuild::{Answer, Work};

use super::world::{TOML, World};

const NIGHTS: u64 = 150;
const ACTIONS: usize = 250;
const PARTITIONS: [&str; 2] = ["dt=2026-11-01", "dt=2026-11-02"];

/// What came of an invocation; `None`: it died.
enum Ended {
    Rebuild(Delivery, Option<Answer>),
    Mark(Vec<String>, Option<BTreeSet<String>>),
    Sweep,
}

type Invocation = Pin<Box<dyn Future<Output = Ended>>>;

struct Night {
    world: World,
    chance: Chance,
    invocations: Vec<Invocation>,
    told: Vec<String>,
    files: u32,
}

#[tokio::test]
async fn whatever_happens_at_night_the_morning_is_true() {
    let seed = std::env::var("TIDEMARK_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seed.map_or(1..=NIGHTS, |seed: u64| seed..=seed) {
        let mut night = Night::new(seed).await;
        for _ in 0..ACTIONS {
            night.act().await;
        }
        night.morning(seed).await;
    }
}

impl Night {
    async fn new(seed: u64) -> Self {
        let scope = if seed.is_multiple_of(2) { "table" } else { "partition" };
        let toml = TOML.replace(
            "row_drop = \"accept\"",
            "row_drop = \"accept\"\nmissing_objects = \"accept\"\nempty_source = \"delete\"",
        );
        let toml = toml.replace("interval = \"0s\"", &format!("interval = \"0s\"\nconcurrency = \"{scope}\""));
        let world = World::new(&toml).await;
        Self {
            world,
            chance: Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            invocations: vec![],
            told: vec![],
            files: 0,
        }
    }

    async fn act(&mut self) {
        match self.chance.below(40) {
            0..=3 => self.change().await,
            4..=6 => self.begin_mark(),
            7..=11 => self.begin_rebuild(),
            12 => self.begin_sweep(),
            13..=30 => self.poll(),
            31..=33 => self.wait(),
            34..=37 => self.trouble(),
            38 => self.end_something(),
            _ => self.mislay(),
        }
        self.world.plan = Plan::quiet();
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.told.push(what.into());
    }

    /// The lake changes.
    async fn change(&mut self) {
        self.files += 1;
        let partition = PARTITIONS[self.chance.below(2)];
        let name = format!("{partition}/{}.csv", self.chance.below(3));
        let there = self.world.objects.object("lake", &format!("orders/{name}")).is_some();
        match self.chance.below(8) {
            0 if there => self.world.delete(&name),
            1 => self.world.put(&name, &format!("{}\nx#bad\n", self.files)).await,
            _ => self.world.put(&name, &format!("{0}a\n{0}b\n", self.files)).await,
        }
        self.tell(format!("{name} changes"));
    }

    /// A plan for the next invocation: often none, at times a fault at one of its first steps.
    fn plan(&mut self) -> Plan {
        let plan = if self.chance.below(3) == 0 {
            let (step, fault) = (1 + self.chance.below(40), Fault::ALL[self.chance.below(Fault::ALL.len())]);
            self.tell(format!("  with {fault:?} at step {step}"));
            Plan::at(step, fault)
        } else {
            Plan::quiet()
        };
        let plan = plan.taking_turns();
        self.world.plan = plan.clone();
        plan
    }

    fn begin_mark(&mut self) {
        if self.world.events.is_empty() {
            return;
        }
        self.tell("mark begins");
        let plan = self.plan();
        let bodies: Vec<String> = self.world.events.drain(..).collect();
        let engine = self.world.engine();
        self.invocations.push(Box::pin(async move {
            let ids: Vec<String> = (0..bodies.len()).map(|n| n.to_string()).collect();
            let messages: Vec<_> = ids.iter().zip(&bodies).map(|(id, body)| EventMessage { id, body }).collect();
            let cache = CatalogCache::default();
            let marked = plan.run(engine.mark(&cache, &messages)).await;
            let failed = marked.and_then(Result::ok).map(|report| report.failed);
            Ended::Mark(bodies, failed)
        }));
    }

    fn begin_rebuild(&mut self) {
        let Some(delivery) = self.world.queue.deliver() else { return };
        self.tell(format!("rebuild begins with {}", delivery.body));
        let plan = self.plan();
        let engine = self.world.engine();
        let deadline = self.world.clock.now() + SignedDuration::from_secs(120);
        self.invocations.push(Box::pin(async move {
            let work = Work { body: &delivery.body, receipt: Some(&delivery.receipt), deadline };
            let answer = plan.run(Box::pin(engine.rebuild(work))).await;
            Ended::Rebuild(delivery, answer)
        }));
    }

    fn begin_sweep(&mut self) {
        self.tell("sweep begins");
        let plan = self.plan();
        let engine = self.world.engine();
        let deadline = self.world.clock.now() + SignedDuration::from_secs(120);
        self.invocations.push(Box::pin(async move {
            let _swept = plan.run(engine.sweep(deadline)).await;
            Ended::Sweep
        }));
    }

    /// One of the invocations gets some steps further; the others stall meanwhile.
    fn poll(&mut self) {
        if self.invocations.is_empty() {
            return;
        }
        let at = self.chance.below(self.invocations.len());
        for _ in 0..=self.chance.below(12) {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(ended) = self.invocations[at].as_mut().poll(&mut context) {
                drop(self.invocations.remove(at));
                self.ended(ended);
                return;
            }
        }
    }

    fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Rebuild(delivery, answer) => {
                self.tell(format!("rebuild ends: {answer:?}"));
                if let Some(Answer::Done(_)) = answer {
                    self.world.queue.delete(&delivery.receipt);
                }
            }
            Ended::Mark(bodies, failed) => {
                self.tell(format!("mark ends: {failed:?}"));
                let back = |n: &usize| failed.as_ref().is_none_or(|failed| failed.contains(&n.to_string()));
                let back = bodies.into_iter().enumerate().filter(|(n, _)| back(n)).map(|(_, body)| body);
                self.world.events.extend(back.collect::<Vec<_>>());
            }
            Ended::Sweep => {}
        }
    }

    fn wait(&mut self) {
        let seconds = [1, 5, 20, 40, 61, 150, 400, 1_000, 9 * 3_600, 25 * 3_600][self.chance.below(10)];
        self.tell(format!("{seconds} s go by"));
        self.world.clock.advance(Duration::from_secs(seconds));
    }

    /// Statements take their time, or end badly.
    fn trouble(&mut self) {
        let suffix = ["/fence", "/stage", "/swap"][self.chance.below(3)];
        if self.chance.below(2) == 0 {
            let paces = [Pace::AtOnce, Pace::AtOnce, Pace::After(Duration::from_secs(70)), Pace::ByHand];
            let pace = paces[self.chance.below(4)];
            self.tell(format!("{suffix} ends {pace:?}"));
            self.world.warehouse.set_pace(suffix, pace);
        } else {
            let ends = [
                End::RunButFail("The connection attempt failed.".to_owned()),
                End::Fail("The connection attempt failed.".to_owned()),
                End::Fail("ERROR: could not complete because of conflict with concurrent transaction".to_owned()),
            ];
            let end = ends[self.chance.below(3)].clone();
            self.tell(format!("the next {suffix}: {end:?}"));
            self.world.warehouse.end_next(suffix, end);
        }
    }

    fn end_something(&mut self) {
        let running = self.world.warehouse.running();
        if !running.is_empty() {
            let running = &running[self.chance.below(running.len())];
            self.tell(format!("{} runs now", running.name));
            self.world.warehouse.end(&running.id, &End::Run);
        }
    }

    /// Messages are lost or doubled.
    fn mislay(&mut self) {
        if self.chance.below(2) == 0 {
            self.tell("the partitions queue loses everything");
            self.world.queue.lose_all();
        } else if let Some(event) = self.world.events.front().cloned() {
            self.tell("an event is doubled");
            self.world.events.push_back(event);
        }
    }

    /// Everything that stalls goes on; what runs in Redshift ends; bad files are replaced. Then the target holds the lake.
    async fn morning(mut self, seed: u64) {
        let mut rounds = 0;
        while !self.invocations.is_empty() {
            self.poll();
            rounds += 1;
            assert!(rounds < 100_000, "seed {seed}: an invocation never ends\n{}", self.told.join("\n"));
        }
        for suffix in ["/fence", "/stage", "/swap"] {
            self.world.warehouse.set_pace(suffix, Pace::AtOnce);
        }
        for running in self.world.warehouse.running() {
            self.world.warehouse.end(&running.id, &End::Run);
        }
        self.world.plan = Plan::quiet();
        let context = format!("TIDEMARK_SEED={seed}\n{}", self.told.join("\n"));
        self.world.rest(&context).await;
        self.world.assert_at_rest(&context).await;
        self.assert_parked_for_a_reason(&context);
        for partition in PARTITIONS {
            for n in 0..3 {
                let name = format!("{partition}/{n}.csv");
                if self
                    .world
                    .objects
                    .object("lake", &format!("orders/{name}"))
                    .is_some_and(|(bytes, _)| bytes.ends_with(b"#bad\n"))
                {
                    self.world.put(&name, &format!("mended {name}\n")).await;
                }
            }
            let replay = format!(r#"{{"version":1,"dataset":"orders","partition":"{partition}"}}"#);
            self.world.queue.put(&replay, "by hand");
        }
        self.world.rest(&context).await;
        self.world.assert_true(&context).await;
    }

    /// A partition may be parked in the end for a bad file, or because its statements took longer than they may; no bug was found.
    fn assert_parked_for_a_reason(&self, context: &str) {
        for (partition, item) in self.world.items() {
            if let Some(parked) = item.parked {
                let fair = ["rejected_data", "too_slow"].contains(&parked.kind.as_str());
                assert!(fair, "{partition} is parked as {}: {}: {context}", parked.kind, parked.message);
            }
        }
    }
}

/// A small generator of numbers that a seed repeats.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
