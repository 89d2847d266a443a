//! Which partitions of a dataset a command is about: as they are named, a range, all, the parked ones.

use clap::Args;
use tidemark_domain::id::PartitionName;
use tidemark_domain::partition_value::Partition;
use tidemark_domain::selection::Range;
use tidemark_engine::selection::{self, Chosen, Selection};

use crate::cloud::{Cloud, Known, unavailable};
use crate::exit::Failure;

/// A range as it is written.
#[derive(Debug, Default, Args)]
pub(crate) struct Ends {
    /// From this partition on, such as dt=2026-11-01; also only its first parts, or the first's value alone
    #[arg(long, value_name = "PARTITION")]
    pub(crate) from: Option<String>,
    /// Up to this partition, which is included
    #[arg(long, value_name = "PARTITION")]
    pub(crate) to: Option<String>,
}

impl Ends {
    /// Whether there is one.
    pub(crate) fn are_given(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// The range, read by the dataset's layout.
    pub(crate) fn range(&self, known: &Known) -> Result<Range, Failure> {
        let range = Range::read(&known.definition, self.from.as_deref(), self.to.as_deref());
        range.map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// Partitions in S3 or in state: those of the range, or the parked ones of it.
pub(crate) async fn select(cloud: &Cloud, known: &Known, ends: &Ends, parked: bool) -> Result<Selection, Failure> {
    let range = ends.range(known)?;
    let selected = if parked {
        selection::parked(&cloud.ports, &known.definition, &range).await
    } else {
        selection::all(&cloud.ports, &known.definition, &range).await
    };
    selected.map_err(unavailable)
}

/// Partitions by their names, each once, in the order in which they are written.
pub(crate) async fn named(cloud: &Cloud, known: &Known, names: &[String]) -> Result<Selection, Failure> {
    let mut partitions: Vec<Partition> = Vec::new();
    for name in names {
        let name = PartitionName::new(name.as_str()).map_err(|error| Failure::Usage(error.to_string()))?;
        let partition = known.definition.partition(&name).map_err(|error| Failure::Refused(error.to_string()))?;
        if !partitions.contains(&partition) {
            partitions.push(partition);
        }
    }
    let mut chosen = Vec::new();
    for partition in partitions {
        let item = cloud.item(&known.id(&partition.name)).await?;
        chosen.push(Chosen { partition, item });
    }
    Ok(Selection { chosen, not_yielded: 0 })
}
