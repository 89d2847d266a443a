//! A worker: reads, decides, takes, goes from phase to phase, leaves. What comes next, and every write, is the shipped rules' word.

use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::{Fence, Generation};
use tidemark_domain::invariants;
use tidemark_domain::lock::Scope;
use tidemark_domain::partition::{Batch, PartitionItem, Phase, Statement as Recorded};
use tidemark_domain::settle::Settlement;
use tidemark_domain::step::{self, Fenced, Next, SOON, Submit, Swapped};
use tidemark_domain::take::{Decision, TRIES};
use tidemark_domain::update::{Item, Update};
use tidemark_domain::writes::{self, Keep};

use crate::carrier::{InHand, Kept, MARKED, Stored, after_hours, now};
use crate::rules::{Flaw, Rules};
use crate::world::{
    At, DEFINITION, Defined, Files, Lock, Outcome, PARTITION, Request, State, Statement, Worker, Working,
};

/// What is odd about a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// Nothing.
    Plain,
    /// It comes so long after the statement was submitted that its outcome can't be known.
    Late,
    /// It comes while the partition waits, for a moment or longer.
    Early {
        /// Whether it is ready within a minute.
        soon: bool,
    },
    /// Ten takes in a row have died before it.
    Stuck,
}

/// One worker of a world.
pub struct Act<'a> {
    /// The rules it works by.
    pub rules: Rules,
    /// The world.
    pub s: &'a mut State,
    /// Which worker.
    pub w: usize,
    /// Whether a copy of the write of its step stays on the wire.
    pub copied: bool,
}

impl Act<'_> {
    /// Decides by what it read, and does that.
    pub fn decide(&mut self, look: Look) {
        let At::Read(read, defined) = self.s.workers[self.w].at.clone() else { return };
        let mut item = PartitionItem::clone(&read);
        let mut at = now();
        match look {
            Look::Plain => {}
            Look::Late => at = after_hours(24),
            Look::Early { soon: true } => item.not_before = Some(at + SOON),
            Look::Early { soon: false } => item.not_before = Some(after_hours(2)),
            Look::Stuck => item.tries = TRIES,
        }
        let head = if self.rules.has(Flaw::DefinitionCachedTooLong) { Defined::FIRST.head() } else { defined.head() };
        match self.rules.decide(&item, &head, at) {
            Decision::Nothing(_) => self.answer(false),
            Decision::SendAgain => {
                self.s.messages += 1;
                self.answer(false);
            }
            Decision::PutOff(until) => match self.s.item.apply(&writes::put_off(&PARTITION, item.fence, until)) {
                Some(after) => {
                    self.s.item = after;
                    self.answer(false);
                }
                None => self.s.workers[self.w].at = self.s.look(),
            },
            Decision::Leave => match self.s.item.apply(&writes::leave(&PARTITION, &item)) {
                Some(after) => {
                    self.s.item = after;
                    self.answer(false);
                }
                None => self.s.workers[self.w].at = self.s.look(),
            },
            Decision::Take(take) => {
                let fence = item.fence.next();
                let Some(after) = self.s.item.apply(&self.rules.take(&read, &take)) else {
                    self.s.workers[self.w].at = self.s.look();
                    return;
                };
                if !self.acquire(fence) {
                    self.answer(true);
                    return;
                }
                // Legitimate or not is for the shipped rules to say.
                if let Decision::Take(shipped) = Rules::default().decide(&item, &head, at)
                    && item.batch.as_ref().map(|batch| batch.id) != Some(shipped.batch.id)
                {
                    self.s.ghost.copies = 0;
                }
                self.s.item = after;
                let taken = Kept::item(as_workers_read(&item));
                let batch = InHand::batch(take.batch.clone());
                let working = Working { fence, taken, written: batch.clone(), batch, wait: None };
                self.s.workers[self.w].at = At::Working(working.clone());
                if take.stuck {
                    let next = step::failed(&item, &take.batch, FailureKind::Stuck, "", now(), 0);
                    self.left(&working, next);
                }
            }
        }
    }

    /// The message is acknowledged, or comes back; then the worker is free.
    fn answer(&mut self, back: bool) {
        let worker = &mut self.s.workers[self.w];
        self.s.messages += u8::from(back && worker.message);
        *worker = Worker { at: At::Idle, message: false };
    }

    fn scope() -> Scope {
        Scope::of(&PARTITION, DEFINITION.concurrency)
    }

    fn acquire(&mut self, fence: Fence) -> bool {
        let update = Self::scope().acquire(&fence.to_string(), now(), after_hours(2));
        let taken = update.apply(self.s.lock.map(stored_lock).as_ref()).is_some();
        if taken {
            self.s.lock = Some(Lock { holder: fence, over: false });
        }
        taken
    }

    fn release(&mut self, fence: Fence) {
        let update = Self::scope().release(&fence.to_string());
        let released = update.apply(self.s.lock.map(stored_lock).as_ref()).is_some();
        if released || self.rules.has(Flaw::ReleaseAnybodysLock) {
            self.s.lock = None;
        }
    }

    /// One step of a worker under a take, or of one that leaves; `None` while it can only wait.
    pub fn step(&mut self) -> Option<()> {
        match self.s.workers[self.w].at.clone() {
            At::Idle | At::Read(..) => return None,
            At::Listed(working, files, marked) => {
                let batch = Batch { covers: self.s.item.marked, ..Batch::clone(&working.batch) };
                let working = Working { batch: InHand::batch(batch), ..working };
                self.decide_by_listing(&working, files, marked);
            }
            At::Working(working) => return self.phase(&working),
            At::Leaving { release, send, back } => {
                if let Some(fence) = release {
                    self.release(fence);
                }
                self.s.messages += u8::from(send);
                self.answer(back);
            }
        }
        Some(())
    }

    fn phase(&mut self, working: &Working) -> Option<()> {
        let phase = working.batch.phase;
        if phase == Phase::Listing {
            let files = self.s.source;
            if self.rules.has(Flaw::CoversReadAfterList) {
                self.s.workers[self.w].at = At::Listed(working.clone(), files, self.s.item.marked);
            } else {
                self.decide_by_listing(working, files, self.s.item.marked);
            }
            return Some(());
        }
        if phase == Phase::Fencing && self.rules.has(Flaw::LookWithoutFencing) {
            let next = self.look(working);
            self.advance(working, next);
            return Some(());
        }
        let Some(copy) = working.wait else {
            self.submit(working);
            return Some(());
        };
        let request = Request::of(&working.batch);
        let statement = |x: &&Statement| x.request.same_token(&request) && x.copy == copy;
        let outcome = self.s.redshift.statements.iter().find(statement).map_or(Outcome::Running, |x| x.outcome);
        let next = match (phase, outcome) {
            (_, Outcome::Running) if self.rules.has(Flaw::TryRaisedUnseen) && working.batch.attempt == 1 => {
                Next::Enter(working.batch.next_try())
            }
            (_, Outcome::Running) => return None,
            (Phase::Fencing, Outcome::Finished) => self.look(working),
            (Phase::Staging, outcome) => self.staged(working, outcome),
            (Phase::Swapping, outcome) => self.swapped(working, outcome),
            (_, outcome) => statement_failed(working, kind(outcome)),
        };
        self.advance(working, next);
        Some(())
    }

    // ---- statements

    fn submit(&mut self, working: &Working) {
        match self.rules.submit(&working.batch) {
            Submit::Record(batch) => {
                let update = self.rules.record(&working.held(), &batch);
                self.record(working, &update, batch, working.taken.clone());
            }
            Submit::Again => self.send(working),
            Submit::Describe(id) => self.wait(working, id.parse().unwrap_or(0)),
            Submit::Lost => self.advance(working, statement_failed(working, FailureKind::SourceChanged)),
            Submit::Denied => self.advance(working, Next::Denied),
        }
    }

    fn wait(&mut self, working: &Working, copy: u8) {
        self.s.workers[self.w].at = At::Working(Working { wait: Some(copy), ..working.clone() });
    }

    /// The Data API takes the request: under a token it knows, it finds the statement that is there.
    fn send(&mut self, working: &Working) {
        let request = Request::of(&working.batch);
        let statements = &self.s.redshift.statements;
        let known = statements.iter().filter(|x| x.request.same_token(&request)).max_by_key(|x| x.copy);
        let copy = match known {
            Some(known) if !known.expired => known.copy,
            known => {
                let copy = known.map_or(0, |known| known.copy + 1);
                // A statement whose token has expired is beyond what anybody can know.
                let unknown = statements.iter().any(|x| {
                    let same_phase = (x.request.born, x.request.phase) == (request.born, request.phase);
                    let earlier = same_phase && x.request.attempt < request.attempt;
                    earlier && x.copy == 0 && !x.expired && x.outcome == Outcome::Running
                });
                self.s.note(invariants::token_is_due(unknown));
                if request.phase == Phase::Staging && copy == 0 && working.fence == self.s.item.fence {
                    self.s.ghost.copies += 1;
                    self.s.note(invariants::copied_once(self.s.ghost.copies.into()));
                }
                self.s.redshift.statements.push(Statement { request, copy, expired: false, outcome: Outcome::Running });
                copy
            }
        };
        self.wait(working, copy);
    }

    // ---- what is seen, and what comes next

    fn look(&mut self, working: &Working) -> Next {
        let stored = Fence(self.s.redshift.fence.into());
        let newest = self.s.redshift.newest.committed();
        match self.rules.fenced(&working.taken, &working.batch, stored, newest) {
            Fenced::Ahead(ledger, stored) => step::ahead(working.fence, Some(&self.s.item), ledger, stored),
            Fenced::Looked { batch, landed } => Next::Looked { batch, newest: landed.map(Box::new) },
        }
    }

    /// `marked` is what the item said when `files` were listed.
    fn decide_by_listing(&mut self, working: &Working, files: Files, marked: Generation) {
        let next = self.rules.listed(&working.taken, &working.batch, files);
        self.s.note(invariants::lists_after_mark(working.batch.covers, marked));
        self.advance(working, next);
    }

    fn staged(&mut self, working: &Working, outcome: Outcome) -> Next {
        let inventory = Request::of(&working.batch).inventory;
        let changed = inventory.changed(self.s.source) && !self.rules.has(Flaw::NotListedAgain);
        if matches!(outcome, Outcome::Finished | Outcome::Exists) {
            if changed {
                return statement_failed(working, FailureKind::SourceChanged);
            }
            let own = crate::world::born(working.batch.id);
            let rows =
                self.s.redshift.staging.iter().find(|(born, _)| *born == own).map_or(inventory, |(_, rows)| *rows);
            return self.rules.staged(&working.taken, &working.batch, rows);
        }
        let kind = kind(outcome);
        let kind = if step::may_be_the_source(kind) { step::copy_failure(kind, changed) } else { kind };
        statement_failed(working, kind)
    }

    fn swapped(&mut self, working: &Working, outcome: Outcome) -> Next {
        let request = Request::of(&working.batch);
        let confirm = |last| Next::Confirm { last: Some(Box::new(last)) };
        if outcome == Outcome::Finished {
            return confirm(request.row().committed());
        }
        let redshift = &self.s.redshift;
        let own = redshift.ledger.iter().chain([&redshift.newest]).find(|row| row.born == request.born);
        let stored = Fence(redshift.fence.into());
        match self.rules.swapped(&working.batch, own.map(|row| row.committed()), stored) {
            Swapped::Committed(last) => confirm(last),
            Swapped::Ahead(stored) => step::ahead(working.fence, Some(&self.s.item), Generation(0), stored),
            Swapped::Failed
                if outcome == Outcome::ForeignRows
                    && step::wrote_unknown_to_item(&working.batch, Some(&redshift.newest.committed())) =>
            {
                let ledger = Generation(redshift.newest.covers.into());
                step::ahead(working.fence, Some(&self.s.item), ledger, stored)
            }
            Swapped::Failed => statement_failed(working, kind(outcome)),
            Swapped::Missing => statement_failed(working, FailureKind::Bug),
        }
    }

    // ---- writes

    /// Writes the item; `false`: refused.
    fn write(&mut self, update: &Update) -> bool {
        if self.copied {
            self.s.wire = Some(Kept::update(update.clone()));
        }
        let Some(after) = self.s.item.apply(update) else { return false };
        let next_try = |batch: &Batch| {
            let same = |before: &Batch| (before.id, before.phase) == (batch.id, batch.phase);
            self.s.item.batch.as_ref().is_some_and(|before| same(before) && batch.attempt > before.attempt)
        };
        if after.batch.as_ref().is_none_or(next_try) {
            self.s.ghost.copies = 0;
        }
        self.s.item = after;
        true
    }

    /// Goes on with what needs no record of its own, or records it; leaves where it doesn't go on.
    fn advance(&mut self, working: &Working, next: Next) {
        match next {
            Next::Enter(batch) => self.go_on(working, batch, working.taken.clone()),
            Next::Looked { batch, newest } => {
                let update = self.rules.record_look(&working.held(), &batch, newest.as_deref());
                let last = newest.map(|newest| *newest).or(working.taken.last.clone());
                let taken = PartitionItem { last, ..PartitionItem::clone(&working.taken) };
                self.record(working, &update, batch, Kept::item(taken));
            }
            leaving => self.left(working, leaving),
        }
    }

    fn record(&mut self, working: &Working, update: &Update, batch: Batch, taken: Kept<Stored>) {
        if self.write(update) {
            let written = Working { written: InHand::batch(batch.clone()), ..working.clone() };
            self.go_on(&written, batch, taken);
        } else {
            self.leave(working, false, false, true);
        }
    }

    fn go_on(&mut self, working: &Working, batch: Batch, taken: Kept<Stored>) {
        let working = Working { batch: InHand::batch(batch), taken, wait: None, ..working.clone() };
        self.s.workers[self.w].at = At::Working(working);
    }

    /// Leaves the partition as `next` says.
    pub fn left(&mut self, working: &Working, next: Next) {
        let held = working.held();
        match next {
            Next::Confirm { last } => self.confirm(working, last.as_deref()),
            Next::Settle { settlement: Settlement::Hold { kind, until, keep: kept, .. }, keep } => {
                let keep = if kept { Keep::As(&keep) } else { Keep::End(&keep) };
                let update = self.rules.hold(&held, &working.taken, &kind, until, keep);
                let written = self.write(&update);
                let soon = until.duration_since(now()) <= SOON;
                self.leave(working, written && soon, false, !written);
            }
            Next::Settle { settlement: Settlement::Park { kind, .. }, keep } => self.park(working, &keep, &kind),
            Next::HandOff { statement } => {
                let batch = step::handed_off(&working.batch, statement);
                let written = self.write(&self.rules.record(&held, &batch));
                self.leave(working, false, written, !written);
            }
            Next::Restored { ledger, stored } => {
                self.s.ghost.restored = true;
                let update = self.rules.restored(&held, self.s.item.marked, ledger, stored);
                let written = self.write(&update);
                self.leave(working, written, false, !written);
            }
            // A halt or a denial needs a dataset that isn't active, which the model leaves out.
            Next::Settle { .. } | Next::Denied | Next::Overtaken | Next::Enter(_) | Next::Looked { .. } => {
                self.leave(working, false, false, true);
            }
        }
    }

    fn confirm(&mut self, working: &Working, last: Option<&tidemark_domain::partition::Committed>) {
        let (held, batch) = (working.held(), &working.batch);
        if self.write(&self.rules.confirm_rest(&held, batch, last)) {
            return self.leave(working, false, false, false);
        }
        let found = PartitionItem::clone(&self.s.item);
        let asks_for_fence = !self.rules.has(Flaw::WritesUnfenced) && !self.rules.has(Flaw::ConfirmUnfenced);
        if asks_for_fence && !held.holds(&found) {
            return self.leave(working, false, false, true);
        }
        let again = self.rules.confirm_again(&held, batch, last, found);
        let written = self.write(&again);
        self.leave(working, written, false, !written);
    }

    fn park(&mut self, working: &Working, batch: &Batch, kind: &str) {
        let held = working.held();
        if self.write(&self.rules.park(&held, batch, kind, self.s.item.marked)) {
            return self.leave(working, false, false, false);
        }
        if !held.holds(&self.s.item) {
            return self.leave(working, false, false, true);
        }
        let (update, until) = self.rules.park_again(&held, &working.taken, batch, kind);
        let written = self.write(&update);
        self.leave(working, written && until.duration_since(now()) <= SOON, false, !written);
    }

    /// After the last write: the lock went back with it, unless the worker was overtaken.
    fn leave(&mut self, working: &Working, send: bool, back: bool, overtaken: bool) {
        if !overtaken {
            self.release(working.fence);
        }
        let release = overtaken.then_some(working.fence);
        self.s.workers[self.w].at = At::Leaving { release, send, back };
    }
}

/// Redshift's word for how a statement ended.
fn kind(outcome: Outcome) -> FailureKind {
    match outcome {
        Outcome::Rejected => FailureKind::RejectedData,
        Outcome::Cancelled => FailureKind::TooSlow,
        Outcome::SourceChanged => FailureKind::SourceChanged,
        Outcome::Superseded => FailureKind::Superseded,
        Outcome::EpochOver => FailureKind::EpochOver,
        Outcome::ForeignRows => FailureKind::ForeignRows,
        Outcome::Running | Outcome::Finished | Outcome::Broken => FailureKind::Unavailable,
        Outcome::Exists => FailureKind::Bug,
    }
}

fn statement_failed(working: &Working, kind: FailureKind) -> Next {
    step::statement_failed(&working.taken, &working.batch, kind, "", now(), 0)
}

/// What a worker reads of the item it took: the rest is left out, so that states that differ in it are one.
fn as_workers_read(item: &PartitionItem) -> PartitionItem {
    PartitionItem {
        built: Generation(0),
        forced: None,
        removed: 0,
        batch: None,
        unresolved: false,
        parked: None,
        work: None,
        due_at: None,
        dirty_since: None,
        parked_work: None,
        parked_since: None,
        ..item.clone()
    }
}

fn stored_lock(lock: Lock) -> Item {
    let lease = if lock.over { MARKED } else { after_hours(2) };
    Item::from([
        ("holder".to_owned(), lock.holder.to_string().into()),
        ("lease".to_owned(), lease.as_millisecond().into()),
    ])
}

/// The id under which a statement was recorded, for a hand-off: its copy's number.
pub fn statement_id(working: &Working) -> Option<String> {
    let recorded: Option<&Recorded> = working.batch.statement.as_ref();
    recorded.and(working.wait).map(|copy| copy.to_string())
}
