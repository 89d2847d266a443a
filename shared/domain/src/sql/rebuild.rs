//! The transactions of a batch: fence, stage, swap.

use std::time::Duration;

use jiff::Timestamp;

use super::{Batch, SqlError, SubStatement};
use crate::definition::Definition;
use crate::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation, StackName};
use crate::partition_value::Partition;
use crate::verify::SourceCounts;

/// What a batch was born with: everything that enters its SQL before anything was listed.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The dataset, as the batch began with it.
    pub definition: &'a Definition,
    /// That definition's hash.
    pub definition_hash: &'a DefinitionHash,
    /// The partition.
    pub partition: &'a Partition,
    /// The stack that owns the target.
    pub stack: &'a StackName,
    /// The batch's id.
    pub batch: BatchId,
    /// The fence it was born with.
    pub fence: Fence,
    /// The generation it covers.
    pub generation: Generation,
    /// The target's epoch.
    pub epoch: Epoch,
    /// The longest one statement may take, queueing and waiting for locks included. Cut to whole milliseconds.
    pub statement_timeout: Duration,
    /// The partition's last committed batch.
    pub last: Option<LastBatch>,
    /// Whether rows that no batch of ours wrote may be deleted.
    pub accept_foreign_rows: bool,
}

/// The partition's last committed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBatch {
    /// Its id.
    pub batch: BatchId,
    /// Rows of the partition when it had landed.
    pub rows: u64,
}

/// Where COPY reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// `s3://bucket/key` of the manifest.
    pub manifest_url: String,
    /// The role COPY assumes.
    pub role: CopyRole,
    /// The buckets' region where it isn't the cluster's. Not possible for Parquet.
    pub region: Option<String>,
}

/// The role COPY assumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyRole {
    /// The cluster's default role.
    Default,
    /// One ARN, or a chain of them with commas.
    Arn(String),
}

/// What was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The digest of inventory and definition.
    pub digest: Digest,
    /// The inventory's key in the control bucket.
    pub inventory_key: String,
    /// The source, counted.
    pub source: SourceCounts,
}

/// What was verified of the staging table. It enters the swap's SQL, so it is recorded with the batch before the swap is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verified {
    /// Rows staged: the swap fails if the table holds another number.
    pub staged_rows: u64,
    /// Rows COPY refused.
    pub rejected_rows: u64,
    /// Rows beyond the first of each key.
    pub duplicate_rows: u64,
    /// When that was verified.
    pub staged_at: Timestamp,
}

/// The statements that stage, and where their results are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// What to submit.
    pub batch: Batch,
    /// COPY itself, whose query id finds its errors. `None`: an accepted empty source is not copied.
    pub copy: Option<SubStatement>,
    /// Gives one row: `verify::LoadCounts`. There is one exactly if there is a COPY.
    pub loads: Option<SubStatement>,
    /// Gives one row: `verify::StageCounts`.
    pub counts: SubStatement,
}

/// The statements that swap, and where their result is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// What to submit.
    pub batch: Batch,
    /// Gives one row: `rows::SwapCounts`. It says nothing unless the whole batch is FINISHED.
    pub counts: SubStatement,
}

/// Shuts out every swap of the partition with an older fence than the batch's, and waits for one that runs.
pub fn fence(request: &Request<'_>) -> Result<Batch, SqlError> {
    Batch::new(name(request, "fence"), vec![])
}

/// Creates the staging table, fills it, and counts. `None`: an accepted empty source.
pub fn stage(request: &Request<'_>, source: Option<&CopySource>) -> Result<Stage, SqlError> {
    let _ = source;
    Ok(Stage { batch: Batch::new(name(request, "stage"), vec![])?, copy: None, loads: None, counts: SubStatement(1) })
}

/// Replaces the partition's rows by the staged ones and writes the ledger.
pub fn swap(request: &Request<'_>, listed: &Listed, verified: &Verified) -> Result<Swap, SqlError> {
    let _ = (listed, verified);
    Ok(Swap { batch: Batch::new(name(request, "swap"), vec![])?, counts: SubStatement(1) })
}

/// The statement's name: `tidemark/dataset/partition/batch/phase`.
pub(super) fn name(request: &Request<'_>, phase: &str) -> String {
    format!("tidemark/{}/{}/{}/{phase}", request.definition.name, request.partition.name, request.batch)
}
