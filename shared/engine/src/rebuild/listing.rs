//! Listing: what is in S3 now; nothing to do where that is what was committed last; else inventory, guards, manifest.

use tidemark_domain::failure::FailureKind;
use tidemark_domain::partition::{Batch, Phase};
use tidemark_domain::settle::{self, Settlement};
use tidemark_domain::take::Permission;
use tidemark_domain::verify;

use super::{Next, Worker};
use crate::error::Error;
use crate::inventory::{Built, Listing, Whole, build, manifest};

impl Worker<'_> {
    /// Lists, and decides whether there is anything to stage.
    pub(crate) async fn listing(&mut self) -> Result<Next, Error> {
        if self.permission != Permission::All {
            return Ok(Next::Denied);
        }
        let listing = self.list();
        let built = {
            let has_time = || !self.time_left().is_zero();
            build(&listing, &has_time).await?
        };
        let whole = match built {
            Built::Whole(whole) => whole,
            Built::OutOfTime => return Ok(Next::HandOff { statement: None }),
            Built::Drifted(drifted) => {
                let message = format!("{}; nothing was staged", drifted.0);
                let settlement = settle::failure(&self.item, FailureKind::RejectedData, &message, self.now(), 0);
                return Ok(Next::Settle { settlement, keep: self.batch.clone() });
            }
        };
        let unchanged = self.item.last.as_ref().is_some_and(|last| last.digest == whole.listed.digest);
        if unchanged && !self.batch.forced {
            tracing::info!(objects = whole.listed.objects, "unchanged since the last commit");
            return Ok(Next::Confirm { last: None });
        }
        if let Some(refused) = self.refused_by_guards(&whole) {
            return Ok(refused);
        }
        if whole.listed.objects > 0 {
            manifest(&listing).await?;
        }
        tracing::info!(objects = whole.listed.objects, bytes = whole.listed.bytes, rows = whole.listed.rows, "listed");
        Ok(Next::Record(Batch { listed: Some(whole.listed), ..self.batch.enter(Phase::Staging) }))
    }

    /// Where and how this batch lists.
    pub(crate) fn list(&self) -> Listing<'_> {
        Listing {
            objects: self.engine.ports.objects.as_ref(),
            definition: &self.definition,
            partition: &self.partition,
            control_bucket: &self.engine.settings.control_bucket,
            inventory: format!("inventory/{}/{}/", self.seen.id.dataset, self.batch.id),
            previous: self.item.last.as_ref().map(|last| last.inventory.clone()),
        }
    }

    fn refused_by_guards(&self, whole: &Whole) -> Option<Next> {
        let accepted = settle::accepted(self.batch.accept.as_ref(), Some(&whole.listed));
        let listing = verify::Listing {
            objects: whole.listed.objects,
            missing: whole.missing.0,
            missing_example: whole.missing.1.as_deref(),
            told: u64::try_from(self.batch.removed).unwrap_or(0),
            archived: whole.archived.0,
            archived_example: whole.archived.1.as_deref(),
        };
        let verdict = verify::listing(&self.definition, &accepted, &listing);
        if verdict.is_good() {
            return None;
        }
        let settlement = settle::verdict(&self.item, &self.batch, &verdict, self.patience(), self.now());
        if let Settlement::Hold { until, .. } = &settlement {
            tracing::info!(verdict = verdict.message(), %until, "held back");
        }
        // What was listed is shown with the partition, so that an operator can accept just that.
        Some(Next::Settle { settlement, keep: Batch { listed: Some(whole.listed.clone()), ..self.batch.clone() } })
    }
}
