//! look: lists a dataset's lookback, partitions in S3 and partitions in state, and marks those at rest whose files are
//! neither what was committed nor what they were parked for. The net for events that were lost.
//!
//! A round goes through the partitions in the order of their names, slice by slice.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tidemark_domain::apply::{in_lookback, lookback_begins_after};
use tidemark_domain::cursor::{Cursor, Task};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::PartitionName;
use tidemark_domain::job::{Kind, Line};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::sweep::look::{is_missed, is_news};

use super::Hand;
use crate::Engine;
use crate::error::Error;
use crate::inventory::{folders, glance};

/// Partition items read at once.
const STATE_PAGE: usize = 500;
/// Partitions listed between two looks at the clock.
const CHUNK: usize = 64;
/// Listings at once.
const AT_ONCE: usize = 16;

type Candidates = BTreeMap<PartitionName, Option<PartitionItem>>;

/// A partition whose files nobody has dealt with.
struct News {
    line: Line,
    /// It should have been marked by an event long ago.
    missed: bool,
}

/// The moments of a round.
#[derive(Clone, Copy)]
struct Round {
    /// One for the whole round, so that its bounds don't move.
    now: Timestamp,
    /// When the round before it began.
    since: Option<Timestamp>,
}

/// What a slice of a round has found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Looked {
    /// Partitions that were marked, or left to a job.
    pub(super) found: u64,
    /// Of them, those that files came to and no event told so.
    pub(super) missed: u64,
}

impl Engine {
    /// One slice of a round: until then, or to its end. The cursor stands behind what was looked at and marked, also where a
    /// listing fails on the way.
    pub(super) async fn look_over(
        &self,
        hand: &Hand,
        cursor: &mut Cursor,
        until: Timestamp,
        looked: &mut Looked,
    ) -> Result<(), Error> {
        let definition = hand.definition(self).await?;
        let now = cursor.began_at.unwrap_or_else(|| self.ports.clock.now());
        let round = Round { now, since: cursor.done_at };
        let objects = self.ports.objects.as_ref();
        let in_s3 = folders(objects, &definition, |partition| in_lookback(&definition, partition, now)).await?;
        let after = cursor.after.as_deref().and_then(|name| PartitionName::new(name).ok());
        let mut after = after.or_else(|| lookback_begins_after(&definition, now));
        let mut news = Vec::new();
        let ended = self.look_on(&definition, &in_s3, (&mut after, round), until, &mut news).await;
        for News { line, missed } in &news {
            tracing::warn!(dataset = %hand.dataset, partition = %line.partition, missed, "its files changed and no event told so; marked");
        }
        let (before, found) = (cursor.found, news.len() as u64);
        *looked = Looked { found, missed: news.iter().filter(|news| news.missed).count() as u64 };
        let lines = news.into_iter().map(|news| news.line).collect();
        self.mark_found(&definition, Kind::Look, lines, before).await?;
        let now = self.ports.clock.now();
        if let Some(after) = after {
            *cursor = cursor.advanced(after.as_str(), before + found, now);
        }
        if ended? {
            *cursor = cursor.finished(Task::Look, now);
        }
        Ok(())
    }

    /// Looks at the partitions after `after` until then, chunk by chunk; `true`: to the end.
    async fn look_on(
        &self,
        definition: &Definition,
        in_s3: &BTreeMap<PartitionName, Vec<String>>,
        (after, round): (&mut Option<PartitionName>, Round),
        until: Timestamp,
        news: &mut Vec<News>,
    ) -> Result<bool, Error> {
        loop {
            let (candidates, last) = self.candidates(definition, in_s3, after.as_ref(), round.now).await?;
            let candidates: Vec<_> = candidates.into_iter().collect();
            for chunk in candidates.chunks(CHUNK) {
                news.extend(self.news(definition, in_s3, chunk, round).await?);
                *after = chunk.last().map(|(name, _)| name.clone());
                if self.ports.clock.now() >= until {
                    return Ok(false);
                }
            }
            match last {
                None => return Ok(true),
                Some(last) => *after = Some(last),
            }
        }
    }

    /// The next partitions after `after`, in S3 or in state, and up to where they are all of them; `None`: to the end.
    async fn candidates(
        &self,
        definition: &Definition,
        in_s3: &BTreeMap<PartitionName, Vec<String>>,
        after: Option<&PartitionName>,
        now: Timestamp,
    ) -> Result<(Candidates, Option<PartitionName>), Error> {
        let page = self.ports.state.partitions(&definition.name, after, STATE_PAGE).await?;
        let last = page.last().filter(|_| page.len() == STATE_PAGE).map(|(name, _)| name.clone());
        let upper = last.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut candidates: Candidates =
            in_s3.range::<PartitionName, _>((lower, upper)).map(|(name, _)| (name.clone(), None)).collect();
        for (name, item) in page {
            if !definition.yields(&name).is_some_and(|partition| in_lookback(definition, &partition, now)) {
                continue;
            }
            match PartitionItem::from_item(&item) {
                Ok(item) => _ = candidates.insert(name, Some(item)),
                Err(error) => {
                    tracing::error!(dataset = %definition.name, partition = %name, %error, "its item can't be read; passed over");
                    candidates.remove(&name);
                }
            }
        }
        Ok((candidates, last))
    }

    /// Which of them are news.
    async fn news(
        &self,
        definition: &Definition,
        in_s3: &BTreeMap<PartitionName, Vec<String>>,
        chunk: &[(PartitionName, Option<PartitionItem>)],
        Round { now, since }: Round,
    ) -> Result<Vec<News>, Error> {
        let looks = stream::iter(chunk).map(async |(name, item)| {
            let Ok(partition) = definition.partition(name) else { return Ok::<_, Error>(None) };
            if item.as_ref().is_some_and(PartitionItem::on_its_way) {
                return Ok(None);
            }
            let spellings = in_s3.get(name).map(Vec::as_slice).unwrap_or_default();
            let seen = glance(self.ports.objects.as_ref(), definition, &partition, spellings).await?;
            let news = || News { line: Line::of(name.clone()), missed: is_missed(item.as_ref(), &seen, since, now) };
            Ok(is_news(item.as_ref(), &seen).then(news))
        });
        let found: Vec<Option<News>> = looks.buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}
