//! Which points there are: every effect that a scenario makes, as its trace tells, so that none is forgotten.
//!
//! What effects there are at all stands in one list, the functions' own. It is read as source: the feature that compiles
//! failpoints in would be switched on for everything that is built at once with this.

#[path = "../../../shared/aws/src/failpoints/names.rs"]
#[expect(unreachable_pub, reason = "its own crate exports it")]
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, ensure};

use crate::plan::{At, Moment};
use crate::scenario::Scenario;

/// The failpoints that no scenario comes by; an effect that isn't listed is an error.
pub(crate) fn not_met(traces: &[(Scenario, Vec<String>)]) -> Result<Vec<&'static str>> {
    let met: BTreeSet<&str> = traces.iter().flat_map(|(_, effects)| effects).map(String::as_str).collect();
    let unlisted: Vec<&&str> = met.iter().filter(|effect| !names::NAMES.contains(effect)).collect();
    ensure!(unlisted.is_empty(), "failpoints that aren't listed: {unlisted:?}");
    Ok(names::NAMES.into_iter().filter(|name| !met.contains(name)).collect())
}

/// How a point fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// The function is killed there; with several, whoever takes over is killed at the next.
    Kill(Vec<At>),
    /// It stands still there until another has done its work, and then goes on.
    Stop(At),
    /// Redshift's connection breaks in a submission of this name, after so many of its statements.
    Break { name: String, after: usize },
    /// The connection of a COPY breaks while it loads.
    BreakCopy,
    /// The connection of a swap breaks while it waits for a lock.
    BreakSwap,
    /// A statement is carried out, but the answer to its submission is lost.
    LoseAnswer,
}

/// A point to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) scenario: Scenario,
    pub(crate) way: Way,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Kill(kills) => {
                let kills: Vec<String> = kills.iter().map(ToString::to_string).collect();
                write!(f, "killed {}", kills.join(", then "))
            }
            Way::Stop(at) => write!(f, "stopped {at}"),
            Way::Break { name, after } => write!(f, "connection broken in {name} after {after}"),
            Way::BreakCopy => f.write_str("connection broken during COPY"),
            Way::BreakSwap => f.write_str("connection broken during the swap"),
            Way::LoseAnswer => f.write_str("answer lost after a submission"),
        }
    }
}

impl Point {
    /// The last kill is where the swap was recorded and never sent.
    pub(crate) fn ends_before_swap(&self) -> bool {
        let before_swap = |at: &At| at.moment == Moment::Before && at.effect == "submit swap" && at.number == 1;
        self.scenario == Scenario::Late
            && matches!(&self.way, Way::Kill(kills) if kills.last().is_some_and(before_swap))
    }

    /// Two leases, or somebody else's lock, are waited for: such points come first, so that none is left alone at the end.
    pub(crate) fn is_slow(&self) -> bool {
        let twice = matches!(&self.way, Way::Kill(kills) if kills.len() > 1);
        twice || matches!(self.way, Way::Stop(_)) || self.scenario == Scenario::Blocked
    }

    /// A COPY that failed is made again.
    pub(crate) fn may_copy_again(&self) -> bool {
        match &self.way {
            Way::BreakCopy => true,
            Way::Break { name, .. } => name == "stage",
            _ => self.scenario.copies_again(),
        }
    }
}

/// All points of these traces: first each effect that no scenario before made, before it and after it.
pub(crate) fn of_traces(traces: &[(Scenario, Vec<String>)]) -> Vec<Point> {
    let mut points = Vec::new();
    let mut known = BTreeSet::new();
    for (scenario, effects) in traces {
        let news: BTreeSet<&String> = effects.iter().filter(|effect| !known.contains(*effect)).collect();
        for (index, effect) in effects.iter().enumerate() {
            // What follows something new is itself something new: a send after a hold isn't one after a mark.
            let follows_new = index > 0 && news.contains(&effects[index - 1]);
            if news.contains(effect) || follows_new {
                for moment in [Moment::Before, Moment::After] {
                    points.push(Point { scenario: *scenario, way: Way::Kill(vec![at(effects, index, moment)]) });
                }
            }
        }
        known.extend(effects.iter().cloned());
    }
    points
}

/// Redshift's connection, broken in each submission at each of its statements: before the first, between them, before COMMIT
/// and in its answer. `statements` tells how many each submission has; it is tried in the first scenario that makes it.
pub(crate) fn broken(traces: &[(Scenario, Vec<String>)], statements: &BTreeMap<String, usize>) -> Vec<Point> {
    let mut points = Vec::new();
    let mut known = BTreeSet::new();
    for (scenario, effects) in traces {
        for name in effects.iter().filter_map(|effect| effect.strip_prefix("submit ")) {
            if known.insert(name) {
                let places = 0..=statements.get(name).copied().unwrap_or_default() + 1;
                let way = |after| Way::Break { name: name.to_owned(), after };
                points.extend(places.map(|after| Point { scenario: *scenario, way: way(after) }));
            }
        }
    }
    points
}

/// Killed after an effect, and the one who takes over before the next: each pair of neighbours in a worker's effects.
pub(crate) fn twice(scenario: Scenario, effects: &[String]) -> Vec<Point> {
    let from = effects.iter().position(|effect| effect == "take").unwrap_or(0);
    let to = effects.iter().position(|effect| effect.starts_with("confirm")).unwrap_or(effects.len());
    let pairs = (from..to).map(|index| {
        let next = At { effect: effects[index + 1].clone(), number: 1, moment: Moment::Before };
        Way::Kill(vec![at(effects, index, Moment::After), next])
    });
    pairs.map(|way| Point { scenario, way }).collect()
}

/// Stopped before each effect of a worker.
pub(crate) fn zombies(scenario: Scenario, effects: &[String]) -> Vec<Point> {
    let from = effects.iter().position(|effect| effect == "take").unwrap_or(0);
    (from..effects.len()).map(|index| Point { scenario, way: Way::Stop(at(effects, index, Moment::Before)) }).collect()
}

fn at(effects: &[String], index: usize, moment: Moment) -> At {
    let effect = effects[index].clone();
    let number = effects[..=index].iter().filter(|other| **other == effect).count();
    At { effect, number, moment }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn told(points: &[Point]) -> Vec<String> {
        points.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_effect_has_two_points_and_a_later_scenario_only_those_of_its_own() {
        let late = trace(&["mark", "send", "take", "put part", "put part", "confirm"]);
        let other = trace(&["take", "hold", "send", "take", "confirm"]);
        let points = of_traces(&[(Scenario::Late, late), (Scenario::Fenced, other)]);
        assert_eq!(points.len(), 12 + 4);
        let told = told(&points);
        assert!(told.contains(&"killed after put part (2)".to_owned()), "{told:?}");
        assert_eq!(
            told[12..],
            ["before hold", "after hold", "before send", "after send"].map(|at| format!("killed {at}"))
        );
    }

    #[test]
    fn neighbours_are_killed_one_after_the_other_until_the_confirm() {
        let effects = trace(&["mark", "send", "take", "hide", "confirm", "submit drop"]);
        assert_eq!(
            told(&twice(Scenario::Late, &effects)),
            ["killed after take, then before hide", "killed after hide, then before confirm"]
        );
        assert_eq!(told(&zombies(Scenario::Late, &effects)).len(), 4);
    }
}
