//! A short run of the simulator; `cargo sim` is the long one.

use tidemark_sim::flaw::Flaw;
use tidemark_sim::run::run;

const NIGHTS: u64 = 60;

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    for seed in 1..=5 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert!(first.steps > 100, "seed {seed} makes {} calls", first.steps);
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn whatever_happens_at_night_the_morning_is_true() {
    for seed in 1..=NIGHTS {
        let told = run(seed, None);
        assert_eq!(told.broken, None, "cargo sim -- --seed {seed}\n{}", told.trace.join("\n"));
    }
}

#[test]
fn a_weakened_rule_is_seen() {
    for flaw in [Flaw::NothingDeleted, Flaw::MarkWithoutIndex, Flaw::FreshTokens] {
        let seen = (1..=40).any(|seed| run(seed, Some(flaw)).broken.is_some());
        assert!(seen, "the simulator doesn't see {flaw:?}");
    }
}
