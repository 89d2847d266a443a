use std::time::Duration;

use super::*;
use crate::definition::Concurrency;
use crate::id::{DatasetName, DefinitionHash, Digest, Epoch, Fence, Generation, PartitionId, PartitionName};
use crate::message::Replay;
use crate::partition::{Accept, Committed, Parked, Statement};
use crate::update::{Item, Update};
use crate::writes::Taken;
use crate::{definition, writes};

const FILE: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint"]
load_window = "30m"
[orders.partition.dt]
type = "date"
column = "dt"
in_files = false
"#;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn id() -> PartitionId {
    PartitionId {
        dataset: DatasetName::new("orders").unwrap(),
        partition: PartitionName::new("dt=2026-11-01").unwrap(),
    }
}

fn batch_id() -> BatchId {
    BatchId(uuid::Uuid::from_u128(7))
}

struct World {
    item: Option<Item>,
    head: Head,
    definition: Definition,
}

impl World {
    fn new() -> Self {
        let definition = definition::parse(FILE).unwrap().remove(0);
        let head = Head {
            hash: definition.hash(),
            epoch: Epoch(1),
            mode: Mode::Active,
            concurrency: Concurrency::Table,
            why: None,
            since: at(0),
            by: "test".into(),
            probe_at: None,
            watermark: None,
        };
        Self { item: None, head, definition }
    }

    fn marked(seconds: i64) -> Self {
        let mut world = Self::new();
        world.write(&writes::mark(&id(), 0, at(seconds)));
        world
    }

    fn write(&mut self, update: &Update) {
        self.item = Some(update.apply(self.item.as_ref()).expect("the write's condition holds"));
    }

    fn item(&self) -> PartitionItem {
        PartitionItem::from_item(self.item.as_ref().unwrap()).unwrap()
    }

    fn decide(&self, seconds: i64) -> Decision {
        let item = self.item();
        let view = View {
            item: &item,
            head: &self.head,
            definition: Some(&self.definition),
            settle: SignedDuration::from_secs(30),
            now: at(seconds),
        };
        decide(&view, batch_id())
    }

    fn take(&mut self, seconds: i64) -> Take {
        let Decision::Take(take) = self.decide(seconds) else { panic!("{:?}", self.decide(seconds)) };
        let read = self.item();
        self.write(&writes::take(&id(), &read, &take.batch, take.unresolved, at(seconds)));
        *take
    }

    /// What the worker holds that took last.
    fn taken(&self) -> Taken {
        let item = self.item();
        Taken { fence: item.fence, batch: item.batch.expect("it is taken") }
    }

    fn record(&mut self, batch: &Batch) {
        let taken = self.taken();
        self.write(&writes::record(&id(), &taken, batch));
    }
}

fn committed(batch: &Batch, seconds: i64) -> Committed {
    Committed {
        batch: batch.id,
        generation: batch.covers,
        fence: batch.fence,
        digest: Digest::stored("d"),
        inventory: "i/".into(),
        rows: 3,
        took_seconds: 60,
        committed_at: at(seconds),
    }
}

#[test]
fn marks_settle_then_a_batch_is_born_under_the_takes_fence() {
    let mut world = World::marked(0);
    assert_eq!(world.decide(10), Decision::SendAgain);
    let take = world.take(31);
    assert_eq!((take.batch.fence, take.batch.covers, take.batch.phase), (Fence(1), Generation(1), Phase::Listing));
    assert_eq!(take.batch.statement_timeout_seconds, 1800);
    assert_eq!((world.item().fence, world.item().tries), (Fence(1), 1));
}

#[test]
fn marks_that_never_stop_settle_for_ten_minutes_at_most() {
    let mut world = World::marked(0);
    for second in (20..620).step_by(20) {
        world.write(&writes::mark(&id(), 0, at(second)));
    }
    assert!(matches!(world.decide(601), Decision::Take(_)));
}

#[test]
fn a_batch_left_unfinished_is_continued_with_what_it_began_with() {
    let mut world = World::marked(0);
    let born = world.take(31).batch;
    world.record(&born.enter(Phase::Staging).recorded("token".into(), at(40)));
    world.write(&writes::mark(&id(), 0, at(50)));
    let take = world.take(100);
    assert_eq!((take.batch.id, take.batch.fence, take.batch.covers), (born.id, Fence(1), Generation(1)));
    assert_eq!(world.item().fence, Fence(2));
    assert_eq!(take.found, Some(FailureState::DuringStaging), "its worker wrote last when it recorded its statement");
    assert_eq!(take.batch.recovered, Some(FailureState::DuringStaging));
    world.record(&take.batch.left_in_order());
    let handed_on = world.take(200);
    assert_eq!(handed_on.found, None, "its worker left it in order");
    assert_eq!(world.take(300).found, Some(FailureState::DuringStaging), "the take before died without a write");
}

#[test]
fn a_changed_definition_gives_a_batch_up_unless_its_swap_may_run() {
    let mut world = World::marked(0);
    let born = world.take(31).batch;
    world.head.hash = DefinitionHash::stored("another");
    let anew = world.take(100);
    assert_ne!(anew.batch.fence, born.fence);
    assert!(!anew.unresolved);
    let swapping = anew.batch.enter(Phase::Swapping).recorded("token".into(), at(110));
    world.record(&swapping);
    world.head.hash = DefinitionHash::stored("a third");
    assert_eq!(world.take(200).batch.id, swapping.id);
    world.record(&swapping.next_try());
    let fenced = world.take(300);
    assert!(fenced.unresolved, "a swap was recorded, whatever was seen of it");
    assert_eq!(fenced.batch.phase, Phase::Fencing);
}

#[test]
fn an_outcome_nobody_can_ask_for_any_more_gives_the_batch_up_and_fences() {
    for (id_known, age_hours, continued) in [(false, 6, true), (false, 8, false), (true, 22, true), (true, 24, false)] {
        let mut world = World::marked(0);
        let mut batch = world.take(31).batch.enter(Phase::Swapping).recorded("token".into(), at(40));
        let known = id_known.then(|| "statement".to_owned());
        batch.statement = batch.statement.map(|statement| Statement { id: known, ..statement });
        world.record(&batch);
        let take = world.take(40 + age_hours * 3600);
        assert_eq!(take.batch.phase == Phase::Swapping, continued, "id known: {id_known}, {age_hours} h");
        assert_eq!(take.unresolved, !continued);
    }
}

#[test]
fn a_raised_epoch_ends_every_batch() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch.enter(Phase::Swapping).recorded("token".into(), at(40));
    world.record(&batch);
    world.head.epoch = Epoch(2);
    let take = world.take(100);
    assert_eq!((take.batch.phase, take.batch.epoch, take.unresolved), (Phase::Fencing, Epoch(2), true));
}

#[test]
fn ten_takes_that_died_in_a_row_are_one_stuck_partition() {
    let mut world = World::marked(0);
    for n in 0..i64::from(TRIES) {
        assert!(!world.take(100 + n).stuck, "take {n}");
    }
    assert!(world.take(500).stuck);
}

#[test]
fn the_interval_holds_back_all_but_what_is_forced_or_unfinished() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    world.write(&writes::confirm_rest(&id(), &world.taken(), &batch, Some(&committed(&batch, 100))));
    assert_eq!(world.decide(101), Decision::Nothing(Reason::Built));
    world.write(&writes::mark(&id(), 0, at(110)));
    assert_eq!(world.decide(150), Decision::PutOff(at(340)), "four times the 60 s that the last one took");
    world.write(&writes::replay(&id(), Some(Generation(2)), &Replay { force: true, ..Replay::default() }, at(160)));
    let Decision::Take(take) = world.decide(161) else { panic!() };
    assert!(take.batch.forced);
    assert_eq!(take.batch.before.map(|before| before.rows), Some(3));
}

#[test]
fn c095_a_mark_during_the_rebuild_keeps_the_partition_dirty() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    world.write(&writes::mark(&id(), 0, at(40)));
    let done = committed(&batch, 50);
    assert_eq!(writes::confirm_rest(&id(), &world.taken(), &batch, Some(&done)).apply(world.item.as_ref()), None);
    world.write(&writes::confirm_again(&id(), &world.taken(), &batch, Some(&done), at(60), at(50)));
    let item = world.item();
    assert_eq!((item.built, item.marked, item.due_at), (Generation(1), Generation(2), Some(at(60))));
    assert!(matches!(world.decide(1000), Decision::Take(_)));
}

#[test]
fn c104_a_worker_that_was_overtaken_writes_nothing() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    let taken = world.taken();
    world.take(200);
    let done = committed(&batch, 210);
    let holds = crate::partition::Holds { kind: "unavailable".into(), count: 1 };
    let parked = Parked { generation: Generation(1), digest: None, kind: "bug".into(), message: String::new() };
    let none = std::collections::BTreeSet::new();
    for late in [
        writes::record(&id(), &taken, &batch),
        writes::record_look(&id(), &taken, &batch, None),
        writes::hold(&id(), &taken, &holds, at(300), writes::Keep::As(&batch), &none),
        writes::confirm_rest(&id(), &taken, &batch, Some(&done)),
        writes::park(&id(), &taken, &batch, &parked, &none, at(210)),
        writes::restored(&id(), &taken, Generation(1), Generation(5), Fence(9), at(210)),
    ] {
        assert_eq!(late.apply(world.item.as_ref()), None, "{late:?}");
    }
}

#[test]
fn a_late_copy_of_a_worker_s_own_write_changes_nothing() {
    let done = |batch: &Batch| committed(batch, 210);
    let holds = crate::partition::Holds { kind: "unavailable".into(), count: 1 };
    let parked = Parked { generation: Generation(1), digest: None, kind: "bug".into(), message: String::new() };
    let none = std::collections::BTreeSet::new();
    for last in 0..4 {
        let mut world = World::marked(0);
        let batch = world.take(31).batch;
        let mut sent = vec![];
        let mut send = |world: &mut World, update: Update| {
            world.write(&update);
            sent.push(update);
        };
        let update = writes::record_look(&id(), &world.taken(), &batch.enter(Phase::Listing), None);
        send(&mut world, update);
        for phase in [Phase::Staging, Phase::Swapping] {
            let recorded = batch.enter(phase).recorded("token".into(), at(40));
            let update = writes::record(&id(), &world.taken(), &recorded);
            send(&mut world, update);
        }
        let taken = world.taken();
        let update = match last {
            0 => writes::confirm_rest(&id(), &taken, &taken.batch, Some(&done(&taken.batch))),
            1 => writes::park(&id(), &taken, &taken.batch, &parked, &none, at(210)),
            2 => writes::hold(&id(), &taken, &holds, at(300), writes::Keep::As(&taken.batch), &none),
            _ => writes::hold(&id(), &taken, &holds, at(300), writes::Keep::End(&taken.batch), &none),
        };
        send(&mut world, update);
        for copy in sent {
            assert_eq!(copy.apply(world.item.as_ref()), None, "after write {last}: {copy:?}");
        }
    }
}

#[test]
fn a_record_whose_answer_was_lost_is_known_again_until_somebody_else_takes() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    let taken = world.taken();
    let next = batch.enter(Phase::Staging).recorded("token".into(), at(40));
    assert!(!taken.wrote(&next, world.item.as_ref().unwrap()), "not yet");
    world.record(&next);
    assert!(taken.wrote(&next, world.item.as_ref().unwrap()));
    world.take(200);
    assert!(!taken.wrote(&next, world.item.as_ref().unwrap()), "overtaken, though the batch is continued as it was");
}

#[test]
fn a_worker_holds_what_it_wrote_though_stored_times_are_rounded() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    let now = at(40) + SignedDuration::from_nanos(123_456_789);
    let next = Batch { began_at: now, ..batch }.enter(Phase::Swapping).recorded("token".into(), now);
    world.write(&writes::record(&id(), &world.taken(), &next));
    let taken = Taken { batch: next, ..world.taken() };
    assert!(taken.holds(&world.item()), "nobody wrote since");
    world.write(&writes::mark(&id(), 0, at(41)));
    assert!(taken.holds(&world.item()), "a mark leaves the batch alone");
    world.take(400);
    assert!(!taken.holds(&world.item()));
}

#[test]
fn a_take_compares_the_batch_as_well_as_the_fence() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    let stale = world.item();
    world.record(&batch.enter(Phase::Swapping).recorded("token".into(), at(40)));
    assert_eq!(writes::take(&id(), &stale, &batch, false, at(50)).apply(world.item.as_ref()), None);
}

#[test]
fn a_parked_partition_rests_until_a_new_mark_wakes_it() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    let parked = Parked { generation: Generation(1), digest: None, kind: "empty_source".into(), message: "m".into() };
    let none = std::collections::BTreeSet::new();
    world.write(&writes::park(&id(), &world.taken(), &batch, &parked, &none, at(40)));
    let item = world.item();
    assert_eq!((item.due_at, item.work.clone(), item.parked_since), (None, None, Some(at(40))));
    assert_eq!(world.decide(100), Decision::Nothing(Reason::Parked));
    world.write(&writes::mark(&id(), 0, at(200)));
    assert_eq!(world.item().parked_work, None);
    assert!(matches!(world.decide(300), Decision::Take(_)));
}

#[test]
fn whatever_ends_a_batch_whose_swap_was_recorded_leaves_it_unresolved() {
    let none = std::collections::BTreeSet::new();
    let holds = crate::partition::Holds { kind: "epoch_over".into(), count: 1 };
    let parked = Parked { generation: Generation(1), digest: None, kind: "bug".into(), message: "m".into() };
    for end in 0..2 {
        let mut world = World::marked(0);
        let batch = world.take(31).batch.enter(Phase::Swapping).recorded("token".into(), at(40));
        world.record(&batch);
        world.write(&match end {
            0 => writes::hold(&id(), &world.taken(), &holds, at(60), writes::Keep::End(&batch), &none),
            _ => writes::park(&id(), &world.taken(), &batch, &parked, &none, at(50)),
        });
        assert!(world.item().unresolved && world.item().batch.is_none());
    }
}

#[test]
fn paused_follows_what_was_submitted_and_begins_nothing() {
    let mut world = World::marked(0);
    world.head.mode = Mode::Paused;
    assert_eq!(world.decide(100), Decision::Nothing(Reason::Paused));
    world.head.mode = Mode::Active;
    let batch = world.take(100).batch;
    world.head.mode = Mode::Paused;
    assert_eq!(world.decide(120), Decision::Nothing(Reason::Paused));
    world.record(&batch.enter(Phase::Staging).recorded("token".into(), at(110)));
    assert_eq!(world.take(130).permission, Permission::Follow);
}

#[test]
fn halted_is_probed_every_fifteen_minutes() {
    let mut world = World::marked(0);
    world.head.mode = Mode::Halted;
    world.head.probe_at = Some(at(900));
    assert_eq!(world.decide(100), Decision::Nothing(Reason::Halted));
    let Decision::Take(take) = world.decide(901) else { panic!() };
    assert!(take.probe && take.permission == Permission::All);
}

#[test]
fn retired_leaves_the_index_once_no_swap_can_be_out() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch.enter(Phase::Swapping).recorded("token".into(), at(40));
    world.record(&batch);
    world.head.mode = Mode::Retired;
    let take = world.take(100);
    assert_eq!((take.batch.id, take.permission), (batch.id, Permission::Retire));
    assert!(take.permission.allows(Phase::Fencing) && !take.permission.allows(Phase::Swapping));

    // Its statement was seen to fail, yet a first copy of the request may be on its way: it ends unresolved, then it is fenced off.
    world.record(&world.taken().batch.next_try());
    let take = world.take(101);
    assert_eq!((take.batch.phase, take.permission), (Phase::Swapping, Permission::Retire));

    let mut resting = World::marked(0);
    let kinds = [crate::verify::GuardKind::ForeignRows].into();
    let accept = Some(Accept { kinds, digest: None });
    let replay = Replay { force: true, accept, reason: None, by: None };
    resting.write(&writes::replay(&id(), Some(Generation(1)), &replay, at(0)));
    assert!(resting.item().accept.is_some());
    resting.head.mode = Mode::Retired;
    assert_eq!(resting.decide(1), Decision::Leave);
    let read = resting.item();
    resting.write(&writes::leave(&id(), &read));
    assert_eq!((resting.item().due_at, resting.item().work), (None, None));
    assert_eq!(resting.item().accept, None, "it was accepted for the target it had");
}

#[test]
fn an_interval_is_as_given_or_four_times_the_last_rebuild() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    let mut item = world.item();
    assert_eq!(interval(&item, &world.definition), SignedDuration::ZERO);
    item.last = Some(Committed { took_seconds: 3600, ..committed(&batch, 0) });
    assert_eq!(interval(&item, &world.definition), SignedDuration::from_mins(15));
    world.definition.interval = Interval::Fixed(Duration::from_secs(5));
    assert_eq!(interval(&item, &world.definition), SignedDuration::from_secs(5));
}

#[test]
fn the_stored_shape_of_a_partition_is_this() {
    let mut world = World::marked(0);
    let batch = world.take(31).batch;
    world.record(&batch.enter(Phase::Staging).recorded("token".into(), at(40)));
    expect_test::expect_file!["../../golden/partition-item-v1.json"]
        .assert_eq(&serde_json::to_string_pretty(world.item.as_ref().unwrap()).unwrap());
    assert_eq!(crate::partition::attributes(&world.item()).unwrap(), world.item.unwrap());
}
