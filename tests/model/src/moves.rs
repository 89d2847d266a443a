//! What may happen, and what may go wrong.

use tidemark_domain::partition::Phase;

use crate::model::Protocol;
use crate::worker::Look;
use crate::world::{At, Events, Outcome, Request, State, Worker};

/// What may go wrong in a run; each costs one of `Left::faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The marker dies between its write and its message.
    MarkerCrash,
    /// An S3 event comes again.
    EventTwice,
    /// A message is lost.
    MessageLost,
    /// A message becomes visible again while its worker lives.
    MessageTwice(usize),
    /// A worker dies.
    WorkerCrash(usize),
    /// A worker's client sends the write of its step twice; the copy arrives whenever it does.
    WriteTwice(usize),
    /// A service fails a worker, which holds.
    Unavailable(usize),
    /// The lease runs out while the holder lives.
    LeaseOver,
    /// More than 8 h between the decision to submit and the submission.
    TokenExpires(usize),
    /// The statement ends without effect.
    Breaks(usize),
    /// The statement commits and is reported as failed.
    AnswerLost(usize),
    /// The statement ends with an error of the data.
    Rejects(usize),
    /// The load window is over, and the statement is cancelled.
    Cancelled(usize),
    /// A look that isn't plain.
    Look(usize, Look),
    /// `apply` raises the target's epoch, in the guard row and in the dataset's head; who has read the old head goes on by it.
    EpochRaised,
    /// `apply` changes the definition and not what the partition owns.
    Redefined,
}

/// A move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The second file is put.
    Put,
    /// The second file is put, and its rows fail to verify.
    PutBad,
    /// The first file is overwritten.
    Overwrite,
    /// The second file is deleted.
    Delete,
    /// An operator wants a rebuild for real.
    Replay,
    /// A mark is written for an event.
    Mark {
        /// Of a removal.
        removed: bool,
    },
    /// The mark's message is sent, where it owes one, and its event acknowledged.
    Send,
    /// Sweep wakes what is due.
    Wake,
    /// The lease of a holder that died runs out.
    LeaseOverOfTheDead,
    /// A worker receives a message, and reads the item.
    Receive(usize),
    /// It decides by what it read, and takes.
    Decide(usize),
    /// A copy of an earlier write arrives.
    CopyArrives,
    /// It does its next step.
    Step(usize),
    /// Its time is up.
    HandOff(usize),
    /// A statement runs to its end.
    Run(usize),
    /// A COPY loads what an overwrite of the same size left in place of the listed object.
    RunOverwritten(usize),
    /// Something goes wrong.
    Fault(Fault),
}

impl Action {
    /// Whether the system makes this move by itself when nothing more goes wrong and nothing changes.
    pub fn is_progress(self) -> bool {
        use Action::{CopyArrives, Delete, Fault, HandOff, Overwrite, Put, PutBad, Replay};
        !matches!(self, Put | PutBad | Overwrite | Delete | Replay | HandOff(_) | CopyArrives | Fault(_))
    }
}

impl Protocol {
    /// All that may happen next.
    pub fn moves(&self, s: &State, actions: &mut Vec<Action>) {
        changes(s, actions);
        if s.marking.is_some() {
            actions.push(Action::Send);
        } else {
            let of = |removed| Action::Mark { removed };
            actions.extend((s.events.created > 0).then(|| of(false)));
            actions.extend((s.events.removed > 0).then(|| of(true)));
        }
        if self.wake_is_due(s) {
            actions.push(Action::Wake);
        }
        if s.lock.is_some_and(|lock| !lock.over && !s.lives(lock.holder)) {
            actions.push(Action::LeaseOverOfTheDead);
        }
        // Workers are alike: the first idle one receives.
        if let Some(w) = s.workers.iter().position(|worker| worker.at == At::Idle)
            && s.messages > 0
        {
            actions.push(Action::Receive(w));
        }
        if s.wire.is_some() {
            actions.push(Action::CopyArrives);
        }
        for (w, worker) in s.workers.iter().enumerate() {
            match &worker.at {
                At::Idle => {}
                At::Read(..) => actions.push(Action::Decide(w)),
                At::Working(_) | At::Listed(..) | At::Leaving { .. } => actions.push(Action::Step(w)),
            }
            if s.left.handoffs > 0 && matches!(worker.at, At::Working(_)) {
                actions.push(Action::HandOff(w));
            }
        }
        for (x, statement) in s.redshift.statements.iter().enumerate() {
            if statement.outcome == Outcome::Running {
                actions.push(Action::Run(x));
                if statement.request.phase == Phase::Staging && statement.request.inventory != s.source {
                    actions.push(Action::RunOverwritten(x));
                }
            }
        }
        if s.left.faults > 0 {
            let mut faults = Vec::with_capacity(12);
            self.queue_faults(s, &mut faults);
            for (w, worker) in s.workers.iter().enumerate() {
                self.worker_faults(s, w, worker, &mut faults);
            }
            Self::statement_faults(s, &mut faults);
            if s.lock.is_some_and(|lock| !lock.over && s.lives(lock.holder)) {
                faults.push(Fault::LeaseOver);
            }
            if self.bounds.definitions {
                faults.extend([Fault::EpochRaised, Fault::Redefined]);
            }
            actions.extend(faults.into_iter().map(Action::Fault));
        }
    }

    fn queue_faults(&self, s: &State, faults: &mut Vec<Fault>) {
        if !self.bounds.queues {
            return;
        }
        if s.marking.is_some() {
            faults.push(Fault::MarkerCrash);
        } else if s.events != Events::default() {
            faults.push(Fault::EventTwice);
        }
        if s.messages > 0 {
            faults.push(Fault::MessageLost);
        }
    }

    fn worker_faults(&self, s: &State, w: usize, worker: &Worker, faults: &mut Vec<Fault>) {
        match &worker.at {
            At::Idle => return,
            At::Read(item, _) => {
                let submitted = item.batch.as_ref().is_some_and(|batch| batch.statement.is_some());
                let free = s.lock.is_none_or(|lock| lock.over);
                if submitted && free {
                    faults.push(Fault::Look(w, Look::Late));
                }
                if item.batch.is_some() && free {
                    faults.push(Fault::Look(w, Look::Stuck));
                }
                if self.bounds.queues {
                    faults.extend([true, false].map(|soon| Fault::Look(w, Look::Early { soon })));
                }
            }
            At::Working(_) => {
                faults.extend([Fault::WorkerCrash(w), Fault::Unavailable(w)]);
                if self.bounds.copies && s.wire.is_none() {
                    faults.push(Fault::WriteTwice(w));
                }
            }
            At::Listed(..) | At::Leaving { .. } => faults.push(Fault::WorkerCrash(w)),
        }
        if worker.message && self.bounds.queues {
            faults.push(Fault::MessageTwice(w));
        }
    }

    fn statement_faults(s: &State, faults: &mut Vec<Fault>) {
        for (x, statement) in s.redshift.statements.iter().enumerate() {
            // An expired token matters only to one who has decided to submit under it and hasn't yet.
            let late = |worker: &Worker| {
                matches!(&worker.at, At::Working(working)
                    if working.wait.is_none() && Request::of(&working.batch).same_token(&statement.request))
            };
            if !statement.expired && s.workers.iter().any(late) {
                faults.push(Fault::TokenExpires(x));
            }
            if statement.outcome == Outcome::Running {
                faults.extend([Fault::Breaks(x), Fault::AnswerLost(x), Fault::Cancelled(x)]);
                if statement.request.phase != Phase::Fencing {
                    faults.push(Fault::Rejects(x));
                }
            }
        }
    }
}

fn changes(s: &State, actions: &mut Vec<Action>) {
    if s.left.changes > 0 {
        actions.push(Action::Overwrite);
        if s.source.b == 0 {
            actions.extend([Action::Put, Action::PutBad]);
        } else {
            actions.push(Action::Delete);
        }
    }
    if s.left.replays > 0 {
        actions.push(Action::Replay);
    }
}
