//! Confirm: the item follows what Redshift or the listing said; the batch's story is closed, the lock given back.

use tidemark_domain::partition::{Batch, Committed, PartitionItem};
use tidemark_domain::settle::Settlement;
use tidemark_domain::update::Update;
use tidemark_domain::{measure, step, story, writes};

use super::{Answer, Worker};
use crate::error::Error;
use crate::ports::Written;

impl Worker<'_> {
    /// CONFIRM A, or B where it was marked again meanwhile.
    pub(crate) async fn confirm(&mut self, last: Option<Committed>) -> Result<Answer, Error> {
        let outcome = if last.is_some() { story::Outcome::Committed } else { story::Outcome::Unchanged };
        let id = &self.seen.id;
        let rows = last.as_ref().map(|last| last.rows);
        let ending = story::Ending { outcome, rows, why: None, seen: Some(&self.observed) };
        let story = story::close(id, &self.batch, ending, self.now());
        let rest = writes::confirm_rest(id, &self.taken, &self.batch, last.as_ref());
        let Some(found) = self.finish(rest, Some(&story)).await? else {
            self.after_commit(last.as_ref()).await;
            return Ok(Answer::Done(if last.is_some() { "rebuilt" } else { "unchanged" }));
        };
        if !self.taken.holds(&found) {
            return Ok(self.overtaken().await);
        }
        let (marked, settle) = (found.marked, self.engine.settings.settle);
        let (last_ref, definition) = (last.as_ref(), &self.definition);
        let again = step::confirm_again(id, &self.taken, &self.batch, last_ref, found, definition, settle, self.now());
        if self.finish(again, Some(&story)).await?.is_some() {
            return Ok(self.overtaken().await);
        }
        self.after_commit(last.as_ref()).await;
        self.engine.nudge(self.seen, marked).await;
        Ok(Answer::Done("built, and marked again since"))
    }

    /// Writes the item with the story and the lock's release, in one transaction.
    ///
    /// `None`: written. Else the item as it was found, where its condition failed. If only the lock isn't ours any more,
    /// the rest is written without it. A batch that ends, and so has a story, is told before: a worker that is killed in
    /// between leaves it to the next one to tell again.
    pub(crate) async fn finish(
        &mut self,
        update: Update,
        story: Option<&Update>,
    ) -> Result<Option<PartitionItem>, Error> {
        if story.is_some() && !std::mem::replace(&mut self.observed.end_told, true) {
            let told = measure::ends(&self.seen.id, &self.batch, &self.definition, &self.observed, self.now());
            self.engine.telemetry.taken(&told, &[]);
        }
        let mut updates = vec![update];
        updates.extend(story.cloned());
        let without_lock = updates.clone();
        updates.push(self.scope.release(&self.holder));
        for updates in [updates, without_lock] {
            match self.engine.write(&updates).await? {
                Written::Applied { .. } => return Ok(None),
                Written::Refused(found) => {
                    if let Some(Some(item)) = found.into_iter().next() {
                        return PartitionItem::from_item(&item).map(Some).map_err(|error| Error::Stored {
                            what: format!("the partition item of {}", self.seen.id),
                            why: error.to_string(),
                        });
                    }
                }
            }
        }
        Err(Error::Stored {
            what: format!("the partition item of {}", self.seen.id),
            why: "it is not there".to_owned(),
        })
    }

    /// Drops the staging table and puts away the alarm of a halted dataset; both best effort.
    async fn after_commit(&self, last: Option<&Committed>) {
        if last.is_none() {
            return;
        }
        let Ok(drop) = tidemark_domain::sql::lookup::drop_staging(&self.request()) else { return };
        let token = self.engine.ports.clock.id().to_string();
        let submission = crate::ports::Submission {
            statements: drop.statements(),
            name: drop.name(),
            token: &token,
            wait_seconds: 0,
        };
        if let Err(error) = self.engine.ports.warehouse.submit(submission).await {
            tracing::info!(%error, "the staging table stays until it is tidied");
        }
    }

    /// Closes the story of a batch that ended otherwise; `batch` as it was when it ended.
    pub(crate) fn ended_story(&self, settlement: &Settlement, batch: &Batch) -> Option<Update> {
        let (outcome, why) = match settlement {
            Settlement::Park { kind, message } => (story::Outcome::Parked, format!("{kind}: {message}")),
            Settlement::Hold { keep: false, kind, message, .. } => {
                (story::Outcome::GivenUp, format!("{kind}: {message}"))
            }
            Settlement::Hold { .. } | Settlement::Halt(_) | Settlement::Superseded => return None,
        };
        Some(self.close_story(batch, outcome, &why))
    }

    /// Closes the story of a batch that came to nothing.
    pub(crate) fn close_story(&self, batch: &Batch, outcome: story::Outcome, why: &str) -> Update {
        let ending = story::Ending { outcome, rows: None, why: Some(why), seen: Some(&self.observed) };
        story::close(&self.seen.id, batch, ending, self.now())
    }
}
