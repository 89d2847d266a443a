//! The transactions of a batch: fence, stage, swap.
//!
//! **Invariants:** LOCK comes before anything that takes a snapshot, and locks only the fence table, so readers of the target
//! never wait; DELETE comes before INSERT, since the other order may deadlock; nothing here is DDL on the target; the ledger is
//! written last and read by none of these. The same request gives the same text, byte for byte: that is what client tokens
//! rest on.
//!
//! Of a rebuild without trouble these are the calls: stage (submitted, waited for), its two results, swap (submitted, waited
//! for), its result, and the drop of the staging table: six.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::identifier::{self, InvalidIdentifier, PerTarget, per_target};
use super::{Batch, SqlError, SubStatement, copy, count, literal, upsert};
use crate::definition::{Definition, SqlType, WriteMode};
use crate::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation, StackName};
use crate::partition::is_zero;
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
    /// The digest of what it listed, once it has: what has a staging table has one.
    pub listed: Option<&'a Digest>,
}

impl Request<'_> {
    /// The bare name of its staging table.
    pub fn staging_name(&self) -> String {
        identifier::staging_name(self.batch, self.listed)
    }

    /// Its staging table.
    pub(super) fn staging(&self) -> Result<String, InvalidIdentifier> {
        identifier::staging(&self.staging_name())
    }
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

/// What was verified of the staging table. It enters the swap's SQL, so it is recorded with the batch before the swap is sent;
/// the last two don't, and are kept for the batch's story.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verified {
    /// Rows staged: the swap fails if the table holds another number.
    pub staged_rows: u64,
    /// Rows COPY refused.
    pub rejected_rows: u64,
    /// Rows beyond the first of each key.
    pub duplicate_rows: u64,
    /// When that was verified.
    pub staged_at: Timestamp,
    /// Rows that the target's partition held then.
    #[serde(default)]
    pub rows_before: u64,
    /// Of them, those that no batch of ours wrote.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub foreign_rows: u64,
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
    let mut statements = settings(request);
    statements.push(lock(request)?);
    statements.push(call(request, PerTarget::FenceOff, Fence(request.fence.0.saturating_sub(1)))?);
    Batch::new(name(request, "fence"), statements)
}

/// Creates the staging table, fills it, and counts. `None`: an accepted empty source, which is an empty table and no COPY.
///
/// The staging table has exactly the files' columns in their order, since COPY maps columnar files by position, with the
/// widths of the definition: a value too wide for them fails in COPY, where Redshift names file and column. A target narrower
/// than the definition fails later, in the swap, and takes the DELETE back with it.
pub fn stage(request: &Request<'_>, source: Option<&CopySource>) -> Result<Stage, SqlError> {
    let mut statements = settings(request);
    statements.push(create_staging(request)?);
    let mut copied = None;
    let mut loads = None;
    if let Some(source) = source {
        statements.push(copy::copy(request, source)?);
        copied = Some(SubStatement(statements.len()));
        statements.push(count::loads(request.definition, "pg_last_copy_id()"));
        loads = Some(SubStatement(statements.len()));
    }
    statements.push(count::staged(request)?);
    let batch = Batch::new(name(request, "stage"), statements)?;
    Ok(Stage { counts: batch.last(), batch, copy: copied, loads })
}

/// Replaces the partition's rows by the staged ones and writes the ledger.
pub fn swap(request: &Request<'_>, listed: &Listed, verified: &Verified) -> Result<Swap, SqlError> {
    let target = identifier::table(&request.definition.target)?;
    let mut statements = settings(request);
    statements.push(lock(request)?);
    statements.push(call(request, PerTarget::Claim, request.fence)?);
    statements.push(COUNTS_TABLE.to_owned());
    let guard = format!("CALL tidemark.guard({}, {})", verified.staged_rows, request.accept_foreign_rows);
    match request.definition.write {
        WriteMode::Replace => {
            statements.extend([count::before(request)?, guard]);
            statements.push(format!("DELETE FROM {target} WHERE {}", count::of_partition(request)?));
            statements.extend([insert(request, &target)?, count::after(request)?]);
        }
        WriteMode::Upsert => {
            statements.extend([upsert::winners(request)?, upsert::before(request)?, guard]);
            statements.extend([upsert::delete(request)?, insert(request, &target)?, upsert::after(request)?]);
        }
    }
    statements.push("CALL tidemark.seal()".to_owned());
    statements.push(moved(request).to_owned());
    let counts = SubStatement(statements.len());
    statements.push(write_ledger(request, listed, verified)?);
    Ok(Swap { batch: Batch::new(name(request, "swap"), statements)?, counts })
}

fn moved(request: &Request<'_>) -> &'static str {
    match request.definition.write {
        WriteMode::Replace => count::MOVED,
        WriteMode::Upsert => upsert::MOVED,
    }
}

/// The bytes of the longest statement a rebuild of this partition would run; the rest of them hardly depends on the definition.
pub fn widest(request: &Request<'_>, source: &CopySource) -> Result<usize, SqlError> {
    let target = identifier::table(&request.definition.target)?;
    let mut statements = vec![
        create_staging(request)?,
        copy::copy(request, source)?,
        count::staged(request)?,
        insert(request, &target)?,
    ];
    if request.definition.write == WriteMode::Upsert {
        statements.extend([upsert::winners(request)?, upsert::after(request)?]);
    }
    Ok(statements.iter().map(String::len).max().unwrap_or(0))
}

/// The statement's name: `tidemark/dataset/partition/batch/phase`.
pub(super) fn name(request: &Request<'_>, phase: &str) -> String {
    format!("tidemark/{}/{}/{}/{phase}", request.definition.name, request.partition.name, request.batch)
}

/// How the session runs: none of these takes a snapshot. A time-out of 0 would mean none.
pub(super) fn settings(request: &Request<'_>) -> Vec<String> {
    let milliseconds = request.statement_timeout.as_millis().max(1);
    vec![format!("SET statement_timeout TO {milliseconds}"), "SET timezone TO 'UTC'".to_owned()]
}

fn lock(request: &Request<'_>) -> Result<String, SqlError> {
    Ok(format!("LOCK TABLE {}", per_target(PerTarget::Fence, &request.definition.target)?))
}

fn call(request: &Request<'_>, procedure: PerTarget, fence: Fence) -> Result<String, SqlError> {
    Ok(format!(
        "CALL {}({}, {fence}, {}, {}, {})",
        per_target(procedure, &request.definition.target)?,
        literal::text(request.partition.name.as_str())?,
        literal::text(request.stack.as_str())?,
        literal::text(request.definition.name.as_str())?,
        request.epoch,
    ))
}

fn create_staging(request: &Request<'_>) -> Result<String, SqlError> {
    let mut columns = Vec::with_capacity(request.definition.columns.len());
    for column in &request.definition.columns {
        columns.push(format!("    {} {}", identifier::column(&column.name)?, type_name(column.sql_type)));
    }
    Ok(format!("CREATE TABLE {} (\n{}\n)", request.staging()?, columns.join(",\n")))
}

fn type_name(sql_type: SqlType) -> String {
    match sql_type {
        SqlType::SmallInt => "smallint".to_owned(),
        SqlType::Integer => "integer".to_owned(),
        SqlType::BigInt => "bigint".to_owned(),
        SqlType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        SqlType::Real => "real".to_owned(),
        SqlType::Double => "double precision".to_owned(),
        SqlType::Boolean => "boolean".to_owned(),
        SqlType::Char(bytes) => format!("char({bytes})"),
        SqlType::Varchar(bytes) => format!("varchar({bytes})"),
        SqlType::Date => "date".to_owned(),
        SqlType::Timestamp => "timestamp".to_owned(),
        SqlType::TimestampTz => "timestamptz".to_owned(),
        SqlType::Time => "time".to_owned(),
        SqlType::Super => "super".to_owned(),
    }
}

/// The counts travel in a temporary table, since a procedure can't name a table that differs per batch.
const COUNTS_TABLE: &str = "\
CREATE TEMP TABLE tidemark_counts (
    moment varchar(6) NOT NULL,
    target_rows bigint NOT NULL,
    foreign_rows bigint,
    staged_rows bigint
)";

/// Staged columns as they are shaped, the path's values as constants, provenance.
fn insert(request: &Request<'_>, target: &str) -> Result<String, SqlError> {
    let definition = request.definition;
    let mut columns = Vec::new();
    let mut values = Vec::new();
    for column in &definition.columns {
        columns.push(identifier::column(&column.name)?);
        values.push(identifier::column(&column.name)?);
    }
    for (part, value) in definition.parts.iter().zip(&request.partition.values) {
        if !part.in_files {
            columns.push(identifier::column(&part.column)?);
            values.push(literal::value(value)?);
        }
    }
    if let Some(column) = &definition.provenance.batch_id {
        columns.push(identifier::column(column)?);
        values.push(literal::text(&request.batch.to_string())?);
    }
    if let Some(column) = &definition.provenance.loaded_at {
        columns.push(identifier::column(column)?);
        values.push("GETDATE()".to_owned());
    }
    Ok(format!(
        "INSERT INTO {target} ({})\nSELECT {}\nFROM {}",
        columns.join(", "),
        values.join(", "),
        match definition.write {
            WriteMode::Replace => count::shaped(definition, &request.staging()?)?,
            WriteMode::Upsert => "tidemark_winners".to_owned(),
        }
    ))
}

fn write_ledger(request: &Request<'_>, listed: &Listed, verified: &Verified) -> Result<String, SqlError> {
    let definition = request.definition;
    let source = &listed.source;
    let inserted = match definition.write {
        WriteMode::Replace => "a.target_rows",
        WriteMode::Upsert => "(SELECT count(*) FROM tidemark_winners)",
    };
    let staged_at = TimeZone::UTC.to_datetime(verified.staged_at);
    let values: [(&str, String); 22] = [
        ("batch_id", literal::text(&request.batch.to_string())?),
        ("stack", literal::text(request.stack.as_str())?),
        ("dataset", literal::text(definition.name.as_str())?),
        ("partition_name", literal::text(request.partition.name.as_str())?),
        ("target", literal::text(&definition.target.to_string())?),
        ("generation", request.generation.to_string()),
        ("fence", request.fence.to_string()),
        ("epoch", request.epoch.to_string()),
        ("digest", literal::text(listed.digest.as_str())?),
        ("definition_hash", literal::text(request.definition_hash.as_str())?),
        ("inventory_key", literal::text(&listed.inventory_key)?),
        ("source_objects", source.objects.to_string()),
        ("source_bytes", source.bytes.to_string()),
        ("source_rows", source.rows.map_or_else(|| "NULL".to_owned(), |rows| rows.to_string())),
        ("staged_rows", "b.staged_rows".to_owned()),
        ("rejected_rows", verified.rejected_rows.to_string()),
        ("duplicate_rows", verified.duplicate_rows.to_string()),
        ("deleted_rows", "b.target_rows".to_owned()),
        ("inserted_rows", inserted.to_owned()),
        ("target_rows", "a.target_rows".to_owned()),
        ("staged_at", literal::timestamp(staged_at)?),
        ("swapped_at", "GETDATE()".to_owned()),
    ];
    let columns = values.each_ref().map(|(column, _)| *column).join(", ");
    let values = values.map(|(_, value)| value).join(", ");
    Ok(format!(
        "INSERT INTO tidemark.batches ({columns})\nSELECT {values}\n\
         FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a WHERE b.moment = 'before' AND a.moment = 'after'"
    ))
}
