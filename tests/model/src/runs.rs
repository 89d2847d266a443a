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
    Bounds { left, queues: true, definitions: false, cancels: true }
}

const fn quiet_queues(bounds: Bounds) -> Bounds {
    Bounds { queues: false, ..bounds }
}

const fn with_definitions(bounds: Bounds) -> Bounds {
    Bounds { definitions: true, ..bounds }
}

/// Of a test: seconds.
pub const SHORT: &[Run] = &[
    Run { name: "two changes, a fault", bounds: within(2, 0, 0, 1), rest: true },
    Run { name: "two faults outside the queues", bounds: quiet_queues(within(1, 0, 0, 2)), rest: true },
];

/// Of `cargo model`: minutes at most.
pub const DEFAULT: &[Run] = &[
    Run { name: "two changes, two faults", bounds: within(2, 0, 0, 2), rest: true },
    Run { name: "a replay, a hand-off", bounds: within(1, 1, 1, 1), rest: true },
    Run { name: "definitions that change", bounds: with_definitions(quiet_queues(within(1, 0, 0, 2))), rest: true },
    Run { name: "three faults outside the queues", bounds: quiet_queues(within(1, 0, 0, 3)), rest: true },
];

/// Of `cargo model -- --large`: an hour or so.
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

const FEW: Bounds = within(2, 0, 0, 2);
const DEEP: Bounds = quiet_queues(within(2, 0, 2, 3));

const fn of(name: &'static str, flaw: Flaw, bounds: Bounds, caught_by: &'static [&'static str]) -> Mutation {
    Mutation { name, rules: Rules { flaw: Some(flaw), and: None }, bounds, caught_by, why: "" }
}

const fn both(name: &'static str, flaws: (Flaw, Flaw), bounds: Bounds, caught_by: &'static [&'static str]) -> Mutation {
    Mutation { name, rules: Rules { flaw: Some(flaws.0), and: Some(flaws.1) }, bounds, caught_by, why: "" }
}

const fn spared(name: &'static str, flaw: Flaw, bounds: Bounds, why: &'static str) -> Mutation {
    Mutation { name, rules: Rules { flaw: Some(flaw), and: None }, bounds, caught_by: &[], why }
}

/// Every mutation.
pub const MUTATIONS: &[Mutation] = &[
    of("swap without claim", Flaw::SwapWithoutClaim, DEEP, &["I1", "I2", "I4"]),
    of("claim takes an equal fence", Flaw::ClaimTakesEqual, DEEP, &["I2", "I4"]),
    of("no fence before the look", Flaw::LookWithoutFencing, DEEP, &["I4"]),
    of("look at the batch before only", Flaw::LookForTheBatchBefore, DEEP, &["I4"]),
    of("the look doesn't say what the target holds", Flaw::LookKeepsBefore, DEEP, &["nothing is parked"]),
    of("unresolved forgotten at the next take", Flaw::UnresolvedForgottenAtTake, DEEP, &["I4"]),
    of("a swap given up at a take is forgotten", Flaw::GivenUpSwapForgotten, DEEP, &["I4"]),
    of("unresolved not set by a park", Flaw::UnresolvedNotSetByPark, DEEP, &["I4"]),
    of("unresolved not set by a hold", Flaw::UnresolvedNotSetByHold, DEEP, &["I4"]),
    of("item writes without the fence", Flaw::WritesUnfenced, DEEP, &["I4", "I5", "I6"]),
    of("confirm without the fence", Flaw::ConfirmUnfenced, DEEP, &["I4", "I5", "I6"]),
    of("a take compares the fence, not the batch", Flaw::TakeComparesFenceOnly, DEEP, &["I4"]),
    of("covers read after the list", Flaw::CoversReadAfterList, FEW, &["I7"]),
    of("a new try without a failure seen", Flaw::TryRaisedUnseen, FEW, &["I9"]),
    of("a recorded statement sent under another token", Flaw::TokenForgotten, FEW, &["I9"]),
    of("begin anew instead of continue", Flaw::BeginInsteadOfContinue, DEEP, &["I11"]),
    of("no-op although forced", Flaw::NoOpAlthoughForced, within(1, 1, 0, 0), &["forced"]),
    of("the source isn't listed again after COPY", Flaw::NotListedAgain, FEW, &["I3"]),
    of("park at marked", Flaw::ParkAtMarked, FEW, &["I3"]),
    of("a confirm leaves the index though marked since", Flaw::ConfirmLeavesIndex, FEW, &["I6"]),
    of("a park leaves the index though marked since", Flaw::ParkLeavesIndex, FEW, &["I6", "I8"]),
    of("wake skips whatever is parked", Flaw::WakeSkipsParked, FEW, &["I8"]),
    of("no wake", Flaw::NoWake, FEW, &["I8"]),
    of("a mark doesn't enter the index", Flaw::MarkWithoutIndex, FEW, &["I6"]),
    spared("a take compares the batch, not the fence", Flaw::TakeComparesBatchOnly, FEW, ""),
    spared("a failed swap isn't looked up", Flaw::FailedSwapNotLookedUp, FEW, ""),
    spared("a mark sends no message", Flaw::MarkSendsNothing, FEW, ""),
    spared("a lock is released whoever holds it", Flaw::ReleaseAnybodysLock, FEW, ""),
    spared("the lock is taken though its lease runs", Flaw::LockIgnored, FEW, ""),
    both("a mark sends no message, no wake", (Flaw::MarkSendsNothing, Flaw::NoWake), within(1, 0, 0, 0), &["I8"]),
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
            Some(property) => self.caught_by.iter().any(|expected| property.starts_with(expected)),
        }
    }
}
