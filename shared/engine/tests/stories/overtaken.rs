//! Workers that stall at the worst moment and go on after somebody else took over.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::SignedDuration;
use tidemark_domain::partition::{PartitionItem, Phase};
use tidemark_engine::inventory::Parts;
use tidemark_engine::memory::{Delivery, Plan};
use tidemark_engine::ports::Clock as _;
use tidemark_engine::rebuild::{Answer, Work};

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

/// A worker that goes on by one call a poll.
pub(crate) struct Stepwise {
    plan: Plan,
    invocation: Pin<Box<dyn Future<Output = (Delivery, Answer)>>>,
}

impl Stepwise {
    /// Takes the next message.
    pub(crate) fn begin(world: &mut World) -> Self {
        let delivery = world.queue.deliver().unwrap();
        let plan = Plan::quiet().taking_turns();
        world.plan = plan.clone();
        let engine = world.engine();
        world.plan = Plan::quiet();
        let deadline = world.clock.now() + SignedDuration::from_secs(120);
        let invocation = Box::pin(async move {
            let work = Work { body: &delivery.body, receipt: Some(&delivery.receipt), deadline };
            let answer = engine.rebuild(work).await;
            (delivery, answer)
        });
        Self { plan, invocation }
    }

    /// Goes on until `there`; the call that comes next isn't made.
    pub(crate) fn until(&mut self, world: &World, there: impl Fn(&World, &PartitionItem) -> bool) {
        for _ in 0..1_000 {
            if there(world, &world.item(DAY)) {
                return;
            }
            let polled = self.invocation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "it ended before it got there");
        }
        panic!("it never gets there");
    }

    /// Goes on until it has made a call so often; the call that comes next isn't made.
    pub(crate) fn until_called(&mut self, world: &World, call: &str, times: usize) {
        let plan = self.plan.clone();
        self.until(world, |_, _| plan.steps().iter().filter(|step| step.call == call).count() == times);
    }

    /// Tells how many calls it has made so far.
    pub(crate) fn calls(&self) -> impl Fn() -> usize + use<> {
        let plan = self.plan.clone();
        move || plan.steps().len()
    }

    /// How often it has written so far.
    pub(crate) fn writes(&self) -> usize {
        self.plan.steps().iter().filter(|step| step.call == "state.write").count()
    }

    /// Goes on to the end, as one whose invocation is over by then.
    pub(crate) fn until_it_ends(&mut self, world: &World) {
        for _ in 0..1_000 {
            if self.invocation.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
        }
        panic!("it never ends: {:?}", world.items());
    }

    /// Goes on to the end.
    pub(crate) fn finish(mut self, world: &World) -> Answer {
        for _ in 0..1_000 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready((delivery, answer)) = self.invocation.as_mut().poll(&mut context) {
                if let Answer::Done(_) = answer {
                    world.queue.delete(&delivery.receipt);
                }
                return answer;
            }
        }
        panic!("it never ends");
    }
}

/// A file has landed, is marked, and its message can be received.
pub(crate) async fn marked() -> World {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world
}

pub(crate) fn in_phase(phase: Phase) -> impl Fn(&World, &PartitionItem) -> bool {
    move |_, item| item.batch.as_ref().is_some_and(|batch| batch.phase == phase)
}

fn swap_recorded(_: &World, item: &PartitionItem) -> bool {
    item.batch.as_ref().is_some_and(tidemark_domain::partition::Batch::swap_recorded)
}

#[tokio::test]
async fn a_swap_that_was_recorded_but_never_sent_is_shut_out_once_it_is_given_up() {
    for committed_before in [0, 1] {
        let mut world = marked().await;
        if committed_before > 0 {
            world.rest("").await;
            world.put("dt=2026-11-01/before.csv", "0\n").await;
            world.mark().await;
            world.clock.advance(Duration::from_secs(31));
        }
        let mut first = Stepwise::begin(&mut world);
        first.until(&world, swap_recorded);
        // Its token is too old to be sent again, so the batch is given up; the next one fences, looks, and has got to listing.
        world.clock.advance(Duration::from_hours(9));
        world.put("dt=2026-11-01/b.csv", "2\n").await;
        world.mark().await;
        let mut second = Stepwise::begin(&mut world);
        second.until(&world, in_phase(Phase::Listing));
        assert!(!world.item(DAY).unresolved, "it has looked");
        let _answer = first.finish(&world);
        assert_eq!(world.warehouse.ledger().len(), committed_before, "I1: the swap came late and is refused");
        assert_eq!(second.finish(&world), Answer::Done("rebuilt"));
        world.rest("").await;
        world.assert_true("a late swap").await;
    }
}

#[tokio::test]
async fn a_swap_that_landed_unseen_is_found_before_anything_else() {
    let mut world = marked().await;
    let mut first = Stepwise::begin(&mut world);
    first.until(&world, |world, _| world.warehouse.ledger().len() == 1);
    drop(first);
    world.clock.advance(Duration::from_hours(25));
    world.put("dt=2026-11-01/b.csv", "2\n").await;
    world.rest("").await;
    world.assert_true("landed, and its worker died").await;
    assert_eq!(world.warehouse.ledger().len(), 2);
}

#[tokio::test]
async fn c102_c104_whoever_was_overtaken_in_any_phase_writes_nothing() {
    for phase in [Phase::Listing, Phase::Staging, Phase::Swapping] {
        let mut world = marked().await;
        let mut first = Stepwise::begin(&mut world);
        first.until(&world, in_phase(phase));
        world.clock.advance(Duration::from_mins(4));
        world.rest("").await;
        world.assert_true("taken over").await;
        let before = world.item(DAY);
        let _answer = first.finish(&world);
        assert_eq!(world.item(DAY), before, "overtaken in {phase:?}, it changes nothing");
        world.rest("").await;
        world.assert_true("the first came back").await;
    }
}

#[tokio::test]
async fn whoever_was_overtaken_while_it_listed_spoils_no_inventory_of_the_one_who_goes_on() {
    let mut world = marked().await;
    let mut first = Stepwise::begin(&mut world);
    // It has seen one file, and stalls before it writes anything of it down.
    first.until_called(&world, "objects.list", 2);
    world.clock.advance(Duration::from_mins(6));
    world.put("dt=2026-11-01/b.csv", "2\n").await;
    let mut second = Stepwise::begin(&mut world);
    second.until(&world, in_phase(Phase::Staging));
    first.until_it_ends(&world);
    assert_eq!(second.finish(&world), Answer::Done("rebuilt"));
    assert_eq!(world.rows()[DAY], ["1", "2"], "what it listed is what it loaded");
    world.rest("").await;
    world.assert_true("two listings of one batch").await;
    let inventory = world.item(DAY).last.unwrap().inventory;
    let mut parts = Parts::new(&world.objects, "control", Some(inventory));
    assert_eq!(parts.next_part().await.unwrap().unwrap().len(), 2, "and what its inventory says");
}
