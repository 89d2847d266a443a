//! What is explored: the shipped rules within several bounds, and each flaw within bounds that show it.

use crate::explore::{Explored, explore, explore_to_rest};
use crate::model::{Bounds, Protocol};
use crate::rules::{Flaw, Rules};
use crate::world::Left;

/// An exploration of the shipped rules.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What it is called.
    pub name: &'static str,
    /// How much may happen.
    pub bounds: Bounds,
    /// Whether the way to rest is checked as well; it remembers every move.
    pub rest: bool,
}

/// A weakened rule.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What is weakened.
    pub name: &'static str,
    /// Which flaw, perhaps with a second that covers it.
    pub rules: Rules,
    /// Within which bounds it shows.
    pub bounds: Bounds,
    /// The properties one of which catches it; none: nothing in these bounds needs the rule, and `why` says so.
    pub caught_by: &'static [&'static str],
    /// Why nothing catches it.
    pub why: &'static str,
}

const fn within(changes: u8, replays: u8, handoffs: u8, faults: u8) -> Bounds {
    let left = Left { changes, replays, handoffs, faults };
    Bounds { left, queues: true, definitions: false, copies: false }
}

const fn with_copies(bounds: Bounds) -> Bounds {
    Bounds { copies: true, ..bounds }
}

const fn quiet_queues(bounds: Bounds) -> Bounds {
    Bounds { queues: false, ..bounds }
}

const fn with_definitions(bounds: Bounds) -> Bounds {
    Bounds { definitions: true, ..bounds }
}

/// Of a test: seconds.
pub const SHORT: &[Run] = &[
    Run { name: "two changes, a fault", bounds: within(2, 0, 0, 1), rest: false },
    Run { name: "two faults outside the queues", bounds: quiet_queues(within(1, 0, 0, 2)), rest: true },
];

/// Of `cargo model`: minutes at most.
pub const DEFAULT: &[Run] = &[
    Run { name: "two changes, two faults", bounds: within(2, 0, 0, 2), rest: true },
    Run { name: "a replay, a hand-off", bounds: within(1, 1, 1, 1), rest: true },
    Run { name: "definitions that change", bounds: with_definitions(quiet_queues(within(2, 0, 0, 2))), rest: true },
    Run { name: "three faults outside the queues", bounds: quiet_queues(within(1, 0, 1, 3)), rest: true },
    Run { name: "writes sent twice", bounds: with_copies(quiet_queues(within(1, 1, 1, 2))), rest: true },
];

/// Of `cargo model -- --large`: some minutes more.
pub const LARGE: &[Run] = &[
    Run { name: "two changes, two faults, a hand-off", bounds: within(2, 0, 1, 2), rest: false },
    Run { name: "two changes, three faults outside the queues", bounds: quiet_queues(within(2, 0, 0, 3)), rest: true },
    Run { name: "a replay, two faults", bounds: within(1, 1, 0, 2), rest: true },
    Run {
        name: "definitions that change, three faults",
        bounds: with_definitions(quiet_queues(within(1, 0, 0, 3))),
        rest: false,
    },
];

/// Within few of everything; the queues lose, double and hurry nothing.
const fn few(changes: u8, replays: u8, handoffs: u8, faults: u8) -> Bounds {
    quiet_queues(within(changes, replays, handoffs, faults))
}

const fn of(name: &'static str, flaw: Flaw, bounds: Bounds, caught_by: &'static [&'static str]) -> Mutation {
    Mutation { name, rules: Rules { flaw: Some(flaw), and: None }, bounds, caught_by, why: "" }
}

const fn both(name: &'static str, flaws: (Flaw, Flaw), bounds: Bounds, caught_by: &'static [&'static str]) -> Mutation {
    Mutation { name, rules: Rules { flaw: Some(flaws.0), and: Some(flaws.1) }, bounds, caught_by, why: "" }
}

const fn spared(name: &'static str, flaw: Flaw, why: &'static str) -> Mutation {
    Mutation { name, rules: Rules { flaw: Some(flaw), and: None }, bounds: within(2, 0, 0, 1), caught_by: &[], why }
}

/// Every mutation.
#[rustfmt::skip] // A table.
pub const MUTATIONS: &[Mutation] = &[
    of("swap without claim", Flaw::SwapWithoutClaim, few(1, 0, 1, 1), &["I1", "I2", "I4"]),
    of("claim takes an equal fence", Flaw::ClaimTakesEqual, few(1, 0, 1, 1), &["I2", "I4"]),
    of("no fence before the look", Flaw::LookWithoutFencing, few(1, 0, 1, 1), &["I4"]),
    of("look at the batch before only", Flaw::LookForTheBatchBefore, few(1, 0, 1, 2), &["I4"]),
    of("the look doesn't say what the target holds", Flaw::LookKeepsBefore, few(2, 0, 1, 1), &["no table is"]),
    of("unresolved forgotten at the next take", Flaw::UnresolvedForgottenAtTake, few(1, 0, 2, 2), &["I4"]),
    of("a swap given up at a take is forgotten", Flaw::GivenUpSwapForgotten, few(1, 0, 1, 1), &["I4"]),
    of("unresolved not set by a park", Flaw::UnresolvedNotSetByPark, few(1, 0, 1, 1), &["I4"]),
    of("unresolved not set by a hold", Flaw::UnresolvedNotSetByHold, few(1, 0, 0, 3), &["I4"]),
    of("item writes without the fence", Flaw::WritesUnfenced, few(2, 0, 0, 2), &["I4"]),
    of("confirm without the fence", Flaw::ConfirmUnfenced, few(0, 2, 0, 2), &["I4", "I6"]),
    of("a write compares the fence, not the batch", Flaw::WritesCompareFenceOnly, with_copies(few(1, 0, 0, 1)), &["I3", "I4", "I6"]),
    of("a take compares the fence, not the batch", Flaw::TakeComparesFenceOnly, few(0, 2, 1, 1), &["I4"]),
    of("a take compares the batch, not the fence", Flaw::TakeComparesBatchOnly, few(1, 1, 0, 0), &["forced"]),
    of("covers read after the list", Flaw::CoversReadAfterList, few(1, 1, 0, 0), &["I7"]),
    of("a new try without a failure seen", Flaw::TryRaisedUnseen, few(1, 0, 0, 0), &["I9"]),
    of("begin anew instead of continue", Flaw::BeginInsteadOfContinue, few(1, 0, 0, 1), &["I11"]),
    of("no-op although forced", Flaw::NoOpAlthoughForced, few(1, 1, 0, 0), &["forced"]),
    of("the source isn't listed again after COPY", Flaw::NotListedAgain, few(1, 1, 0, 0), &["I5"]),
    of("park at marked", Flaw::ParkAtMarked, few(2, 0, 0, 1), &["I3"]),
    of("a confirm leaves the index though marked since", Flaw::ConfirmLeavesIndex, few(1, 1, 0, 0), &["I3", "I6"]),
    of("a park leaves the index though marked since", Flaw::ParkLeavesIndex, few(1, 1, 0, 0), &["I3", "I6", "I8"]),
    of("wake skips whatever is parked", Flaw::WakeSkipsParked, within(2, 0, 0, 1), &["I8"]),
    of("no wake", Flaw::NoWake, within(1, 0, 0, 1), &["I8"]),
    of("a mark doesn't enter the index", Flaw::MarkWithoutIndex, few(1, 0, 0, 0), &["I6"]),
    both("a mark sends no message, no wake", (Flaw::MarkSendsNothing, Flaw::NoWake), few(1, 0, 0, 0), &["I8"]),
    of("a definition cached too long", Flaw::DefinitionCachedTooLong, with_definitions(few(1, 0, 0, 1)), &["I12"]),
    spared("a mark sends no message", Flaw::MarkSendsNothing, "wake finds what is due: the message saves minutes"),
    of("a failed swap isn't looked up", Flaw::FailedSwapNotLookedUp, few(1, 0, 0, 1), &["I12"]),
    spared("a lock is released whoever holds it", Flaw::ReleaseAnybodysLock, "the fence keeps safe; the lock keeps order"),
];

impl Run {
    /// Explores: the properties, and the way to rest.
    pub fn explore(&self, threads: usize) -> Explored {
        let protocol = Protocol { bounds: self.bounds, rules: Rules::default() };
        let mut explored = explore(&protocol, threads);
        if self.rest && explored.violations.is_empty() {
            let rest = explore_to_rest(&protocol);
            explored.took += rest.took;
            explored.violations.extend(rest.violations);
        }
        explored
    }
}

impl Mutation {
    /// Explores until something doesn't hold; gives the property that caught it.
    pub fn explore(&self) -> (Explored, Option<&'static str>) {
        let protocol = Protocol { bounds: self.bounds, rules: self.rules };
        let mut explored = explore(&protocol, 1);
        if explored.violations.is_empty() {
            let rest = explore_to_rest(&protocol);
            explored.took += rest.took;
            explored.violations.extend(rest.violations);
        }
        let caught = explored.violations.first().map(|violation| violation.property);
        (explored, caught)
    }

    /// Whether what caught it, if anything, is what should.
    pub fn as_expected(&self, caught: Option<&str>) -> bool {
        match caught {
            None => self.caught_by.is_empty(),
            Some(property) => self.caught_by.iter().any(|expected| property.starts_with(&format!("{expected} "))),
        }
    }
}
