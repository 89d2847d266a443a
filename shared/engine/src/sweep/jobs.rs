//! Jobs advance within what wake leaves of a dataset's budget: so live marks never wait behind more than that.

use tidemark_domain::definition::Definition;
use tidemark_domain::job::Job;

use crate::Engine;
use crate::error::Error;
use crate::jobs;
use crate::ports::Written;

impl Engine {
    /// The jobs with anything left to mark, the oldest of a dataset first.
    pub(super) async fn open_jobs(&self) -> Result<Vec<Job>, Error> {
        Ok(jobs::all(&self.ports).await?.into_iter().filter(Job::is_open).collect())
    }

    /// Marks at most so many more of the job's partitions; gives how many.
    pub(super) async fn advance(&self, job: &Job, definition: &Definition, most: usize) -> Result<u64, Error> {
        let mut lines = jobs::lines(&self.ports, &self.settings.control_bucket, job, job.done).await?;
        lines.truncate(most);
        self.mark_lines(definition, &lines, Some(job)).await?;
        let marked = lines.len() as u64;
        let counted = self.write(&[job.advance(marked, self.ports.clock.now())]).await?;
        let counted = matches!(counted, Written::Applied { .. });
        tracing::info!(dataset = %job.dataset, job = %job.id, marked, counted, done = job.done + marked, total = job.total, "job");
        Ok(marked)
    }
}
