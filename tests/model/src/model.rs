//! The protocol as a model to explore: where it starts, what may happen, what comes of it.

use std::hash::Hash;

use stateright::{Model, Property};
use tidemark_domain::failure::FailureKind;
use tidemark_domain::step;
use tidemark_domain::update::Update;
use tidemark_domain::writes;

use crate::carrier::{MARKED, now};
use crate::memo::remembered;
use crate::moves::{Action, Fault};
use crate::redshift::run;
use crate::rules::{Flaw, Rules};
use crate::worker::{Act, Look, statement_id};
use crate::world::{At, BAD, Defined, Left, Marking, Outcome, PARTITION, State, Worker, small};

/// How much may happen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// How often.
    pub left: Left,
    /// Whether events and messages are lost, doubled or early; without, there is room for more faults elsewhere.
    pub queues: bool,
    /// Whether definitions change.
    pub definitions: bool,
    /// Whether clients send writes twice.
    pub copies: bool,
}

/// The rules, within bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protocol {
    /// The bounds.
    pub bounds: Bounds,
    /// The rules.
    pub rules: Rules,
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self.bounds.left)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.moves(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut next = before.clone();
        let s = &mut next;
        match action {
            Action::Put | Action::PutBad | Action::Overwrite | Action::Delete => change(s, action),
            Action::Replay => {
                s.left.replays -= 1;
                let marked = s.item.marked;
                self.local(s, None, "replay", |s| write(s, &self.rules.replay(marked)))?;
                s.ghost.forced = small(s.item.marked.0);
                s.messages += 1;
            }
            Action::Mark { removed } => {
                let owes = writes::turned_dirty(Some(s.item.attributes())).is_some();
                let owes = owes && !self.rules.has(Flaw::MarkSendsNothing);
                self.local(s, None, ("mark", removed), |s| write(s, &self.rules.mark(removed)))?;
                s.marking = Some(Marking { removed, owes });
            }
            Action::Send => {
                let marking = s.marking.take()?;
                s.messages += u8::from(marking.owes);
                let of = if marking.removed { &mut s.events.removed } else { &mut s.events.created };
                *of -= 1;
            }
            Action::Wake => {
                self.local(s, None, "wake", |s| write(s, &writes::wake(&PARTITION, s.item.due_at?, now())))?;
                s.messages += 1;
            }
            Action::LeaseOverOfTheDead => s.lock.as_mut()?.over = true,
            Action::Receive(w) => {
                s.messages -= 1;
                s.workers[w] = Worker { at: s.look(), message: true };
            }
            Action::Decide(w) => self.decide(s, w, Look::Plain)?,
            Action::Step(w) => self.local(s, Some(w), "step", |s| self.act(s).step())?,
            Action::HandOff(w) => {
                s.left.handoffs -= 1;
                self.local(s, Some(w), "hand-off", |s| self.hand_off(s))?;
            }
            Action::CopyArrives => {
                let copy = s.wire.take()?;
                s.item = s.item.apply(&copy).unwrap_or(s.item.clone());
            }
            Action::Run(x) => run(self.rules, s, x, false),
            Action::RunOverwritten(x) => run(self.rules, s, x, true),
            Action::Fault(fault) => self.fault(s, fault)?,
        }
        next.tidy();
        next.broken = crate::check::broken(self, &next).err();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        crate::check::properties()
    }
}

fn change(s: &mut State, action: Action) {
    match action {
        Action::Put => s.source.b = 1,
        Action::PutBad => s.source.b = BAD,
        Action::Overwrite => s.source.a += 1,
        _ => s.source.b = 0,
    }
    s.left.changes -= 1;
    if action == Action::Delete {
        s.events.removed += 1;
    } else {
        s.events.created += 1;
    }
}

fn write(s: &mut State, update: &Update) -> Option<()> {
    s.item = s.item.apply(update)?;
    Some(())
}

impl Protocol {
    fn act<'a>(&self, s: &'a mut State) -> Act<'a> {
        Act { rules: self.rules, s, w: 0, copied: false }
    }

    /// A step that sees nothing but item, lock, Redshift and one worker, who is the first then.
    fn local(
        &self,
        s: &mut State,
        w: Option<usize>,
        name: impl Hash,
        step: impl FnOnce(&mut State) -> Option<()>,
    ) -> Option<()> {
        remembered(s, w, (self.rules, name), step)
    }

    fn decide(&self, s: &mut State, w: usize, look: Look) -> Option<()> {
        self.local(s, Some(w), ("decide", look), |s| {
            self.act(s).decide(look);
            Some(())
        })
    }

    fn hand_off(&self, s: &mut State) -> Option<()> {
        let At::Working(working) = s.workers[0].at.clone() else { return None };
        let statement = statement_id(&working);
        self.act(s).left(&working, step::Next::HandOff { statement });
        Some(())
    }

    fn unavailable(&self, s: &mut State) -> Option<()> {
        let At::Working(working) = s.workers[0].at.clone() else { return None };
        let unavailable = FailureKind::Unavailable;
        let next = step::failed(&working.taken, &working.batch, unavailable, "", MARKED, 0);
        self.act(s).left(&working, next);
        Some(())
    }

    /// Whether sweep finds the partition due, and nobody is about to look at it anyway.
    pub fn wake_is_due(&self, s: &State) -> bool {
        let untouched = s.messages == 0 && s.marking.is_none() && s.workers.iter().all(|worker| !worker.message);
        let passed_over =
            self.rules.has(Flaw::NoWake) || self.rules.has(Flaw::WakeSkipsParked) && s.item.parked.is_some();
        s.item.work.is_some() && s.item.due_at.is_some() && untouched && !passed_over
    }

    fn fault(&self, s: &mut State, fault: Fault) -> Option<()> {
        s.left.faults -= 1;
        match fault {
            Fault::MarkerCrash => s.marking = None,
            Fault::EventTwice if s.events.created > 0 => s.events.created += 1,
            Fault::EventTwice => s.events.removed += 1,
            Fault::MessageLost => s.messages -= 1,
            Fault::MessageTwice(w) => {
                s.workers[w].message = false;
                s.messages += 1;
            }
            Fault::WorkerCrash(w) => {
                s.messages += u8::from(s.workers[w].message);
                s.workers[w] = Worker { at: At::Idle, message: false };
            }
            Fault::WriteTwice(w) => {
                self.local(s, Some(w), "step, sent twice", |s| Act { copied: true, ..self.act(s) }.step())?;
                // A step that writes nothing can't be sent twice.
                s.wire.as_ref()?;
            }
            Fault::Unavailable(w) => self.local(s, Some(w), "unavailable", |s| self.unavailable(s))?,
            Fault::LeaseOver => s.lock.as_mut()?.over = true,
            Fault::TokenExpires(x) => s.redshift.statements[x].expired = true,
            Fault::Breaks(x) => s.redshift.statements[x].outcome = Outcome::Broken,
            Fault::AnswerLost(x) => {
                run(self.rules, s, x, false);
                s.redshift.statements[x].outcome = Outcome::Broken;
            }
            Fault::Rejects(x) => s.redshift.statements[x].outcome = Outcome::Rejected,
            Fault::Cancelled(x) => s.redshift.statements[x].outcome = Outcome::Cancelled,
            Fault::Look(w, look) => self.decide(s, w, look)?,
            Fault::EpochRaised => {
                s.redshift.epoch += 1;
                s.defined = Defined { definition: s.defined.definition + 1, epoch: s.redshift.epoch };
            }
            Fault::Redefined => s.defined.definition += 1,
        }
        Some(())
    }
}
