//! `tidemark replay DATASET PARTITION…`: asks for rebuilds, by the message that anybody may put on the queue.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use tidemark_domain::id::Digest;
use tidemark_domain::job::MARKED_AT_ONCE;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::{PartitionMessage, Replay as Asked, Wish as Message};
use tidemark_engine::ports::Outgoing;
use tidemark_engine::selection::{Chosen, Selection};

use crate::accept::{Accepted, Looked};
use crate::cloud::{Cloud, Known, operator, unavailable};
use crate::console::{self, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::rehearse;
use crate::which;
use crate::wish::Wish;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The dataset
    pub(crate) dataset: String,
    /// The partitions, such as dt=2026-11-01
    #[arg(value_name = "PARTITION", conflicts_with_all = ["from", "to", "parked"])]
    pub(crate) partitions: Vec<String>,
    #[command(flatten)]
    pub(crate) wish: Wish,
    /// Show the messages that would be sent, and send none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Try it: list, load into a table of its own, verify, tell, and drop it. The partition isn't touched
    #[arg(long, conflicts_with_all = ["dry_run", "no_force", "reason", "digest"])]
    pub(crate) rehearse: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is asked for: the messages, and whether they may go out.
struct Plan {
    outgoing: Vec<Outgoing>,
    digest: Option<Digest>,
    send: bool,
}

/// Sends the messages that ask for the rebuilds, and prints them.
pub(crate) async fn run(arguments: &Replay) -> Result<Outcome, Failure> {
    let wish = &arguments.wish;
    if arguments.partitions.is_empty() && !wish.ends.are_given() && !wish.parked {
        return Err(Failure::Usage(
            "name the partitions, or a range with --from and --to, or --parked; all of them: `tidemark backfill --all`"
                .to_owned(),
        ));
    }
    let accepted = wish.accepted()?;
    let cloud = Cloud::connect().await?;
    let known = cloud.dataset(&arguments.dataset).await?;
    known.not_retired()?;
    let Selection { chosen, .. } = if arguments.partitions.is_empty() {
        which::select(&cloud, &known, &wish.ends, wish.parked).await?
    } else {
        which::named(&cloud, &known, &arguments.partitions).await?
    };
    if chosen.len() > MARKED_AT_ONCE {
        return Err(too_many(arguments, chosen.len()));
    }
    if arguments.rehearse {
        return rehearse::run(&cloud, &known, &chosen, &accepted.kinds, arguments.json).await;
    }
    let looked = accepted.looked(&chosen)?;
    let outgoing = messages(arguments, &accepted, &known, &chosen)?;
    let send = !arguments.dry_run && looked == Looked::Yes;
    if send {
        self::send(&cloud, &outgoing).await?;
    }
    let plan = Plan { outgoing, digest: accepted.shown(&chosen), send };
    tell(arguments, &known, &plan)?;
    match looked {
        Looked::Unsaid(digest) if !arguments.dry_run => Err(Failure::Refused(format!(
            "nothing was sent: {} is accepted of a listing that was looked at; if it is the one shown here, add --digest {digest}",
            accepted.of_listings().join(", ")
        ))),
        Looked::Unsaid(_) | Looked::Yes => Ok(Outcome::Done),
    }
}

/// Each partition's message, held to the contract as rebuild will read it.
fn messages(
    arguments: &Replay,
    accepted: &Accepted,
    known: &Known,
    chosen: &[Chosen],
) -> Result<Vec<Outgoing>, Failure> {
    let message = |one: &Chosen| {
        let id = known.id(&one.partition.name);
        let accept = accepted.of(one.item.as_ref(), chosen.len() == 1).map_err(|failure| failure.about(&id))?;
        let asked = Asked {
            reason: arguments.wish.reason.clone(),
            by: Some(operator()),
            force: !arguments.wish.no_force,
            accept,
        };
        let scope = Scope::of(&id, known.head.concurrency);
        let message = PartitionMessage { id, wish: Message::Replay(asked) };
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
    for (name, end) in [("--from", &arguments.wish.ends.from), ("--to", &arguments.wish.ends.to)] {
        instead.extend(end.iter().map(|end| format!(" {name} {end}")));
    }
    if arguments.wish.parked {
        instead.push_str(" --parked");
    } else if !arguments.wish.ends.are_given() {
        instead.push_str(" --from … --to …");
    }
    Failure::Refused(format!(
        "{many} partitions are more than the {MARKED_AT_ONCE} that are replayed at once, so that new files don't wait \
         behind them; write `{instead}`"
    ))
}

fn tell(arguments: &Replay, known: &Known, plan: &Plan) -> Result<(), Failure> {
    let bodies: Vec<String> = plan.outgoing.iter().map(|outgoing| outgoing.message.body()).collect();
    if arguments.json {
        let messages: Vec<Value> = bodies.iter().filter_map(|body| serde_json::from_str(body).ok()).collect();
        let told = json!({ "dataset": known.dataset, "sent": plan.send, "digest": plan.digest, "messages": messages });
        return Ok(console::print_json(&told)?);
    }
    let mut text = String::new();
    let (colour, did) = if plan.send { (GOOD, "sent") } else { (WARN, "would send") };
    for (outgoing, body) in plan.outgoing.iter().zip(&bodies) {
        let id = &outgoing.message.id;
        // Writing to a String can't fail.
        let _ = writeln!(text, "{colour}{did}{PLAIN}: {NAME}{id}{PLAIN} {FAINT}{body}{PLAIN}");
    }
    match plan.outgoing.len() {
        0 => text.push_str("nothing to do: no partition is meant\n"),
        1 => {}
        many => _ = writeln!(text, "{did} {}", count(many, "message")),
    }
    if let Some(digest) = plan.digest.as_ref().filter(|_| !plan.send) {
        let _ = writeln!(text, "what is accepted of them has the digest {digest}");
    }
    text.push_str(&known.note());
    Ok(console::print(&text)?)
}
