//! One exploration: every state within bounds, every property, and the way to rest.

use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::model::Protocol;
use crate::moves::Action;
use crate::rest::ways_to_rest;
use crate::world::State;

/// A property that doesn't hold, and the shortest way there.
pub struct Violation {
    /// Which.
    pub property: &'static str,
    /// The moves that lead to it.
    pub moves: Vec<Action>,
    /// Where they lead.
    pub state: State,
}

/// What an exploration found.
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// What doesn't hold.
    pub violations: Vec<Violation>,
    /// Situations that were never reached.
    pub never: Vec<&'static str>,
    /// How long it took.
    pub took: Duration,
}

/// The way to rest, as a property.
pub const REST: &str = "I12 from every state rest can be reached";

/// Explores until everything is seen, or something doesn't hold. One thread finds the shortest trace.
pub fn explore(protocol: &Protocol, threads: usize) -> Explored {
    let begun = Instant::now();
    let checker = protocol.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let (mut violations, mut never) = (vec![], vec![]);
    for property in protocol.properties() {
        match (&property.expectation, found.get(property.name)) {
            (Expectation::Always, Some(path)) => violations.push(Violation {
                property: property.name,
                moves: path.clone().into_actions(),
                state: path.last_state().clone(),
            }),
            (Expectation::Sometimes, None) => never.push(property.name),
            _ => {}
        }
    }
    if !violations.is_empty() {
        never.clear();
    }
    Explored { states: checker.unique_state_count(), violations, never, took: begun.elapsed() }
}

/// Explores, and checks the way to rest.
pub fn explore_to_rest(protocol: &Protocol) -> Explored {
    let begun = Instant::now();
    let found = ways_to_rest(protocol);
    let violations = found.stuck.map(|(moves, state)| Violation { property: REST, moves, state });
    Explored {
        states: found.states,
        violations: violations.into_iter().collect(),
        never: vec![],
        took: begun.elapsed(),
    }
}
