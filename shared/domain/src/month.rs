//! What a month came to, by the stories of the batches that were born in it: the five measures of a pipeline that is trusted.
//!
//! 1. the *merge's share* of the run time: how long readers and writers of the target had to wait for a rebuild;
//! 2. the *variance* from source to staging: rows that COPY made more or fewer than the files say;
//! 3. *manual recoveries*: rebuilds that somebody had to ask for;
//! 4. *late arrivals outside the window*: files that look would not have found;
//! 5. the time *from a failure to a confirmed state*.
//!
//! Stories are enough: they are written in the transaction that ends the batch, and need no Redshift to be read.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use crate::partition::FailureState;
use crate::story::{Outcome, Story};

/// The figures of a month, or of any set of batches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Batches that committed.
    pub committed: u64,
    /// Batches that found what was committed last.
    pub unchanged: u64,
    /// Batches that parked their partition.
    pub parked: u64,
    /// Batches that were given up.
    pub given_up: u64,
    /// Rows in the target's partitions, as the committed batches left them.
    pub rows: u64,
    /// Run time of the committed batches whose merge was watched, from birth to confirmation.
    pub run: SignedDuration,
    /// Of it, the time of their merges.
    pub merge: SignedDuration,
    /// Rows of the files, of batches that staged them and whose format tells.
    pub source_rows: u64,
    /// |source rows - staged rows| of those batches, added up.
    pub variance_rows: u64,
    /// Batches of forced replays.
    pub manual: u64,
    /// Late files that committed batches brought, within lookback.
    pub late_in_window: u64,
    /// Late files that committed batches brought, outside lookback.
    pub late_outside_window: u64,
    /// Batches whose worker died, by the state they were found in.
    pub recovered: BTreeMap<&'static str, u64>,
    /// From the first sign of the failure to the end of the batch, of each that recovered.
    pub recoveries: Vec<SignedDuration>,
}

impl Figures {
    /// The figures of these stories.
    pub fn of<'s>(stories: impl IntoIterator<Item = &'s Story>) -> Self {
        let mut figures = Self::default();
        for story in stories {
            figures.add(story);
        }
        figures
    }

    /// Adds a batch.
    pub fn add(&mut self, story: &Story) {
        let count = |name: &str| story.counts.get(name).copied();
        match story.outcome {
            Outcome::Committed => self.committed += 1,
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Parked => self.parked += 1,
            Outcome::GivenUp => self.given_up += 1,
        }
        // What sweep heals after a restore is forced too, and nobody asked for it.
        self.manual += u64::from(story.forced && story.asked.is_some());
        if let (Some(source), Some(staged)) = (count("source_rows"), count("staged_rows")) {
            self.source_rows += source;
            self.variance_rows += source.abs_diff(staged);
        }
        if let Some(state) = story.recovered_from {
            *self.recovered.entry(state_name(state)).or_default() += 1;
            self.recoveries.extend(story.failed_at.map(|at| at_least_zero(story.ended_at.duration_since(at))));
        }
        if story.outcome != Outcome::Committed {
            return;
        }
        self.rows += story.rows.unwrap_or(0);
        self.late_in_window += count("late_in_window").unwrap_or(0);
        self.late_outside_window += count("late_outside_window").unwrap_or(0);
        // The end of a merge that was over before anybody looked isn't known.
        if let (Some(born), Some(swap), None) = (story.began_at, story.swap_at, story.recovered_from) {
            self.run += at_least_zero(story.ended_at.duration_since(born));
            self.merge += at_least_zero(story.ended_at.duration_since(swap));
        }
    }

    /// The merges' share of the run time, 0 to 1; `None` where no merge was watched.
    pub fn merge_share(&self) -> Option<f64> {
        (!self.run.is_zero()).then(|| self.merge.as_secs_f64() / self.run.as_secs_f64())
    }

    /// The longest and the mean time from a failure to a confirmed state; `None` where nothing failed.
    pub fn longest_and_mean_recovery(&self) -> Option<(SignedDuration, SignedDuration)> {
        let longest = *self.recoveries.iter().max()?;
        let sum = self.recoveries.iter().fold(SignedDuration::ZERO, |sum, time| sum.saturating_add(*time));
        Some((longest, sum / i32::try_from(self.recoveries.len()).unwrap_or(i32::MAX)))
    }
}

/// The failure state in words, as everywhere.
pub fn state_name(state: FailureState) -> &'static str {
    match state {
        FailureState::BeforeStaging => "before_staging",
        FailureState::DuringStaging => "during_staging",
        FailureState::BeforeCommit => "before_commit",
        FailureState::AfterCommit => "after_commit",
    }
}

fn at_least_zero(time: SignedDuration) -> SignedDuration {
    time.max(SignedDuration::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn story(fields: &Value) -> Story {
        let mut story = json!({ "partition": "dt=2026-11-01", "outcome": "committed", "generation": 1, "fence": 1,
            "began_at": 0, "swap_at": 80_000, "ended_at": 100_000, "rows": 10 });
        story.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(story).unwrap()
    }

    #[test]
    fn five_measures_of_a_month() {
        let stories = [
            story(
                &json!({ "counts": { "source_rows": 10, "staged_rows": 10, "late_in_window": 4, "late_outside_window": 1 } }),
            ),
            story(&json!({ "forced": true, "counts": { "source_rows": 10, "staged_rows": 7 }, "swap_at": 40_000,
                "asked": { "generation": 1, "at": 0 } })),
            story(
                &json!({ "outcome": "parked", "counts": { "source_rows": 5, "staged_rows": 6, "late_outside_window": 9 } }),
            ),
            story(&json!({ "outcome": "given_up", "forced": true })),
            story(&json!({ "outcome": "unchanged" })),
            story(&json!({ "recovered_from": "after_commit", "failed_at": 70_000 })),
            story(&json!({ "recovered_from": "before_commit", "failed_at": 90_000, "swap_at": null })),
        ];
        let figures = Figures::of(&stories);
        assert_eq!((figures.committed, figures.parked, figures.given_up, figures.unchanged), (4, 1, 1, 1));
        assert_eq!((figures.merge_share(), figures.rows), (Some(0.4), 40), "20 and 60 of 200 seconds");
        assert_eq!((figures.source_rows, figures.variance_rows), (25, 4));
        assert_eq!((figures.manual, figures.late_in_window, figures.late_outside_window), (1, 4, 1));
        assert_eq!(figures.recovered, BTreeMap::from([("after_commit", 1), ("before_commit", 1)]));
        let seconds = |(longest, mean): (SignedDuration, SignedDuration)| (longest.as_secs(), mean.as_secs());
        assert_eq!(figures.longest_and_mean_recovery().map(seconds), Some((30, 20)));
    }

    #[test]
    fn of_nothing_nothing_is_told() {
        let figures = Figures::default();
        assert_eq!((figures.merge_share(), figures.longest_and_mean_recovery()), (None, None));
        let old = story(&json!({ "began_at": null, "swap_at": null, "ended_at": 1 }));
        assert_eq!(Figures::of([&old]).merge_share(), None, "a story of an earlier release");
    }
}
