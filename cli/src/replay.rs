//! `tidemark replay DATASET PARTITION…`: asks for rebuilds, by the message that anybody may put on the queue.

#![expect(clippy::doc_markdown, reason = "these comments are the help that a terminal shows")]

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use tidemark_domain::job::MARKED_AT_ONCE;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::{PartitionMessage, Replay as Asked, Wish};
use tidemark_engine::ports::Outgoing;
use tidemark_engine::selection::{Chosen, Selection};

use crate::accept;
use crate::cloud::{Cloud, Known, unavailable};
use crate::console::{self, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::rehearse;
use crate::which::{self, Ends};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are just that")]
pub(crate) struct Replay {
    /// The dataset
    pub(crate) dataset: String,
    /// The partitions, such as dt=2026-11-01
    #[arg(value_name = "PARTITION", conflicts_with_all = ["from", "to", "parked"])]
    pub(crate) partitions: Vec<String>,
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// The parked partitions, all or those of the range
    #[arg(long)]
    pub(crate) parked: bool,
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Rebuild only what has other files than at its last rebuild
    #[arg(long)]
    pub(crate) no_force: bool,
    /// Let these pass: missing_objects, empty_source, row_drop, foreign_rows
    #[arg(long, value_name = "KIND", value_delimiter = ',', conflicts_with = "no_force")]
    pub(crate) accept: Vec<String>,
    /// The listing that was looked at and is accepted, of one partition; without it, the one that `show` tells
    #[arg(long, requires = "accept", conflicts_with_all = ["from", "to", "parked"])]
    pub(crate) digest: Option<String>,
    /// Tell what would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// List, load into a table of its own, verify, tell and drop it: the partition isn't touched
    #[arg(long, conflicts_with_all = ["dry_run", "no_force", "reason", "digest"])]
    pub(crate) rehearse: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Sends the messages that ask for the rebuilds, and prints them.
pub(crate) async fn run(arguments: &Replay) -> Result<Outcome, Failure> {
    if arguments.partitions.is_empty() && !arguments.ends.are_given() && !arguments.parked {
        return Err(Failure::Usage(
            "name the partitions, or a range with --from and --to, or --parked; all of them: `tidemark backfill --all`"
                .to_owned(),
        ));
    }
    if arguments.digest.is_some() && arguments.partitions.len() > 1 {
        return Err(Failure::Usage("--digest is that of one partition; name just that one".to_owned()));
    }
    let cloud = Cloud::connect().await?;
    let known = cloud.dataset(&arguments.dataset).await?;
    known.not_retired()?;
    let Selection { chosen, .. } = if arguments.partitions.is_empty() {
        which::select(&cloud, &known, &arguments.ends, arguments.parked).await?
    } else {
        which::named(&cloud, &known, &arguments.partitions).await?
    };
    if chosen.len() > MARKED_AT_ONCE {
        return Err(too_many(arguments, chosen.len()));
    }
    if arguments.rehearse {
        return rehearse::run(&cloud, &known, &chosen, &arguments.accept, arguments.json).await;
    }
    let outgoing = messages(arguments, &known, &chosen)?;
    if !arguments.dry_run {
        send(&cloud, &outgoing).await?;
    }
    tell(arguments, &known, &outgoing)?;
    Ok(Outcome::Done)
}

/// Each partition's message, held to the contract as rebuild will read it.
fn messages(arguments: &Replay, known: &Known, chosen: &[Chosen]) -> Result<Vec<Outgoing>, Failure> {
    let kinds = accept::kinds(&arguments.accept)?;
    let message = |chosen: &Chosen| {
        let id = known.id(&chosen.partition.name);
        let accept = accept::of(&kinds, arguments.digest.as_deref(), chosen.item.as_ref());
        let accept = accept.map_err(|failure| failure.about(&id))?;
        let asked = Asked { reason: arguments.reason.clone(), force: !arguments.no_force, accept };
        let scope = Scope::of(&id, known.head.concurrency);
        let message = PartitionMessage { id, wish: Wish::Replay(asked) };
        PartitionMessage::parse(&message.body()).map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(Outgoing { message, scope })
    };
    chosen.iter().map(message).collect()
}

async fn send(cloud: &Cloud, outgoing: &[Outgoing]) -> Result<(), Failure> {
    if outgoing.is_empty() {
        return Ok(());
    }
    let unsent = cloud.ports.queue.send(outgoing).await.map_err(unavailable)?;
    if unsent.is_empty() {
        return Ok(());
    }
    let told = unsent.iter().map(|(n, why)| format!("{}: {why}", outgoing[*n].message.id)).collect::<Vec<_>>();
    let all = outgoing.len();
    Err(unavailable(format!("the queue refused {} of {all} messages; {}", unsent.len(), told.join("; "))))
}

fn too_many(arguments: &Replay, many: usize) -> Failure {
    let mut instead = format!("tidemark backfill {}", arguments.dataset);
    for (name, end) in [("--from", &arguments.ends.from), ("--to", &arguments.ends.to)] {
        instead.extend(end.iter().map(|end| format!(" {name} {end}")));
    }
    if arguments.parked {
        instead.push_str(" --parked");
    } else if !arguments.ends.are_given() {
        instead.push_str(" --from … --to …");
    }
    Failure::Refused(format!(
        "{many} partitions are more than the {MARKED_AT_ONCE} that are replayed at once, so that new files don't wait \
         behind them; write `{instead}`"
    ))
}

fn tell(arguments: &Replay, known: &Known, outgoing: &[Outgoing]) -> Result<(), Failure> {
    let bodies: Vec<String> = outgoing.iter().map(|outgoing| outgoing.message.body()).collect();
    if arguments.json {
        let messages: Vec<Value> = bodies.iter().filter_map(|body| serde_json::from_str(body).ok()).collect();
        let told = json!({ "dataset": known.dataset, "sent": !arguments.dry_run, "messages": messages });
        return Ok(console::print_json(&told)?);
    }
    let mut text = String::new();
    let (colour, did) = if arguments.dry_run { (WARN, "would send") } else { (GOOD, "sent") };
    for (outgoing, body) in outgoing.iter().zip(&bodies) {
        let id = &outgoing.message.id;
        // Writing to a String can't fail.
        let _ = writeln!(text, "{colour}{did}{PLAIN}: {NAME}{id}{PLAIN} {FAINT}{body}{PLAIN}");
    }
    match outgoing.len() {
        0 => text.push_str("nothing to do: no partition is meant\n"),
        1 => {}
        many => _ = writeln!(text, "{did} {}", count(many, "message")),
    }
    text.push_str(&known.note());
    Ok(console::print(&text)?)
}
