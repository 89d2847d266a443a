//! Does what a plan says, in the order that a crash can't spoil.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tidemark_domain::apply::{Hand, Status, marks_are_made, retire, store_catalog, store_head, store_version};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{Generation, PartitionId, PartitionName};
use tidemark_domain::job::{Job, Kind, Line, MARKED_AT_ONCE};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::sql::install;
use tidemark_domain::update::Update;
use tidemark_domain::writes::mark;

use super::{ApplyError, DatasetPlan, Plan, Wish};
use crate::Ports;
use crate::jobs;
use crate::ports::{Outgoing, Written};
use crate::run::run;

/// A transaction takes a hundred updates; the catalog's is one of them.
const HEADS_AT_ONCE: usize = 99;
/// So many marks are written at once.
const MARKS_AT_ONCE: usize = 16;

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Partitions that were marked.
    pub marked: usize,
    /// Partitions that are left to jobs, which sweep advances.
    pub by_jobs: usize,
    /// Messages that were sent for them; partitions that had one outstanding got none.
    pub sent: usize,
    /// Messages that the queue refused; sweep wakes their partitions within five minutes.
    pub unsent: usize,
}

/// Carries a plan out. Not to be called while it has problems.
pub async fn carry_out(ports: &Ports, wish: Wish<'_>, plan: &Plan) -> Result<Done, ApplyError> {
    let open: Vec<&DatasetPlan> = plan.datasets.iter().filter(|dataset| !dataset.is_empty()).collect();
    for dataset in &open {
        prepare_target(ports, wish, dataset).await?;
    }
    for definition in open.iter().filter_map(|dataset| dataset.definition.as_ref()) {
        write(ports, &[store_version(definition, &definition.hash())]).await?;
    }
    put_in_force(ports, wish, plan, &open).await?;
    let mut done = Done::default();
    for dataset in open {
        if let Some(definition) = dataset.definition.as_ref().filter(|_| dataset.comparison.marks && wish.mark) {
            if dataset.marks.len() > MARKED_AT_ONCE {
                make_job(ports, wish, definition, &dataset.marks).await?;
                done.by_jobs += dataset.marks.len();
            } else {
                mark_all(ports, definition, &dataset.marks, &mut done).await?;
            }
            // Refused where somebody applied another definition meanwhile: then the marks are theirs.
            let made = marks_are_made(&definition.name, &definition.hash());
            ports.state.write(&[made], &ports.clock.id().to_string()).await?;
        }
    }
    Ok(done)
}

/// Fence table and procedures, and the guard row: before anything else says that the new definition is in force.
async fn prepare_target(ports: &Ports, wish: Wish<'_>, dataset: &DatasetPlan) -> Result<(), ApplyError> {
    let (Some(definition), Some(ownership)) = (&dataset.definition, dataset.ownership) else { return Ok(()) };
    run(ports, &install::install_target(&definition.target)?).await?;
    if ownership.write_guard {
        let (epoch, takes_over) = (ownership.epoch, ownership.takes_over);
        let own = install::own(&definition.target, wish.stack, &definition.name, epoch, takes_over)?;
        run(ports, &own).await?;
    }
    Ok(())
}

/// Heads, then the catalog: in one transaction where there are fewer than a hundred.
async fn put_in_force(ports: &Ports, wish: Wish<'_>, plan: &Plan, open: &[&DatasetPlan]) -> Result<(), ApplyError> {
    let hand = Hand { by: wish.by, now: ports.clock.now() };
    let heads: Vec<Update> = open.iter().filter_map(|dataset| head(dataset, wish, hand)).collect();
    let mut chunks: Vec<Vec<Update>> = heads.chunks(HEADS_AT_ONCE).map(<[Update]>::to_vec).collect();
    if plan.writes_catalog() {
        let catalog = store_catalog(plan.catalog.read.as_deref(), &plan.catalog.new);
        match chunks.last_mut() {
            Some(last) => last.push(catalog),
            None => chunks.push(vec![catalog]),
        }
    }
    for chunk in chunks {
        write(ports, &chunk).await?;
    }
    Ok(())
}

fn head(dataset: &DatasetPlan, wish: Wish<'_>, hand: Hand<'_>) -> Option<Update> {
    let head = dataset.head.as_ref();
    match (&dataset.definition, dataset.ownership) {
        (Some(definition), Some(ownership)) => {
            let owes_marks = dataset.comparison.marks && wish.mark;
            Some(store_head(definition, head, ownership.epoch, owes_marks, hand))
        }
        _ if dataset.comparison.status == Status::Retired => Some(retire(&dataset.comparison.dataset, head?, hand)),
        _ => None,
    }
}

/// So that live marks never queue behind them. An apply that dies after it makes another, whose marks find nothing to do.
async fn make_job(
    ports: &Ports,
    wish: Wish<'_>,
    definition: &Definition,
    partitions: &[PartitionName],
) -> Result<(), ApplyError> {
    let lines: Vec<Line> = partitions.iter().cloned().map(Line::of).collect();
    let (id, now) = (ports.clock.id(), ports.clock.now());
    let job = Job::new(id, definition.name.clone(), Kind::Definition, lines.len() as u64, wish.by, now);
    let made = jobs::make(ports, wish.control_bucket, &job, &lines).await;
    made.map_err(|error| ApplyError::Job(error.to_string()))
}

/// Marks first, sends second: a mark without a message is woken by sweep.
async fn mark_all(
    ports: &Ports,
    definition: &Definition,
    partitions: &[PartitionName],
    done: &mut Done,
) -> Result<(), ApplyError> {
    let marks = stream::iter(partitions).map(async |partition| {
        let id = PartitionId { dataset: definition.name.clone(), partition: partition.clone() };
        let written = write(ports, &[mark(&id, 0, ports.clock.now())]).await?;
        let before = if let Written::Applied { before } = written { before } else { None };
        let before = before.unwrap_or_default();
        let marked = before.get("marked").and_then(serde_json::Value::as_u64).unwrap_or_default();
        let message = PartitionMessage::look(id.clone(), Generation(marked).next());
        let scope = Scope::of(&id, definition.concurrency);
        Ok::<_, ApplyError>((!before.contains_key("due_at")).then_some(Outgoing { message, scope }))
    });
    let outgoing: Vec<Option<Outgoing>> = marks.buffered(MARKS_AT_ONCE).try_collect().await?;
    let outgoing: Vec<Outgoing> = outgoing.into_iter().flatten().collect();
    done.marked += partitions.len();
    if !outgoing.is_empty() {
        let unsent = ports.queue.send(&outgoing).await?.len();
        done.unsent += unsent;
        done.sent += outgoing.len() - unsent;
    }
    Ok(())
}

async fn write(ports: &Ports, updates: &[Update]) -> Result<Written, ApplyError> {
    match ports.state.write(updates, &ports.clock.id().to_string()).await? {
        Written::Refused(_) => Err(ApplyError::Raced),
        applied @ Written::Applied { .. } => Ok(applied),
    }
}
