//! What must hold in every state, and what must be reachable. The predicates are the shipped ones.

use stateright::Property;
use tidemark_domain::id::{Fence, Generation};
use tidemark_domain::invariants::{self, Broken, Holds};
use tidemark_domain::partition::Phase;

use crate::model::Protocol;
use crate::world::{At, Outcome, State, Statement, batch_id, born, small};

/// More takes than anything within the bounds may need.
const TAKES_AT_MOST: Fence = Fence(40);

/// Which invariant a state breaks.
pub fn broken(protocol: &Protocol, s: &State) -> Holds {
    if let Some(broken) = s.ghost.broken {
        return Err(broken);
    }
    if s.at_rest() && !s.item.rests_parked() {
        invariants::rests_built(&s.item, s.redshift.target == s.source)?;
    }
    if s.at_rest() && s.item.rests_parked() {
        // It was parked for the files that are there.
        let digest = s.item.parked.as_ref().and_then(|parked| parked.digest.as_ref());
        if digest.is_some_and(|digest| *digest != s.source.digest()) {
            return Err(Broken::I3);
        }
    }
    invariants::last_is_newest(&s.item, Some(batch_id(s.redshift.newest.born)))?;
    if let Some(last) = &s.item.last {
        let rows = s.redshift.ledger.iter().chain([&s.redshift.newest]);
        let own: Vec<_> = rows.filter(|row| row.born == born(last.batch)).map(|row| row.committed()).collect();
        invariants::committed_once(last, &own)?;
    }
    invariants::row_tells_its_files(&s.redshift.newest.inventory, &s.redshift.target)?;
    invariants::due_if_work(&s.item)?;
    invariants::mark_wakes(&s.item)?;
    if s.quiet() && !s.at_rest() && !protocol.wake_is_due(s) {
        return Err(Broken::I8);
    }
    let (forced, newest) = (s.ghost.forced, s.redshift.newest.covers);
    invariants::forced_is_real(&s.item, Generation(forced.into()), Generation(newest.into()))
}

fn holds(s: &State, which: Broken) -> bool {
    s.broken != Some(which)
}

/// The invariants, and the ten situations.
pub fn properties() -> Vec<Property<Protocol>> {
    let always = Property::<Protocol>::always;
    let sometimes = Property::<Protocol>::sometimes;
    vec![
        always("I1 no swap commits after one of a newer fence", |_, s| holds(s, Broken::I1)),
        always("I2 at most one swap commits per fence", |_, s| holds(s, Broken::I2)),
        always("I3 at rest the target is the source, and built = marked", |_, s| holds(s, Broken::I3)),
        always("I4 last is the newest ledger row, unless a swap may be out", |_, s| holds(s, Broken::I4)),
        always("I5 what was committed is in the ledger once", |_, s| holds(s, Broken::I5)),
        always("I6 what needs work is in the index", |_, s| holds(s, Broken::I6)),
        always("I7 a batch lists after the mark it covers", |_, s| holds(s, Broken::I7)),
        always("I8 what is marked is woken, parked or not", |_, s| holds(s, Broken::I8)),
        always("I9 nothing of unknown outcome is sent under a new token", |_, s| holds(s, Broken::I9)),
        always("I11 a COPY is made once", |_, s| holds(s, Broken::I11)),
        always("forced generations are built by a swap", |_, s| holds(s, Broken::Forced)),
        always("I12 no partition is taken without end", |_, s| s.item.fence < TAKES_AT_MOST),
        always("no table is taken for restored", |_, s| !s.ghost.restored),
        always("nothing is parked as a bug or for foreign rows", |_, s| {
            s.item.parked.as_ref().is_none_or(|parked| !["bug", "foreign_rows"].contains(&parked.kind.as_str()))
        }),
        sometimes("a batch continued in staging", |_, s| continued(s, Phase::Staging)),
        sometimes("a batch continued in swapping", |_, s| continued(s, Phase::Swapping)),
        sometimes("fencing continued after a second crash", |_, s| continued(s, Phase::Fencing)),
        sometimes("a batch continued by a third take", |_, s| third_take(s)),
        sometimes("a late swap of a batch given up, found by fence, then look", |_, s| found_late(s)),
        sometimes("a zombie's late swap refused by claim", |_, s| {
            let late = |x: &Statement| x.request.phase == Phase::Swapping && x.outcome == Outcome::Superseded;
            s.redshift.statements.iter().any(late)
        }),
        sometimes("a commit whose answer was lost, about to be found in the ledger", |_, s| {
            s.redshift.statements.iter().any(|x| {
                let lost = x.request.phase == Phase::Swapping && x.outcome == Outcome::Broken;
                let own = s.item.batch.as_ref().is_some_and(|batch| batch.id == batch_id(x.request.born));
                lost && own && s.redshift.newest.born == x.request.born
            })
        }),
        sometimes("a parked partition woken by a new mark", |_, s| {
            let batch = s.item.batch.as_ref();
            s.item.parked.as_ref().is_some_and(|parked| batch.is_some_and(|b| b.covers > parked.generation))
        }),
        sometimes("an unchanged source confirmed without a swap", |_, s| {
            small(s.item.built.0) > s.redshift.newest.covers && s.item.batch.is_none()
        }),
        sometimes("rest after everything happened", |_, s| {
            s.at_rest() && s.left.faults == 0 && s.left.changes == 0 && !s.item.rests_parked()
        }),
    ]
}

/// Somebody works on a batch that was begun two takes ago or more: without hand-offs, both died or lost it.
fn third_take(s: &State) -> bool {
    s.workers.iter().any(|worker| match &worker.at {
        At::Working(working) => working.fence == s.item.fence && working.batch.fence.next() < working.fence,
        _ => false,
    })
}

/// Somebody works on a batch that an earlier take began.
fn continued(s: &State, phase: Phase) -> bool {
    s.workers.iter().any(|worker| match &worker.at {
        At::Working(working) => {
            let batch = &working.batch;
            batch.phase == phase && batch.fence < working.fence && s.item.fence == working.fence
        }
        _ => false,
    })
}

fn found_late(s: &State) -> bool {
    let fenced = s.item.unresolved
        && s.item
            .batch
            .as_ref()
            .is_some_and(|batch| batch.phase == Phase::Fencing && u64::from(s.redshift.fence) + 1 == batch.fence.0);
    let last = s.item.last.as_ref().map(|last| last.batch);
    fenced && last != Some(batch_id(s.redshift.newest.born))
}
