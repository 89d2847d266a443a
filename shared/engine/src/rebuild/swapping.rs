//! Swapping: delete and insert in one transaction, under the claim of the batch's fence, with the ledger row as its proof.

use tidemark_domain::failure::{FailureKind, staging_is_gone};
use tidemark_domain::partition::{Committed, FailureState};
use tidemark_domain::sql::rebuild::{self, Listed as SqlListed, Swap};
use tidemark_domain::sql::{lookup, rows};
use tidemark_domain::step::{self, Swapped};
use tidemark_domain::verify::SourceCounts;

use super::fencing::committed;
use super::statement::{Answered, Ran};
use super::{Next, Worker};
use crate::error::Error;
use crate::ports::{Execution, ExecutionStatus};

impl Worker<'_> {
    /// Swaps; committed only by the whole batch's FINISHED, or by the own ledger row.
    pub(crate) async fn swapping(&mut self) -> Result<Next, Error> {
        let swap = self.swap()?;
        let execution = match self.run_statement(&swap.batch).await? {
            Ran::Ended(execution) => execution,
            Ran::Leave(next) => return Ok(next),
        };
        let last = if execution.status == ExecutionStatus::Finished {
            match self.rows(&execution, swap.counts).await? {
                Some(found) => Some(self.landed(rows::swap_counts(&found)?.target_rows)),
                None => None,
            }
        } else {
            None
        };
        let last = match last {
            Some(last) => last,
            None => match self.looked_up(&swap, &execution).await? {
                Ok(last) => last,
                Err(next) => return Ok(next),
            },
        };
        if self.was_over && self.batch.recovered.is_some() {
            self.batch.recovered = Some(FailureState::AfterCommit);
            self.observed.found = self.observed.found.map(|_| FailureState::AfterCommit);
        }
        self.observed.target_rows = Some(last.rows);
        let submitted = self.batch.statement.as_ref().map(|statement| statement.submitted_at);
        self.observed.swap = submitted.filter(|_| !self.was_over).map(|from| (from, self.now()));
        tracing::info!(rows = last.rows, recovered = ?self.batch.recovered, "committed");
        self.engine.publish_rebuilt(self.seen, &last).await?;
        Ok(Next::Confirm { last: Some(Box::new(last)) })
    }

    fn swap(&self) -> Result<Swap, Error> {
        let missing = |what: &str| Error::Stored {
            what: format!("batch {}", self.batch.id),
            why: format!("it is swapping, but records nothing {what}"),
        };
        let listed = self.batch.listed.as_ref().ok_or_else(|| missing("listed"))?;
        let verified = self.batch.verified.as_ref().ok_or_else(|| missing("verified"))?;
        let listed = SqlListed {
            digest: listed.digest.clone(),
            inventory_key: listed.inventory.clone(),
            source: SourceCounts { objects: listed.objects, bytes: listed.bytes, rows: listed.rows },
        };
        Ok(rebuild::swap(&self.request(), &listed, verified)?)
    }

    /// What the ledger says of a swap that didn't end FINISHED, or whose result isn't kept any more.
    async fn looked_up(&mut self, swap: &Swap, execution: &Execution) -> Result<Result<Committed, Next>, Error> {
        let look = match self.ask(&lookup::ledger_row(&self.request())?).await? {
            Answered::Rows(found) => rows::look(&found)?,
            Answered::Leave(next) => return Ok(Err(next)),
        };
        let (own, stored) = (look.ledger.as_ref().map(committed), look.stored_fence.unwrap_or_default());
        let finished = execution.status == ExecutionStatus::Finished;
        Ok(match step::swapped(&self.batch, own, stored, finished) {
            Swapped::Committed(own) => Ok(own),
            Swapped::Ahead(_) => Err(self.superseded().await?),
            Swapped::Missing => {
                let message = format!("statement {} is FINISHED, but its ledger row is not there", execution.id);
                Err(self.settle(FailureKind::Bug, &message))
            }
            Swapped::Failed => {
                let error = execution.first_error().unwrap_or_default();
                if staging_is_gone(error, &self.request().staging_name()) {
                    return Ok(Err(self.settle(FailureKind::SourceChanged, error)));
                }
                let failure = self.why(&swap.batch, execution);
                if failure.kind == FailureKind::ForeignRows
                    && let Some(next) = self.written_unknown().await?
                {
                    return Ok(Err(next));
                }
                Err(self.settle(failure.kind, &failure.message))
            }
        })
    }

    fn landed(&self, rows: u64) -> Committed {
        let now = self.now();
        let listed = self.batch.listed.clone();
        let took = now.duration_since(self.batch.began_at).as_secs();
        Committed {
            batch: self.batch.id,
            generation: self.batch.covers,
            fence: self.batch.fence,
            digest: listed.as_ref().map_or_else(|| tidemark_domain::id::Digest::stored(""), |l| l.digest.clone()),
            inventory: listed.map(|listed| listed.inventory).unwrap_or_default(),
            rows,
            took_seconds: u64::try_from(took).unwrap_or(0),
            committed_at: now,
        }
    }
}
