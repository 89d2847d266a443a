//! Looks at everything an apply bears on, and plans it. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use tidemark_domain::apply::{
    Comparison, Guard, Ownership, Status, Stored, column_problems, compare, foreign_rows, in_lookback, own,
    width_problem,
};
use tidemark_domain::dataset::{Head, catalog_key, version_key};
use tidemark_domain::definition::{Definition, TableName};
use tidemark_domain::id::{DatasetName, Epoch, PartitionName};
use tidemark_domain::job::Job;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::route::Catalog;
use tidemark_domain::sql::install;
use tidemark_domain::sql::survey::{self as questions, TableColumn};
use tidemark_domain::update::{Item, Key};
use tidemark_domain::verify::GuardKind;

use super::{ApplyError, Catalogs, DatasetPlan, ForeignRows, Plan, Wish};
use super::{sample, source};
use crate::Ports;
use crate::init::version;
use crate::jobs;
use crate::run::ask;

/// So many items are read in one snapshot.
const ITEMS_AT_ONCE: usize = 100;
/// So many partition items are read at once.
const PARTITIONS_AT_ONCE: usize = 1_000;

/// Plans what `wish` comes to.
pub async fn survey(ports: &Ports, wish: Wish<'_>) -> Result<Plan, ApplyError> {
    let (catalog, stored) = read_stored(ports, wish).await?;
    let comparisons = compare(wish.definitions, &stored);
    let mut plan = Plan { catalog: new_catalog(catalog, wish)?, ..Plan::default() };
    match version(ports).await? {
        Some(found) if found >= u64::from(install::VERSION) => {}
        _ => {
            plan.problems.push("redshift isn't prepared for this release; run `tidemark init`".to_owned());
            return Ok(plan);
        }
    }
    let targets = read_targets(ports, wish).await?;
    for comparison in comparisons {
        let definition = wish.definitions.iter().find(|definition| definition.name == comparison.dataset);
        let head = stored.get(&comparison.dataset).map(|stored| stored.head.clone());
        let mut dataset = DatasetPlan {
            comparison,
            definition: definition.cloned(),
            head,
            ownership: None,
            marks: Vec::new(),
            stay: Vec::new(),
            sample: None,
            not_yielded: 0,
            foreign: Vec::new(),
            foreign_cut: false,
        };
        if let Some(definition) = definition {
            plan.problems.extend(check(ports, wish, &mut dataset, definition, &targets).await?);
            look_at_partitions(ports, wish, &mut dataset, definition, &targets).await?;
        }
        plan.datasets.push(dataset);
    }
    Ok(plan)
}

/// The catalog's text, and what is stored of the datasets in it and in the file.
async fn read_stored(
    ports: &Ports,
    wish: Wish<'_>,
) -> Result<(Option<String>, BTreeMap<DatasetName, Stored>), ApplyError> {
    let item = ports.state.read(&[catalog_key()]).await?.into_iter().next().flatten();
    let text = item.and_then(|item| Some(item.get("catalog")?.as_str()?.to_owned()));
    let mut names: BTreeSet<DatasetName> = wish.definitions.iter().map(|definition| definition.name.clone()).collect();
    names.extend(catalog(text.as_deref())?.datasets.into_iter().map(|place| place.name));
    let names: Vec<DatasetName> = names.into_iter().collect();
    let heads = read_all(ports, names.iter().map(Head::key).collect()).await?;
    let found: Vec<(DatasetName, Item)> =
        names.into_iter().zip(heads).filter_map(|(name, item)| Some((name, item?))).collect();
    let mut read = Vec::new();
    for (name, item) in found {
        let stored = Stored::from_items(&item, None)
            .map_err(|why| ApplyError::Stored { what: format!("the head of {name}"), why: why.to_string() })?;
        read.push((name, item, stored.head.hash));
    }
    let versions = read_all(ports, read.iter().map(|(name, _, hash)| version_key(name, hash)).collect()).await?;
    let mut stored = BTreeMap::new();
    for ((name, item, _), version) in read.into_iter().zip(versions) {
        let whole = Stored::from_items(&item, version.as_ref())
            .map_err(|why| ApplyError::Stored { what: format!("the head of {name}"), why: why.to_string() })?;
        stored.insert(name, whole);
    }
    Ok((text, stored))
}

async fn read_all(ports: &Ports, keys: Vec<Key>) -> Result<Vec<Option<Item>>, ApplyError> {
    let mut items = Vec::with_capacity(keys.len());
    for keys in keys.chunks(ITEMS_AT_ONCE) {
        items.extend(ports.state.read(keys).await?);
    }
    Ok(items)
}

fn catalog(text: Option<&str>) -> Result<Catalog, ApplyError> {
    let read = text.map(serde_json::from_str).transpose();
    let read = read.map_err(|why| ApplyError::Stored { what: "the catalog".to_owned(), why: why.to_string() })?;
    Ok(read.unwrap_or_default())
}

fn new_catalog(read: Option<String>, wish: Wish<'_>) -> Result<Catalogs, ApplyError> {
    let new = serde_json::to_string(&Catalog::of(wish.definitions).after(&catalog(read.as_deref())?))
        .map_err(|why| ApplyError::Stored { what: "the new catalog".to_owned(), why: why.to_string() })?;
    Ok(Catalogs { read, new })
}

/// The targets as they stand in Redshift.
struct Targets {
    tables: BTreeMap<TableName, Vec<TableColumn>>,
    guards: BTreeMap<String, Guard>,
}

async fn read_targets(ports: &Ports, wish: Wish<'_>) -> Result<Targets, ApplyError> {
    let targets: Vec<&TableName> = wish.definitions.iter().map(|definition| &definition.target).collect();
    let (mut tables, mut guards) = (BTreeMap::new(), BTreeMap::new());
    for targets in targets.chunks(questions::TARGETS_AT_ONCE) {
        let rows = ask(ports, &questions::columns(targets)?).await?;
        tables.extend(questions::read_columns(&rows)?);
        let fenced: Vec<&TableName> =
            targets.iter().copied().filter(|target| tables.contains_key(&questions::fence_table(target))).collect();
        if !fenced.is_empty() {
            let rows = ask(ports, &questions::guards(&fenced)?).await?;
            guards.extend(questions::read_guards(&rows)?);
        }
    }
    Ok(Targets { tables, guards })
}

/// Decides the epoch; tells what speaks against a dataset that isn't as it was.
async fn check(
    ports: &Ports,
    wish: Wish<'_>,
    dataset: &mut DatasetPlan,
    definition: &Definition,
    targets: &Targets,
) -> Result<Vec<String>, ApplyError> {
    let mut problems = Vec::new();
    let stored: Option<Epoch> = dataset.head.as_ref().map(|head| head.epoch);
    let guard = targets.guards.get(&definition.target.to_string());
    let take_over = wish.take_over.contains(&definition.name);
    match own(&dataset.comparison, definition, stored, guard, wish.stack, take_over) {
        Ok(ownership) => dataset.ownership = Some(ownership),
        Err(not_ours) => problems.push(format!("{}: {not_ours}", definition.name)),
    }
    if dataset.comparison.status == Status::Unchanged {
        return Ok(problems);
    }
    if counts_rows(&dataset.comparison, dataset.ownership.as_ref()) {
        problems.extend(accepting_jobs(ports, &definition.name).await?);
    }
    problems.extend(column_problems(definition, targets.tables.get(&definition.target).map(Vec::as_slice)));
    problems.extend(width_problem(definition)?);
    if let Some(format) = source::table_format(ports.objects.as_ref(), definition).await? {
        problems.push(format!(
            "{}: {} holds a {format} table, whose files can't be loaded as they lie; export it to a root of its own",
            definition.name, definition.source
        ));
    }
    Ok(problems)
}

async fn look_at_partitions(
    ports: &Ports,
    wish: Wish<'_>,
    dataset: &mut DatasetPlan,
    definition: &Definition,
    targets: &Targets,
) -> Result<(), ApplyError> {
    let counts_rows =
        counts_rows(&dataset.comparison, dataset.ownership.as_ref()) && targets.tables.contains_key(&definition.target);
    let marks = dataset.comparison.marks && wish.mark;
    if !marks && !counts_rows {
        return Ok(());
    }
    let now = ports.clock.now();
    let mut last = BTreeMap::new();
    let mut names = BTreeSet::new();
    for (name, item) in in_state(ports, &definition.name).await? {
        match definition.yields(&name) {
            Some(partition) if in_lookback(definition, &partition, now) || item.is_let_go() => {
                names.insert(name.clone());
            }
            Some(_) => dataset.stay.push(name.clone()),
            None => dataset.not_yielded += 1,
        }
        last.extend(item.last.map(|committed| (name, committed)));
    }
    if marks {
        names.extend(source::partitions(ports.objects.as_ref(), definition, now).await?);
        dataset.marks = names.into_iter().collect();
        let others = dataset.comparison.changes_files() || dataset.comparison.status == Status::New;
        if others && !dataset.marks.is_empty() {
            dataset.sample = Some(sample::look(ports.objects.as_ref(), definition, &dataset.marks).await?);
        }
    }
    // Columns that aren't there are a problem told already.
    if counts_rows && column_problems(definition, targets.tables.get(&definition.target).map(Vec::as_slice)).is_empty()
    {
        let rows = ask(ports, &questions::row_groups(definition)?).await?;
        dataset.foreign_cut = rows.len() >= questions::GROUPS_AT_MOST;
        let foreign = foreign_rows(definition, &questions::read_row_groups(definition, &rows)?, &last);
        dataset.foreign = foreign.into_iter().map(|(partition, rows)| ForeignRows { partition, rows }).collect();
    }
    Ok(())
}

/// Jobs that go on, and would let rows be deleted that nobody has looked at: they were accepted for what the dataset was.
async fn accepting_jobs(ports: &Ports, dataset: &DatasetName) -> Result<Vec<String>, ApplyError> {
    let jobs = jobs::all(ports).await.map_err(|error| ApplyError::Job(error.to_string()))?;
    let accepts = |job: &Job| job.dataset == *dataset && job.is_open() && job.accept.contains(&GuardKind::ForeignRows);
    let told = |job: Job| {
        format!(
            "{dataset}: job {0} goes on, and accepts foreign_rows for what the dataset was; cancel it first: tidemark backfill \
             --cancel {0}",
            job.id
        )
    };
    Ok(jobs.into_iter().filter(accepts).map(told).collect())
}

/// Whether partitions may hold rows that were never looked at: a target, or bounds, that are new to the dataset.
fn counts_rows(comparison: &Comparison, ownership: Option<&Ownership>) -> bool {
    let new = matches!(comparison.status, Status::New | Status::Returned);
    new || !comparison.raises_epoch.is_empty() || ownership.is_some_and(|ownership| ownership.takes_over)
}

/// The dataset's partitions in the state table, with their last batch.
async fn in_state(ports: &Ports, dataset: &DatasetName) -> Result<Vec<(PartitionName, PartitionItem)>, ApplyError> {
    let mut partitions: Vec<(PartitionName, PartitionItem)> = Vec::new();
    loop {
        let after = partitions.last().map(|(name, _)| name.clone());
        let page = ports.state.partitions(dataset, after.as_ref(), PARTITIONS_AT_ONCE).await?;
        let more = page.len() == PARTITIONS_AT_ONCE;
        for (name, item) in page {
            let item = PartitionItem::from_item(&item)
                .map_err(|why| ApplyError::Stored { what: format!("partition {name}"), why: why.to_string() })?;
            partitions.push((name, item));
        }
        if !more {
            return Ok(partitions);
        }
    }
}
