//! A rehearsal: what a rebuild of a partition would come to, without a rebuild.
//!
//! List, stage, verify, tell, drop, with a batch id and so a staging table of its own: no lock, no fence, nothing is written to
//! the partition or its target. What it writes are a listing (below `rehearsal/`) and a manifest in the control bucket, which
//! expire. One that dies leaves its staging table, which no batch knows: sweep drops it after seven days.

use jiff::Timestamp;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{BatchId, Generation, PartitionId};
use tidemark_domain::partition::{Accept, Listed, PartitionItem};
use tidemark_domain::partition_value::Partition;
use tidemark_domain::sql::rebuild::{CopySource, LastBatch, Request, Stage, stage};
use tidemark_domain::sql::{lookup, rows};
use tidemark_domain::verify::{self, GuardKind, LoadCounts, SourceCounts, StageCounts, Verdict};

use crate::Engine;
use crate::error::Error;
use crate::inventory::{Built, Listing, Recheck, build, manifest, manifest_url, recheck};
use crate::ports::{Execution, ExecutionStatus, WarehouseError};
use crate::rebuild::{Seen, listing, staging};
use crate::run::{RunError, ask, run, to_its_end};

/// What was rehearsed, and what it came to.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    /// The partition, by its canonical name.
    pub id: PartitionId,
    /// The batch that it would have been.
    pub batch: BatchId,
    /// What was listed; `None`: a file doesn't fit the definition.
    pub listed: Option<Listed>,
    /// Whether that is what was committed last, so that only a forced rebuild would do anything.
    pub unchanged: bool,
    /// The rules that aren't met, of the listing or of the staged rows.
    pub verdict: Verdict,
    /// What else keeps it from landing: a file that doesn't fit, a COPY that failed, files that changed meanwhile.
    pub failure: Option<String>,
    /// What was counted; `None`: nothing was staged.
    pub counts: Option<StageCounts>,
    /// What COPY read, where Redshift tells it.
    pub loads: Option<LoadCounts>,
    /// The staging table, where it couldn't be dropped.
    pub left: Option<String>,
    /// Seconds, in all.
    pub seconds: u64,
}

impl Rehearsal {
    /// Whether the rebuild would land.
    pub fn is_good(&self) -> bool {
        self.verdict.is_good() && self.failure.is_none()
    }
}

/// Why a rehearsal broke off, which says nothing of the partition.
#[derive(Debug, thiserror::Error)]
pub enum RehearseError {
    /// Listing, or something stored.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Redshift.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Redshift's Data API.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    /// There is no such partition.
    #[error("{0} is no partition of a dataset that was applied")]
    Unknown(PartitionId),
}

/// The batch that it would be.
struct Would<'a> {
    engine: &'a Engine,
    seen: &'a Seen,
    definition: &'a Definition,
    partition: &'a Partition,
    batch: BatchId,
    began_at: Timestamp,
}

impl Engine {
    /// Rehearses a rebuild of a partition under the definition in force. `accept`: these guards are let pass.
    pub async fn rehearse(
        &self,
        id: &PartitionId,
        accept: &std::collections::BTreeSet<GuardKind>,
    ) -> Result<Rehearsal, RehearseError> {
        let seen = self.look(id).await?.ok_or_else(|| RehearseError::Unknown(id.clone()))?;
        let (Some(definition), Some(partition)) = (&seen.definition, &seen.partition) else {
            return Err(RehearseError::Unknown(id.clone()));
        };
        let (batch, began_at) = (BatchId(self.ports.clock.id()), self.ports.clock.now());
        let would = Would { engine: self, seen: &seen, definition, partition, batch, began_at };
        let listing = would.listing();
        let whole = match build(&listing, &|| true).await? {
            Built::Whole(whole) => whole,
            Built::Drifted(drifted) => {
                let failure = Some(drifted.0.clone());
                return Ok(Rehearsal { failure, ..would.nothing_staged(None, Verdict::default()) });
            }
            Built::OutOfTime(_) => return Ok(would.nothing_staged(None, Verdict::default())),
        };
        let listed = whole.listed.clone();
        let accept =
            (!accept.is_empty()).then(|| Accept { kinds: accept.clone(), digest: Some(listed.digest.clone()) });
        let removed = seen.item.as_ref().map_or(0, |item| item.removed);
        let verdict = listing::guards(definition, accept.as_ref(), removed, &whole);
        if !verdict.is_good() {
            return Ok(would.nothing_staged(Some(listed), verdict));
        }
        let mut source = None;
        if listed.objects > 0 {
            let counts = SourceCounts { objects: listed.objects, bytes: listed.bytes, rows: listed.rows };
            let verdict = verify::manifest(&counts, &manifest(&listing, &listed.inventory).await?);
            if !verdict.is_good() {
                return Ok(would.nothing_staged(Some(listed), verdict));
            }
            source = Some(CopySource {
                manifest_url: manifest_url(&self.settings.control_bucket, &listed.inventory),
                role: self.settings.copy_role.clone(),
                region: None,
            });
        }
        would.staged(listing, listed, source, accept.as_ref()).await
    }
}

impl Would<'_> {
    /// Stages and verifies; the table is dropped whatever came of it.
    async fn staged(
        &self,
        listing: Listing<'_>,
        listed: Listed,
        source: Option<CopySource>,
        accept: Option<&Accept>,
    ) -> Result<Rehearsal, RehearseError> {
        let staged = self.stage(&listing, &listed, source.as_ref(), accept).await;
        let request = self.request(accept, &listed);
        let drop = lookup::drop_staging(&request).map_err(Error::from)?;
        let dropped = run(&self.engine.ports, &drop).await;
        let left = dropped.is_err().then(|| request.staging_name());
        Ok(Rehearsal { left, ..staged? })
    }

    async fn stage(
        &self,
        listing: &Listing<'_>,
        listed: &Listed,
        source: Option<&CopySource>,
        accept: Option<&Accept>,
    ) -> Result<Rehearsal, RehearseError> {
        let nothing = || self.nothing_staged(Some(listed.clone()), Verdict::default());
        let stage = stage(&self.request(accept, listed), source).map_err(Error::from)?;
        let execution = to_its_end(&self.engine.ports, &stage.batch).await?;
        if execution.status != ExecutionStatus::Finished {
            let failure = Some(self.why(&stage, &execution, &self.request(accept, listed)).await?);
            return Ok(Rehearsal { failure, ..nothing() });
        }
        let warehouse = &self.engine.ports.warehouse;
        let counts = warehouse.result(&stage.counts.id(&execution.id)).await?;
        let counts = rows::stage_counts(self.definition, &counts).map_err(Error::from)?;
        let loads = match stage.loads {
            Some(of) => Some(rows::load_counts(&warehouse.result(&of.id(&execution.id)).await?).map_err(Error::from)?),
            None => None,
        };
        let failure = match recheck(listing, &listed.inventory, &|| true).await? {
            Recheck::Changed(key) => Some(staging::source_changed(&key)),
            Recheck::Same | Recheck::OutOfTime => None,
        };
        let verdict = staging::staged(self.definition, accept, listed, &counts, loads.as_ref());
        Ok(Rehearsal { verdict, failure, counts: Some(counts), loads, ..nothing() })
    }

    /// Why COPY failed: what Redshift noted of the files, else its error.
    async fn why(&self, stage: &Stage, execution: &Execution, request: &Request<'_>) -> Result<String, RehearseError> {
        let error = execution.first_error().unwrap_or("it was cancelled").to_owned();
        let copy = stage.copy.and_then(|copy| execution.statements.get(copy.0 - 1));
        let Some(query) = copy.map(|copy| copy.query_id).filter(|id| *id > 0) else { return Ok(error) };
        let question = lookup::load_errors(request, query).map_err(Error::from)?;
        let found = rows::load_errors(&ask(&self.engine.ports, &question).await?).map_err(Error::from)?;
        let told = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Ok(if told.is_empty() { error } else { told })
    }

    fn listing(&self) -> Listing<'_> {
        Listing {
            objects: self.engine.ports.objects.as_ref(),
            definition: self.definition,
            partition: self.partition,
            control_bucket: &self.engine.settings.control_bucket,
            folder: format!("rehearsal/{}/", self.batch),
            previous: self.last().map(|last| last.inventory.clone()),
            progress: None,
        }
    }

    fn request<'a>(&'a self, accept: Option<&Accept>, listed: &'a Listed) -> Request<'a> {
        let item: Option<&PartitionItem> = self.seen.item.as_ref();
        Request {
            definition: self.definition,
            definition_hash: &self.seen.head.hash,
            partition: self.partition,
            stack: &self.engine.settings.stack,
            batch: self.batch,
            fence: item.map(|item| item.fence).unwrap_or_default(),
            generation: item.map_or(Generation::default(), |item| item.marked),
            epoch: self.seen.head.epoch,
            statement_timeout: self.definition.load_window,
            last: self.last().map(|last| LastBatch { batch: last.batch, rows: last.rows }),
            accept_foreign_rows: accept.is_some_and(|accept| accept.kinds.contains(&GuardKind::ForeignRows)),
            listed: Some(&listed.digest),
        }
    }

    fn last(&self) -> Option<&tidemark_domain::partition::Committed> {
        self.seen.item.as_ref()?.last.as_ref()
    }

    fn nothing_staged(&self, listed: Option<Listed>, verdict: Verdict) -> Rehearsal {
        let last = self.last().map(|last| &last.digest);
        Rehearsal {
            id: self.seen.id.clone(),
            batch: self.batch,
            unchanged: listed.as_ref().is_some_and(|listed| last == Some(&listed.digest)),
            listed,
            verdict,
            failure: None,
            counts: None,
            loads: None,
            left: None,
            seconds: u64::try_from(self.engine.ports.clock.now().duration_since(self.began_at).as_secs()).unwrap_or(0),
        }
    }
}
