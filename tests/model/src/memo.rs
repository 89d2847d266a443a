//! What a step comes to, remembered: most states differ only in what the step doesn't see.
//!
//! A step of a worker, and a mark, read and change the item, the lock, Redshift and the one worker; queues, the other worker
//! and what is left to happen are none of its business. So its outcome is looked up by the former. This is what lets millions of
//! states be explored through functions that read and write JSON.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tidemark_domain::update::Update;

use crate::carrier::{Kept, Stored};
use crate::world::{At, Events, Ghost, Left, Lock, Redshift, State, Worker};

/// Outcomes kept at most, per thread; some 500 bytes each.
const KEPT_AT_MOST: usize = 2_000_000;

#[derive(Clone)]
struct Outcome {
    item: Kept<Stored>,
    lock: Option<Lock>,
    redshift: Redshift,
    ghost: Ghost,
    worker: Worker,
    messages: u8,
    wire: Option<Kept<Update>>,
}

thread_local! {
    static KNOWN: RefCell<HashMap<u64, Option<Outcome>>> = RefCell::default();
}

/// Lets `step` happen to `s`, of which worker `w` takes part; `None` where it can't.
///
/// `step` sees no queues, no other worker and nothing left to happen, and is wholly told by `name`, which is what it is looked up
/// by together with what it sees.
pub fn remembered(
    s: &mut State,
    w: Option<usize>,
    name: impl Hash,
    step: impl FnOnce(&mut State) -> Option<()>,
) -> Option<()> {
    let idle = || Worker { at: At::Idle, message: false };
    let worker = w.map_or_else(idle, |w| s.workers[w].clone());
    let mut seen = State {
        events: Events::default(),
        marking: None,
        messages: 0,
        left: Left::default(),
        wire: None,
        workers: [worker, idle()],
        broken: None,
        ..s.clone()
    };
    let mut hasher = DefaultHasher::new();
    (&name, &seen).hash(&mut hasher);
    let key = hasher.finish();
    let known = KNOWN.with_borrow(|known| known.get(&key).cloned());
    let outcome = known.unwrap_or_else(|| {
        let outcome = step(&mut seen).map(|()| {
            let [worker, _] = seen.workers;
            let State { item, lock, redshift, ghost, messages, wire, .. } = seen;
            Outcome { item, lock, redshift, ghost, worker, messages, wire }
        });
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= KEPT_AT_MOST {
                known.clear();
            }
            known.insert(key, outcome.clone());
        });
        outcome
    });
    let Outcome { item, lock, redshift, ghost, worker, messages, wire } = outcome?;
    (s.item, s.lock, s.redshift, s.ghost) = (item, lock, redshift, ghost);
    s.messages += messages;
    s.wire = wire.or(s.wire.take());
    if let Some(w) = w {
        s.workers[w] = worker;
    }
    Some(())
}
