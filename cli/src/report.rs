//! `tidemark report --out report.html`: how everything stands, as one page that needs no network.

#[cfg(test)]
mod browser;
#[cfg(test)]
mod chromium;
mod data;
mod page;
#[cfg(test)]
mod sample;

use std::fs;
use std::path::PathBuf;

use clap::Args;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tidemark_domain::lateness::Month;

use crate::cloud::{Cloud, unavailable};
use crate::console;
use crate::exit::{Failure, Outcome};
use crate::status::chosen;

/// Datasets read at once.
const AT_ONCE: usize = 8;

/// Write one page that shows how every dataset stands: calendar, parked list, batches, arrivals, the five measures
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Only these datasets
    #[arg(value_name = "DATASET")]
    pub(crate) datasets: Vec<String>,
    /// The file; one that is there is written over
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
    /// How many days of partitions are shown; those that aren't built always are
    #[arg(long, value_name = "DAYS", default_value_t = 92, value_parser = clap::value_parser!(u16).range(1..=1_100))]
    pub(crate) days: u16,
    /// The month of the five measures, such as 2026-11; the current one where not given
    #[arg(long)]
    pub(crate) month: Option<Month>,
    /// Read arrivals from the inventories in the control bucket instead of the ledger in Redshift
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print JSON: the file, how many datasets it tells of, its bytes
    #[arg(long)]
    pub(crate) json: bool,
}

/// Writes it.
pub(crate) async fn run(arguments: &Report) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let chosen = chosen(&cloud, &arguments.datasets).await?;
    let view = data::View::of(&cloud, arguments);
    let datasets =
        stream::iter(chosen).map(|dataset| data::dataset(&cloud, &view, dataset)).buffered(AT_ONCE).try_collect();
    let datasets: Vec<_> = datasets.await.map_err(unavailable)?;
    let page = page::render(&data::all(&cloud.config.stack, &view, &datasets));
    let file = arguments.out.display();
    fs::write(&arguments.out, &page).map_err(|error| Failure::Refused(format!("can't write {file}: {error}")))?;
    if arguments.json {
        let told = json!({ "file": file.to_string(), "datasets": datasets.len(), "bytes": page.len() });
        console::print_json(&told)?;
    } else {
        console::print(&format!("{file}: {} datasets, {} KB\n", datasets.len(), page.len() / 1_000))?;
    }
    Ok(Outcome::Done)
}
