//! `tidemark files DATASET PARTITION`: from which files a partition's rows came.

use clap::Args;
use serde_json::{Value, json};
use tidemark_domain::id::{BatchId, PartitionId};
use tidemark_domain::inventory::Entry;
use tidemark_domain::sql::rows::Field;
use tidemark_engine::inventory::Parts;
use tidemark_engine::read::stories;

use crate::cloud::{Cloud, Seen, unavailable};
use crate::console::{self, FAINT, NAME, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::moment::to_second;
use crate::runbook;
use crate::table::{Cell, table};

/// List the files from which the rows of a partition came
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// The dataset
    pub(crate) dataset: String,
    /// The partition, such as dt=2026-11-01
    pub(crate) partition: String,
    /// Those of this batch, instead of the last that committed
    #[arg(long, value_name = "ID")]
    pub(crate) batch: Option<String>,
    /// Ask the ledger in Redshift, instead of the inventory in the control bucket
    #[arg(long)]
    pub(crate) ledger: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One file, by whoever was asked.
struct Told {
    key: String,
    etag: String,
    size: u64,
    modified: String,
    rows: Option<u64>,
}

/// Lists them. A batch that listed nothing has none.
pub(crate) async fn run(arguments: &Files) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let seen = cloud.look(&arguments.dataset, &arguments.partition).await?;
    let batch = arguments.batch.as_deref().map(|id| id.parse().map(BatchId)).transpose();
    let batch = batch.map_err(|_| Failure::Usage("--batch is the id of a batch, as `history` lists it".to_owned()))?;
    let (batch, inventory) = match (batch, seen.item.as_ref().and_then(|item| item.last.as_ref())) {
        (Some(batch), Some(last)) if last.batch == batch => (batch, Some(last.inventory.clone())),
        (Some(batch), _) => (batch, of_story(&cloud, &seen.id, batch).await?),
        (None, Some(last)) => (last.batch, Some(last.inventory.clone())),
        (None, None) => return Err(Failure::Refused(format!("no batch of {} has committed", seen.id))),
    };
    let files = if arguments.ledger {
        of_ledger(&cloud, &seen, batch).await?
    } else {
        of_inventory(&cloud, inventory.filter(|key| !key.is_empty())).await?
    };
    if arguments.json {
        let from = if arguments.ledger { "ledger" } else { "inventory" };
        let files: Vec<Value> = files.iter().map(as_json).collect();
        let (dataset, partition) = (&seen.id.dataset, &seen.id.partition);
        let batch = batch.to_string();
        console::print_json(
            &json!({ "dataset": dataset, "partition": partition, "batch": batch, "from": from, "files": files }),
        )?;
    } else {
        console::print(&shown(&seen.id, batch, &files))?;
    }
    Ok(Outcome::Done)
}

/// The inventory of a batch that ended; `None` where it listed nothing.
async fn of_story(cloud: &Cloud, id: &PartitionId, batch: BatchId) -> Result<Option<String>, Failure> {
    let story = stories::of_batch(&cloud.ports, &id.dataset, batch).await.map_err(unavailable)?;
    match story.filter(|story| story.partition == id.partition) {
        Some(story) => Ok(story.inventory),
        None => Err(Failure::Refused(format!("no batch {batch} of {id} has ended; `tidemark history` lists them"))),
    }
}

async fn of_inventory(cloud: &Cloud, inventory: Option<String>) -> Result<Vec<Told>, Failure> {
    let mut parts = Parts::new(cloud.ports.objects.as_ref(), cloud.control_bucket(), inventory);
    let mut files = Vec::new();
    while let Some(part) = parts.next_part().await.map_err(unavailable)? {
        files.extend(part.into_iter().map(|Entry { key, etag, size, modified, rows, .. }| Told {
            key,
            etag,
            size,
            modified: to_second(modified),
            rows,
        }));
    }
    Ok(files)
}

/// The ledger's list, by the runbook's own query.
async fn of_ledger(cloud: &Cloud, seen: &Seen, batch: BatchId) -> Result<Vec<Told>, Failure> {
    let rows = runbook::ask(cloud, seen, "source-objects", batch).await?;
    if rows.is_empty() {
        return Err(Failure::Refused(format!(
            "the ledger doesn't list files of batch {batch}: it is booked within the hour after its commit; without --ledger \
             its inventory tells"
        )));
    }
    let told = |row: &Vec<Field>| match row.as_slice() {
        [Field::Text(key), Field::Text(etag), Field::Long(size), Field::Text(modified), ..] => Some(Told {
            key: key.clone(),
            etag: etag.clone(),
            size: u64::try_from(*size).unwrap_or(0),
            modified: format!("{}Z", modified.replace(' ', "T").trim_end_matches(".0")),
            rows: None,
        }),
        _ => None,
    };
    let files: Option<Vec<Told>> = rows.iter().map(told).collect();
    files
        .ok_or_else(|| Failure::Refused("the ledger's files can't be read; was it made by a newer release?".to_owned()))
}

fn shown(id: &PartitionId, batch: BatchId, files: &[Told]) -> String {
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let rows: Option<u64> = files.iter().map(|file| file.rows).sum();
    let rows = rows.filter(|_| !files.is_empty()).map(|rows| format!(", {rows} rows")).unwrap_or_default();
    let heading =
        format!("{NAME}{id}{PLAIN} {FAINT}batch {batch}: {}, {bytes} bytes{rows}{PLAIN}\n", count(files.len(), "file"));
    if files.is_empty() {
        return heading;
    }
    let row = |file: &Told| {
        vec![
            Cell::text(file.modified.clone()),
            Cell::number(&file.size),
            Cell::number(&file.rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string())),
            Cell::text(file.etag.clone()),
            Cell::text(file.key.clone()),
        ]
    };
    let table = table(&["modified", "size", "rows", "etag", "key"], files.iter().map(row).collect());
    format!("{heading}{table}")
}

fn as_json(file: &Told) -> Value {
    json!({ "key": file.key, "etag": file.etag, "size": file.size, "modified": file.modified, "rows": file.rows })
}
