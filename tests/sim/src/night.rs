//! What may happen at night: the lake changes, workers interleave, stall and die, statements end late or lie about how they ended,
//! messages are lost, doubled and late, clocks jump and disagree, services throttle, operators change things in flight.

use std::sync::Arc;
use std::time::Duration;

use tidemark_domain::dataset::Mode;
use tidemark_engine::mark::CatalogCache;
use tidemark_engine::memory::{End, Pace};
use tidemark_engine::ports::Clock as _;

use crate::chance::Chance;
use crate::flaw::Flaw;
use crate::operators::Apply;
use crate::reached;
use crate::restores::Backup;
use crate::workers::Invocation;
use crate::world::{World, definition, finish};

/// Nothing is on the wire for longer.
const ON_THE_WIRE: u64 = 60;
/// AWS takes a request for so long after it was signed, and no invocation lasts longer, in seconds.
pub(crate) const SIGNED: u64 = 15 * 60;
/// A lease is over after so long, in seconds; a load window; a token; what the Data API knows of an execution.
pub(crate) const LEASE: u64 = 150;
pub(crate) const WINDOW: u64 = 2_000;
pub(crate) const TOKEN: u64 = 9 * 3_600;
pub(crate) const OUTCOME: u64 = 25 * 3_600;
/// Seconds that go by: a moment, a delivery, and the above.
const WAITS: [u64; 14] = [1, 5, 20, 31, 31, 40, 40, 61, LEASE, 400, 1_000, WINDOW, TOKEN, OUTCOME];
/// Partitions of a wide night.
pub const WIDE: u32 = 200;
/// Every so many seeds one night is wide.
const WIDE_EVERY: u64 = 50;
const WIDE_AT: u64 = 7;

/// In one night of so many something is restored.
const RESTORES: usize = 2;

/// Kinds of nights, as often as they come.
const KINDS: [Kind; 7] = [Kind::Mixed, Kind::Mixed, Kind::Slow, Kind::Ambush, Kind::Ambush, Kind::Echo, Kind::Crowd];

/// What is likelier in a night than in others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything alike.
    Mixed,
    /// Swaps stay out in Redshift, definitions change under them.
    Slow,
    /// Workers leave swaps behind, on the wire or unsent; their batches are given up before those land.
    Ambush,
    /// Clients send writes twice, and the copy arrives when its worker has written again.
    Echo,
    /// Many workers on few partitions, polled few steps at a time; leases seem over to some of them.
    Crowd,
}

/// A night.
pub struct Night {
    /// Its world.
    pub world: World,
    pub(crate) kind: Kind,
    pub(crate) chance: Chance,
    pub(crate) invocations: Vec<Invocation>,
    pub(crate) catalog: Arc<CatalogCache>,
    pub(crate) apply: Option<Apply>,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) begun: u32,
    pub(crate) files: u32,
    halted: bool,
    /// A backup of the state table, or a snapshot of the warehouse.
    pub(crate) backup: Option<Backup>,
    pub(crate) committed_at_backup: usize,
    /// Whether one is still to be made.
    pub(crate) restores: bool,
    /// Swaps that were left behind, as an ambush has seen them.
    pub(crate) ambushed: usize,
}

impl Night {
    /// The night of a seed: every 50th is wide (hundreds of partitions), every second has locks for partitions.
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut chance = Chance::new(seed);
        let partitions = if seed % WIDE_EVERY == WIDE_AT { WIDE } else { *chance.of(&[1, 1, 2, 4]) };
        let scope = if chance.once_in(2) { "table" } else { "partition" };
        let kind = *chance.of(&KINDS);
        let restores = chance.once_in(RESTORES);
        let world = World::new(partitions, definition(12, scope), seed, flaw);
        world.scene.tell(format!("{kind:?}: {partitions} partitions, locks of a {scope}"));
        match kind {
            Kind::Ambush => world.scene.ambush(),
            Kind::Echo => world.scene.echo(),
            _ => {}
        }
        Self {
            world,
            kind,
            chance,
            invocations: vec![],
            catalog: Arc::default(),
            apply: None,
            flaw,
            begun: 0,
            files: 0,
            halted: false,
            backup: None,
            committed_at_backup: 0,
            restores,
            ambushed: 0,
        }
    }

    /// Something happens.
    pub fn act(&mut self) {
        let acted = match self.kind {
            Kind::Mixed => false,
            Kind::Slow => self.chance.once_in(5) && self.act_slowly(),
            Kind::Ambush => self.act_in_ambush(),
            Kind::Echo => self.act_among_echoes(),
            Kind::Crowd => self.chance.once_in(2) && self.act_crowded(),
        };
        if !acted {
            self.act_quickly();
        }
        self.world.eye.look();
        let halted = self.mode() == Some(Mode::Halted);
        if halted && !self.halted {
            self.world.scene.reach(reached::Kind::Halted);
        }
        self.halted = halted;
    }

    fn act_quickly(&mut self) {
        match self.chance.below(76) {
            0..=5 => self.change(),
            6..=9 => self.begin_mark(),
            10..=19 => {
                self.begin_rebuild();
            }
            20 => self.begin_sweep(),
            21..=43 => self.poll(),
            44..=49 => {
                let seconds = *self.chance.of(&WAITS);
                self.wait(seconds);
            }
            50..=53 => self.trouble(),
            54 => self.end_something(),
            55 => self.mislay(),
            56..=57 => self.arrive(),
            58 => self.throttle(),
            59..=60 => self.apply(),
            61..=62 => self.replay(),
            63 => self.pause(),
            64 => self.retire(),
            65 => self.backfill(),
            66..=68 => self.restore(),
            69 => self.lose_events(),
            _ => self.double(),
        }
    }

    /// Swaps stay out, definitions change under them and batches are given up.
    fn act_slowly(&mut self) -> bool {
        match self.chance.below(8) {
            0..=1 => {
                self.tell("swaps stay out");
                self.world.warehouse.set_pace("/swap", Pace::ByHand);
            }
            2..=3 => self.end_something(),
            4..=5 => self.apply(),
            _ => {
                let seconds = *self.chance.of(&WAITS);
                self.wait(seconds);
            }
        }
        true
    }

    /// Many are after the same.
    fn act_crowded(&mut self) -> bool {
        match self.chance.below(12) {
            0 => self.change(),
            1..=2 => self.double(),
            3 => self.wait(31),
            4 => self.begin_mark(),
            5..=6 => {
                self.begin_rebuild();
            }
            7..=8 => self.overlook(),
            _ => {
                // Two of them, a step at a time: what one has read is old before it writes.
                for _ in 0..20 {
                    let at = self.chance.below(2);
                    if at < self.invocations.len() {
                        self.poll_one(at, 1);
                    }
                }
            }
        }
        true
    }

    /// Somebody reads, another goes on, and what the first has read is old when it writes.
    fn overlook(&mut self) {
        let partition = self.partition();
        self.send_by_hand(&partition);
        self.wait(31);
        if self.begin_rebuild() && self.invocations.len() > 1 {
            let newest = self.invocations.len() - 1;
            self.poll_one(newest, 2);
            let (other, steps) = (self.chance.below(newest), 1 + self.chance.below(8));
            self.poll_one(other, steps);
        }
    }

    /// Whether there are hundreds of partitions.
    pub(crate) fn wide(&self) -> bool {
        self.world.partitions.len() > 8
    }

    pub(crate) fn tell(&self, what: impl AsRef<str>) {
        let now = self.world.clock.now().strftime("%d %H:%M:%S").to_string();
        self.world.scene.tell(format!("{now} {}", what.as_ref()));
    }

    pub(crate) fn partition(&mut self) -> String {
        self.chance.of(&self.world.partitions).clone()
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        if self.mode() == Some(Mode::Paused) {
            self.pause();
        }
        while seconds > ON_THE_WIRE && self.arrives(false) {}
        self.tell(format!("{seconds} s go by"));
        let over = [
            (LEASE, reached::Kind::LeaseOver),
            (WINDOW, reached::Kind::WindowOver),
            (TOKEN, reached::Kind::TokenForgotten),
            (OUTCOME, reached::Kind::OutcomeForgotten),
        ];
        over.iter().filter(|(after, _)| seconds >= *after).for_each(|(_, kind)| self.world.scene.reach(*kind));
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
        let at = *self.chance.of(&late);
        self.arrive_one(at);
        true
    }

    pub(crate) fn arrive_one(&mut self, at: usize) {
        let (what, effect) = self.world.scene.take_late(at);
        self.tell(format!("late: {what}"));
        finish(effect);
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

    /// Events are lost: only look will find what they told.
    fn lose_events(&mut self) {
        if !self.world.events.is_empty() {
            self.tell("the events queue loses everything");
            self.world.scene.reach(reached::Kind::EventsLost);
            self.world.events.clear();
        }
    }

    /// Messages are lost.
    fn mislay(&mut self) {
        self.tell("the partitions queue loses everything");
        self.world.scene.reach(reached::Kind::MessagesLost);
        self.world.queue.lose_all();
    }

    /// Messages are doubled, and come in another group than the one that keeps them in order.
    fn double(&mut self) {
        if let Some(event) = self.world.events.front().cloned() {
            self.world.scene.reach(reached::Kind::EventDoubled);
            self.tell("an event is doubled");
            self.world.events.push_back(event);
        }
        let partition = self.partition();
        self.send_by_hand(&partition);
    }

    /// Somebody sends a message, in any group.
    pub(crate) fn send_by_hand(&mut self, partition: &str) {
        let body = format!(r#"{{"version":1,"dataset":"orders","partition":"{partition}","generation":1}}"#);
        self.tell(format!("somebody sends {body}"));
        self.world.scene.reach(reached::Kind::MessageInvented);
        self.world.queue.put(&body, &format!("group {}", self.chance.below(8)));
    }

    fn throttle(&mut self) {
        let ports = ["state.", "warehouse.", "queue.", "objects."];
        let calls = if self.chance.once_in(2) { None } else { Some(*self.chance.of(&ports)) };
        self.tell(format!("throttled: {calls:?}"));
        self.world.scene.throttle(calls);
    }
}
