//! The words for what is stored: states, outcomes, remedies.

use tidemark_domain::partition::{Asked, FailureState};
use tidemark_domain::story::Outcome;
use tidemark_domain::verify::GuardKind;

/// One of the four failure states, as the runbook's page for it is named, with blanks.
pub(crate) fn failure_state(state: FailureState) -> &'static str {
    match state {
        FailureState::BeforeStaging => "before staging",
        FailureState::DuringStaging => "during staging",
        FailureState::BeforeCommit => "before commit",
        FailureState::AfterCommit => "after commit",
    }
}

/// How a batch ended.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Committed => "committed",
        Outcome::Unchanged => "unchanged",
        Outcome::Parked => "parked",
        Outcome::GivenUp => "given up",
    }
}

/// Who asked for a rebuild, and why: `by jane: late files`.
pub(crate) fn asked(asked: &Asked) -> String {
    let by = format!("by {}", asked.by.as_deref().unwrap_or("somebody"));
    asked.reason.as_ref().map_or(by.clone(), |reason| format!("{by}: {reason}"))
}

/// What to do about a partition that is parked or held for `kind`, and the runbook's page on it.
pub(crate) fn remedy(kind: &str) -> (&'static str, &'static str) {
    if let Some(guard) = GuardKind::ALL.into_iter().find(|guard| guard.name() == kind) {
        return (guard.remedy(), "parked");
    }
    match kind {
        "rejected_data" => {
            ("replace the file that the message names, or take it away: either marks the partition", "parked")
        }
        "too_slow" => (
            "set a longer load_window, make fewer and larger files, or look what else the warehouse does",
            "load-window",
        ),
        "stuck" => ("look in the log of rebuild why its workers died, then replay it", "function-errors"),
        "contended" => {
            ("nothing, or end the session that holds the lock; it is tried again by itself", "lock-contention")
        }
        "unavailable" => ("bring the warehouse back; it is tried again by itself", "oldest-dirty"),
        "source_changed" => {
            ("nothing: its files changed while they were loaded; it begins anew by itself", "during-staging")
        }
        "misconfigured" => {
            ("mend what the message names: a grant, a table, the role; `tidemark doctor` looks for it", "halted")
        }
        "bug" => ("keep the message, the log and the staging table, report them, then replay it", "parked"),
        _ => ("replay it once what the message names is mended", "parked"),
    }
}

#[cfg(test)]
mod tests {
    use tidemark_domain::failure::FailureKind;

    use super::*;

    #[test]
    fn every_failure_that_parks_or_holds_has_a_remedy_of_its_own() {
        let own = [
            FailureKind::Contended,
            FailureKind::Unavailable,
            FailureKind::SourceChanged,
            FailureKind::RejectedData,
            FailureKind::TooSlow,
            FailureKind::Stuck,
            FailureKind::Misconfigured,
            FailureKind::ForeignRows,
            FailureKind::Bug,
        ];
        for kind in own {
            assert_ne!(remedy(kind.name()).0, remedy("anything else").0, "{kind}");
        }
    }
}
