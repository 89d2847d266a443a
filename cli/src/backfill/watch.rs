//! Waits until a job has marked its partitions and they are rebuilt. The bar is drawn only for somebody who looks at it.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tidemark_domain::id::PartitionName;
use tidemark_domain::job::Job;
use tidemark_engine::jobs;
use tidemark_engine::ports::Index;

use crate::cloud::{Cloud, unavailable};
use crate::console::{self, BAD, GOOD, NAME, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::file::count;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// Entries of an index that are looked at: twice the dirty partitions that may be.
const AT_MOST: usize = 20_000;
/// Signs of the bar.
const WIDTH: u64 = 40;
/// Of a list of partitions so many are named.
const NAMED: usize = 10;

/// Watches the job to its end. What was parked is a problem.
pub(super) async fn run(cloud: &Cloud, mut job: Job, json: bool) -> Result<Outcome, Failure> {
    let drawn = std::io::stderr().is_terminal();
    // What was on its way when the last of it was marked: the job's end waits for that, not for what comes later.
    let mut left: Option<BTreeSet<PartitionName>> = None;
    loop {
        job = read(cloud, &job).await?;
        let due = names(cloud, &job, Index::Due).await?;
        if !job.is_open() {
            left = Some(left.map_or_else(|| due.clone(), |left| &left & &due));
        }
        let waiting = left.as_ref().map_or(due.len(), BTreeSet::len);
        if drawn {
            console::tell(&format!("\r\x1b[2K{}", bar(&job, waiting)));
        }
        if left.as_ref().is_some_and(BTreeSet::is_empty) {
            break;
        }
        cloud.ports.clock.sleep(EVERY).await;
    }
    if drawn {
        console::tell("\r\x1b[2K");
    }
    ended(cloud, &job, json).await
}

async fn read(cloud: &Cloud, job: &Job) -> Result<Job, Failure> {
    let item = cloud.ports.state.read(&[job.key()]).await.map_err(unavailable)?.pop().flatten();
    let item = item.ok_or_else(|| Failure::Refused(format!("job {} is gone", job.id)))?;
    Job::from_item(&item).map_err(|error| Failure::Refused(format!("job {} can't be read: {error}", job.id)))
}

async fn names(cloud: &Cloud, job: &Job, index: Index) -> Result<BTreeSet<PartitionName>, Failure> {
    let ever = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
    let entries = cloud.ports.state.query(index, Some(&job.dataset), ever, AT_MOST).await.map_err(unavailable)?;
    Ok(entries.into_iter().map(|entry| entry.id.partition).collect())
}

fn bar(job: &Job, waiting: usize) -> String {
    let total = job.total.max(1);
    let filled = usize::try_from(job.done * WIDTH / total).unwrap_or(0);
    let empty = usize::try_from(WIDTH).unwrap_or(0).saturating_sub(filled);
    let (done, total) = (job.done, job.total);
    let (filled, empty) = ("#".repeat(filled), "-".repeat(empty));
    format!("{NAME}{}{PLAIN} [{filled}{empty}] {done} of {total} marked, {waiting} to be rebuilt", job.dataset)
}

async fn ended(cloud: &Cloud, job: &Job, json: bool) -> Result<Outcome, Failure> {
    let since = job.made_at..=Timestamp::MAX;
    let entries =
        cloud.ports.state.query(Index::Parked, Some(&job.dataset), since, AT_MOST).await.map_err(unavailable)?;
    let parked: BTreeSet<PartitionName> = entries.into_iter().map(|entry| entry.id.partition).collect();
    let mut of_job: Vec<PartitionName> = Vec::new();
    let mut n = 0;
    while n < job.done && !parked.is_empty() {
        let lines = jobs::lines(&cloud.ports, cloud.control_bucket(), job, n).await.map_err(unavailable)?;
        n += lines.len() as u64;
        of_job.extend(lines.into_iter().map(|line| line.partition).filter(|name| parked.contains(name)));
    }
    if json {
        console::print_json(&json!({ "job": super::told(job), "parked": of_job }))?;
    } else {
        let (state, done) = (super::state(job), job.done);
        console::print(&format!("{GOOD}{state}{PLAIN}: job {}, {done} of {} marked and rebuilt\n", job.id, job.total))?;
        if !of_job.is_empty() {
            let named = of_job.iter().take(NAMED).map(PartitionName::as_str).collect::<Vec<_>>().join(", ");
            let more = if of_job.len() > NAMED { ", …" } else { "" };
            let many = count(of_job.len(), "partition");
            console::print(&format!("{BAD}parked{PLAIN}: {many} of it: {named}{more}; `tidemark show` tells why\n"))?;
        }
    }
    Ok(if of_job.is_empty() { Outcome::Done } else { Outcome::Problems })
}
