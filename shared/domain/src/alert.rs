//! Alerts of one kind that come together: the first is mailed at once, those after it are counted and told in one mail.
//! `SWEEP` / `ALERT#<dataset>#<kind>`, with the cursors, so that a sweep with nothing to do learns of both by one query.
//!
//! Three hundred partitions that park in a night are a handful of mails: one at once, then one after 15 minutes, after half an
//! hour more, after an hour more, ever rarer. No cause is lost for it: each partition keeps its own message, in its item, in the
//! log and in its event; the mails only count and name them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cursor::CURSORS;
use crate::id::{DatasetName, PartitionName};
use crate::partition::millis;
use crate::update::{Change, Condition, Item, Key, Update};

/// How the sort keys begin.
pub const PREFIX: &str = "ALERT#";
/// From the first mail to the second.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(15);
/// The longest pause between two mails.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(4);
/// An item is kept this long after its window.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Which alerts are gathered together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Of this dataset.
    pub dataset: &'a DatasetName,
    /// Of this kind, such as `rejected_data`.
    pub kind: &'a str,
}

/// A window in which alerts of a kind are gathered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// The dataset.
    pub dataset: DatasetName,
    /// The kind.
    pub kind: String,
    /// The partition whose alert was mailed at once.
    pub first: PartitionName,
    /// When that was.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// Until when more are only counted.
    #[serde(with = "millis")]
    pub until: Timestamp,
    /// How many were counted since the last mail.
    #[serde(default)]
    pub more: u64,
    /// The last that was counted: its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
}

impl Subject<'_> {
    fn key(&self) -> Key {
        Key { pk: CURSORS.to_owned(), sk: format!("{PREFIX}{}#{}", self.dataset, self.kind) }
    }

    /// Opens a window: who succeeds mails. Refused while one is open, or counted what nobody was told yet.
    pub fn open(&self, first: &PartitionName, now: Timestamp) -> Update {
        let until = now + FIRST_PAUSE;
        Update {
            key: self.key(),
            conditions: vec![
                Condition::Any(vec![
                    Condition::Absent("until"),
                    Condition::Less("until", now.as_millisecond().saturating_add(1)),
                ]),
                Condition::Absent("more"),
            ],
            changes: vec![
                Change::Set("dataset", self.dataset.as_str().into()),
                Change::Set("kind", self.kind.into()),
                Change::Set("first", first.as_str().into()),
                Change::Set("since", now.as_millisecond().into()),
                Change::Set("until", until.as_millisecond().into()),
                Change::Set("expires_at", (until + KEPT_FOR).as_second().into()),
                Change::Remove("last"),
            ],
        }
    }

    /// Counts one more.
    pub fn count(&self, text: &str) -> Update {
        let changes = vec![Change::Add("more", 1), Change::Set("last", text.into())];
        Update { key: self.key(), conditions: vec![Condition::Exists("until")], changes }
    }
}

impl Gathered {
    /// Reads a stored window.
    pub fn from_item(item: &Item) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::Value::Object(item.clone().into_iter().collect()))
    }

    /// Whether what was counted is to be told now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.more > 0 && self.until <= now
    }

    /// What was counted was told: the window goes on, longer each time. Refused where more were counted meanwhile: the next
    /// sweep tells of all of them.
    pub fn told(&self, now: Timestamp) -> Update {
        let until = now + now.duration_since(self.since).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Update {
            key: Subject { dataset: &self.dataset, kind: &self.kind }.key(),
            conditions: vec![
                Condition::Equals("until", self.until.as_millisecond().into()),
                Condition::Equals("more", self.more.into()),
            ],
            changes: vec![
                Change::Set("until", until.as_millisecond().into()),
                Change::Set("expires_at", (until + KEPT_FOR).as_second().into()),
                Change::Remove("more"),
                Change::Remove("last"),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    fn day(n: u32) -> PartitionName {
        PartitionName::new(format!("dt=2026-11-{n:02}")).unwrap()
    }

    fn subject(dataset: &DatasetName) -> Subject<'_> {
        Subject { dataset, kind: "rejected_data" }
    }

    #[test]
    fn the_first_opens_a_window_and_the_others_are_counted() {
        let dataset = DatasetName::new("orders").unwrap();
        let subject = subject(&dataset);
        let item = subject.open(&day(1), at(0)).apply(None).unwrap();
        assert!(subject.open(&day(2), at(14)).apply(Some(&item)).is_none(), "it is open");
        let more = subject.count("second").apply(Some(&item)).unwrap();
        let more = subject.count("third").apply(Some(&more)).unwrap();
        let read = Gathered::from_item(&more).unwrap();
        assert_eq!((read.more, read.last.as_deref(), &read.first), (2, Some("third"), &day(1)));
        assert!(!read.is_due(at(14)) && read.is_due(at(15)));
        assert!(subject.open(&day(4), at(99)).apply(Some(&more)).is_none(), "two were told to nobody yet");
        expect_test::expect_file!["../golden/alert-v1.json"].assert_eq(&format!(
            "{}\n{}\n{}\n",
            subject.key().pk,
            subject.key().sk,
            serde_json::to_string_pretty(&more).unwrap()
        ));
    }

    #[test]
    fn a_window_that_counted_nothing_is_followed_by_a_fresh_one() {
        let dataset = DatasetName::new("orders").unwrap();
        let item = subject(&dataset).open(&day(1), at(0)).apply(None).unwrap();
        let again = subject(&dataset).open(&day(2), at(15)).apply(Some(&item)).unwrap();
        assert_eq!(Gathered::from_item(&again).unwrap().since, at(15));
    }

    #[test]
    fn a_night_of_alerts_is_a_handful_of_mails() {
        let dataset = DatasetName::new("orders").unwrap();
        let mut item: Option<Item> = None;
        let mut mails = vec![];
        for minute in 0..8 * 60 {
            if let Some(open) = subject(&dataset).open(&day(1), at(minute)).apply(item.as_ref()) {
                mails.push(minute);
                item = Some(open);
            } else {
                item = subject(&dataset).count("another").apply(item.as_ref());
            }
            let read = Gathered::from_item(item.as_ref().unwrap()).unwrap();
            if read.is_due(at(minute)) {
                item = read.told(at(minute)).apply(item.as_ref());
                mails.push(minute);
            }
        }
        assert_eq!(mails, [0, 15, 30, 60, 120, 240], "one a minute, for eight hours");
    }

    #[test]
    fn what_is_counted_while_it_is_told_stays_counted() {
        let dataset = DatasetName::new("orders").unwrap();
        let item = subject(&dataset).open(&day(1), at(0)).apply(None).unwrap();
        let one = subject(&dataset).count("one").apply(Some(&item)).unwrap();
        let two = subject(&dataset).count("two").apply(Some(&one)).unwrap();
        assert!(Gathered::from_item(&one).unwrap().told(at(20)).apply(Some(&two)).is_none());
    }
}
