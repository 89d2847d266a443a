//! What people do at night: files land and go, a partition is replayed, the dataset paused, a definition brought into force.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use tidemark_domain::apply::marks_are_made;
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{Epoch, PartitionId, PartitionName};
use tidemark_domain::job::{self, Job, Line};
use tidemark_domain::writes;
use tidemark_engine::jobs;
use tidemark_engine::ports::{Clock as _, StateStore as _};

use crate::chaos::Luck;
use crate::night::Night;
use crate::reached::Kind;
use crate::workers::Worker;
use crate::world::{definition, finish};

/// A definition on its way into force, as apply brings it: guard row, head, marks.
pub(crate) struct Apply {
    definition: Definition,
    epoch: Epoch,
    raised: bool,
    stage: u8,
}

impl Night {
    /// The lake changes: in a wide night at many places at once.
    pub(crate) fn change(&mut self) {
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

    /// A partition is replayed.
    pub(crate) fn replay(&mut self) {
        let force = self.chance.once_in(2);
        let partition = self.partition();
        self.tell(format!("an operator replays {partition}, force {force}"));
        self.world.scene.reach(Kind::Replayed);
        let body = format!(r#"{{"version":1,"dataset":"orders","partition":"{partition}","force":{force}}}"#);
        self.world.queue.put(&body, "by hand");
    }

    /// The dataset is paused, or active again.
    pub(crate) fn pause(&mut self) {
        let mode = match self.mode() {
            Some(Mode::Retired) => return,
            Some(Mode::Paused) => "active",
            _ => "paused",
        };
        self.tell(format!("the dataset is {mode}"));
        self.world.scene.reach(Kind::Paused);
        self.world.set_head(&[("mode", mode.into())]);
    }

    /// What is to be done with the dataset.
    pub(crate) fn mode(&self) -> Option<Mode> {
        self.world.head().map(|head| head.mode)
    }

    /// The dataset is no longer in the file; what is applied next has it again.
    pub(crate) fn retire(&mut self) {
        if self.mode() != Some(Mode::Retired) && self.apply.is_none() && self.chance.once_in(3) {
            self.tell("the dataset is retired");
            self.world.scene.reach(Kind::Retired);
            self.world.retire();
        }
    }

    /// A job of some partitions, real rebuilds or not.
    pub(crate) fn backfill(&mut self) {
        let some: BTreeSet<String> = (0..=self.chance.below(4)).map(|_| self.partition()).collect();
        let force = self.chance.once_in(2);
        let names = some.into_iter().map(|name| PartitionName::new(name).unwrap());
        let lines: Vec<Line> = names.map(Line::of).collect();
        self.tell(format!("an operator makes a job of {} partitions, force {force}", lines.len()));
        let luck = Luck::new(&self.world.scene, "operator", 0, self.chance.draw());
        let ports = self
            .world
            .engine(&Worker { name: "operator".to_owned(), luck, skew: SignedDuration::ZERO, warm: false })
            .ports;
        let (dataset, total) = (self.world.dataset(), lines.len() as u64);
        let job =
            Job { force, ..Job::new(ports.clock.id(), dataset, job::Kind::Backfill, total, "sim", ports.clock.now()) };
        if finish(jobs::make(&ports, "control", &job, &lines)).is_ok() {
            self.world.scene.reach(Kind::Backfilled);
        }
    }

    /// A definition gets a step further into force: guard row, then head and catalog, then marks.
    pub(crate) fn apply(&mut self) {
        let Some(mut apply) = self.apply.take() else {
            let raised = self.chance.once_in(2);
            return self.begin_apply(raised);
        };
        match apply.stage {
            0 if apply.raised => {
                self.tell(format!("the guard row is of epoch {}", apply.epoch));
                self.world.scene.reach(Kind::EpochRaised);
                self.world.own(apply.epoch);
            }
            0 => {}
            1 => self.put_in_force(&apply),
            _ => return self.mark_all(),
        }
        apply.stage += 1;
        self.apply = Some(apply);
    }

    /// Another definition, which raises the epoch or doesn't, is brought to its guard row.
    pub(crate) fn begin_apply(&mut self, raised: bool) {
        let width = 12 + u32::try_from(self.chance.below(3)).unwrap();
        let scope = *self.chance.of(&["table", "partition"]);
        let epoch = if raised { self.world.epoch.next() } else { self.world.epoch };
        self.apply = Some(Apply { definition: definition(width, scope), epoch, raised, stage: 0 });
        self.apply();
    }

    /// What is in the file is applied again: head and guard row are brought to the newest epoch, and the definition back into force
    /// where another is.
    pub(crate) fn apply_again(&mut self) {
        let (definition, epoch) = (self.world.definition.clone(), self.world.epoch);
        let head = self.world.head();
        let as_it_was =
            |head: &Head| head.hash == definition.hash() && head.epoch == epoch && head.mode != Mode::Retired;
        if head.as_ref().is_some_and(as_it_was) {
            self.apply = None;
            self.world.own(epoch);
        } else {
            self.apply = Some(Apply { definition, epoch, raised: true, stage: 0 });
            self.apply();
        }
    }

    fn put_in_force(&mut self, apply: &Apply) {
        let columns = apply.definition.columns.last().map(|column| format!("{:?}", column.sql_type));
        self.tell(format!("in force: {columns:?}, {:?}", apply.definition.concurrency));
        self.world.scene.reach(Kind::DefinitionChanged);
        self.world.put_in_force(&apply.definition, apply.epoch);
        self.world.definition = apply.definition.clone();
        self.world.definitions.insert(apply.definition.hash(), apply.definition.clone());
    }

    fn mark_all(&self) {
        for partition in self.world.items().into_keys() {
            let id = PartitionId { dataset: self.world.dataset(), partition: PartitionName::new(partition).unwrap() };
            let mark = writes::mark(&id, 0, self.world.clock.now());
            finish(self.world.state.write(&[mark], "")).unwrap();
        }
        if let Some(head) = self.world.head() {
            let made = marks_are_made(&self.world.dataset(), &head.hash);
            finish(self.world.state.write(&[made], "")).unwrap();
        }
        self.tell("all partitions are marked");
    }
}
