//! Fencing: shut out the swaps of older fences, then look which one landed.
//!
//! Only for a batch after an unresolved one. The look comes after the fence has FINISHED: before, a swap could land
//! unseen.

use jiff::tz::TimeZone;
use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::{Fence, Generation};
use tidemark_domain::measure;
use tidemark_domain::partition::{Committed, FailureState};
use tidemark_domain::sql::rows::LedgerRow;
use tidemark_domain::sql::{lookup, rebuild, rows};
use tidemark_domain::step::{self, Fenced};
use tidemark_domain::story;

use super::statement::{Answered, Ran};
use super::{Next, Worker};
use crate::error::Error;
use crate::ports::ExecutionStatus;

impl Worker<'_> {
    /// Fences, looks, and goes on to listing with what was found.
    pub(crate) async fn fencing(&mut self) -> Result<Next, Error> {
        let sql = rebuild::fence(&self.request())?;
        let execution = match self.run_statement(&sql).await? {
            Ran::Ended(execution) => execution,
            Ran::Leave(next) => return Ok(next),
        };
        if execution.status != ExecutionStatus::Finished {
            let failure = self.why(&sql, &execution);
            return match failure.kind {
                FailureKind::Superseded => self.superseded().await,
                kind => Ok(self.settle(kind, &failure.message)),
            };
        }
        let look = match self.ask(&lookup::look(&self.request())?).await? {
            Answered::Rows(rows) => rows::look(&rows)?,
            Answered::Leave(next) => return Ok(next),
        };
        let stored = look.stored_fence.unwrap_or_default();
        let (batch, landed) = match step::fenced(&self.item, &self.batch, stored, look.ledger.as_ref().map(committed)) {
            Fenced::Ahead(ledger, stored) => return self.ahead(ledger, stored).await,
            Fenced::Looked { batch, landed } => (batch, landed),
        };
        if let Some(landed) = &landed {
            tracing::info!(landed = %landed.batch, rows = landed.rows, "an earlier swap had landed");
            self.observed.found = Some(FailureState::AfterCommit);
            self.engine.publish_rebuilt(self.seen, landed).await?;
            self.engine.write(&[story::close_committed(&self.seen.id, landed)]).await?;
            if let Some(row) = &look.ledger {
                self.engine.telemetry.taken(&measure::landed(&self.seen.id, row), &[]);
            }
        }
        Ok(Next::Looked { batch, newest: landed.map(Box::new) })
    }

    /// Redshift has a fence or a generation that the item doesn't know: if the item is still ours, it was restored.
    async fn ahead(&self, ledger: Generation, stored: Fence) -> Result<Next, Error> {
        let now = self.engine.look(&self.seen.id).await?;
        let found = now.and_then(|seen| seen.item);
        Ok(step::ahead(self.taken.fence, found.as_ref(), ledger, stored))
    }

    /// A claim or fence was refused because a newer fence is stored: what else does Redshift know?
    pub(crate) async fn superseded(&self) -> Result<Next, Error> {
        match self.ask(&lookup::look(&self.request())?).await? {
            Answered::Rows(rows) => {
                let look = rows::look(&rows)?;
                let ledger = look.ledger.as_ref().map(|row| row.generation).unwrap_or_default();
                self.ahead(ledger, look.stored_fence.unwrap_or_default()).await
            }
            Answered::Leave(next) => Ok(next),
        }
    }

    /// A swap was refused for rows that no batch of ours wrote: does the ledger have a batch that the item doesn't know? What
    /// comes next then, if so.
    pub(super) async fn written_unknown(&self) -> Result<Option<Next>, Error> {
        let look = match self.ask(&lookup::look(&self.request())?).await? {
            Answered::Rows(rows) => rows::look(&rows)?,
            Answered::Leave(next) => return Ok(Some(next)),
        };
        let newest = look.ledger.as_ref().map(committed);
        if !step::wrote_unknown_to_item(&self.batch, newest.as_ref()) {
            return Ok(None);
        }
        let ledger = newest.map(|row| row.generation).unwrap_or_default();
        self.ahead(ledger, look.stored_fence.unwrap_or_default()).await.map(Some)
    }
}

/// The committed batch that a ledger row tells of.
pub(crate) fn committed(row: &LedgerRow) -> Committed {
    let utc = |time: jiff::civil::DateTime| TimeZone::UTC.to_timestamp(time).unwrap_or_default();
    let took = utc(row.swapped_at).duration_since(utc(row.staged_at)).as_secs();
    Committed {
        batch: row.batch,
        generation: row.generation,
        fence: row.fence,
        digest: row.digest.clone(),
        inventory: row.inventory_key.clone(),
        rows: row.counts.target_rows,
        took_seconds: u64::try_from(took).unwrap_or(0),
        committed_at: utc(row.swapped_at),
    }
}
