//! sweep, each minute: what messages and events missed.
//!
//! ```text
//! for each dataset   wake ▸ jobs     each minute: what is due gets its message; stored jobs mark a few more
//! then, as due       look            hourly: lists the lookback, marks what nobody has dealt with
//!                    book            hourly, where anything was committed: loads inventories into the ledger's `files`
//!                    tidy            daily: holds items against the ledger; drops old staging tables
//! ```
//! Book and tidy ask Redshift, nothing else does; they are due at the same moment, so that a workgroup that sleeps is woken once.
//!
//! Every dataset is woken first; then tasks have their turns, the longest due first, a slice each, for as long as there is
//! time; what is left of the minute belongs to jobs. Where a task stands is kept in a cursor, so that the next sweep goes on.
//! What fails is told, tried again later, and stops nobody else.

mod book;
mod jobs;
mod look;
mod marks;
mod statements;
mod tidy;
mod wake;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::alert::{self, Gathered};
use tidemark_domain::cursor::{self, Cursor, Task};
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::Definition;
use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::DatasetName;
use tidemark_domain::measure;

use self::look::Looked;
use crate::Engine;
use crate::error::Error;
use crate::mark::CatalogCache;

/// The longest a task may work before the others have their turn. A warehouse that sleeps takes its time to wake.
fn slice(task: Task) -> SignedDuration {
    match task {
        Task::Look => SignedDuration::from_secs(20),
        Task::Book | Task::Tidy | Task::Staging => SignedDuration::from_secs(40),
    }
}

/// With less time than this no task begins.
const WORTH_BEGINNING: SignedDuration = SignedDuration::from_secs(10);
/// Items read at once.
const ITEMS_AT_ONCE: usize = 100;
/// Cursors and counted alerts read at once: of five hundred datasets, all.
const NOTES_AT_ONCE: usize = 2_000;

/// What sweep found and did of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Which.
    pub dataset: DatasetName,
    /// Partitions with anything to do.
    pub dirty: u64,
    /// Partitions set aside.
    pub parked: u64,
    /// Both were counted to the end. Where more than a thousand wait that is done each ten minutes.
    pub counted: bool,
    /// Messages sent.
    pub woken: u64,
    /// Whether the dataset waits for a repair.
    pub halted: bool,
    /// Partitions that jobs marked.
    pub by_jobs: u64,
    /// Partitions that look marked, or left to a job.
    pub found: u64,
    /// Of them, those that files came to and no event told so.
    pub missed: u64,
    /// Seconds since the oldest of what is longest due became dirty.
    pub oldest_dirty_seconds: i64,
}

/// A dataset in hand.
struct Hand {
    dataset: DatasetName,
    head: Head,
}

impl Hand {
    async fn definition(&self, engine: &Engine) -> Result<std::sync::Arc<Definition>, Error> {
        engine.definitions.get(engine.ports.state.as_ref(), &self.dataset, &self.head.hash).await
    }
}

impl Engine {
    /// One minute's work. What fails of a dataset is logged and doesn't stop the others; `Err` means that the catalog can't be
    /// read.
    pub async fn sweep(&self, deadline: Timestamp) -> Result<Vec<Swept>, Error> {
        let catalog = self.catalog(&CatalogCache::default(), SignedDuration::ZERO).await?;
        let names: Vec<DatasetName> =
            catalog.datasets.into_iter().map(|place| place.name).chain(catalog.retired).collect();
        let hands = self.hands(&names).await;
        let jobs = self.open_jobs().await.unwrap_or_else(|error| {
            tracing::error!(%error, "jobs can't be read; none is advanced");
            Vec::new()
        });
        let standing = self.standing().await;
        let mut swept = Vec::new();
        for hand in &hands {
            if self.ports.clock.now() >= deadline {
                tracing::warn!(dataset = %hand.dataset, "no time left; the next sweep goes on");
                break;
            }
            match self.wake(hand, &standing).await {
                Ok(of_dataset) => swept.push(of_dataset),
                Err(error) => tracing::error!(dataset = %hand.dataset, %error, "not swept"),
            }
        }
        let going = Self::going(&hands, jobs);
        let going = self.advance_each(going, &mut swept).await;
        match self.notes().await {
            Ok((cursors, gathered)) => {
                self.tell_gathered(&gathered).await;
                if let Err(error) = self.take_turns(&hands, &cursors, deadline, &mut swept).await {
                    tracing::error!(%error, "cursors can't be written; the next sweep goes on");
                }
            }
            Err(error) => tracing::error!(%error, "cursors can't be read; only what is due was woken"),
        }
        self.top_up(going, deadline, &mut swept).await;
        Ok(swept)
    }

    /// The heads of the datasets; one that can't be read is told and left out.
    async fn hands(&self, names: &[DatasetName]) -> Vec<Hand> {
        let mut hands = Vec::new();
        for names in names.chunks(ITEMS_AT_ONCE) {
            let keys: Vec<_> = names.iter().map(Head::key).collect();
            let items = match self.ports.state.read(&keys).await {
                Ok(items) => items,
                Err(error) => {
                    tracing::error!(%error, datasets = names.len(), "heads can't be read");
                    continue;
                }
            };
            for (dataset, item) in names.iter().zip(items) {
                match Head::from_item(&item.unwrap_or_default()) {
                    Ok(head) => hands.push(Hand { dataset: dataset.clone(), head }),
                    Err(error) => tracing::error!(%dataset, %error, "its head can't be read; not swept"),
                }
            }
        }
        hands
    }

    /// Tasks that are due, the longest due first, until the time is up.
    async fn take_turns(
        &self,
        hands: &[Hand],
        cursors: &BTreeMap<String, Cursor>,
        deadline: Timestamp,
        swept: &mut [Swept],
    ) -> Result<(), Error> {
        let mut turns = self.turns(hands, cursors).await?;
        // A warehouse that doesn't answer is asked once a sweep: five hundred waits for it would keep looks from their turn.
        let mut out_of_reach = false;
        loop {
            let now = self.ports.clock.now();
            let next = turns.iter().enumerate().filter(|(_, turn)| turn.cursor.next_at <= now);
            let next = next.filter(|(_, turn)| !(out_of_reach && turn.task.asks_redshift()));
            let Some(next) = next.min_by_key(|(_, turn)| turn.cursor.next_at).map(|(at, _)| at) else { break };
            if deadline.duration_since(now) < WORTH_BEGINNING {
                tracing::info!(task = turns[next].task.as_str(), "no time left for tasks; the next sweep goes on");
                break;
            }
            let until = (now + slice(turns[next].task)).min(deadline - WORTH_BEGINNING / 2);
            let turn = turns.swap_remove(next);
            let mut cursor = turn.cursor.entered(now);
            let dataset = turn.hand.map(|hand| &hand.dataset);
            if let Err(error) = self.task(&turn, hands, &mut cursor, until, swept).await {
                let (task, dataset) = (turn.task.as_str(), dataset.map(DatasetName::as_str));
                tracing::error!(task, dataset, %error, "it failed; it is tried again in ten minutes");
                out_of_reach |= matches!(&error, Error::Warehouse { kind: FailureKind::Unavailable, .. });
                // Where it stands by now: what was done before it failed isn't done again.
                cursor = cursor.failed(&error.to_string(), self.ports.clock.now());
            }
            self.write(&[cursor.store(turn.task, dataset)]).await?;
            turns.push(Turn { cursor, ..turn });
        }
        self.tell_failing(&turns);
        Ok(())
    }

    /// Counts what has failed for long, each minute for as long as it does.
    fn tell_failing(&self, turns: &[Turn<'_>]) {
        let now = self.ports.clock.now();
        for Turn { task, hand, cursor } in turns {
            if let Some(failing) = cursor.fails_for_long(now) {
                let dataset = hand.map(|hand| &hand.dataset);
                tracing::error!(task = task.as_str(), dataset = dataset.map(DatasetName::as_str), since = %failing.since, why = failing.why, "it fails for long");
                self.telemetry.measured(dataset, &[measure::TASKS_FAILING.count(1)]);
            }
        }
    }

    /// A slice of a task. The cursor stands where it got to, also where it failed.
    async fn task(
        &self,
        turn: &Turn<'_>,
        hands: &[Hand],
        cursor: &mut Cursor,
        until: Timestamp,
        swept: &mut [Swept],
    ) -> Result<(), Error> {
        match (turn.task, turn.hand) {
            (Task::Look, Some(hand)) => {
                let mut looked = Looked::default();
                let ended = self.look_over(hand, cursor, until, &mut looked).await;
                if let Some(swept) = swept.iter_mut().find(|swept| swept.dataset == hand.dataset) {
                    swept.found += looked.found;
                    swept.missed += looked.missed;
                }
                ended?;
            }
            (Task::Tidy, Some(hand)) => self.tidy(hand, cursor, until).await?,
            (Task::Book, _) => self.book(hands, cursor, until).await?,
            (Task::Staging, _) => self.drop_staging(cursor, until).await?,
            (task, None) => *cursor = cursor.finished(task, self.ports.clock.now()),
        }
        Ok(())
    }

    /// What sweep wrote down for itself: cursors by their sort key, and alerts that were counted. What can't be read is told and
    /// begins anew.
    async fn notes(&self) -> Result<(BTreeMap<String, Cursor>, Vec<Gathered>), Error> {
        let (mut cursors, mut gathered, mut after) = (BTreeMap::new(), Vec::new(), None::<String>);
        loop {
            let page = self.ports.state.items(cursor::CURSORS, "", after.as_deref(), NOTES_AT_ONCE).await?;
            after = page.last().map(|(sk, _)| sk.clone());
            let more = page.len() == NOTES_AT_ONCE;
            for (sk, item) in page {
                let unread = if sk.starts_with(alert::PREFIX) {
                    Gathered::from_item(&item).map(|window| gathered.push(window)).err()
                } else {
                    Cursor::from_item(&item).map(|cursor| _ = cursors.insert(sk.clone(), cursor)).err()
                };
                if let Some(error) = unread {
                    tracing::error!(note = sk, %error, "it can't be read");
                }
            }
            if !more {
                return Ok((cursors, gathered));
            }
        }
    }

    /// The tasks of all datasets, with their cursors; one that isn't there yet is made.
    async fn turns<'h>(&self, hands: &'h [Hand], cursors: &BTreeMap<String, Cursor>) -> Result<Vec<Turn<'h>>, Error> {
        let now = self.ports.clock.now();
        let in_use = hands.iter().filter(|hand| hand.head.mode != Mode::Retired);
        let per_dataset = in_use.flat_map(|hand| [(Task::Look, Some(hand)), (Task::Tidy, Some(hand))]);
        let mut turns = Vec::new();
        for (task, hand) in per_dataset.chain([(Task::Book, None), (Task::Staging, None)]) {
            let dataset = hand.map(|hand| &hand.dataset);
            let cursor = if let Some(cursor) = cursors.get(&Cursor::key(task, dataset).sk) {
                cursor.clone()
            } else {
                let cursor = Cursor::new(task.first_due(dataset, now));
                self.write(&[cursor.store(task, dataset)]).await?;
                cursor
            };
            turns.push(Turn { task, hand, cursor });
        }
        Ok(turns)
    }
}

/// A task of a dataset, or of the stack, and where it stands.
struct Turn<'h> {
    task: Task,
    hand: Option<&'h Hand>,
    cursor: Cursor,
}
