//! What `apply` is to do: the definitions of a file held against what is stored and what stands in Redshift.
//!
//! In this order, so that a crash anywhere is repaired by applying again: the target's guard row (an old swap of a neighbour
//! must not delete by the old bounds), the definition's text, the head (which owes its marks from then on), the catalog, the
//! marks, and last that they are no longer owed.

mod target;

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde_json::Value;

use crate::dataset::{Head, Mode, catalog_key, version_key};
use crate::definition::{Concurrency, Definition, Grain, PartKind, parse};
use crate::id::{DatasetName, DefinitionHash, Epoch, PartitionName, StackName};
use crate::partition_value::{Partition, PartitionValue};
use crate::update::{Change, Condition, Item, Update};

pub use target::{WIDEST_STATEMENT_BYTES, column_problems, foreign_rows, width_problem};

/// Attribute of a head whose partitions are still to be marked.
const OWES_MARKS: &str = "owes_marks";

/// What is stored of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its head.
    pub head: Head,
    /// The text of the definition in force; `None` where it is gone.
    pub text: Option<String>,
    /// An earlier apply didn't get to mark all its partitions.
    pub owes_marks: bool,
}

impl Stored {
    /// Reads a stored head, and the text of its definition.
    pub fn from_items(head: &Item, version: Option<&Item>) -> Result<Self, serde_json::Error> {
        let text = version.and_then(|item| item.get("text")).and_then(Value::as_str).map(str::to_owned);
        Ok(Self { head: Head::from_item(head)?, text, owes_marks: head.contains_key(OWES_MARKS) })
    }
}

/// What becomes of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In the file for the first time.
    New,
    /// Defined otherwise than before.
    Changed,
    /// It was retired, and is back.
    Returned,
    /// As it was.
    Unchanged,
    /// No longer in the file.
    Retired,
}

/// One setting that differs; the names are those of the file, such as `partition.dt.column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The setting.
    pub setting: String,
    /// What is stored; `None` where it isn't.
    pub before: Option<String>,
    /// What the file says; `None` where it doesn't.
    pub after: Option<String>,
}

/// A dataset of the file, held against what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Which dataset.
    pub dataset: DatasetName,
    /// What becomes of it.
    pub status: Status,
    /// What differs.
    pub differences: Vec<Difference>,
    /// Why the target's epoch must rise; empty where it needn't.
    pub raises_epoch: Vec<String>,
    /// Whether partitions are to be rebuilt for it.
    pub marks: bool,
}

impl Comparison {
    /// Whether files that lay there before are read otherwise than before, so that some may not fit any more.
    pub fn changes_files(&self) -> bool {
        let of_files = ["columns", "format", "source"];
        self.differences.iter().any(|difference| of_files.contains(&difference.setting.as_str()))
    }
}

/// Holds the file against what is stored, dataset by dataset, in the order of their names.
pub fn compare(file: &[Definition], stored: &BTreeMap<DatasetName, Stored>) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> =
        file.iter().map(|definition| compare_one(definition, stored.get(&definition.name))).collect();
    let gone = stored.iter().filter(|(name, stored)| {
        stored.head.mode != Mode::Retired && file.iter().all(|definition| definition.name != **name)
    });
    comparisons.extend(gone.map(|(name, _)| Comparison {
        dataset: name.clone(),
        status: Status::Retired,
        differences: Vec::new(),
        raises_epoch: Vec::new(),
        marks: false,
    }));
    comparisons.sort_by(|a, b| a.dataset.cmp(&b.dataset));
    comparisons
}

fn compare_one(definition: &Definition, stored: Option<&Stored>) -> Comparison {
    let dataset = definition.name.clone();
    let Some(stored) = stored else {
        let (differences, raises_epoch) = (Vec::new(), Vec::new());
        return Comparison { dataset, status: Status::New, differences, raises_epoch, marks: true };
    };
    let differences = match &stored.text {
        Some(text) => differences(text, &definition.to_text()),
        None => Vec::new(),
    };
    let same = stored.head.hash == definition.hash();
    let status = match (stored.head.mode, same) {
        (Mode::Retired, _) => Status::Returned,
        (_, true) => Status::Unchanged,
        (_, false) => Status::Changed,
    };
    let old = stored.text.as_deref().and_then(|text| parse(text).ok()?.pop());
    let (raises_epoch, shapes_rows) = match old {
        _ if same => (Vec::new(), false),
        None => (vec!["the stored definition can't be read".to_owned()], true),
        Some(old) => (owns_otherwise(&old, definition, &differences), shapes_otherwise(&old, definition)),
    };
    let marks = status == Status::Returned || shapes_rows || !raises_epoch.is_empty() || stored.owes_marks;
    Comparison { dataset, status, differences, raises_epoch, marks }
}

/// What changes which rows a partition owns, or where they are.
fn owns_otherwise(old: &Definition, new: &Definition, differences: &[Difference]) -> Vec<String> {
    let bounds = old.owns_hash_part() != new.owns_hash_part();
    let target = (&old.database, &old.target) != (&new.database, &new.target);
    let guilty = differences.iter().filter(|difference| {
        let setting = difference.setting.as_str();
        (target && setting == "target") || (bounds && (setting == "layout" || setting.starts_with("partition.")))
    });
    guilty.map(|difference| difference.setting.clone()).collect()
}

fn shapes_otherwise(old: &Definition, new: &Definition) -> bool {
    old.source != new.source || old.rows_hash_part() != new.rows_hash_part()
}

/// What differs between two normalised texts of one dataset, in the order of the second.
fn differences(before: &str, after: &str) -> Vec<Difference> {
    let (before, after) = (settings(before), settings(after));
    let value = |of: &[(String, String)], setting: &str| {
        of.iter().find(|(name, _)| name == setting).map(|(_, value)| value.clone())
    };
    let gone = before.iter().filter(|(name, _)| value(&after, name).is_none());
    let names: Vec<&String> = after.iter().chain(gone).map(|(name, _)| name).collect();
    let differ = names.into_iter().filter_map(|setting| {
        let (before, after) = (value(&before, setting), value(&after, setting));
        (before != after).then(|| Difference { setting: setting.clone(), before, after })
    });
    differ.collect()
}

/// The settings of a normalised text: a line each, below the header of their table.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut table = String::new();
    let mut settings = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = path.split_once('.').map(|(_, inner)| format!("{inner}.")).unwrap_or_default();
        } else if let Some((key, value)) = line.split_once(" = ") {
            settings.push((format!("{table}{key}"), value.to_owned()));
        }
    }
    settings
}

/// The guard row of a target: who may swap into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The owning stack.
    pub stack: String,
    /// The owning dataset.
    pub dataset: String,
    /// Its epoch.
    pub epoch: Epoch,
}

/// A target that another dataset or stack owns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target {target} belongs to dataset {dataset} of stack {stack}; take it over with `--take-over {name}`")]
pub struct NotOurs {
    /// The target.
    pub target: String,
    /// The owning dataset.
    pub dataset: String,
    /// The owning stack.
    pub stack: String,
    /// The dataset that wants it.
    pub name: DatasetName,
}

/// Under which epoch a dataset goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// The epoch, of head and guard row.
    pub epoch: Epoch,
    /// Whether the guard row must be written.
    pub write_guard: bool,
    /// Whether the head must be, although the definition is as it was.
    pub write_head: bool,
    /// Whether the target is taken from another owner.
    pub takes_over: bool,
}

/// Decides the epoch. It never falls, neither in the head nor in the guard row.
pub fn own(
    comparison: &Comparison,
    definition: &Definition,
    stored: Option<Epoch>,
    guard: Option<&Guard>,
    stack: &StackName,
    take_over: bool,
) -> Result<Ownership, NotOurs> {
    let ours = guard.is_none_or(|g| g.stack == stack.as_str() && g.dataset == definition.name.as_str());
    if let (Some(guard), false, false) = (guard, ours, take_over) {
        return Err(NotOurs {
            target: definition.target.to_string(),
            dataset: guard.dataset.clone(),
            stack: guard.stack.clone(),
            name: definition.name.clone(),
        });
    }
    let highest = guard.map(|guard| guard.epoch).max(stored).unwrap_or_default();
    // Where there is no head, nobody knows which swaps of an earlier owner are still out.
    let raise = stored.is_none() || !ours || !comparison.raises_epoch.is_empty();
    let epoch = if raise { highest.next() } else { highest };
    Ok(Ownership {
        epoch,
        write_guard: !ours || guard.map(|guard| guard.epoch) != Some(epoch),
        write_head: stored != Some(epoch),
        takes_over: !ours,
    })
}

/// A name before which no partition lies in the lookback, where names are sorted by its days: those whose first part is one. What
/// holds a month or a year is named by its first day, in whatever zone.
pub fn lookback_begins_after(definition: &Definition, now: Timestamp) -> Option<PartitionName> {
    let lookback = SignedDuration::try_from(definition.lookback?).ok()?;
    let part = definition.parts.first().filter(|part| matches!(part.kind, PartKind::Date | PartKind::Timestamp))?;
    let first = TimeZone::UTC.to_datetime(now.saturating_sub(lookback).ok()?).date();
    let days = match part.range.as_ref().map(|range| range.grain) {
        None => 1,
        Some(Grain::Hour | Grain::Day) => 2,
        Some(Grain::Month) => 32,
        Some(Grain::Year) => 367,
    };
    PartitionName::new(format!("{}={}", part.name, first.checked_sub(days.days()).ok()?)).ok()
}

/// Whether a partition lies in the dataset's lookback: its first date or timestamp isn't over for longer. Where no part has
/// a date, all do. Days are those of UTC.
pub fn in_lookback(definition: &Definition, partition: &Partition, now: Timestamp) -> bool {
    let Some(lookback) = definition.lookback.and_then(|lookback| SignedDuration::try_from(lookback).ok()) else {
        return true;
    };
    let first: Date = TimeZone::UTC.to_datetime(now.saturating_sub(lookback).unwrap_or(Timestamp::MIN)).date();
    last_day(definition, partition).is_none_or(|day| day >= first)
}

/// From when on lookback doesn't reach a partition any more; `None`: it always does.
pub fn lookback_over(definition: &Definition, partition: &Partition) -> Option<Timestamp> {
    let lookback = SignedDuration::try_from(definition.lookback?).ok()?;
    let over = last_day(definition, partition)?.tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight());
    TimeZone::UTC.to_timestamp(over).ok()?.checked_add(lookback).ok()
}

/// The day on which a partition's first date or timestamp ends.
fn last_day(definition: &Definition, partition: &Partition) -> Option<Date> {
    definition.parts.iter().zip(&partition.values).find_map(|(part, value)| match value {
        _ if let Some(Ok(range)) = part.range.as_ref().map(|range| range.bounds(value)) => {
            Some(range.before.checked_sub(SignedDuration::from_secs(1)).unwrap_or(range.before).date())
        }
        PartitionValue::Date(day) => Some(*day),
        PartitionValue::Timestamp(moment) => Some(moment.date()),
        PartitionValue::Integer(_) | PartitionValue::Text(_) => None,
    })
}

/// Stores a version of a definition. Its key is its hash, so that it may be stored again.
pub fn store_version(definition: &Definition, hash: &DefinitionHash) -> Update {
    Update {
        key: version_key(&definition.name, hash),
        conditions: vec![],
        changes: vec![Change::Set("text", definition.to_text().into())],
    }
}

/// Who changes a head, and when.
#[derive(Debug, Clone, Copy)]
pub struct Hand<'a> {
    /// The operator.
    pub by: &'a str,
    /// Now.
    pub now: Timestamp,
}

/// Puts a definition in force. Conditional on the head as it was read. A paused dataset stays paused; a halted one stays
/// halted but is probed at once, since the change may be the repair.
pub fn store_head(
    definition: &Definition,
    read: Option<&Head>,
    epoch: Epoch,
    owes_marks: bool,
    hand: Hand<'_>,
) -> Update {
    let concurrency = match definition.concurrency {
        Concurrency::Table => "table",
        Concurrency::Partition => "partition",
    };
    let mut changes = vec![
        Change::Set("hash", definition.hash().as_str().into()),
        Change::Set("epoch", epoch.0.into()),
        Change::Set("concurrency", concurrency.into()),
        Change::Remove("probe_at"),
    ];
    changes.push(if owes_marks { Change::Set(OWES_MARKS, true.into()) } else { Change::Remove(OWES_MARKS) });
    if read.is_none_or(|head| head.mode == Mode::Retired) {
        changes.extend(mode("active", hand));
        changes.push(Change::Remove("why"));
    }
    Update { key: Head::key(&definition.name), conditions: as_read(read), changes }
}

/// Retires a dataset that is no longer in the file. Conditional on the head as it was read.
pub fn retire(dataset: &DatasetName, read: &Head, hand: Hand<'_>) -> Update {
    let mut changes = mode("retired", hand);
    changes.extend([Change::Remove("why"), Change::Remove("probe_at"), Change::Remove(OWES_MARKS)]);
    Update { key: Head::key(dataset), conditions: as_read(Some(read)), changes }
}

/// The partitions of this definition are marked.
pub fn marks_are_made(dataset: &DatasetName, hash: &DefinitionHash) -> Update {
    Update {
        key: Head::key(dataset),
        conditions: vec![Condition::Equals("hash", hash.as_str().into())],
        changes: vec![Change::Remove(OWES_MARKS)],
    }
}

/// Stores the catalog. Conditional on the one that was read.
pub fn store_catalog(read: Option<&str>, catalog: &str) -> Update {
    let condition =
        read.map_or(Condition::Absent("catalog"), |text| Condition::Equals("catalog", text.to_owned().into()));
    Update { key: catalog_key(), conditions: vec![condition], changes: vec![Change::Set("catalog", catalog.into())] }
}

fn mode(mode: &'static str, hand: Hand<'_>) -> Vec<Change> {
    vec![
        Change::Set("mode", mode.into()),
        Change::Set("since", hand.now.as_millisecond().into()),
        Change::Set("by", hand.by.into()),
    ]
}

fn as_read(read: Option<&Head>) -> Vec<Condition> {
    let Some(head) = read else {
        return vec![Condition::Absent("hash")];
    };
    vec![Condition::Equals("hash", head.hash.as_str().into()), Condition::Equals("epoch", head.epoch.0.into())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal(12,2)"]
lookback = "3d"
[orders.partition.dt]
type = "date"
column = "dt"
in_files = false
"#;

    fn orders(from: &str, to: &str) -> Definition {
        assert!(ORDERS.contains(from), "{from}");
        parse(&ORDERS.replace(from, to)).unwrap().remove(0)
    }

    fn stored(definition: &Definition, mode: Mode) -> Stored {
        let head = Head {
            hash: definition.hash(),
            epoch: Epoch(4),
            mode,
            concurrency: definition.concurrency,
            why: None,
            since: Timestamp::UNIX_EPOCH,
            by: "alice".into(),
            probe_at: None,
            watermark: None,
        };
        Stored { head, text: Some(definition.to_text()), owes_marks: false }
    }

    fn against_orders(file: &[Definition], mode: Mode) -> Comparison {
        let before = stored(&orders("", ""), mode);
        let of = BTreeMap::from([(DatasetName::new("orders").unwrap(), before)]);
        compare(file, &of).into_iter().find(|c| c.dataset.as_str() == "orders").unwrap()
    }

    #[test]
    fn a_dataset_is_new_unchanged_retired_or_back() {
        let now = orders("", "");
        assert_eq!(compare(std::slice::from_ref(&now), &BTreeMap::new())[0].status, Status::New);
        let unchanged = against_orders(std::slice::from_ref(&now), Mode::Paused);
        assert_eq!((unchanged.status, unchanged.marks), (Status::Unchanged, false));
        let retired = against_orders(&[], Mode::Halted);
        assert_eq!((retired.status, retired.marks), (Status::Retired, false));
        let returned = against_orders(std::slice::from_ref(&now), Mode::Retired);
        assert_eq!((returned.status, returned.marks), (Status::Returned, true));
    }

    #[test]
    fn one_that_is_retired_already_is_not_told_again() {
        let before = stored(&orders("", ""), Mode::Retired);
        assert_eq!(compare(&[], &BTreeMap::from([(DatasetName::new("orders").unwrap(), before)])), []);
    }

    #[test]
    fn what_only_bears_on_conduct_marks_nothing() {
        let changed = against_orders(&[orders("lookback = \"3d\"", "lookback = \"9d\"")], Mode::Active);
        assert_eq!(changed.status, Status::Changed);
        assert_eq!((changed.marks, changed.raises_epoch.as_slice()), (false, [].as_slice()));
        assert_eq!(
            changed.differences,
            [Difference { setting: "lookback".into(), before: Some("\"3d\"".into()), after: Some("\"9d\"".into()) }]
        );
    }

    #[test]
    fn what_shapes_rows_marks_and_what_bounds_partitions_raises_the_epoch() {
        let columns = against_orders(&[orders("decimal(12,2)", "decimal(14,2)")], Mode::Active);
        assert_eq!((columns.marks, columns.raises_epoch.as_slice()), (true, [].as_slice()));
        let source = against_orders(&[orders("lake-raw", "lake-new")], Mode::Active);
        assert_eq!((source.marks, source.raises_epoch.as_slice()), (true, [].as_slice()));
        for (from, to, settings) in [
            ("column = \"dt\"", "column = \"day\"", vec!["partition.dt.column"]),
            ("\"dt={dt}/\"", "\"day={dt}/\"", vec!["layout"]),
            ("sales.orders", "sales.orders2", vec!["target"]),
        ] {
            let changed = against_orders(&[orders(from, to)], Mode::Active);
            assert_eq!((changed.marks, changed.raises_epoch), (true, settings.iter().map(|s| (*s).into()).collect()));
        }
    }

    #[test]
    fn a_stored_definition_that_cannot_be_read_is_taken_for_quite_another() {
        let mut before = stored(&orders("3d", "4d"), Mode::Active);
        before.text = Some("[orders]\nsource = 1\n".into());
        let now = [orders("", "")];
        let changed = &compare(&now, &BTreeMap::from([(now[0].name.clone(), before)]))[0];
        assert!(changed.marks && !changed.raises_epoch.is_empty());
    }

    #[test]
    fn marks_that_an_earlier_apply_owes_are_made_up_for() {
        let now = [orders("", "")];
        let mut before = stored(&now[0], Mode::Active);
        before.owes_marks = true;
        let same = &compare(&now, &BTreeMap::from([(now[0].name.clone(), before)]))[0];
        assert_eq!((same.status, same.marks), (Status::Unchanged, true));
    }

    fn guard(stack: &str, dataset: &str, epoch: u64) -> Guard {
        Guard { stack: stack.into(), dataset: dataset.into(), epoch: Epoch(epoch) }
    }

    fn owned(stored: Option<u64>, guard: Option<&Guard>, raise: bool, take_over: bool) -> Result<Ownership, NotOurs> {
        let definition = orders("", "");
        let comparison = Comparison {
            dataset: definition.name.clone(),
            status: Status::Changed,
            differences: vec![],
            raises_epoch: if raise { vec!["layout".into()] } else { vec![] },
            marks: true,
        };
        let stack = StackName::new("prod").unwrap();
        own(&comparison, &definition, stored.map(Epoch), guard, &stack, take_over)
    }

    #[test]
    fn the_epoch_begins_at_one_and_rises_with_the_bounds() {
        let ownership = |epoch, write_guard, write_head| {
            Ok(Ownership { epoch: Epoch(epoch), write_guard, write_head, takes_over: false })
        };
        let ours = guard("prod", "orders", 4);
        assert_eq!(owned(None, None, false, false), ownership(1, true, true));
        assert_eq!(owned(Some(4), Some(&ours), false, false), ownership(4, false, false));
        assert_eq!(owned(Some(4), Some(&ours), true, false), ownership(5, true, true));
        assert_eq!(owned(Some(4), None, true, false), ownership(5, true, true));
    }

    #[test]
    fn an_apply_that_died_after_the_guard_row_is_made_up_for() {
        let ahead = guard("prod", "orders", 5);
        let ownership = owned(Some(4), Some(&ahead), false, false).unwrap();
        assert_eq!((ownership.epoch, ownership.write_guard, ownership.write_head), (Epoch(5), false, true));
        assert_eq!(owned(Some(4), Some(&ahead), true, false).unwrap().epoch, Epoch(6));
    }

    #[test]
    fn a_lost_state_table_does_not_bring_an_old_epoch_back() {
        assert_eq!(owned(None, Some(&guard("prod", "orders", 7)), false, false).unwrap().epoch, Epoch(8));
    }

    #[test]
    fn a_target_of_others_is_only_taken_when_told_and_under_a_newer_epoch() {
        let theirs = guard("staging", "orders", 9);
        let refused = owned(Some(4), Some(&theirs), false, false).unwrap_err().to_string();
        assert!(refused.contains("sales.orders") && refused.contains("--take-over orders"), "{refused}");
        let taken = owned(Some(4), Some(&theirs), false, true).unwrap();
        assert_eq!((taken.epoch, taken.takes_over, taken.write_guard), (Epoch(10), true, true));
    }

    #[test]
    fn a_lookback_counts_whole_days_and_undated_partitions_always_lie_in_it() {
        let definition = orders("", "");
        let now: Timestamp = "2026-11-04T10:00:00Z".parse().unwrap();
        let in_it = |name: &str| {
            in_lookback(&definition, &definition.partition(&PartitionName::new(name).unwrap()).unwrap(), now)
        };
        assert!(in_it("dt=2026-11-01") && in_it("dt=2026-11-05"));
        assert_eq!(lookback_begins_after(&definition, now).unwrap().as_str(), "dt=2026-10-31");
        assert!(!in_it("dt=2026-10-31"));
    }

    #[test]
    fn no_partition_of_the_lookback_is_named_before_it_begins_whatever_its_grain_and_zone() {
        let toml = |grain: &str, part: &str, zone: &str| {
            format!(
                "[orders]\nsource = \"s3://lake-raw/orders/\"\nlayout = \"dt={{dt}}/\"\nformat = \"parquet\"\n\
                 target = \"sales.orders\"\ncolumns = [\"id bigint\", \"sold_at timestamptz\"]\nlookback = \"3d\"\n\
                 [orders.partition.dt]\ntype = \"{part}\"\nrange_of = \"sold_at\"\ngrain = \"{grain}\"\ntimezone = \"{zone}\"\n"
            )
        };
        let begin: Timestamp = "2026-01-04T10:00:00Z".parse().unwrap();
        for (grain, part, hours) in
            [("hour", "timestamp", 1), ("day", "date", 24), ("month", "date", 24), ("year", "date", 24)]
        {
            for zone in ["Europe/Berlin", "America/Los_Angeles", "Pacific/Kiritimati"] {
                let definition = parse(&toml(grain, part, zone)).unwrap().remove(0);
                for now in (0..40).map(|n| begin + SignedDuration::from_hours(n * 239)) {
                    let after = lookback_begins_after(&definition, now).unwrap();
                    for back in 0..=500 {
                        let at = TimeZone::UTC.to_datetime(now - SignedDuration::from_hours(back * hours));
                        let name = match grain {
                            "hour" => format!("dt={}T{:02}:00:00", at.date(), at.hour()),
                            "day" => format!("dt={}", at.date()),
                            "month" => format!("dt={}", at.date().first_of_month()),
                            _ => format!("dt={}", at.date().first_of_year()),
                        };
                        // An hour that summer time passes over is no partition.
                        let Ok(partition) = definition.partition(&PartitionName::new(name).unwrap()) else { continue };
                        let told = || format!("{now}: {} lies in the lookback of {grain} in {zone}", partition.name);
                        assert!(!in_lookback(&definition, &partition, now) || partition.name > after, "{}", told());
                    }
                }
            }
        }
    }

    #[test]
    fn heads_are_written_where_they_are_as_read() {
        let definition = orders("", "");
        let hand = Hand { by: "bob", now: Timestamp::UNIX_EPOCH };
        let made = store_head(&definition, None, Epoch(1), true, hand).apply(None).unwrap();
        let read = Stored::from_items(&made, None).unwrap();
        assert_eq!((read.head.mode, read.head.epoch, read.owes_marks), (Mode::Active, Epoch(1), true));
        let done = marks_are_made(&definition.name, &definition.hash()).apply(Some(&made)).unwrap();
        assert!(!Stored::from_items(&done, None).unwrap().owes_marks);

        let again = store_head(&definition, Some(&read.head), Epoch(2), false, hand);
        assert!(again.apply(Some(&made)).is_some());
        assert!(again.apply(again.apply(Some(&made)).as_ref()).is_none(), "the epoch isn't as read any more");
        let retired = retire(&definition.name, &read.head, hand).apply(Some(&made)).unwrap();
        assert_eq!(Head::from_item(&retired).unwrap().mode, Mode::Retired);
    }
}
