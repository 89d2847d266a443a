//! `tidemark doctor`: whether everything is set up that a rebuild needs, from the bucket's events to the guard row. Changes
//! nothing.

mod warehouse;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemark_aws::clients;
use tidemark_aws::examine::{Examiner, QueueSeen, Unseen};
use tidemark_domain::dataset::Mode;
use tidemark_domain::doctor::{self, Finding};
use tidemark_engine::read::datasets;
use tidemark_engine::read::gauges::{self, Comes};

use crate::cloud::{Cloud, Known, unavailable};
use crate::console::{self, BAD, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::moment::when;

/// Between two looks at a queue.
const BETWEEN_LOOKS: Duration = Duration::from_secs(4);
/// A task of sweep that is overdue by more shows that sweep doesn't run.
const OVERDUE: SignedDuration = SignedDuration::from_mins(15);

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Only this dataset; else all
    pub(crate) dataset: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A check, what it is of, and what it came to.
struct Check {
    name: &'static str,
    of: String,
    finding: Finding,
}

/// Looks at everything in the order in which a file takes its way. One failed check makes it a problem.
pub(crate) async fn run(arguments: &Doctor) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let examiner = Examiner::new(&cloud.config, &clients::sdk_config().await);
    let mut checks = Vec::new();
    let mut add = |name, of: &str, finding| checks.push(Check { name, of: of.to_owned(), finding });
    let known = table(&cloud, arguments.dataset.as_deref(), &mut add).await?;
    add("control bucket", cloud.control_bucket(), control_bucket(&cloud).await);
    source(&cloud, &examiner, &known, &mut add).await;
    functions(&cloud, &examiner, &mut add).await;
    warehouse::examine(&cloud, &known, &mut add).await;
    tell(arguments, &checks)
}

/// The state table, and the datasets in it; those that there are if it can't be read are none.
async fn table(
    cloud: &Cloud,
    only: Option<&str>,
    add: &mut impl FnMut(&'static str, &str, Finding),
) -> Result<Vec<Known>, Failure> {
    let (finding, known) = match known(cloud, only).await {
        Ok(known) => (Finding::ok(count(known.len(), "dataset")), known),
        Err(Failure::Unavailable(why)) => {
            let remedy =
                "TIDEMARK_TABLE must be the stack's (its output Environment), and the caller may read and query it";
            (Finding::failed(why, remedy), Vec::new())
        }
        Err(other) => return Err(other),
    };
    add("table", &cloud.config.table, finding);
    Ok(known)
}

async fn known(cloud: &Cloud, only: Option<&str>) -> Result<Vec<Known>, Failure> {
    if let Some(name) = only {
        return Ok(vec![cloud.dataset(name).await?]);
    }
    let mut known = Vec::new();
    for dataset in datasets::all(&cloud.ports).await.map_err(unavailable)? {
        if dataset.head.mode != Mode::Retired {
            known.push(cloud.dataset(dataset.name.as_str()).await?);
        }
    }
    Ok(known)
}

/// What couldn't be looked at: a permission that is missing says nothing of what it would show.
fn unseen(why: &Unseen, missing: &str) -> Finding {
    match why {
        Unseen::Missing(why) => Finding::failed(why.clone(), missing),
        Unseen::Refused(why) => Finding::unknown(
            why.clone(),
            "run doctor with a role that may look (the operation is named), or see by hand",
        ),
    }
}

async fn control_bucket(cloud: &Cloud) -> Finding {
    match cloud.ports.objects.list(cloud.control_bucket(), "jobs/", false, None, None).await {
        Ok(_) => Finding::ok("it can be listed"),
        Err(error) => Finding::failed(
            error.to_string(),
            "TIDEMARK_CONTROL_BUCKET must be the stack's, and the caller may list and read it",
        ),
    }
}

/// Events: each bucket's notification, the queue, its policy, its key, its dead letters.
async fn source(
    cloud: &Cloud,
    examiner: &Examiner,
    known: &[Known],
    add: &mut impl FnMut(&'static str, &str, Finding),
) {
    let deploy = "the stack's output Environment tells its URL; deploy the stack again if the queue is gone";
    let Some(url) = &cloud.config.events_queue_url else {
        let told = "TIDEMARK_EVENTS_QUEUE_URL isn't set";
        return add("events queue", "", Finding::unknown(told, "take the stack's output Environment anew"));
    };
    let queue = match examiner.queue(url).await {
        Ok(queue) => queue,
        Err(why) => return add("events queue", url, unseen(&why, deploy)),
    };
    let buckets: BTreeSet<&str> = known.iter().map(|known| known.definition.source.bucket.as_str()).collect();
    for bucket in buckets {
        match examiner.notifications(bucket, &queue.arn).await {
            Err(why) => {
                add("notification", bucket, unseen(&why, "the datasets' source must name a bucket that is there"));
            }
            Ok(seen) => {
                let (finding, way) = doctor::notification(bucket, &queue.arn, &seen);
                add("notification", bucket, finding);
                if let Some(way) = way {
                    add("queue policy", bucket, doctor::queue_policy(queue.policy.as_deref(), &way, bucket));
                }
            }
        }
    }
    add("events queue", url, redrive(&queue, "events"));
    add("events key", url, doctor::encryption("events", queue.key.as_deref()));
}

fn redrive(queue: &QueueSeen, name: &str) -> Finding {
    match &queue.redrive {
        Some(_) => Finding::ok("it is there, and has a dead-letter queue"),
        None => Finding::failed(
            format!(
                "queue {name} has no dead-letter queue: what can't be handled comes back for 14 days, then is lost"
            ),
            "deploy the stack again; it sets the redrive policy",
        ),
    }
}

/// The partitions queue, and whether anybody takes the messages of the two; whether sweep keeps its times.
async fn functions(cloud: &Cloud, examiner: &Examiner, add: &mut impl FnMut(&'static str, &str, Finding)) {
    let url = &cloud.config.partitions_queue_url;
    let deploy = "the stack's output Environment tells its URL; deploy the stack again if the queue is gone";
    let names: Vec<&str> = cloud.config.functions.as_deref().unwrap_or_default().split(',').collect();
    let name = |n: usize, otherwise: &'static str| {
        names.get(n).copied().filter(|name| !name.is_empty()).unwrap_or(otherwise).to_owned()
    };
    let (mark, rebuild, sweep) = (name(0, "mark"), name(1, "rebuild"), name(2, "sweep"));
    let both = [(cloud.config.events_queue_url.as_ref(), &mark), (Some(url), &rebuild)];
    let mut first = Vec::new();
    for (url, _) in both {
        first.push(match url {
            Some(url) => Some(examiner.queue(url).await),
            None => None,
        });
    }
    match &first[1] {
        Some(Ok(queue)) => {
            add("partitions queue", url, redrive(queue, "partitions"));
            add("partitions key", url, doctor::encryption("partitions", queue.key.as_deref()));
        }
        Some(Err(why)) => add("partitions queue", url, unseen(why, deploy)),
        None => {}
    }
    cloud.ports.clock.sleep(BETWEEN_LOOKS).await;
    for ((url, function), first) in both.into_iter().zip(first) {
        let (Some(url), Some(Ok(first))) = (url, first) else { continue };
        let finding = match examiner.queue(url).await {
            Ok(second) => doctor::consumer(function, first.depth, second.depth),
            Err(why) => unseen(&why, deploy),
        };
        add("function", function, finding);
    }
    add("function", &sweep, sweeps(cloud, &sweep).await);
}

/// Sweep keeps its times in cursors: one that is long overdue shows that it doesn't run, and one that fails says why.
async fn sweeps(cloud: &Cloud, sweep: &str) -> Finding {
    let stands = match gauges::sweep(&cloud.ports).await {
        Ok(stands) => stands,
        Err(error) => return Finding::unknown(error.to_string(), "the caller must be able to query the state table"),
    };
    let now = cloud.ports.clock.now();
    match (stands.comes, stands.failing.first()) {
        (Comes::Never, _) => {
            Finding::unknown("it has written nothing yet", "wait for two minutes after the first apply, and ask again")
        }
        (Comes::WaitsSince(due), _) if now.duration_since(due) > OVERDUE => Finding::failed(
            format!("a task of it was due at {}", when(due, now)),
            format!("see that the schedule of {sweep} is enabled, and its log: docs/runbook/sweep-missing.md"),
        ),
        (_, Some((task, dataset, failing))) => {
            let of = dataset.as_ref().map(|dataset| format!(" of {dataset}")).unwrap_or_default();
            Finding::failed(
                format!("its {}{of} has failed since {}: {}", task.as_str(), when(failing.since, now), failing.why),
                "mend what that names: docs/runbook/sweep-tasks-failing.md".to_owned(),
            )
        }
        (_, None) => Finding::ok("none of its tasks is overdue, and none has failed for long"),
    }
}

fn tell(arguments: &Doctor, checks: &[Check]) -> Result<Outcome, Failure> {
    let failed = checks.iter().filter(|check| check.finding.has_failed()).count();
    if arguments.json {
        let all: Vec<Value> = checks
            .iter()
            .map(|check| {
                let mut told = serde_json::to_value(&check.finding).unwrap_or_default();
                told["check"] = check.name.into();
                told["of"] = check.of.as_str().into();
                told
            })
            .collect();
        console::print_json(&json!({ "failed": failed, "checks": all }))?;
    } else {
        let mut text = String::new();
        for check in checks {
            let (colour, word, seen, remedy) = match &check.finding {
                Finding::Ok { seen } => (GOOD, "ok", seen, None),
                Finding::Failed { seen, remedy } => (BAD, "failed", seen, Some(remedy)),
                Finding::Unknown { seen, remedy } => (WARN, "can't be told", seen, Some(remedy)),
            };
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "{colour}{word:<13}{PLAIN} {NAME}{}{PLAIN} {FAINT}{}{PLAIN}: {seen}",
                check.name, check.of
            );
            if let Some(remedy) = remedy {
                let _ = writeln!(text, "              {remedy}");
            }
        }
        console::print(&text)?;
    }
    Ok(if failed == 0 { Outcome::Done } else { Outcome::Problems })
}
