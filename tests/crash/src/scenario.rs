//! What is going on when a function is killed: each scenario makes the functions do effects that none before it made.

use crate::plan::Moment;

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// A file lands late: mark, then a whole rebuild of a partition that was built before.
    Late,
    /// The staging table is dropped before the swap, so that the batch ends unresolved: the next one fences and looks.
    Fenced,
    /// COPY takes longer than an invocation may: hand-off.
    HandedOff,
    /// Another file lands during the rebuild.
    MarkedAgain,
    /// An operator's replay.
    Replayed,
    /// A mark whose message was never sent: sweep wakes the partition.
    Woken,
    /// A file that fails verification: alert and park. A right one in its place heals it.
    Parked,
    /// The same, soon after another partition of the dataset: its alert is counted, and told by sweep.
    ToldTogether,
    /// A file that COPY refuses: its errors are asked for, then as above.
    Refused,
    /// Most rows are gone: held for a quarter of an hour. A message that comes meanwhile is put off.
    PutOff,
    /// Somebody else's lock outlasts the load window: the blocker is named, the swap cancelled, and tried again.
    Blocked,
    /// The swap landed, its worker died, and Redshift doesn't know the statement any more: fencing finds that it landed.
    Forgotten,
    /// Results aren't kept any more: what was staged is counted again.
    Recounted,
    /// Listing takes longer than an invocation may: how far it got is put down.
    ListedInParts,
    /// The target is gone: the dataset is halted, and goes on by itself once it is back.
    Halted,
    /// The dataset is retired while there is work, and comes back.
    Retired,
    /// The partition's item was restored from a backup: Redshift knows more than it.
    Restored,
    /// No event tells of a file: sweep's look finds it.
    Unheard,
    /// An operator's backfill: sweep marks what its job names.
    Backfilled,
    /// A batch has landed: sweep books from which files its rows came.
    Booked,
    /// The same restored item, and nothing lands: sweep's tidy finds that the ledger knows more.
    Older,
    /// So many partitions are older than the ledger that tidy leaves them to a job.
    ManyOlder,
    /// A staging table that is more than a week old: sweep drops it.
    LeftOver,
    /// A message nobody can read.
    Unreadable,
    /// A worker that another has overtaken goes on.
    Overtaken,
}

impl Scenario {
    /// All, in the order in which effects are theirs.
    pub(crate) const ALL: [Self; 25] = [
        Self::Late,
        Self::Fenced,
        Self::HandedOff,
        Self::MarkedAgain,
        Self::Replayed,
        Self::Woken,
        Self::Parked,
        Self::ToldTogether,
        Self::Refused,
        Self::PutOff,
        Self::Blocked,
        Self::Forgotten,
        Self::Recounted,
        Self::ListedInParts,
        Self::Halted,
        Self::Retired,
        Self::Restored,
        Self::Unheard,
        Self::Backfilled,
        Self::Booked,
        Self::Older,
        Self::ManyOlder,
        Self::LeftOver,
        Self::Unreadable,
        Self::Overtaken,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Late => "late file",
            Self::Fenced => "fenced",
            Self::HandedOff => "handed off",
            Self::MarkedAgain => "marked again",
            Self::Replayed => "replayed",
            Self::Woken => "woken",
            Self::Parked => "parked",
            Self::ToldTogether => "told together",
            Self::Refused => "refused",
            Self::PutOff => "put off",
            Self::Blocked => "blocked",
            Self::Forgotten => "forgotten",
            Self::Recounted => "recounted",
            Self::ListedInParts => "listed in parts",
            Self::Halted => "halted",
            Self::Retired => "retired",
            Self::Restored => "restored",
            Self::Unheard => "unheard",
            Self::Backfilled => "backfilled",
            Self::Booked => "booked",
            Self::Older => "older",
            Self::ManyOlder => "many older",
            Self::LeftOver => "left over",
            Self::Unreadable => "unreadable",
            Self::Overtaken => "overtaken",
        }
    }

    /// Where a worker on a late file has to be killed before this begins.
    pub(crate) fn killed_before(self) -> Option<(Moment, &'static str)> {
        match self {
            Self::Fenced => Some((Moment::Before, "submit swap")),
            Self::Forgotten => Some((Moment::After, "submit swap")),
            Self::Woken | Self::Retired => Some((Moment::After, "mark")),
            _ => None,
        }
    }

    /// Whether this is an effect of work that takes longer than it should, which isn't what the scenario is about.
    pub(crate) fn is_late_for(self, effect: &str) -> bool {
        match effect {
            "hand off" => !matches!(self, Self::HandedOff | Self::ListedInParts | Self::Halted),
            "give back" => !matches!(self, Self::HandedOff | Self::ListedInParts),
            "wake" => !matches!(self, Self::Woken | Self::PutOff | Self::Halted),
            "watermark" => !self.sweeps(),
            "cancel" | "submit blockers" => self != Self::Blocked,
            _ => false,
        }
    }

    /// Whether sweep runs in it, whatever comes.
    fn sweeps(self) -> bool {
        let woken = matches!(self, Self::Woken | Self::ToldTogether | Self::PutOff | Self::Halted | Self::Backfilled);
        woken || self.rounds().is_some()
    }

    /// Whether it needs a partition of which little is there yet.
    pub(crate) fn wants_fresh_day(self) -> bool {
        self == Self::PutOff
    }

    /// Whether a COPY fails after it has loaded, so that it has to be made again.
    pub(crate) fn copies_again(self) -> bool {
        self == Self::Halted
    }

    /// Whether a batch lands from its beginning to its end.
    pub(crate) fn lands(self) -> bool {
        !matches!(self, Self::Forgotten | Self::Booked | Self::LeftOver | Self::Unreadable | Self::Overtaken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_busy_machine_brings_in_is_no_effect_of_a_scenario() {
        let late = |scenario: Scenario| {
            let effects = ["take", "hand off", "give back", "wake", "watermark", "cancel", "submit blockers"];
            effects.into_iter().filter(|effect| scenario.is_late_for(effect)).collect::<Vec<_>>()
        };
        assert_eq!(late(Scenario::Late), ["hand off", "give back", "wake", "watermark", "cancel", "submit blockers"]);
        assert_eq!(late(Scenario::HandedOff), ["wake", "watermark", "cancel", "submit blockers"]);
        assert_eq!(late(Scenario::Woken), ["hand off", "give back", "cancel", "submit blockers"]);
        assert_eq!(late(Scenario::Blocked), ["hand off", "give back", "wake", "watermark"]);
        assert_eq!(late(Scenario::Unheard), ["hand off", "give back", "wake", "cancel", "submit blockers"]);
    }
}
