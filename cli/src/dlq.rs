//! `tidemark dlq`: what lies in the two dead-letter queues and why; `tidemark dlq redrive` sends back what can be worked on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use tidemark_aws::{DeadLetters, Letter, clients};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::s3_event;
use tidemark_engine::ports::Outgoing;

use crate::cloud::{Cloud, unavailable};
use crate::console::{self, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::moment;

/// Letters told at most of a queue, and redriven by one command.
const LISTED: usize = 1_000;
/// Of a body so much is shown to people.
const SHOWN_BYTES: usize = 300;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Dlq {
    #[command(subcommand)]
    pub(crate) what: Option<What>,
    #[command(flatten)]
    pub(crate) of: Of,
}

#[derive(Debug, Args)]
pub(crate) struct Of {
    /// Only this one of the two
    #[arg(long)]
    pub(crate) queue: Option<Queue>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Send back what can be worked on; what can't be read stays
    Redrive(Redrive),
}

#[derive(Debug, Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    pub(crate) of: Of,
    /// Do it; without this it is only shown, and where the output is no terminal that is an error
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show it, also where the output is no terminal
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

/// Whose dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Queue {
    /// S3 events that mark can't read or write down
    Events,
    /// Partition messages that rebuild can't read
    Partitions,
}

impl Queue {
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Partitions => "partitions",
        }
    }
}

/// A letter, and whether it can be worked on; if not, why.
struct Judged {
    letter: Letter,
    verdict: Result<Back, String>,
}

/// How a letter goes back.
enum Back {
    /// Its body as it is.
    Event,
    /// As a message in the group of its lock scope.
    Partition(Box<Outgoing>),
}

/// Lists, or redrives.
pub(crate) async fn run(arguments: &Dlq) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    match &arguments.what {
        None => list(&cloud, &arguments.of).await,
        Some(What::Redrive(redrive)) => self::redrive(&cloud, redrive).await,
    }
}

async fn list(cloud: &Cloud, of: &Of) -> Result<Outcome, Failure> {
    let mut told = serde_json::Map::new();
    let mut text = String::new();
    for (queue, letters) in queues(cloud, of).await? {
        let (judged, total) = look(cloud, queue, &letters).await?;
        told.insert(
            queue.name().to_owned(),
            json!({ "count": total, "letters": judged.iter().map(in_json).collect::<Vec<_>>() }),
        );
        write_queue(cloud, &mut text, queue, &judged, total);
    }
    if of.json {
        console::print_json(&Value::Object(told))?;
    } else {
        console::print(&text)?;
    }
    Ok(Outcome::Done)
}

/// All letters, looked at and let go: they are visible again when this comes back.
async fn look(cloud: &Cloud, queue: Queue, letters: &DeadLetters) -> Result<(Vec<Judged>, u64), Failure> {
    let mut judged: Vec<Judged> = Vec::new();
    let looked = gather(cloud, queue, letters, &mut judged).await;
    for judged in &judged {
        letters.let_go(&judged.letter).await.map_err(unavailable)?;
    }
    looked?;
    let total = letters.count().await.map_err(unavailable)?.max(judged.len() as u64);
    Ok((judged, total))
}

async fn gather(cloud: &Cloud, queue: Queue, letters: &DeadLetters, judged: &mut Vec<Judged>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    while judged.len() < LISTED {
        let next = letters.next().await.map_err(unavailable)?;
        let before = judged.len();
        for letter in next {
            if seen.insert(letter.id.clone()) {
                let verdict = judge(cloud, queue, &letter).await?;
                judged.push(Judged { letter, verdict });
            }
        }
        if judged.len() == before {
            break;
        }
    }
    Ok(())
}

async fn redrive(cloud: &Cloud, arguments: &Redrive) -> Result<Outcome, Failure> {
    let mut told = serde_json::Map::new();
    let (mut text, mut would) = (String::new(), 0);
    for (queue, letters) in queues(cloud, &arguments.of).await? {
        let (back, stay) = if arguments.yes {
            send_back(cloud, queue, &letters).await?
        } else {
            let (judged, _) = look(cloud, queue, &letters).await?;
            judged.into_iter().partition(|judged| judged.verdict.is_ok())
        };
        would += back.len();
        told.insert(
            queue.name().to_owned(),
            json!({ "sent": arguments.yes, "back": back.iter().map(in_json).collect::<Vec<_>>(),
                "stay": stay.iter().map(in_json).collect::<Vec<_>>() }),
        );
        let (colour, did) = if arguments.yes { (GOOD, "sent back") } else { (WARN, "would send back") };
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "{NAME}{}{PLAIN}: {colour}{did}{PLAIN} {}, {} stay",
            queue.name(),
            count(back.len(), "message"),
            stay.len()
        );
        for judged in &stay {
            write_letter(cloud, &mut text, judged);
        }
    }
    if arguments.of.json {
        console::print_json(&Value::Object(told))?;
    } else {
        console::print(&text)?;
    }
    if arguments.yes || arguments.dry_run || would == 0 {
        return Ok(Outcome::Done);
    }
    if !std::io::stdout().is_terminal() {
        let told = "nothing was sent; write --yes to do it, or --dry-run to only look";
        return Err(Failure::Refused(told.to_owned()));
    }
    if !arguments.of.json {
        console::print("nothing was sent; do it with --yes\n")?;
    }
    Ok(Outcome::Done)
}

/// Sends back what can be worked on, each deleted once its send was acknowledged. What stays is let go at the end, so that it
/// isn't met twice.
async fn send_back(cloud: &Cloud, queue: Queue, letters: &DeadLetters) -> Result<(Vec<Judged>, Vec<Judged>), Failure> {
    let (mut back, mut stay) = (Vec::new(), Vec::new());
    let done = send_each(cloud, queue, letters, &mut back, &mut stay).await;
    for judged in &stay {
        letters.let_go(&judged.letter).await.map_err(unavailable)?;
    }
    done?;
    Ok((back, stay))
}

async fn send_each(
    cloud: &Cloud,
    queue: Queue,
    letters: &DeadLetters,
    back: &mut Vec<Judged>,
    stay: &mut Vec<Judged>,
) -> Result<(), Failure> {
    while back.len() + stay.len() < LISTED {
        let mut next = letters.next().await.map_err(unavailable)?;
        next.retain(|letter| !stay.iter().any(|judged| judged.letter.id == letter.id));
        if next.is_empty() {
            break;
        }
        for letter in next {
            let verdict = judge(cloud, queue, &letter).await?;
            match &verdict {
                Err(_) => {
                    stay.push(Judged { letter, verdict });
                    continue;
                }
                Ok(Back::Event) => letters.send_back(&letter).await.map_err(unavailable)?,
                Ok(Back::Partition(outgoing)) => {
                    let unsent = cloud.ports.queue.send(std::slice::from_ref(outgoing)).await.map_err(unavailable)?;
                    if let Some((_, why)) = unsent.into_iter().next() {
                        return Err(unavailable(format!("the queue refused message {}: {why}; it stays", letter.id)));
                    }
                }
            }
            letters.delete(&letter).await.map_err(unavailable)?;
            back.push(Judged { letter, verdict });
        }
    }
    Ok(())
}

/// Whether it can be worked on by now. What a function would only put back here stays.
async fn judge(cloud: &Cloud, queue: Queue, letter: &Letter) -> Result<Result<Back, String>, Failure> {
    let message = match queue {
        Queue::Events => {
            return Ok(s3_event::parse(&letter.body).map(|_| Back::Event).map_err(|error| error.to_string()));
        }
        Queue::Partitions => match PartitionMessage::parse(&letter.body) {
            Ok(message) => message,
            Err(error) => return Ok(Err(error.to_string())),
        },
    };
    let known = match cloud.dataset(message.id.dataset.as_str()).await {
        Ok(known) => known,
        Err(Failure::Refused(why)) => return Ok(Err(why)),
        Err(other) => return Err(other),
    };
    Ok(known.definition.partition(&message.id.partition).map_err(|error| error.to_string()).map(|_| {
        let scope = Scope::of(&message.id, known.head.concurrency);
        Back::Partition(Box::new(Outgoing { message, scope }))
    }))
}

async fn queues(cloud: &Cloud, of: &Of) -> Result<Vec<(Queue, DeadLetters)>, Failure> {
    let config = &cloud.config;
    let all = [
        (Queue::Events, &config.events_dlq_url, config.events_queue_url.as_deref(), "TIDEMARK_EVENTS"),
        (
            Queue::Partitions,
            &config.partitions_dlq_url,
            Some(config.partitions_queue_url.as_str()),
            "TIDEMARK_PARTITIONS",
        ),
    ];
    let mut queues = Vec::new();
    for (queue, url, source, name) in all {
        if of.queue.is_some_and(|wanted| wanted != queue) {
            continue;
        }
        let (Some(url), Some(source)) = (url, source) else {
            return Err(Failure::Unavailable(format!(
                "{name}_QUEUE_URL and {name}_DLQ_URL aren't both set; the stack's output Environment tells them"
            )));
        };
        queues.push((queue, clients::dead_letters(url, source).await));
    }
    Ok(queues)
}

fn write_queue(cloud: &Cloud, text: &mut String, queue: Queue, judged: &[Judged], total: u64) {
    let messages = count(usize::try_from(total).unwrap_or(usize::MAX), "message");
    // Writing to a String can't fail.
    let _ = writeln!(text, "{NAME}{}{PLAIN}: {messages}", queue.name());
    for judged in judged {
        write_letter(cloud, text, judged);
    }
    let more = total.saturating_sub(judged.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more, which are in somebody's hand, or behind these in their groups");
    }
    let back = judged.iter().filter(|judged| judged.verdict.is_ok()).count();
    if back > 0 {
        let _ = writeln!(text, "  {back} can be worked on by now: `tidemark dlq redrive --queue {}`", queue.name());
    }
}

fn write_letter(cloud: &Cloud, text: &mut String, judged: &Judged) {
    let letter = &judged.letter;
    let reason = letter.reason.as_deref().unwrap_or("received too often");
    let age = |at: jiff::Timestamp| cloud.ports.clock.now().duration_since(at).as_secs().unsigned_abs();
    let sent = letter.sent_at.map(|at| format!(", {} old", moment::length(age(at))));
    let _ = writeln!(
        text,
        "  {WARN}{reason}{PLAIN} {FAINT}({}{}, received {} times){PLAIN}",
        letter.id,
        sent.unwrap_or_default(),
        letter.received
    );
    let cut = letter.body.floor_char_boundary(SHOWN_BYTES);
    let (body, dots) = (&letter.body[..cut], if cut < letter.body.len() { "…" } else { "" });
    let _ = writeln!(text, "    {}{dots}", body.escape_debug());
    if let Err(why) = &judged.verdict {
        let _ = writeln!(text, "    stays: {why}");
    }
}

fn in_json(judged: &Judged) -> Value {
    let letter = &judged.letter;
    json!({
        "id": letter.id,
        "body": letter.body,
        "reason": letter.reason,
        "sent_at": letter.sent_at.map(jiff::Timestamp::as_millisecond),
        "received": letter.received,
        "stays": judged.verdict.as_ref().err(),
    })
}
