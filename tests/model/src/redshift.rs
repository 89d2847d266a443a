//! What a statement does when it runs: a fence, a COPY, a swap, each in one transaction.

use tidemark_domain::id::Fence;
use tidemark_domain::invariants;
use tidemark_domain::partition::Phase;

use crate::rules::{Flaw, Rules};
use crate::world::{Files, Outcome, Request, State};

/// Runs statement `x` to its end. `overwritten`: COPY loads what an overwrite of the same size left in place of a listed object.
pub fn run(rules: Rules, s: &mut State, x: usize, overwritten: bool) {
    let request = s.redshift.statements[x].request;
    s.redshift.statements[x].outcome = match request.phase {
        Phase::Fencing => fence_off(s, request),
        Phase::Staging => stage(s, request, overwritten),
        Phase::Listing | Phase::Swapping => swap(rules, s, request),
    };
}

fn fence_off(s: &mut State, request: Request) -> Outcome {
    if request.epoch < s.redshift.epoch {
        return Outcome::EpochOver;
    }
    s.redshift.fence = s.redshift.fence.max(request.born - 1);
    Outcome::Finished
}

fn stage(s: &mut State, request: Request, overwritten: bool) -> Outcome {
    let (listed, now) = (request.inventory, s.source);
    if s.redshift.staging.iter().any(|(born, _)| *born == request.born) {
        Outcome::Exists
    } else if listed.misses(now) || listed.changed(now) && !overwritten {
        Outcome::SourceChanged
    } else {
        let rows = Files { a: now.a, b: if listed.b == 0 { 0 } else { now.b } };
        s.redshift.staging.push((request.born, rows));
        Outcome::Finished
    }
}

fn swap(rules: Rules, s: &mut State, request: Request) -> Outcome {
    let claims = s.redshift.fence < request.born
        || rules.has(Flaw::ClaimTakesEqual) && s.redshift.fence == request.born
        || rules.has(Flaw::SwapWithoutClaim);
    if request.epoch < s.redshift.epoch {
        return Outcome::EpochOver;
    }
    if !claims {
        return Outcome::Superseded;
    }
    // The rows of the partition are those of the newest ledger row's batch.
    if request.before != s.redshift.newest.born && !rules.has(Flaw::SwapWithoutClaim) {
        return Outcome::ForeignRows;
    }
    let Some((_, rows)) = s.redshift.staging.iter().find(|(born, _)| *born == request.born).copied() else {
        return Outcome::Superseded;
    };
    let redshift = &s.redshift;
    let landed = redshift.ledger.iter().chain([&redshift.newest]).map(|row| Fence(row.born.into()));
    let in_order = invariants::commits_in_order(landed.collect::<Vec<_>>(), Fence(request.born.into()));
    s.note(in_order);
    let redshift = &mut s.redshift;
    redshift.fence = redshift.fence.max(request.born);
    redshift.target = rows;
    redshift.ledger.push(redshift.newest);
    redshift.newest = request.row();
    Outcome::Finished
}
