//! A short part of `cargo model`: the shipped rules hold, and weakened ones don't.

use std::fmt::Write as _;

use tidemark_model::explore::Violation;
use tidemark_model::runs::{MUTATIONS, SHORT};

fn told(violations: &[Violation]) -> String {
    violations.iter().fold(String::new(), |mut text, violation| {
        let _ = write!(text, "\n{}: {:?}", violation.property, violation.moves);
        text
    })
}

#[test]
fn the_shipped_rules_hold_and_rest_can_be_reached() {
    for run in SHORT {
        let explored = run.explore(1);
        assert!(explored.violations.is_empty(), "{}:{}", run.name, told(&explored.violations));
        assert!(explored.states > 1000, "{}: {} states", run.name, explored.states);
    }
}

#[test]
fn each_mutation_is_caught_by_what_should_or_has_its_reason() {
    for mutation in MUTATIONS {
        let (explored, caught) = mutation.explore();
        assert!(mutation.as_expected(caught), "{} by {caught:?}:{}", mutation.name, told(&explored.violations));
    }
}

#[test]
fn every_mutation_that_is_not_caught_has_its_reason() {
    for mutation in MUTATIONS {
        assert_eq!(mutation.caught_by.is_empty(), !mutation.why.is_empty(), "{}", mutation.name);
    }
}
