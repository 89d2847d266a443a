//! How a story is told once for every effect it makes: failing before it, failing after it, repeating it, its worker dying before
//! or after it. The end is the same.

use std::collections::{BTreeMap, BTreeSet};

use tidemark_domain::partition::PartitionItem;
use tidemark_engine::memory::{Fault, Plan};

use super::world::{TOML, World};

pub(super) const DAY: &str = "dt=2026-11-01";
pub(super) const NEXT_DAY: &str = "dt=2026-11-02";

/// What two ends are compared by: everything but ids, times and how many takes and marks it cost.
#[derive(Debug, PartialEq)]
pub(super) struct End {
    pub(super) rows: BTreeMap<String, Vec<String>>,
    pub(super) items: BTreeMap<String, Rest>,
    /// Batches that committed.
    pub(super) commits: usize,
    pub(super) copies: usize,
    /// What else the story looks at.
    pub(super) seen: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Rest {
    built: bool,
    pub(super) parked: Option<(String, String)>,
    forced: bool,
    accept: bool,
    removed: i64,
    /// Of what was committed last.
    digest: Option<String>,
    last_rows: Option<u64>,
}

impl Rest {
    fn of(item: &PartitionItem) -> Self {
        let PartitionItem { built, marked, parked, forced, accept, removed, last, .. } = item;
        Self {
            built: built == marked,
            parked: parked.as_ref().map(|parked| (parked.kind.clone(), parked.message.clone())),
            forced: forced.is_some(),
            accept: accept.is_some(),
            removed: *removed,
            digest: last.as_ref().map(|last| last.digest.to_string()),
            last_rows: last.as_ref().map(|last| last.rows),
        }
    }
}

/// A story: what was before, in peace; what is done then, step by step; which calls have to be among its steps.
pub(super) struct Story {
    pub(super) toml: String,
    pub(super) before: AsyncStep,
    pub(super) act: AsyncStep,
    pub(super) calls: &'static [&'static str],
    pub(super) costs: Costs,
    /// What else it looks at in the end.
    pub(super) sees: fn(&World) -> BTreeSet<String>,
}

/// What a fault may cost; all else of the end is the same.
#[derive(PartialEq)]
pub(super) enum Costs {
    /// Nothing.
    Same,
    /// A commit or a COPY more.
    More,
    /// As many as it takes: what is done by two batches may be done by one.
    Any,
}

pub(super) type AsyncStep = fn(&mut World) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;

macro_rules! step {
    (|$world:ident| $body:block) => {
        |$world: &mut $crate::world::World| Box::pin(async move { $body })
    };
}
pub(super) use step;

/// A partition that was built once.
pub(super) const BUILT: AsyncStep = step!(|world| {
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
});

impl Story {
    /// What is done to a partition that was built once.
    pub(super) fn new(act: AsyncStep, calls: &'static [&'static str]) -> Self {
        let sees = |_: &World| BTreeSet::new();
        Self { toml: TOML.to_owned(), before: BUILT, act, calls, costs: Costs::More, sees }
    }

    async fn play(&self, plan: Plan, context: &str) -> World {
        let mut world = World::new(&self.toml).await;
        (self.before)(&mut world).await;
        world.rest("before").await;
        world.plan = plan;
        (self.act)(&mut world).await;
        world.rest(context).await;
        world.assert_at_rest(context).await;
        world
    }

    fn end(&self, world: &World) -> End {
        End {
            rows: world.rows(),
            items: world.items().iter().map(|(partition, item)| (partition.clone(), Rest::of(item))).collect(),
            commits: world.warehouse.ledger().len(),
            copies: world.submitted("/stage"),
            seen: (self.sees)(world),
        }
    }

    /// Plays it in peace, then with each fault at each of its steps.
    pub(super) async fn every_step(&self) -> End {
        let quiet = Plan::quiet();
        let world = self.play(quiet.clone(), "no fault").await;
        let (end, steps) = (self.end(&world), quiet.steps());
        for call in self.calls {
            assert!(steps.iter().any(|step| step.call == *call), "the story doesn't make {call}: {steps:?}");
        }
        for step in &steps {
            for fault in Fault::ALL {
                let context = format!("{fault:?} at step {} of {}, {}", step.number, steps.len(), step.call);
                let world = self.play(Plan::at(step.number, fault), &context).await;
                let mut seen = self.end(&world);
                if self.costs == Costs::More {
                    assert!(
                        seen.commits >= end.commits && seen.copies >= end.copies,
                        "{context}: {seen:?}, not {end:?}"
                    );
                }
                if self.costs != Costs::Same {
                    (seen.commits, seen.copies) = (end.commits, end.copies);
                }
                assert_eq!(seen, end, "{context}");
            }
        }
        end
    }
}
