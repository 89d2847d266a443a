//! Those who work at night: each invocation with a luck and a clock of its own, polled some steps at a time.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use jiff::SignedDuration;
use tidemark_engine::mark::EventMessage;
use tidemark_engine::memory::Delivery;
use tidemark_engine::ports::Clock as _;
use tidemark_engine::rebuild::{Answer, Work};

use crate::chaos::Luck;
use crate::flaw::Flaw;
use crate::night::{Kind, Night};
use crate::reached;

/// How long an invocation may work.
const INVOCATION: SignedDuration = SignedDuration::from_secs(120);

/// What came of an invocation.
enum Ended {
    Rebuild(Delivery, Answer),
    Mark(Vec<String>, Option<BTreeSet<String>>),
    Sweep,
}

/// Who makes an invocation.
#[derive(Clone)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// What goes wrong with its calls.
    pub luck: Luck,
    /// How far its clock is before the true one.
    pub skew: SignedDuration,
    /// It has read definitions before.
    pub warm: bool,
}

pub(crate) struct Invocation {
    worker: Worker,
    /// Events that come back if it dies.
    events: Vec<String>,
    future: Pin<Box<dyn Future<Output = Ended>>>,
}

impl Night {
    fn worker(&mut self, what: &str) -> Worker {
        self.begun += 1;
        let name = format!("{what}{}", self.begun);
        let (lucks, skews): (&[usize], &[i64]) = match self.kind {
            Kind::Ambush | Kind::Echo => (&[0, 0, 0, 25], &[0, 0, 0, 2, -2, 45]),
            Kind::Crowd => (&[0, 0, 0, 25], &[0, 0, 45, -45, 400, 400]),
            Kind::Mixed | Kind::Slow => (&[0, 0, 10, 25, 60], &[0, 0, 0, 0, 2, -2, 45, -45, 400, -400]),
        };
        let one_in = *self.chance.of(lucks);
        let skew = *self.chance.of(skews);
        let luck = Luck::new(&self.world.scene, &name, one_in, self.chance.draw());
        self.tell(format!("{name} begins; its clock is {skew} s before, one call in {one_in} goes wrong"));
        if skew != 0 {
            self.world.scene.reach(reached::Kind::ClockSkewed);
        }
        Worker { name, luck, skew: SignedDuration::from_secs(skew), warm: !self.chance.once_in(4) }
    }

    /// Mark, with some of the events, out of order.
    pub(crate) fn begin_mark(&mut self) {
        if self.world.events.is_empty() {
            return;
        }
        let worker = self.worker("mark");
        let mut bodies = vec![];
        for _ in 0..=self.chance.below(self.world.events.len()) {
            let at = self.chance.below(self.world.events.len());
            bodies.extend(self.world.events.remove(at));
        }
        let (engine, cache, events) = (self.world.engine(&worker), self.catalog.clone(), bodies.clone());
        let future = Box::pin(async move {
            let ids: Vec<String> = (0..bodies.len()).map(|n| n.to_string()).collect();
            let messages: Vec<_> = ids.iter().zip(&bodies).map(|(id, body)| EventMessage { id, body }).collect();
            let failed = engine.mark(&cache, &messages).await.ok().map(|report| report.failed);
            Ended::Mark(bodies, failed)
        });
        self.invocations.push(Invocation { worker, events, future });
    }

    /// Rebuild, with the next message; `false` where there is none.
    pub(crate) fn begin_rebuild(&mut self) -> bool {
        let Some(delivery) = self.world.queue.deliver() else { return false };
        let worker = self.worker("rebuild");
        self.tell(format!("{} has {}", worker.name, delivery.body));
        let engine = self.world.engine(&worker);
        let deadline = self.world.clock.now() + INVOCATION;
        let future = Box::pin(async move {
            let work = Work { body: &delivery.body, receipt: Some(&delivery.receipt), deadline };
            let answer = engine.rebuild(work).await;
            Ended::Rebuild(delivery, answer)
        });
        self.invocations.push(Invocation { worker, events: vec![], future });
        true
    }

    /// Sweep.
    pub(crate) fn begin_sweep(&mut self) {
        if self.flaw == Some(Flaw::NoWake) {
            return;
        }
        let worker = self.worker("sweep");
        let engine = self.world.engine(&worker);
        let deadline = self.world.clock.now() + INVOCATION;
        let future = Box::pin(async move {
            let _swept = engine.sweep(deadline).await;
            Ended::Sweep
        });
        self.invocations.push(Invocation { worker, events: vec![], future });
    }

    /// One of the invocations gets some steps further; the others stall meanwhile.
    pub(crate) fn poll(&mut self) {
        if self.invocations.is_empty() {
            return;
        }
        let at = self.chance.below(self.invocations.len());
        let steps = match self.kind {
            _ if self.wide() => 100,
            Kind::Crowd => 3,
            _ => 14,
        };
        let steps = 1 + self.chance.below(steps);
        self.poll_one(at, steps);
    }

    /// The invocation at `at` gets so many steps further.
    pub(crate) fn poll_one(&mut self, at: usize, steps: usize) {
        for _ in 0..steps {
            let invocation = &mut self.invocations[at];
            let polled = invocation.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let dead = invocation.worker.luck.is_dead();
            if let Poll::Ready(ended) = polled {
                let worker = self.invocations.swap_remove(at).worker;
                self.ended(&worker.name, ended);
                return;
            }
            if dead {
                let invocation = self.invocations.swap_remove(at);
                self.world.events.extend(invocation.events);
                self.tell(format!("{} is dead", invocation.worker.name));
                return;
            }
        }
    }

    /// All invocations are ended where they stand.
    pub(crate) fn abandon(&mut self) {
        for invocation in std::mem::take(&mut self.invocations) {
            self.world.events.extend(invocation.events);
            self.tell(format!("{} is ended", invocation.worker.name));
        }
    }

    fn ended(&mut self, name: &str, ended: Ended) {
        match ended {
            Ended::Rebuild(delivery, answer) => {
                self.tell(format!("{name} ends: {answer:?}"));
                if let Answer::Done(_) = answer {
                    self.world.queue.delete(&delivery.receipt);
                }
            }
            Ended::Mark(bodies, failed) => {
                self.tell(format!("{name} ends: {failed:?} come back"));
                let back = |n: &usize| failed.as_ref().is_none_or(|failed| failed.contains(&n.to_string()));
                let back = bodies.into_iter().enumerate().filter(|(n, _)| back(n)).map(|(_, body)| body);
                self.world.events.extend(back.collect::<Vec<_>>());
            }
            Ended::Sweep => self.tell(format!("{name} ends")),
        }
    }
}
