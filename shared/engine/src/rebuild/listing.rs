//! Listing: what is in S3 now; nothing to do where that is what was committed last; else inventory, guards, manifest.

use tidemark_domain::definition::Definition;
use tidemark_domain::failure::FailureKind;
use tidemark_domain::partition::{Accept, Listed};
use tidemark_domain::settle::{self, Settlement};
use tidemark_domain::step;
use tidemark_domain::take::Permission;
use tidemark_domain::verify::{self, SourceCounts, Verdict};

use super::{Next, Worker};
use crate::error::Error;
use crate::inventory::{Built, Listing, Whole, build, manifest};

impl Worker<'_> {
    /// Lists, and decides whether there is anything to stage.
    pub(crate) async fn listing(&mut self) -> Result<Next, Error> {
        if self.permission != Permission::All {
            return Ok(Next::Denied);
        }
        let built = build(&self.list(), &|| !self.time_left().is_zero()).await?;
        let whole = match built {
            Built::Whole(whole) => whole,
            Built::OutOfTime(progress) => {
                self.batch.progress = Some(progress);
                return Ok(Next::HandOff { statement: None });
            }
            Built::Drifted(drifted) => {
                let message = format!("{}; nothing was staged", drifted.0);
                let settlement = settle::failure(&self.item, FailureKind::RejectedData, &message, self.now(), 0);
                return Ok(Next::Settle { settlement, keep: self.batch.clone() });
            }
        };
        let verdict = guards(&self.definition, self.batch.accept.as_ref(), self.batch.removed, &whole);
        let listed = Listed { at: Some(self.now()), ..whole.listed };
        self.observed.listing = Some((listed.clone(), whole.archived.0));
        let objects = listed.objects;
        tracing::info!(objects, bytes = listed.bytes, rows = listed.rows, "listed");
        let source = SourceCounts { objects, bytes: listed.bytes, rows: listed.rows };
        let mut next = step::listed(&self.item, &self.batch, listed.clone(), &verdict, self.patience(), self.now());
        if matches!(next, Next::Enter(_)) && objects > 0 {
            let verdict = verify::manifest(&source, &manifest(&self.list(), &listed.inventory).await?);
            if !verdict.is_good() {
                next = step::listed(&self.item, &self.batch, listed, &verdict, self.patience(), self.now());
            }
        }
        match &next {
            Next::Confirm { .. } => tracing::info!(objects, "unchanged since the last commit"),
            Next::Settle { settlement: Settlement::Hold { until, .. }, .. } => {
                tracing::info!(verdict = verdict.message(), %until, "held back");
            }
            _ => {}
        }
        Ok(next)
    }

    /// Where and how this batch lists.
    pub(crate) fn list(&self) -> Listing<'_> {
        Listing {
            objects: self.engine.ports.objects.as_ref(),
            definition: &self.definition,
            partition: &self.partition,
            control_bucket: &self.engine.settings.control_bucket,
            folder: format!("inventory/{}/{}/", self.seen.id.dataset, self.batch.id),
            previous: self.item.last.as_ref().map(|last| last.inventory.clone()),
            progress: self.batch.progress.clone(),
        }
    }
}

/// What the guards of a listing say.
pub(crate) fn guards(definition: &Definition, accept: Option<&Accept>, removed: i64, whole: &Whole) -> Verdict {
    let accepted = settle::accepted(accept, Some(&whole.listed));
    let listing = verify::Listing {
        objects: whole.listed.objects,
        missing: whole.missing.0,
        missing_example: whole.missing.1.as_deref(),
        unreadable: whole.unreadable.as_deref(),
        told: u64::try_from(removed).unwrap_or(0),
        archived: whole.archived.0,
        archived_example: whole.archived.1.as_deref(),
    };
    let verdict = verify::listing(definition, &accepted, &listing);
    let note = settle::accepted_something_else(accept, &whole.listed, &verdict);
    Verdict { note, ..verdict }
}
