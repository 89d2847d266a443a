//! A cursor of sweep: where a task stands, and when it is next due. `SWEEP` / `CURSOR#<task>#<dataset>`; tasks that are done
//! once for the whole stack have no dataset.
//!
//! One key holds them all, so that a sweep that has nothing to do learns so by one query. A cursor that is lost costs a round
//! that begins anew: nothing rests on it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::{BatchId, DatasetName};
use crate::partition::{is_zero, millis};
use crate::update::{Change, Item, Key, Update};

/// The key that all cursors share.
pub const CURSORS: &str = "SWEEP";
/// How their sort keys begin.
pub const PREFIX: &str = "CURSOR#";
/// A task that failed is tried again after this long, so that it doesn't keep the others from their turn.
pub const AFTER_A_FAILURE: SignedDuration = SignedDuration::from_mins(10);
/// People are told of a task that has failed for this long: most faults are gone by then.
pub const FAILS_FOR_LONG: SignedDuration = SignedDuration::from_hours(6);
/// The longest reason that is kept, in bytes.
const WHY_AT_MOST: usize = 500;

/// What sweep does now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// Lists a dataset's lookback, hourly.
    Look,
    /// Loads committed inventories into the ledger's `files`, hourly, for the stack.
    Book,
    /// Holds a dataset's state against the ledger, daily.
    Tidy,
    /// Drops old staging tables, daily, for the stack.
    Staging,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Look, Self::Book, Self::Tidy, Self::Staging];

    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Book => "book",
            Self::Tidy => "tidy",
            Self::Staging => "staging",
        }
    }

    /// Whether it asks Redshift, which a workgroup that sleeps is woken for.
    pub fn asks_redshift(self) -> bool {
        !matches!(self, Self::Look)
    }

    /// When the round after one that began then is due.
    ///
    /// What asks Redshift is due for all datasets at the same moment: book at the full hour, the daily ones at 3 in the morning,
    /// UTC. So a warehouse that sleeps is woken for all of them at once.
    pub fn next(self, began: Timestamp) -> Timestamp {
        match self {
            Self::Look => began + HOUR,
            Self::Book => after(began, HOUR, SignedDuration::ZERO),
            Self::Tidy | Self::Staging => after(began, HOUR * 24, HOUR * 3),
        }
    }

    /// Whether each dataset has a cursor of its own.
    pub fn is_per_dataset(self) -> bool {
        matches!(self, Self::Look | Self::Tidy)
    }

    /// When a cursor that isn't there yet is first due. Looks are spread over the hour by the dataset's name, so that those of
    /// five hundred don't all want the same minute.
    pub fn first_due(self, dataset: Option<&DatasetName>, now: Timestamp) -> Timestamp {
        if self.asks_redshift() {
            return self.next(now);
        }
        let hash = Sha256::digest(dataset.map_or("", DatasetName::as_str));
        let share = i64::from(u16::from_be_bytes([hash[0], hash[1]]));
        now + SignedDuration::from_secs(HOUR.as_secs() * share / i64::from(u16::MAX))
    }
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// The first moment after `time` that lies `offset` after a whole number of periods, counted from 1 January 1970, UTC.
fn after(time: Timestamp, period: SignedDuration, offset: SignedDuration) -> Timestamp {
    let (period, offset) = (period.as_secs().max(1), offset.as_secs());
    let periods = (time.as_second() - offset).div_euclid(period) + 1;
    Timestamp::from_second(periods * period + offset).unwrap_or(Timestamp::MAX)
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// When it is next due.
    #[serde(with = "millis")]
    pub next_at: Timestamp,
    /// When the round in progress began; `None` between rounds.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub began_at: Option<Timestamp>,
    /// What the round in progress is done with: everything up to this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What the round in progress has found so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub found: u64,
    /// When the last round began that came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub done_at: Option<Timestamp>,
    /// What book is loading: the statement that runs, whoever looks at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loading: Option<Loading>,
    /// It fails, since when, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// A round that doesn't come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// When it failed first.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// Why it failed last.
    pub why: String,
}

/// A load that was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loading {
    /// The statement's id.
    pub statement: String,
    /// The last batch in it, in the order of their ids.
    pub last: BatchId,
    /// How many batches are in it.
    pub batches: u64,
    /// How many files.
    pub files: u64,
}

impl Cursor {
    /// A cursor before its first round.
    pub fn new(next_at: Timestamp) -> Self {
        Self { next_at, began_at: None, after: None, found: 0, done_at: None, loading: None, failing: None }
    }

    /// Where it stands.
    pub fn key(task: Task, dataset: Option<&DatasetName>) -> Key {
        let dataset = dataset.map_or_else(String::new, |dataset| format!("#{dataset}"));
        Key { pk: CURSORS.to_owned(), sk: format!("{PREFIX}{}{dataset}", task.as_str()) }
    }

    /// Whose cursor stands under a sort key.
    pub fn of(sk: &str) -> Option<(Task, Option<DatasetName>)> {
        let mut words = sk.strip_prefix(PREFIX)?.splitn(2, '#');
        let task = words.next()?;
        let task = Task::ALL.into_iter().find(|known| known.as_str() == task)?;
        Some((task, words.next().and_then(|dataset| DatasetName::new(dataset).ok())))
    }

    /// Reads a stored cursor.
    pub fn from_item(item: &Item) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::Value::Object(item.clone().into_iter().collect()))
    }

    /// The round as it begins, or goes on.
    #[must_use]
    pub fn entered(&self, now: Timestamp) -> Self {
        match self.began_at {
            Some(_) => self.clone(),
            None => Self { began_at: Some(now), after: None, found: 0, ..self.clone() },
        }
    }

    /// The round goes on after `after`, as soon as the others had their turn.
    #[must_use]
    pub fn advanced(&self, after: impl Into<String>, found: u64, now: Timestamp) -> Self {
        Self { next_at: now, after: Some(after.into()), found, ..self.clone() }
    }

    /// The round came to its end.
    #[must_use]
    pub fn finished(&self, task: Task, now: Timestamp) -> Self {
        let began = self.began_at.unwrap_or(now);
        Self { done_at: Some(began), ..Self::new(task.next(began).max(now)) }
    }

    /// There was nothing to be done, and nobody was asked: the last round that came to its end stays the last.
    #[must_use]
    pub fn passed_over(&self, task: Task, now: Timestamp) -> Self {
        Self { done_at: self.done_at, ..Self::new(task.next(now)) }
    }

    /// The round failed, and goes on where it stood.
    #[must_use]
    pub fn failed(&self, why: &str, now: Timestamp) -> Self {
        let since = self.failing.as_ref().map_or(now, |failing| failing.since);
        let why = why[..why.floor_char_boundary(WHY_AT_MOST)].to_owned();
        Self { next_at: now + AFTER_A_FAILURE, failing: Some(Failing { since, why }), ..self.clone() }
    }

    /// Why and since when it fails, if that has lasted.
    pub fn fails_for_long(&self, now: Timestamp) -> Option<&Failing> {
        self.failing.as_ref().filter(|failing| now.duration_since(failing.since) >= FAILS_FOR_LONG)
    }

    /// Stores it. Unconditional: of two sweeps at once both do what is harmless twice.
    pub fn store(&self, task: Task, dataset: Option<&DatasetName>) -> Update {
        let time = |name, time: Option<Timestamp>| {
            time.map_or(Change::Remove(name), |time| Change::Set(name, time.as_millisecond().into()))
        };
        let changes = vec![
            time("next_at", Some(self.next_at)),
            time("began_at", self.began_at),
            time("done_at", self.done_at),
            self.after.as_ref().map_or(Change::Remove("after"), |after| Change::Set("after", after.as_str().into())),
            self.loading.as_ref().map_or(Change::Remove("loading"), |loading| {
                Change::Set("loading", serde_json::to_value(loading).unwrap_or_default())
            }),
            self.failing.as_ref().map_or(Change::Remove("failing"), |failing| {
                Change::Set("failing", serde_json::to_value(failing).unwrap_or_default())
            }),
            if self.found == 0 { Change::Remove("found") } else { Change::Set("found", self.found.into()) },
        ];
        Update { key: Self::key(task, dataset), conditions: vec![], changes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_cursor_reads_back_as_written() {
        let orders = DatasetName::new("orders").unwrap();
        let cursor = Cursor::new(at(0)).entered(at(5)).advanced("dt=2026-11-01", 3, at(9));
        let update = cursor.store(Task::Look, Some(&orders));
        let item = update.apply(None).unwrap();
        assert_eq!(Cursor::from_item(&item).unwrap(), cursor);
        let done = cursor.finished(Task::Look, at(60));
        assert_eq!(Cursor::from_item(&done.store(Task::Look, None).apply(Some(&item)).unwrap()).unwrap(), done);
        expect_test::expect_file!["../golden/cursor-v1.json"].assert_eq(&format!(
            "{}\n{}\n{}\n",
            update.key.pk,
            update.key.sk,
            serde_json::to_string_pretty(&item).unwrap()
        ));
    }

    #[test]
    fn rounds_begin_a_period_apart_and_one_that_took_longer_is_followed_at_once() {
        let begun = Cursor::new(at(0)).entered(at(10));
        assert_eq!(begun.finished(Task::Look, at(70)).next_at, at(10 + 3_600));
        assert_eq!(begun.finished(Task::Look, at(9_000)).next_at, at(9_000));
        assert_eq!(begun.entered(at(99)), begun, "a round that goes on keeps its beginning");
    }

    #[test]
    fn a_round_fails_from_its_first_failure_until_it_ends() {
        let begun = Cursor::new(at(0)).entered(at(0));
        let first = begun.failed("denied", at(10));
        let last = first.advanced("dt=2026-11-01", 1, at(20)).failed("denied again", at(10 + 6 * 3_600));
        let stored = last.store(Task::Look, None).apply(None).unwrap();
        assert_eq!(Cursor::from_item(&stored).unwrap(), last);
        assert!(first.fails_for_long(at(9 + 6 * 3_600)).is_none());
        let told = last.fails_for_long(at(10 + 6 * 3_600)).unwrap();
        assert_eq!((told.since, told.why.as_str()), (at(10), "denied again"));
        let ended = last.finished(Task::Look, at(7 * 3_600));
        assert!(ended.failing.is_none());
        assert!(!ended.store(Task::Look, None).apply(Some(&stored)).unwrap().contains_key("failing"));
        assert_eq!(begun.failed(&"ä".repeat(400), at(0)).failing.unwrap().why.len(), 500);
    }

    #[test]
    fn a_warehouse_that_sleeps_is_woken_for_all_datasets_at_once() {
        let (orders, clicks) = (DatasetName::new("orders").unwrap(), DatasetName::new("clicks").unwrap());
        let now: Timestamp = "2026-11-30T02:59:59.5Z".parse().unwrap();
        let three = "2026-11-30T03:00:00Z".parse().unwrap();
        let dues = [
            Task::Book.first_due(None, now),
            Task::Staging.first_due(None, now),
            Task::Tidy.first_due(Some(&orders), now),
            Task::Tidy.first_due(Some(&clicks), now),
        ];
        assert_eq!(dues, [three; 4]);
        assert_eq!(Task::Tidy.next(three).to_string(), "2026-12-01T03:00:00Z", "of the round that began then");
        let late = Cursor::new(three).entered("2026-11-30T03:07:00Z".parse().unwrap());
        assert_eq!(late.finished(Task::Tidy, late.began_at.unwrap()).next_at.to_string(), "2026-12-01T03:00:00Z");
        assert_eq!(late.finished(Task::Book, late.began_at.unwrap()).next_at.to_string(), "2026-11-30T04:00:00Z");
    }

    #[test]
    fn a_round_that_was_passed_over_leaves_the_last_one_the_last() {
        let asked = Cursor::new(at(0)).entered(at(10)).finished(Task::Book, at(20));
        let passed = asked.entered(at(3_600)).passed_over(Task::Book, at(3_601));
        assert_eq!(passed, Cursor { next_at: at(7_200), ..asked });
    }

    #[test]
    fn first_looks_are_spread_over_the_hour() {
        let due = |n: u32| Task::Look.first_due(Some(&DatasetName::new(format!("d{n}")).unwrap()), at(0)).as_second();
        let dues: Vec<i64> = (0..500).map(due).collect();
        assert!(dues.iter().all(|due| (0..=3_600).contains(due)));
        for minute in 0..60 {
            let busy = dues.iter().filter(|due| **due / 60 == minute).count();
            assert!(busy < 30, "minute {minute}: {busy}");
        }
    }
}
