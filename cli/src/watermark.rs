//! `tidemark watermark DATASET`: up to which partition all are built. What that says, exactly, stands in docs/watermark.md.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use tidemark_domain::id::PartitionName;
use tidemark_domain::partition_value::Partition;
use tidemark_domain::watermark::{self, within};
use tidemark_engine::read::gauges;

use crate::cloud::{Cloud, Known, unavailable};
use crate::console::{self, BAD, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};

/// Groups shown; JSON has all.
const SHOWN: usize = 20;

/// Tell up to which partition all of a dataset are built
#[derive(Debug, Args)]
pub(crate) struct Watermark {
    /// The dataset
    pub(crate) dataset: String,
    /// Exit with 1 unless this partition, and every known one before it, is built
    #[arg(long, value_name = "PARTITION")]
    pub(crate) through: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tells it, and judges `--through`.
pub(crate) async fn run(arguments: &Watermark) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let known = cloud.dataset(&arguments.dataset).await?;
    let gauges = gauges::of(&cloud.ports, &known.dataset).await.map_err(unavailable)?;
    let counted = gauges.is_whole();
    let first = if counted { gauges.watermark(&known.definition) } else { stored(&known) };
    let watermark = watermark::Watermark::of(first, counted);
    let groups = if counted { within(&known.definition, gauges.unbuilt.iter()) } else { Vec::new() };
    let through = match &arguments.through {
        Some(name) => Some(through(&cloud, &known, name, &watermark).await?),
        None => None,
    };
    if arguments.json {
        let group = |(within, first): &(String, Partition)| json!({ "within": within, "not_built_from": first.name });
        let mut told = json!({
            "dataset": known.dataset,
            "not_built_from": watermark.first().map(|first| &first.name),
            "counted": counted,
            "unbuilt": gauges.unbuilt.len(),
            "within": groups.iter().map(group).collect::<Vec<_>>(),
        });
        if let (Some(told), Some((name, built, why))) = (told.as_object_mut(), &through) {
            told.insert("through".to_owned(), json!({ "partition": name, "built": built, "why": why }));
        }
        console::print_json(&told)?;
    } else {
        console::print(&shown(&known, &watermark, counted, gauges.unbuilt.len(), &groups, through.as_ref()))?;
    }
    Ok(match through {
        Some((_, false, _)) => Outcome::Problems,
        _ => Outcome::Done,
    })
}

/// As sweep last wrote it.
fn stored(known: &Known) -> Option<Partition> {
    let name = PartitionName::new(known.head.watermark.clone()?).ok()?;
    known.definition.partition(&name).ok()
}

/// A partition, whether it and all before it are built, and why not.
type Through = (PartitionName, bool, Option<&'static str>);

async fn through(
    cloud: &Cloud,
    known: &Known,
    name: &str,
    watermark: &watermark::Watermark,
) -> Result<Through, Failure> {
    let seen = cloud.look(known.dataset.as_str(), name).await?;
    let partition = known.definition.partition(&seen.id.partition);
    let partition = partition.map_err(|error| Failure::Refused(error.to_string()))?;
    let why = watermark.why_not_through(&partition, seen.item.as_ref());
    Ok((seen.id.partition, why.is_none(), why))
}

fn shown(
    known: &Known,
    watermark: &watermark::Watermark,
    counted: bool,
    unbuilt: usize,
    groups: &[(String, Partition)],
    through: Option<&Through>,
) -> String {
    let name = &known.dataset;
    let mut text = match watermark {
        watermark::Watermark::All => format!("{NAME}{name}{PLAIN}: {GOOD}every known partition is built{PLAIN}\n"),
        watermark::Watermark::Unknown => {
            format!("{NAME}{name}{PLAIN}: {WARN}nothing is known yet{PLAIN}: too many partitions wait to count them\n")
        }
        watermark::Watermark::Before(first) => {
            let more = if counted { String::new() } else { " or more; as sweep last wrote it".to_owned() };
            let waits = if unbuilt == 1 { "1 isn't built".to_owned() } else { format!("{unbuilt} aren't built") };
            let value = &first.name;
            format!("{NAME}{name}{PLAIN}: every known partition before {WARN}{value}{PLAIN} is built ({waits}{more})\n")
        }
    };
    // Writing to a String can't fail.
    if groups.len() > 1 || groups.first().is_some_and(|(within, _)| !within.is_empty()) {
        for (within, first) in groups.iter().take(SHOWN) {
            let _ = writeln!(text, "  {within}: every known one before {}", first.name);
        }
        if groups.len() > SHOWN {
            let _ = writeln!(text, "  and {} more; --json has all", groups.len() - SHOWN);
        }
    }
    match through {
        Some((name, true, _)) => _ = writeln!(text, "{GOOD}built{PLAIN} through {name}"),
        Some((name, false, why)) => {
            _ = writeln!(text, "{BAD}not built{PLAIN} through {name}: {}", why.unwrap_or_default());
        }
        None => {}
    }
    text
}
