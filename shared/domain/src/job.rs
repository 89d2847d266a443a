//! A job: many partitions to be marked, a few at a time, so that live marks never queue behind them. `JOBS` /
//! `<dataset>#<id>`.
//!
//! Which partitions is fixed when it is made: they stand in the control bucket below `jobs/<id>/`, in parts of 1,000 lines,
//! one [`Line`] each. The item holds how many there are and how many of them were marked. Marked first, counted second: a
//! crash between marks a few of them twice, which is harmless.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{DatasetName, Digest, Fence, PartitionName};
use crate::message::Replay;
use crate::partition::{Accept, Committed, millis};
use crate::update::{Change, Condition, Item, Key, Update};
use crate::verify::GuardKind;

/// The key that all jobs share.
pub const JOBS: &str = "JOBS";
/// More partitions than this are never marked at once, but by a job.
pub const MARKED_AT_ONCE: usize = 50;
/// Lines of a part.
pub const PART_LINES: usize = 1_000;
/// A job that ended is shown for this long.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Why there is a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An operator asked for it.
    Backfill,
    /// The definition changed.
    Definition,
    /// Look found what events missed.
    Look,
    /// State and ledger differ: one of them was restored from a backup.
    Restored,
}

impl Kind {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backfill => "backfill",
            Self::Definition => "definition",
            Self::Look => "look",
            Self::Restored => "restored",
        }
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id, a UUIDv7.
    pub id: Uuid,
    /// Whose partitions.
    pub dataset: DatasetName,
    /// Why there is one.
    pub kind: Kind,
    /// Whether partitions are rebuilt although the digest says that nothing changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// What the rebuilds may let pass; only with `force`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accept: BTreeSet<GuardKind>,
    /// How many partitions.
    pub total: u64,
    /// How many of them were marked.
    pub done: u64,
    /// What the operator gave as the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who made it: an operator's name, or `sweep`.
    pub by: String,
    /// When it was made.
    #[serde(with = "millis")]
    pub made_at: Timestamp,
    /// When it ended: all were marked, or it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::option")]
    pub ended_at: Option<Timestamp>,
    /// Who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// How fast it goes, once it was advanced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// How many of a dataset's partitions may be on their way while a job goes on: as many as are done in the time that a message
/// takes to become visible, and two more. So nobody waits for the job to mark, and a live mark, whose message takes that time
/// too, finds hardly any of the job's before it, whether a rebuild takes two seconds or ten minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// So many.
    pub outstanding: u64,
    /// When that was found.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// How many of the job's partitions were done then.
    pub finished: u64,
}

/// A pace is found over at least this time.
const MEASURED_OVER: SignedDuration = SignedDuration::from_secs(20);
/// After a longer time it says nothing: nobody swept.
const MEASURED_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// From one look at how many are outstanding to the next, with some to spare.
const BETWEEN_LOOKS: SignedDuration = SignedDuration::from_secs(15);
/// The least that are outstanding: one is worked on, the other waits.
const LEAST: u64 = 2;
/// The most: more than twenty rebuilds at once never are.
const MOST: u64 = 100;

/// One partition of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Which.
    pub partition: PartitionName,
    /// What heals it, where state and ledger differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<Heal>,
    /// The digest that the operator saw of it, which the job's `accept` goes with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Line {
    /// A partition to be marked, nothing more.
    pub fn of(partition: PartitionName) -> Self {
        Self { partition, heal: None, digest: None }
    }
}

/// What the ledger says of a partition whose item says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heal {
    /// The item's fence as it was compared; `None`: there was no item.
    pub fence: Option<Fence>,
    /// The partition's newest ledger row; `None`: there is none.
    pub last: Option<Committed>,
}

impl Job {
    /// A job that was just made: it marks, and forces nothing. The other fields are set over it.
    pub fn new(id: Uuid, dataset: DatasetName, kind: Kind, total: u64, by: &str, made_at: Timestamp) -> Self {
        Self {
            id,
            dataset,
            kind,
            force: false,
            accept: BTreeSet::new(),
            total,
            done: 0,
            reason: None,
            by: by.to_owned(),
            made_at,
            ended_at: None,
            cancelled_by: None,
            pace: None,
        }
    }

    /// The pace from now on. `outstanding`: of the dataset's partitions, how many are on their way; `first`: how many may be at
    /// first; `settle`: the time a message takes to become visible.
    pub fn paced(&self, outstanding: u64, first: u64, settle: SignedDuration, now: Timestamp) -> Pace {
        let finished = self.done.saturating_sub(outstanding);
        let Some(pace) = self.pace else { return Pace { outstanding: first, at: now, finished } };
        let over = now.duration_since(pace.at);
        if over < MEASURED_OVER {
            return pace;
        }
        if over > MEASURED_WITHIN {
            return Pace { at: now, finished, ..pace };
        }
        let done = finished.saturating_sub(pace.finished);
        let ahead = u64::try_from((settle + BETWEEN_LOOKS).as_secs()).unwrap_or(0);
        let wanted = done * ahead / u64::try_from(over.as_secs()).unwrap_or(1).max(1) + LEAST;
        let outstanding = wanted.clamp(LEAST, (pace.outstanding * 2).min(MOST));
        Pace { outstanding, at: now, finished }
    }

    /// Where it stands.
    pub fn key(&self) -> Key {
        Key { pk: JOBS.to_owned(), sk: format!("{}#{}", self.dataset, self.id) }
    }

    /// Whether there is anything left to mark.
    pub fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }

    /// What the rebuild of a line may let pass: what needs a digest only where the operator saw one.
    pub fn accept_of(&self, line: &Line) -> Option<Accept> {
        let seen = |kind: &&GuardKind| line.digest.is_some() || !kind.accepted_with_digest();
        let kinds: BTreeSet<GuardKind> = self.accept.iter().filter(seen).copied().collect();
        (!kinds.is_empty()).then(|| Accept { kinds, digest: line.digest.clone() })
    }

    /// What marking a line asks for; `None`: it is an ordinary mark. A backfill's is a replay also where it forces nothing, for the
    /// record of who asked.
    pub fn replay(&self, line: &Line) -> Option<Replay> {
        (self.force || self.kind == Kind::Backfill).then(|| Replay {
            reason: self.reason.clone(),
            by: Some(self.by.clone()),
            force: self.force,
            accept: self.accept_of(line).filter(|_| self.force),
        })
    }

    /// Reads a stored job.
    pub fn from_item(item: &Item) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::Value::Object(item.clone().into_iter().collect()))
    }

    /// The object that holds line `n` and those of its part.
    pub fn part_key(&self, n: u64) -> String {
        format!("jobs/{}/part-{:06}.jsonl", self.id, n / PART_LINES as u64)
    }

    /// Stores a job that was just made; its lines stand in the control bucket before.
    pub fn store(&self) -> Update {
        let fields = serde_json::to_value(self).unwrap_or_default();
        let field = |name: &'static str| Some(Change::Set(name, fields.get(name)?.clone()));
        let names = ["id", "dataset", "kind", "force", "accept", "total", "done", "reason", "by", "made_at"];
        let changes = names.into_iter().filter_map(field).collect();
        Update { key: self.key(), conditions: vec![Condition::Absent("id")], changes }
    }

    /// So many more were marked. Conditional on the count as it was read, and on nobody having cancelled it.
    pub fn advance(&self, marked: u64, pace: Option<Pace>, now: Timestamp) -> Update {
        let done = self.done + marked;
        let mut changes = vec![Change::Set("done", done.into())];
        changes.extend(pace.map(|pace| Change::Set("pace", serde_json::to_value(pace).unwrap_or_default())));
        if done >= self.total {
            changes.extend(ended(now));
        }
        let conditions = vec![Condition::Equals("done", self.done.into()), Condition::Absent("ended_at")];
        Update { key: self.key(), conditions, changes }
    }

    /// Cancels it: what was marked stays so, nothing more is. Refused where it has ended.
    pub fn cancel(&self, by: &str, now: Timestamp) -> Update {
        let mut changes = vec![Change::Set("cancelled_by", by.into())];
        changes.extend(ended(now));
        Update { key: self.key(), conditions: vec![Condition::Exists("id"), Condition::Absent("ended_at")], changes }
    }

    /// Goes on with a job that was cancelled.
    pub fn go_on(&self) -> Update {
        let changes = ["cancelled_by", "ended_at", "expires_at"].map(Change::Remove).into();
        Update { key: self.key(), conditions: vec![Condition::Exists("cancelled_by")], changes }
    }
}

fn ended(now: Timestamp) -> [Change; 2] {
    let expires = (now + KEPT_FOR).as_second();
    [Change::Set("ended_at", now.as_millisecond().into()), Change::Set("expires_at", expires.into())]
}

/// Lines as they are stored.
pub fn to_lines(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).unwrap_or_default());
        text.push('\n');
    }
    text
}

/// Lines as they are read; the error names the line.
pub fn from_lines(text: &str) -> Result<Vec<Line>, String> {
    let parse = |(n, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", n + 1));
    text.lines().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let id = "01936000-0000-7000-8000-000000000001".parse().unwrap();
        Job {
            force: true,
            accept: BTreeSet::from([GuardKind::ForeignRows, GuardKind::RowDrop]),
            reason: Some("ticket 7".into()),
            ..Job::new(id, DatasetName::new("orders").unwrap(), Kind::Backfill, 3, "alice", Timestamp::UNIX_EPOCH)
        }
    }

    #[test]
    fn a_job_reads_back_as_written() {
        let item = job().store().apply(None).unwrap();
        assert_eq!(Job::from_item(&item).unwrap(), job());
        assert!(job().store().apply(Some(&item)).is_none(), "an id is used once");
        expect_test::expect_file!["../golden/job-v1.json"].assert_eq(&format!(
            "{}\n{}\n{}\n",
            job().key().pk,
            job().key().sk,
            serde_json::to_string_pretty(&item).unwrap()
        ));
    }

    #[test]
    fn it_advances_once_and_ends_when_all_are_marked() {
        let item = job().store().apply(None).unwrap();
        let two = job().advance(2, None, Timestamp::UNIX_EPOCH).apply(Some(&item)).unwrap();
        assert!(
            job().advance(2, None, Timestamp::UNIX_EPOCH).apply(Some(&two)).is_none(),
            "somebody else counted them"
        );
        let read = Job::from_item(&two).unwrap();
        assert!(read.is_open());
        let all = read.advance(1, None, Timestamp::UNIX_EPOCH).apply(Some(&two)).unwrap();
        assert!(!Job::from_item(&all).unwrap().is_open());
        assert!(read.cancel("bob", Timestamp::UNIX_EPOCH).apply(Some(&all)).is_none(), "it has ended");
    }

    #[test]
    fn a_cancelled_job_can_go_on() {
        let item = job().store().apply(None).unwrap();
        let cancelled = job().cancel("bob", Timestamp::UNIX_EPOCH).apply(Some(&item)).unwrap();
        assert!(job().advance(1, None, Timestamp::UNIX_EPOCH).apply(Some(&cancelled)).is_none());
        let again = job().go_on().apply(Some(&cancelled)).unwrap();
        assert_eq!(Job::from_item(&again).unwrap(), job());
        assert!(job().go_on().apply(Some(&again)).is_none(), "only what was cancelled goes on");
    }

    #[test]
    fn what_needs_a_digest_is_accepted_only_where_one_was_seen() {
        let unseen = Line::of(PartitionName::new("dt=2026-11-01").unwrap());
        let seen = Line { digest: Some(Digest::stored("seen")), ..unseen.clone() };
        let accepted = job().accept_of(&seen).unwrap();
        assert_eq!((accepted.kinds, accepted.digest), (job().accept, Some(Digest::stored("seen"))));
        assert_eq!(job().accept_of(&unseen).unwrap().kinds, BTreeSet::from([GuardKind::ForeignRows]));
        assert_eq!(Job { accept: BTreeSet::new(), ..job() }.accept_of(&seen), None);
    }

    #[test]
    fn lines_read_back_as_written_whatever_the_names_hold() {
        let name = |name: &str| PartitionName::new(name).unwrap();
        let heal = Heal { fence: Some(Fence(3)), last: None };
        let lines = [Line::of(name("t=a\n\"b")), Line { heal: Some(heal), ..Line::of(name("t=é")) }];
        assert_eq!(from_lines(&to_lines(&lines)).unwrap(), lines);
        assert!(from_lines("{}\n").unwrap_err().contains("line 1"));
    }

    #[test]
    fn as_many_are_outstanding_as_are_done_while_a_message_becomes_visible() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let settle = SignedDuration::from_secs(30);
        // Of a job whose outstanding partitions are always marked up: one done each `took` seconds, by `workers` at once.
        let settles_at = |took: u64, workers: u64| {
            let mut job = Job { total: 100_000, ..job() };
            // In thousandths.
            let (mut finished, mut second) = (0, 0);
            for _ in 0..400 {
                let pace = job.paced(job.done - finished / 1_000, 10, settle, at(second));
                job.done = job.done.max(finished / 1_000 + pace.outstanding);
                job.pace = Some(pace);
                second += 5;
                // No faster than workers are, nor than messages become visible.
                finished += (5_000 * workers / took).min(5_000 * pace.outstanding / 35);
            }
            job.pace.unwrap().outstanding
        };
        assert!((20..=26).contains(&settles_at(2, 1)), "{}", settles_at(2, 1));
        assert!((2..=4).contains(&settles_at(60, 1)), "{}", settles_at(60, 1));
        assert_eq!(settles_at(600, 1), 2);
        assert_eq!(settles_at(1, 20), 100);
    }
}
