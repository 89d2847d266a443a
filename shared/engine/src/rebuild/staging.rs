//! Staging: one transaction makes the staging table, copies, counts; then S3 is listed again, then verified.

use tidemark_domain::definition::Definition;
use tidemark_domain::failure::{FailureKind, staging_exists, staging_is_gone};
use tidemark_domain::partition::{Accept, Listed};
use tidemark_domain::settle;
use tidemark_domain::sql::rebuild::{self, CopySource, Stage, Verified};
use tidemark_domain::sql::{lookup, rows};
use tidemark_domain::step;
use tidemark_domain::verify::{self, GuardKind, LoadCounts, SourceCounts, StageCounts, Verdict};

use super::statement::{Answered, Ran};
use super::{Next, Worker};
use crate::error::Error;
use crate::inventory::{Recheck, manifest_url, recheck};
use crate::ports::{Execution, ExecutionStatus};

/// What was counted in Redshift. Without `loads` it isn't known which files COPY read.
struct Counted {
    counts: StageCounts,
    loads: Option<LoadCounts>,
}

impl Worker<'_> {
    /// Stages, counts, lists again, verifies.
    pub(crate) async fn staging(&mut self) -> Result<Next, Error> {
        let listed = self.batch.listed.clone().ok_or_else(|| Error::Stored {
            what: format!("batch {}", self.batch.id),
            why: "it is staging, but records nothing listed".to_owned(),
        })?;
        let source = (listed.objects > 0).then(|| CopySource {
            manifest_url: manifest_url(&self.engine.settings.control_bucket, &listed.inventory),
            role: self.engine.settings.copy_role.clone(),
            region: None,
        });
        let stage = rebuild::stage(&self.request(), source.as_ref())?;
        let execution = match self.run_statement(&stage.batch).await? {
            Ran::Ended(execution) => execution,
            Ran::Leave(next) => return Ok(next),
        };
        let counted = match self.counted(&stage, &execution, &listed).await? {
            Ok(counted) => counted,
            Err(next) => return Ok(next),
        };
        match recheck(&self.list(), &listed.inventory, &|| !self.time_left().is_zero()).await? {
            Recheck::Same => {
                let next = self.verified(&listed, &counted);
                self.observed.staged = Some((counted.counts, counted.loads));
                Ok(next)
            }
            Recheck::Changed(key) => Ok(self.settle(FailureKind::SourceChanged, &source_changed(&key))),
            Recheck::OutOfTime => Ok(Next::HandOff { statement: Some(execution.id) }),
        }
    }

    async fn counted(
        &mut self,
        stage: &Stage,
        execution: &Execution,
        listed: &Listed,
    ) -> Result<Result<Counted, Next>, Error> {
        if execution.status == ExecutionStatus::Finished {
            let counts = self.rows(execution, stage.counts).await?;
            let loads = match stage.loads {
                Some(of) => self.rows(execution, of).await?,
                None => None,
            };
            if let Some(counts) = counts {
                let counts = rows::stage_counts(&self.definition, &counts)?;
                let loads = loads.map(|rows| rows::load_counts(&rows)).transpose()?;
                return Ok(Ok(Counted { counts, loads }));
            }
            return self.recount().await;
        }
        let error = execution.first_error().unwrap_or_default();
        if staging_exists(error, &self.request().staging_name()) {
            // Made and filled in one transaction, its inventory recorded before: it is whole.
            return self.recount().await;
        }
        Ok(Err(self.stage_failed(stage, execution, listed).await?))
    }

    async fn recount(&mut self) -> Result<Result<Counted, Next>, Error> {
        tracing::info!("the staging table is there already; counting it again");
        Ok(match self.ask(&lookup::recount(&self.request())?).await {
            Ok(Answered::Rows(found)) => {
                Ok(Counted { counts: rows::stage_counts(&self.definition, &found)?, loads: None })
            }
            Ok(Answered::Leave(next)) => Err(next),
            // Somebody dropped it, or restored a warehouse without it.
            Err(Error::Warehouse { message, .. }) if staging_is_gone(&message, &self.request().staging_name()) => {
                Err(self.settle(FailureKind::SourceChanged, &message))
            }
            Err(error) => return Err(error),
        })
    }

    /// COPY failed: if the source isn't what was listed any more, that is why; else its errors say.
    async fn stage_failed(&mut self, stage: &Stage, execution: &Execution, listed: &Listed) -> Result<Next, Error> {
        let failure = self.why(&stage.batch, execution);
        if !step::may_be_the_source(failure.kind) {
            return Ok(self.settle(failure.kind, &failure.message));
        }
        let (changed, message) = match recheck(&self.list(), &listed.inventory, &|| !self.time_left().is_zero()).await?
        {
            Recheck::Changed(key) => (true, source_changed(&key)),
            Recheck::OutOfTime => return Ok(Next::HandOff { statement: Some(execution.id.clone()) }),
            Recheck::Same => (false, failure.message.clone()),
        };
        let kind = step::copy_failure(failure.kind, changed);
        if kind != failure.kind || changed {
            return Ok(self.settle(kind, &message));
        }
        let copy = stage.copy.and_then(|copy| execution.statements.get(copy.0 - 1));
        let Some(query) = copy.map(|copy| copy.query_id).filter(|id| *id > 0) else {
            return Ok(self.settle(failure.kind, &failure.message));
        };
        match self.ask(&lookup::load_errors(&self.request(), query)?).await? {
            Answered::Leave(next) => Ok(next),
            Answered::Rows(found) => {
                let errors = rows::load_errors(&found)?;
                let told = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                let message = if told.is_empty() { failure.message } else { told };
                Ok(self.settle(failure.kind, &message))
            }
        }
    }

    fn verified(&self, listed: &Listed, counted: &Counted) -> Next {
        let accept = self.batch.accept.as_ref();
        let verdict = staged(&self.definition, accept, listed, &counted.counts, counted.loads.as_ref());
        let now = self.now();
        if verdict.is_good() {
            tracing::info!(staged = counted.counts.staged_rows, target = counted.counts.target_rows, "verified");
        } else {
            tracing::warn!(verdict = verdict.message(), "verification failed");
        }
        let verified = Verified {
            staged_rows: counted.counts.staged_rows,
            rejected_rows: counted.loads.map_or(0, |loads| loads.rejected_rows),
            duplicate_rows: counted.counts.duplicate_rows,
            staged_at: now,
            rows_before: counted.counts.target_rows,
            foreign_rows: counted.counts.foreign_rows,
        };
        step::staged(&self.item, &self.batch, &verdict, verified, self.patience(), now)
    }
}

/// What verifying says of a staging table.
pub(crate) fn staged(
    definition: &Definition,
    accept: Option<&Accept>,
    listed: &Listed,
    counts: &StageCounts,
    loads: Option<&LoadCounts>,
) -> Verdict {
    let mut accepted = settle::accepted(accept, Some(listed));
    if listed.objects == 0 {
        accepted.insert(GuardKind::RowDrop);
    }
    let source = SourceCounts { objects: listed.objects, bytes: listed.bytes, rows: listed.rows };
    let verdict = verify::staged(definition, &accepted, &source, counts, loads);
    let note = settle::accepted_something_else(accept, listed, &verdict);
    Verdict { note, ..verdict }
}

pub(crate) fn source_changed(key: &str) -> String {
    format!("{key} changed or went while it was loaded")
}
