//! Stored jobs: made here, by an operator's command or by sweep; advanced by sweep.

use bytes::Bytes;
use tidemark_domain::job::{JOBS, Job, Line, PART_LINES, from_lines, to_lines};

use crate::Ports;
use crate::error::Error;
use crate::ports::Written;

/// Jobs read at once.
const AT_ONCE: usize = 500;

/// Makes a job of these partitions, one at least: their lines first, the item last, so that a crash leaves nothing that would be
/// advanced.
pub async fn make(ports: &Ports, control_bucket: &str, job: &Job, lines: &[Line]) -> Result<(), Error> {
    debug_assert!(!lines.is_empty(), "a job of nothing would never end");
    for (n, part) in lines.chunks(PART_LINES).enumerate() {
        let key = job.part_key((n * PART_LINES) as u64);
        ports.objects.put(control_bucket, &key, Bytes::from(to_lines(part))).await?;
    }
    // Refused: a write whose answer was lost was made again.
    let (Written::Applied { .. } | Written::Refused(_)) =
        ports.state.write(&[job.store()], &ports.clock.id().to_string()).await?;
    Ok(())
}

/// All jobs of the last months, in the order of their datasets, then of their making. One that can't be read is told and left
/// out.
pub async fn all(ports: &Ports) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = ports.state.items(JOBS, "", after.as_deref(), AT_ONCE).await?;
        after = page.last().map(|(sk, _)| sk.clone());
        let more = page.len() == AT_ONCE;
        for (sk, item) in page {
            match Job::from_item(&item) {
                Ok(job) => jobs.push(job),
                Err(error) => tracing::error!(job = sk, %error, "a job can't be read"),
            }
        }
        if !more {
            return Ok(jobs);
        }
    }
}

/// The lines from `n` on, to the end of their part.
pub async fn lines(ports: &Ports, control_bucket: &str, job: &Job, n: u64) -> Result<Vec<Line>, Error> {
    let key = job.part_key(n);
    let unreadable = |why: String| Error::Stored { what: format!("s3://{control_bucket}/{key}"), why };
    let bytes = ports.objects.get(control_bucket, &key).await?;
    let bytes = bytes.ok_or_else(|| unreadable("it is gone; cancel the job and make it again".to_owned()))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| unreadable(error.to_string()))?;
    let mut lines = from_lines(text).map_err(unreadable)?;
    let skipped = usize::try_from(n % PART_LINES as u64).unwrap_or(0);
    if skipped >= lines.len() {
        return Err(Error::Stored {
            what: format!("s3://{control_bucket}/{key}"),
            why: "it ends too early".to_owned(),
        });
    }
    Ok(lines.split_off(skipped))
}
