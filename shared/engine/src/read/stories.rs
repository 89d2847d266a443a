//! The stories of a dataset's batches, newest first.
//!
//! Their sort keys are those of their batches, which begin with the time of birth: so the newest are found from now backwards,
//! window by window, and only as far back as is asked for.

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::id::{BatchId, DatasetName, PartitionName};
use tidemark_domain::story::{self, PREFIX, Story};

use super::unreadable;
use crate::Ports;
use crate::error::Error;

/// Stories read at once.
const AT_ONCE: usize = 200;
/// The first window.
const FIRST_WINDOW: SignedDuration = SignedDuration::from_hours(1);
/// A window with fewer stories than this makes the next one longer.
const FEW: usize = 100;
/// A window with more than this makes the next one shorter.
const MANY: usize = 1_000;
/// A batch's clock may have been so far ahead.
const AHEAD: SignedDuration = SignedDuration::from_hours(1);

/// Which stories are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Of this partition only.
    pub partition: Option<&'a PartitionName>,
    /// Of batches born then or later.
    pub since: Timestamp,
    /// At most so many.
    pub limit: usize,
    /// After so many of the dataset it stops, found or not.
    pub read_at_most: usize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Newest first.
    pub stories: Vec<(BatchId, Story)>,
    /// All wanted ones of batches born since then are there, unless there are more than the limit.
    pub since: Timestamp,
}

/// The newest stories of a dataset that are wanted.
pub async fn newest(ports: &Ports, dataset: &DatasetName, wanted: Wanted<'_>) -> Result<Found, Error> {
    let mut found = Found { stories: Vec::new(), since: ports.clock.now() + AHEAD };
    let (mut window, mut read) = (FIRST_WINDOW + AHEAD, 0);
    while found.stories.len() < wanted.limit && found.since > wanted.since && read < wanted.read_at_most {
        let until = found.since;
        let from = until.checked_sub(window).unwrap_or(wanted.since).max(wanted.since);
        let batches = between(ports, dataset, from, until).await?;
        read += batches.len();
        window = match batches.len() {
            n if n < FEW => window.saturating_mul(4),
            n if n > MANY => window / 2,
            _ => window,
        };
        let of_partition =
            |(_, story): &(BatchId, Story)| wanted.partition.is_none_or(|partition| story.partition == *partition);
        found.stories.extend(batches.into_iter().rev().filter(of_partition));
        found.since = from;
    }
    found.stories.truncate(wanted.limit);
    Ok(found)
}

/// The story of one batch, if it has ended.
pub async fn of_batch(ports: &Ports, dataset: &DatasetName, batch: BatchId) -> Result<Option<Story>, Error> {
    let item = ports.state.read(&[story::key(dataset, batch)]).await?.pop().flatten();
    let story = item.map(|item| Story::from_item(&item)).transpose();
    story.map_err(|why| unreadable(format!("the story of batch {batch}"), &why))
}

/// The stories of batches born from `from` on and before `until`, oldest first.
pub async fn between(
    ports: &Ports,
    dataset: &DatasetName,
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<(BatchId, Story)>, Error> {
    let (pk, end) = (format!("DATASET#{dataset}"), story::born_at(until));
    let (mut after, mut stories) = (story::born_at(from), Vec::new());
    loop {
        let page = ports.state.items(&pk, PREFIX, Some(&after), AT_ONCE).await?;
        let more = page.len() == AT_ONCE;
        for (sk, item) in page {
            if sk >= end {
                return Ok(stories);
            }
            if let Some(batch) = story::batch_of(&sk) {
                let story = Story::from_item(&item);
                stories.push((batch, story.map_err(|why| unreadable(format!("the story of batch {batch}"), &why))?));
            }
            after = sk;
        }
        if !more {
            return Ok(stories);
        }
    }
}
