//! Jobs advance as far as their pace lets them, again and again while a sweep lasts: as partitions are done, others are marked.
//! So live marks never wait behind more than a few ([`tidemark_domain::job::Pace`]).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::dataset::Mode;
use tidemark_domain::definition::Definition;
use tidemark_domain::job::Job;
use tidemark_domain::sweep::wake::{budget, to_mark};

use super::{Hand, Swept};
use crate::Engine;
use crate::error::Error;
use crate::jobs;
use crate::ports::Written;

/// From one look at how many are on their way to the next.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// Time left at which a sweep ends.
const LEFT: SignedDuration = SignedDuration::from_secs(10);

/// A dataset, and its job that goes on.
pub(super) type Going<'h> = (&'h Hand, Job);

impl Engine {
    /// The jobs with anything left to mark, the oldest of a dataset first.
    pub(super) async fn open_jobs(&self) -> Result<Vec<Job>, Error> {
        Ok(jobs::all(&self.ports).await?.into_iter().filter(Job::is_open).collect())
    }

    /// The oldest job of each dataset that is worked on.
    pub(super) fn going(hands: &[Hand], jobs: Vec<Job>) -> Vec<Going<'_>> {
        let mut going: Vec<Going<'_>> = Vec::new();
        for job in jobs {
            let active = |hand: &&Hand| hand.dataset == job.dataset && hand.head.mode == Mode::Active;
            let hand = hands.iter().find(active).filter(|hand| going.iter().all(|(g, _)| g.dataset != hand.dataset));
            going.extend(hand.map(|hand| (hand, job)));
        }
        going
    }

    /// Advances each of them; gives those that go on.
    pub(super) async fn advance_each<'h>(&self, going: Vec<Going<'h>>, swept: &mut [Swept]) -> Vec<Going<'h>> {
        let mut on = Vec::new();
        for (hand, job) in going {
            match self.advance(hand, job).await {
                Ok((marked, job)) => {
                    let of_dataset = swept.iter_mut().filter(|swept| swept.dataset == hand.dataset);
                    of_dataset.for_each(|swept| swept.by_jobs += marked);
                    on.extend(job.map(|job| (hand, job)));
                }
                Err(error) => tracing::error!(dataset = %hand.dataset, %error, "its job is not advanced"),
            }
        }
        on
    }

    /// Advances them again and again, as partitions are done, for as long as there is time.
    pub(super) async fn top_up(&self, mut going: Vec<Going<'_>>, deadline: Timestamp, swept: &mut [Swept]) {
        while !going.is_empty() && deadline.duration_since(self.ports.clock.now()) > LEFT {
            self.ports.clock.sleep(BETWEEN_LOOKS).await;
            going = self.advance_each(going, swept).await;
        }
    }

    /// Marks as many more of the job's partitions as may be on their way; gives how many, and the job as it goes on in this
    /// sweep.
    async fn advance(&self, hand: &Hand, job: Job) -> Result<(u64, Option<Job>), Error> {
        let now = self.ports.clock.now();
        let Some(budget) = budget(&hand.head, now) else { return Ok((0, None)) };
        let (outstanding, due) = self.outstanding(&hand.dataset, now).await?;
        let pace = job.paced(outstanding as u64, budget as u64, self.settings.settle, now);
        let most = to_mark(&hand.head, usize::try_from(pace.outstanding).unwrap_or(budget), outstanding, due);
        if most == 0 {
            return Ok((0, Some(job)));
        }
        let definition = hand.definition(self).await?;
        let marked = self.mark_next(&job, &definition, most).await?;
        let counted = self.write(&[job.advance(marked, Some(pace), self.ports.clock.now())]).await?;
        let counted = matches!(counted, Written::Applied { .. });
        let done = job.done + marked;
        tracing::info!(dataset = %job.dataset, job = %job.id, marked, counted, done, total = job.total, pace = pace.outstanding, "job");
        // Somebody cancelled it, or advanced it as well.
        let goes_on = counted && done < job.total;
        Ok((marked, goes_on.then_some(Job { done, pace: Some(pace), ..job })))
    }

    async fn mark_next(&self, job: &Job, definition: &Definition, most: usize) -> Result<u64, Error> {
        let mut lines = jobs::lines(&self.ports, &self.settings.control_bucket, job, job.done).await?;
        lines.truncate(most);
        self.mark_lines(definition, &lines, Some(job)).await?;
        Ok(lines.len() as u64)
    }
}
