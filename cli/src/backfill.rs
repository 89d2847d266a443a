//! `tidemark backfill DATASET`: a job that marks many partitions, a few at a time; and the jobs there are.

mod watch;

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use clap::Args;
use serde_json::{Value, json};
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_engine::jobs;
use tidemark_engine::ports::Written;
use tidemark_engine::selection::Selection;

use crate::accept::{Accepted, Looked, shown_digest};
use crate::cloud::{self, Cloud, Known, unavailable};
use crate::console::{self, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::which;
use crate::wish::Wish;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are just that")]
pub(crate) struct Backfill {
    /// The dataset; with --list only its jobs are told
    #[arg(required_unless_present_any = ["list", "cancel", "resume"])]
    pub(crate) dataset: Option<String>,
    #[command(flatten)]
    pub(crate) wish: Wish,
    /// All partitions that have files, or of which anything is stored
    #[arg(long, conflicts_with_all = ["from", "to", "parked"])]
    pub(crate) all: bool,
    /// Do it; without this it is only shown, and where the output is no terminal that is an error
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show it, also where the output is no terminal
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Wait until all is rebuilt; alone, for the dataset's newest job
    #[arg(long)]
    pub(crate) watch: bool,
    /// Tell the jobs there are
    #[arg(long, conflicts_with_all = ["cancel", "resume", "all", "from", "to", "parked", "yes", "watch"])]
    pub(crate) list: bool,
    /// Mark nothing more of a job, by its id or the beginning of it
    #[arg(long, value_name = "JOB", conflicts_with_all = ["resume", "all", "from", "to", "parked", "watch"])]
    pub(crate) cancel: Option<String>,
    /// Go on with a job that was cancelled
    #[arg(long, value_name = "JOB", conflicts_with_all = ["all", "from", "to", "parked"])]
    pub(crate) resume: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes a job, after showing it; or lists, cancels, resumes, watches one.
pub(crate) async fn run(arguments: &Backfill) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    if arguments.list {
        return list(&cloud, arguments).await;
    }
    if let Some(id) = &arguments.cancel {
        return cancel(&cloud, arguments, id).await;
    }
    if let Some(id) = &arguments.resume {
        return resume(&cloud, arguments, id).await;
    }
    let known = cloud.dataset(arguments.dataset.as_deref().unwrap_or_default()).await?;
    known.not_retired()?;
    if !arguments.all && !arguments.wish.parked && !arguments.wish.ends.are_given() {
        if !arguments.watch {
            let told =
                "write --from and --to, or --parked, or --all for all partitions; --list tells the jobs there are";
            return Err(Failure::Usage(told.to_owned()));
        }
        let all = of_dataset(&cloud, arguments.dataset.as_deref()).await?;
        let newest = all.into_iter().max_by_key(|job| job.made_at);
        let newest = newest.ok_or_else(|| Failure::Refused(format!("{} has no job", known.dataset)))?;
        return watch::run(&cloud, newest, arguments.json).await;
    }
    make(&cloud, &known, arguments).await
}

async fn make(cloud: &Cloud, known: &Known, arguments: &Backfill) -> Result<Outcome, Failure> {
    let wish = &arguments.wish;
    let accepted = wish.accepted()?;
    let selection = which::select(cloud, known, &wish.ends, wish.parked).await?;
    let looked = accepted.looked(&selection.chosen)?;
    let lines = lines(&selection, &accepted);
    let ports = &cloud.ports;
    let id = ports.clock.id();
    let new =
        Job::new(id, known.dataset.clone(), Kind::Backfill, lines.len() as u64, &cloud::operator(), ports.clock.now());
    let job = Job { force: !wish.no_force, accept: accepted.kinds.clone(), reason: wish.reason.clone(), ..new };
    let will = arguments.yes && !lines.is_empty() && looked == Looked::Yes;
    if will {
        jobs::make(ports, cloud.control_bucket(), &job, &lines).await.map_err(unavailable)?;
    }
    if arguments.json && !(will && arguments.watch) {
        let partitions: Vec<&str> = lines.iter().map(|line| line.partition.as_str()).collect();
        console::print_json(&json!({
            "made": will, "job": told(&job), "partitions": partitions, "digest": accepted.shown(&selection.chosen),
        }))?;
    } else if !arguments.json {
        console::print(&shown(known, &job, &lines, &selection))?;
    }
    if lines.is_empty() {
        return Ok(Outcome::Done);
    }
    if will {
        if arguments.watch {
            return watch::run(cloud, job, arguments.json).await;
        }
        if !arguments.json {
            console::print(&format!(
                "{GOOD}made{PLAIN}: job {}; sweep marks a few each minute: `tidemark backfill {} --watch`\n",
                job.id, known.dataset
            ))?;
        }
        return Ok(Outcome::Done);
    }
    unmade(arguments, &accepted, &looked)
}

/// Nothing was made: it wasn't asked for, or what it accepts wasn't looked at.
fn unmade(arguments: &Backfill, accepted: &Accepted, looked: &Looked) -> Result<Outcome, Failure> {
    let (digest, bound) = match looked {
        Looked::Yes => (String::new(), String::new()),
        Looked::Unsaid(digest) => (
            format!(" --digest {digest}"),
            format!("; {} is accepted of the listings that are shown by now", accepted.of_listings().join(", ")),
        ),
    };
    if arguments.yes || !arguments.dry_run && !std::io::stdout().is_terminal() {
        let told = format!("nothing was made{bound}; write --yes{digest} to do it, or --dry-run to only look");
        return Err(Failure::Refused(told));
    }
    if !arguments.json {
        console::print(&format!("nothing was made{bound}; do it with --yes{digest}\n"))?;
    }
    Ok(Outcome::Done)
}

/// The partitions, in the order of their values; with what was seen of them where that is accepted.
fn lines(selection: &Selection, accepted: &Accepted) -> Vec<Line> {
    let bound = !accepted.of_listings().is_empty();
    let line = |chosen: &tidemark_engine::selection::Chosen| {
        let seen = chosen.item.as_ref().filter(|_| bound).and_then(shown_digest);
        Line { digest: seen, ..Line::of(chosen.partition.name.clone()) }
    };
    selection.chosen.iter().map(line).collect()
}

fn shown(known: &Known, job: &Job, lines: &[Line], selection: &Selection) -> String {
    let Some(first) = lines.first() else {
        return format!("nothing to do: no partition of {} is meant\n", known.dataset);
    };
    let how =
        if job.force { "rebuilt whether their files changed or not" } else { "rebuilt where their files changed" };
    let partitions = count(lines.len(), "partition");
    let last = &lines[lines.len() - 1].partition;
    let mut text = format!("{NAME}{}{PLAIN}: {partitions}, {how}: {} to {last}\n", known.dataset, first.partition);
    let new = selection.chosen.iter().filter(|chosen| chosen.item.is_none()).count();
    if new > 0 {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {new} of them have files and were never marked");
    }
    let bound: Vec<&str> =
        job.accept.iter().filter(|kind| kind.accepted_with_digest()).map(|kind| kind.name()).collect();
    let unseen = lines.iter().filter(|line| line.digest.is_none()).count();
    if !bound.is_empty() && unseen > 0 {
        let kinds = bound.join(", ");
        let _ = writeln!(
            text,
            "  {WARN}note{PLAIN}: of {unseen} of them no listing is shown, so {kinds} isn't accepted there"
        );
    }
    if selection.not_yielded > 0 {
        let left = count(selection.not_yielded, "partition");
        let _ = writeln!(text, "  {WARN}leaves{PLAIN} {left} that the layout no longer yields");
    }
    text.push_str(&known.note());
    text
}

async fn of_dataset(cloud: &Cloud, dataset: Option<&str>) -> Result<Vec<Job>, Failure> {
    let all = jobs::all(&cloud.ports).await.map_err(unavailable)?;
    Ok(all.into_iter().filter(|job| dataset.is_none_or(|dataset| job.dataset.as_str() == dataset)).collect())
}

/// The job whose id begins so.
async fn find(cloud: &Cloud, id: &str) -> Result<Job, Failure> {
    let all = jobs::all(&cloud.ports).await.map_err(unavailable)?;
    let mut found = all.into_iter().filter(|job| job.id.to_string().starts_with(id));
    match (found.next(), found.next()) {
        (Some(job), None) => Ok(job),
        (Some(_), Some(_)) => Err(Failure::Refused(format!("several jobs begin with {id}; write more of the id"))),
        (None, _) => Err(Failure::Refused(format!("there is no job {id}; `tidemark backfill --list` tells them"))),
    }
}

async fn list(cloud: &Cloud, arguments: &Backfill) -> Result<Outcome, Failure> {
    let mut jobs = of_dataset(cloud, arguments.dataset.as_deref()).await?;
    jobs.sort_by_key(|job| std::cmp::Reverse(job.made_at));
    if arguments.json {
        console::print_json(&Value::Array(jobs.iter().map(told).collect()))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for job in &jobs {
        let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let (done, total) = (job.done, job.total);
        let _ = writeln!(
            text,
            "{NAME}{}{PLAIN} {} {}, {done} of {total} marked, {FAINT}made {:.0} by {} for {}{reason}{PLAIN}",
            job.id,
            job.dataset,
            state(job),
            job.made_at,
            job.by,
            job.kind.as_str(),
        );
    }
    if jobs.is_empty() {
        text.push_str("no jobs\n");
    }
    console::print(&text)?;
    Ok(Outcome::Done)
}

async fn cancel(cloud: &Cloud, arguments: &Backfill, id: &str) -> Result<Outcome, Failure> {
    let job = find(cloud, id).await?;
    change(cloud, &job.cancel(&cloud::operator(), cloud.ports.clock.now()), || {
        format!("job {} has ended already: {} of {} were marked", job.id, job.done, job.total)
    })
    .await?;
    let job = find(cloud, &job.id.to_string()).await?;
    tell(arguments, &job, "cancelled", "what was marked stays so, nothing more is; --resume goes on")
}

async fn resume(cloud: &Cloud, arguments: &Backfill, id: &str) -> Result<Outcome, Failure> {
    let job = find(cloud, id).await?;
    change(cloud, &job.go_on(), || format!("job {} wasn't cancelled; it is {}", job.id, state(&job))).await?;
    let job = find(cloud, &job.id.to_string()).await?;
    if arguments.watch {
        return watch::run(cloud, job, arguments.json).await;
    }
    tell(arguments, &job, "resumed", "sweep marks a few each minute")
}

async fn change(
    cloud: &Cloud,
    update: &tidemark_domain::update::Update,
    refused: impl Fn() -> String,
) -> Result<(), Failure> {
    let (ports, update) = (&cloud.ports, std::slice::from_ref(update));
    match ports.state.write(update, &ports.clock.id().to_string()).await.map_err(unavailable)? {
        Written::Applied { .. } => Ok(()),
        Written::Refused(_) => Err(Failure::Refused(refused())),
    }
}

fn tell(arguments: &Backfill, job: &Job, did: &str, then: &str) -> Result<Outcome, Failure> {
    if arguments.json {
        console::print_json(&told(job))?;
    } else {
        let (done, total) = (job.done, job.total);
        console::print(&format!("{GOOD}{did}{PLAIN}: job {}, {done} of {total} marked; {then}\n", job.id))?;
    }
    Ok(Outcome::Done)
}

fn state(job: &Job) -> &'static str {
    match (job.is_open(), job.cancelled_by.is_some()) {
        (true, _) => "open",
        (false, true) => "cancelled",
        (false, false) => "done",
    }
}

fn told(job: &Job) -> Value {
    let mut told = serde_json::to_value(job).unwrap_or_default();
    told["state"] = state(job).into();
    told
}
