//! `tidemark runbook [PAGE] [DATASET PARTITION]`: the runbook, with its queries filled in for the partition at hand.
//!
//! Pages and queries are those of docs/runbook, built in.

mod pages;

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use tidemark_domain::dataset::Mode;
use tidemark_domain::id::{BatchId, PartitionId};
use tidemark_domain::partition::FailureState;
use tidemark_domain::sql::Batch;
use tidemark_domain::sql::rows::Field;
use tidemark_domain::sql::runbook::{About, FillError, fill};
use tidemark_engine::ports::StatementResult;
use tidemark_engine::read::hands::{self, Hands};
use tidemark_engine::read::stories::{Wanted, newest};
use tidemark_engine::run;

pub(crate) use pages::{PAGES, Page, QUERIES, Query};

use crate::cloud::{Cloud, Seen, unavailable};
use crate::console::{self, FAINT, NAME, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::words::remedy;

/// Stories of the dataset that are read to find the partition's newest batch.
const READ_AT_MOST: usize = 2_000;

/// Print the runbook: the list of its pages, one page, or the page for a partition with the queries filled in
#[derive(Debug, Args)]
pub(crate) struct Runbook {
    /// Nothing: the list of pages. PAGE: that page. DATASET PARTITION: the page for its state. All three: that page for it
    #[arg(value_names = ["PAGE", "DATASET", "PARTITION"], num_args = 0..=3)]
    pub(crate) of: Vec<String>,
    /// Print only this query, filled in, for a query editor
    #[arg(long, value_name = "NAME")]
    pub(crate) query: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints what is asked for. AWS is asked only where a partition is named.
pub(crate) fn run(arguments: &Runbook) -> Result<Outcome, Failure> {
    let query = arguments.query.as_deref().map(known_query).transpose()?;
    match (arguments.of.as_slice(), query) {
        ([], None) => list(arguments.json),
        ([], Some(query)) => print_query(arguments.json, query.name, query.text),
        ([name], _) => {
            let page = known_page(name)?;
            match query {
                Some(query) => print_query(arguments.json, query.name, query.text),
                None => print_page(arguments.json, page, None),
            }
        }
        ([dataset, partition], _) => crate::wait_for(at_hand(arguments, None, dataset, partition, query)),
        ([page, dataset, partition, ..], _) => {
            crate::wait_for(at_hand(arguments, Some(known_page(page)?), dataset, partition, query))
        }
    }
}

/// A query of the runbook, by its name.
pub(crate) fn query(name: &str) -> Option<&'static Query> {
    QUERIES.iter().find(|query| query.name == name)
}

fn known_query(name: &str) -> Result<&'static Query, Failure> {
    let names = || QUERIES.iter().map(|query| query.name).collect::<Vec<_>>().join(", ");
    query(name).ok_or_else(|| Failure::Usage(format!("the runbook has no query {name:?}; it has {}", names())))
}

fn known_page(name: &str) -> Result<&'static Page, Failure> {
    let name = name.trim_end_matches(".md");
    let page = PAGES.iter().find(|page| page.name == name);
    page.ok_or_else(|| Failure::Usage(format!("the runbook has no page {name:?}; `tidemark runbook` lists them")))
}

fn list(as_json: bool) -> Result<Outcome, Failure> {
    if as_json {
        let pages: Vec<_> = PAGES.iter().map(|page| json!({ "page": page.name, "title": page.title() })).collect();
        let queries: Vec<_> =
            QUERIES.iter().map(|query| json!({ "query": query.name, "about": query.about() })).collect();
        console::print_json(&json!({ "pages": pages, "queries": queries }))?;
        return Ok(Outcome::Done);
    }
    let width = PAGES.iter().map(|page| page.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    // Writing to a String can't fail.
    for page in PAGES {
        let _ = writeln!(text, "{NAME}{:width$}{PLAIN}  {}", page.name, page.title());
    }
    let _ = writeln!(text, "\n{FAINT}queries, for --query:{PLAIN}");
    for query in QUERIES {
        let _ = writeln!(text, "{NAME}{:width$}{PLAIN}  {}", query.name, query.about());
    }
    console::print(&text)?;
    Ok(Outcome::Done)
}

async fn at_hand(
    arguments: &Runbook,
    page: Option<&'static Page>,
    dataset: &str,
    partition: &str,
    query: Option<&'static Query>,
) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let seen = cloud.look(dataset, partition).await?;
    if let Some(query) = query {
        let filled = filled(&cloud, &seen, &[query]).await?.pop().map(|(_, filled)| filled);
        let filled =
            filled.unwrap_or(Err(FillError::Nothing("no query"))).map_err(|why| Failure::Refused(why.to_string()))?;
        return print_query(arguments.json, query.name, &filled);
    }
    let page = match page {
        Some(page) => page,
        None => known_page(page_for(&cloud, &seen).await?)?,
    };
    let filled = filled(&cloud, &seen, &page.queries()).await?;
    print_page(arguments.json, page, Some((&seen.id, &filled)))
}

/// The page for the state a partition is in.
async fn page_for(cloud: &Cloud, seen: &Seen) -> Result<&'static str, Failure> {
    let Some(item) = &seen.item else { return Ok("no-events") };
    if item.rests_parked() {
        return Ok(item.parked.as_ref().map_or("parked", |parked| remedy(&parked.kind).1));
    }
    if seen.head.mode == Mode::Halted {
        return Ok("halted");
    }
    let hands = hands::of(&cloud.ports, &seen.head, &seen.id, item).await.map_err(unavailable)?;
    Ok(match hands {
        Hands::Died(state) => page_of_state(state),
        _ if item.holds.is_some() => item.holds.as_ref().map_or("oldest-dirty", |holds| remedy(&holds.kind).1),
        _ if item.at_rest() => {
            return Err(Failure::Refused(format!(
                "{} is built, and nothing is wrong; name a page to print it",
                seen.id
            )));
        }
        _ => "oldest-dirty",
    })
}

/// The page of a failure state.
pub(crate) fn page_of_state(state: FailureState) -> &'static str {
    match state {
        FailureState::BeforeStaging => "before-staging",
        FailureState::DuringStaging => "during-staging",
        FailureState::BeforeCommit => "before-commit",
        FailureState::AfterCommit => "after-commit",
    }
}

type Filled = (&'static str, Result<String, FillError>);

async fn filled(cloud: &Cloud, seen: &Seen, queries: &[&'static Query]) -> Result<Vec<Filled>, Failure> {
    let partition =
        seen.definition.partition(&seen.id.partition).map_err(|error| Failure::Refused(error.to_string()))?;
    let item = seen.item.as_ref();
    let in_progress = item.and_then(|item| item.batch.as_ref());
    let mut newest_batch =
        in_progress.map(|batch| (batch.id, batch.listed.as_ref().map(|listed| listed.digest.clone())));
    if in_progress.is_none() {
        let since = jiff::Timestamp::UNIX_EPOCH;
        let wanted = Wanted { partition: Some(&seen.id.partition), since, limit: 1, read_at_most: READ_AT_MOST };
        let found = newest(&cloud.ports, &seen.id.dataset, wanted).await.map_err(unavailable)?;
        newest_batch = found.stories.first().map(|(batch, story)| (*batch, story.digest.clone()));
    }
    let last = item.and_then(|item| item.last.as_ref());
    let newest = newest_batch.as_ref().map(|(batch, digest)| (*batch, digest.as_ref()));
    let newest = newest.or(last.map(|last| (last.batch, Some(&last.digest))));
    let (stack, committed) = (&cloud.config.stack, last.map(|last| last.batch));
    let about = About { stack, definition: &seen.definition, partition: &partition, committed, newest };
    Ok(queries.iter().map(|query| (query.name, fill(query.text, &about))).collect())
}

/// Whether the ledger has a batch's row, asked by the runbook's own query.
pub(crate) async fn ledger_has(cloud: &Cloud, seen: &Seen, batch: BatchId) -> Result<bool, Failure> {
    let rows = ask(cloud, seen, "batch-state", batch).await?;
    Ok(rows.iter().any(|row| row.first() == Some(&Field::Text(batch.to_string()))))
}

/// The rows of a query of the runbook, about a batch of a partition.
pub(crate) async fn ask(cloud: &Cloud, seen: &Seen, name: &str, batch: BatchId) -> Result<StatementResult, Failure> {
    let refused = |error: String| Failure::Refused(error);
    let partition = seen.definition.partition(&seen.id.partition).map_err(|error| refused(error.to_string()))?;
    let (stack, committed) = (&cloud.config.stack, Some(batch));
    let about = About { stack, definition: &seen.definition, partition: &partition, committed, newest: None };
    let filled = fill(known_query(name)?.text, &about).map_err(|error| refused(error.to_string()))?;
    let query = Batch::new(format!("tidemark/{name}"), vec![filled]).map_err(|error| refused(error.to_string()))?;
    run::ask(&cloud.ports, &query).await.map_err(unavailable)
}

fn print_query(as_json: bool, name: &str, text: &str) -> Result<Outcome, Failure> {
    if as_json {
        console::print_json(&json!({ "query": name, "sql": text }))?;
    } else {
        console::print(text)?;
    }
    Ok(Outcome::Done)
}

/// How pages' commands name a partition.
const WHICH: &str = "<dataset> <partition>";

/// Dataset and partition as arguments of a command in a shell.
pub(crate) fn in_a_shell(id: &PartitionId) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=/_-.:".contains(c);
    let name = id.partition.as_str();
    let name = if name.chars().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) };
    format!("{} {name}", id.dataset)
}

fn print_page(as_json: bool, page: &Page, filled: Option<(&PartitionId, &[Filled])>) -> Result<Outcome, Failure> {
    let mut text = filled.map_or_else(|| page.text.to_owned(), |(id, _)| page.text.replace(WHICH, &in_a_shell(id)));
    if as_json {
        let query = |(name, filled): &Filled| json!({ "query": name, "sql": filled.as_ref().ok(), "why_not": filled.as_ref().err().map(ToString::to_string) });
        let queries = filled.map(|(_, filled)| filled.iter().map(query).collect::<Vec<_>>());
        console::print_json(&json!({ "page": page.name, "text": text, "queries": queries }))?;
        return Ok(Outcome::Done);
    }
    // Writing to a String can't fail.
    if let Some((id, filled)) = filled {
        let _ = writeln!(text, "\n{NAME}# The queries, for {id}{PLAIN}");
        for (name, filled) in filled {
            let _ = match filled {
                Ok(sql) => writeln!(text, "\n{FAINT}-- {name}.sql{PLAIN}\n{};", sql.trim_end()),
                Err(why) => writeln!(text, "\n{FAINT}-- {name}.sql: {why}{PLAIN}"),
            };
        }
    }
    console::print(&text)?;
    Ok(Outcome::Done)
}
