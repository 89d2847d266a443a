//! When the files of a dataset came, each counted once: by the ledger's `files`, or by the inventories that these are made of.
//!
//! The ledger answers with one row per partition and ten minutes, and lags by up to an hour, since sweep books hourly. The
//! inventories of the last 400 days lie in the control bucket as soon as a batch is committed, and need no Redshift, but all
//! their entries have to be read: eight partitions at a time are in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{DatasetName, PartitionName, StackName};
use tidemark_domain::lateness::{Arrivals, Span, span};
use tidemark_domain::sql::rows::RowError;
use tidemark_domain::sql::{SqlError, arrivals};
use tidemark_domain::story::{self, Outcome};

use super::{partitions, stories};
use crate::Ports;
use crate::error::Error;
use crate::inventory::Parts;
use crate::run::{RunError, ask};

/// Partitions whose inventories are read at once.
const AT_ONCE: usize = 8;

/// A file: a key, and the version of it.
type File = (String, String);

/// Why it can't be told when files came.
#[derive(Debug, thiserror::Error)]
pub enum LatenessError {
    /// Redshift didn't answer.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The state table or the control bucket didn't.
    #[error(transparent)]
    Read(#[from] Error),
    /// No SQL could be made.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// An answer that wasn't asked for.
    #[error(transparent)]
    Row(#[from] RowError),
}

/// By the ledger.
pub async fn by_ledger(
    ports: &Ports,
    stack: &StackName,
    dataset: &DatasetName,
    definition: &Definition,
) -> Result<Arrivals, LatenessError> {
    let rows = ask(ports, &arrivals::arrivals(stack, dataset)?).await?;
    let mut spans: BTreeMap<PartitionName, Option<Span>> = BTreeMap::new();
    let mut arrivals_of = Arrivals::default();
    for came in arrivals::read(&rows)? {
        let span = *spans.entry(came.partition).or_insert_with_key(|name| time_of(definition, name));
        arrivals_of.add(span, came.at, came.files);
    }
    Ok(arrivals_of)
}

/// By the inventories of committed batches. One that can't be read is told, and the others are counted.
pub async fn by_inventories(
    ports: &Ports,
    control_bucket: &str,
    dataset: &DatasetName,
    definition: &Definition,
) -> Result<Arrivals, LatenessError> {
    let mut arrivals = Arrivals::default();
    let of_each = inventories(ports, dataset).await?.into_iter().map(|(partition, inventories)| async move {
        (time_of(definition, &partition), files(ports, control_bucket, inventories).await)
    });
    let mut of_each = stream::iter(of_each).buffer_unordered(AT_ONCE);
    while let Some((span, read)) = of_each.next().await {
        let (files, unread) = read?;
        for came in files.into_values() {
            arrivals.add(span, came, 1);
        }
        arrivals.unread.extend(unread);
    }
    arrivals.unread.sort();
    Ok(arrivals)
}

/// When each file of these inventories of a partition was first seen, and the inventories that can't be read.
async fn files(
    ports: &Ports,
    control_bucket: &str,
    inventories: BTreeSet<String>,
) -> Result<(HashMap<File, Timestamp>, Vec<String>), Error> {
    let (mut files, mut unread) = (HashMap::new(), Vec::new());
    for inventory in inventories {
        let mut parts = Parts::new(ports.objects.as_ref(), control_bucket, Some(inventory));
        loop {
            match parts.next_part().await {
                Ok(Some(entries)) => {
                    for entry in entries {
                        let came = files.entry((entry.key, entry.etag)).or_insert(entry.modified);
                        *came = entry.modified.min(*came);
                    }
                }
                Ok(None) => break,
                Err(error @ Error::Sealed { .. }) => {
                    unread.push(error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok((files, unread))
}

/// The committed inventories of each partition: those that stories tell of, and the last one.
async fn inventories(
    ports: &Ports,
    dataset: &DatasetName,
) -> Result<BTreeMap<PartitionName, BTreeSet<String>>, LatenessError> {
    let mut inventories: BTreeMap<PartitionName, BTreeSet<String>> = BTreeMap::new();
    let now = ports.clock.now();
    let since = now.checked_sub(story::KEPT_FOR).unwrap_or(Timestamp::UNIX_EPOCH);
    for (_, story) in stories::between(ports, dataset, since, now).await? {
        if story.outcome == Outcome::Committed {
            inventories.entry(story.partition).or_default().extend(story.inventory);
        }
    }
    for (name, item) in partitions::all(ports, dataset, usize::MAX).await? {
        inventories.entry(name).or_default().extend(item.last.map(|last| last.inventory));
    }
    Ok(inventories)
}

fn time_of(definition: &Definition, name: &PartitionName) -> Option<Span> {
    span(definition, &definition.partition(name).ok()?)
}
