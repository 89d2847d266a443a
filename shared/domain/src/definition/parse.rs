//! Reads a whole `datasets.toml` and tells everything that is wrong with it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use toml_edit::Document;

use super::problem::{Problem, Problems};
use super::reader::{At, Reader};
use super::{
    Column, ColumnName, Concurrency, Definition, EmptySource, Expression, Flaw, Format, Grain, Interval, Part,
    PartKind, Root, SqlType, TableName, Tolerance, WriteMode, copy, options, parts,
};
use crate::id::DatasetName;
use crate::layout::Layout;

/// What a file may hold.
const MAX_DATASETS: usize = 500;
/// Redshift's limit for a table.
const MAX_COLUMNS: usize = 1_600;
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// How far back the sweep looks where the owner doesn't say.
const DEFAULT_LOOKBACK: Duration = Duration::from_secs(3 * DAY);
const DEFAULT_LOAD_WINDOW: Duration = Duration::from_mins(30);

/// What only the place of deployment knows.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// Where inventories and manifests go: no source may lie there.
    pub control_bucket: Option<String>,
    /// The database that the stack writes to.
    pub database: Option<String>,
}

/// Reads `datasets.toml`; the error holds all of its problems, in the order of the file.
pub fn parse(text: &str) -> Result<Vec<Definition>, Vec<Problem>> {
    parse_with(text, &Checks::default())
}

/// Reads `datasets.toml`, and holds it against the place of deployment too.
pub fn parse_with(text: &str, checks: &Checks) -> Result<Vec<Definition>, Vec<Problem>> {
    let problems = RefCell::new(Problems::new(text));
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let flaw = Flaw::new(error.message().trim().replace('\n', ", "), "write valid TOML");
            problems.borrow_mut().add(None, &error.span().unwrap_or(0..0), flaw);
            return Err(problems.into_inner().sorted());
        }
    };
    let mut outlines = Vec::new();
    let mut definitions = Vec::new();
    for (name, item) in document.iter() {
        let key_span = document.get_key_value(name).and_then(|(key, _)| key.span()).unwrap_or(0..0);
        let span = item.as_table().and_then(toml_edit::Table::span).unwrap_or(key_span);
        if let Some(reader) = Reader::new(&problems, name, name.to_owned(), item, span) {
            let (definition, outline) = dataset(name, &reader);
            definitions.extend(definition);
            outlines.push(outline);
        }
    }
    if outlines.len() > MAX_DATASETS {
        let flaw = Flaw::new(format!("there are {} datasets", outlines.len()), format!("keep {MAX_DATASETS} at most"));
        problems.borrow_mut().add(None, &(0..0), flaw);
    }
    check_places(&outlines, checks, &problems);
    let problems = problems.into_inner();
    if problems.is_empty() { Ok(definitions) } else { Err(problems.sorted()) }
}

/// What is compared between datasets, as far as it could be read.
struct Outline<'d> {
    name: &'d str,
    root: Option<At<Root>>,
    target: Option<At<(Option<String>, TableName)>>,
}

fn dataset<'d>(name: &'d str, table: &Reader<'d, '_>) -> (Option<Definition>, Outline<'d>) {
    let id =
        table.told(&table.span(), DatasetName::new(name).map_err(|error| Flaw::new(error.to_string(), "rename it")));
    let root = table.required_text("source").and_then(|at| read(table, at, Root::parse));
    let layout = table.required_text("layout").and_then(|at| read_layout(table, at));
    table.require("format");
    let format = table.choice("format", &Format::ALL.map(|format| (format.name(), format)));
    let target = table.required_text("target").and_then(|at| read(table, at, TableName::parse));

    let columns = Columns::read(table);
    let key = columns.listed(table, "key");
    let required = columns.listed(table, "required");
    let writes = [("replace", WriteMode::Replace), ("upsert", WriteMode::Upsert)];
    let write = table.choice("write", &writes).unwrap_or(WriteMode::Replace);
    let order_by = columns.order_by(table, write);
    let select = columns.select(table);
    let scopes = [("table", Concurrency::Table), ("partition", Concurrency::Partition)];
    let concurrency = table.choice("concurrency", &scopes).unwrap_or(Concurrency::Table);
    let lookback = table.duration("lookback", &(HOUR..=3_660 * DAY));
    let interval = interval(table);
    let load_window = table.duration("load_window", &(60..=DAY)).map_or(DEFAULT_LOAD_WINDOW, |at| at.value);

    let parts = parts::read(table, layout.as_ref());
    let (provenance, provenance_places) = options::provenance(table);
    columns.check_collisions(table, &parts, &provenance_places);
    check_times(table, format, &columns);
    let copy = copy::read(table, format);
    let tolerance = options::tolerance(table, format, !key.is_empty());
    if write == WriteMode::Upsert {
        check_upsert(table, (&key, &required), concurrency, &tolerance);
    }
    let all_parts = layout.as_ref().is_some_and(|at| at.value.parts() == parts.len());
    let lookback = check_lookback(table, lookback, &parts, all_parts);
    table.finish();

    let build = || {
        let (database, target) = target.as_ref()?.value.clone();
        Some(Definition {
            name: id?,
            source: root.as_ref()?.value.clone(),
            layout: layout?.value,
            format: format?,
            database,
            target,
            columns: columns.columns.into_iter().map(|at| at.value).collect(),
            key,
            required,
            write,
            order_by,
            select,
            concurrency,
            lookback,
            interval,
            load_window,
            parts: parts.into_iter().map(|at| at.value).collect(),
            provenance,
            copy,
            tolerance,
        })
    };
    let definition = build();
    (definition, Outline { name, root, target })
}

/// The layer of Redshift that reads columnar files knows no `time`.
fn check_times(table: &Reader<'_, '_>, format: Option<Format>, columns: &Columns) {
    let Some(format) = format.filter(|format| format.is_columnar()) else { return };
    for column in columns.columns.iter().filter(|column| column.value.sql_type == SqlType::Time) {
        let what = format!("column `{}` is time, which COPY fills from no {format} file", column.value.name);
        let remedy = "write `integer` or `bigint`, the milli- or microseconds that the file holds, here and in the target; or \
                      varchar, and let the producer write a text";
        table.problem(&column.span, Flaw::new(what, remedy));
    }
}

fn read<T>(table: &Reader<'_, '_>, at: At<&str>, parse: fn(&str) -> Result<T, Flaw>) -> Option<At<T>> {
    let value = table.told(&at.span, parse(at.value))?;
    Some(At { value, span: at.span })
}

fn read_layout(table: &Reader<'_, '_>, at: At<&str>) -> Option<At<Layout>> {
    match Layout::parse(at.value) {
        Ok(value) => Some(At { value, span: at.span }),
        Err(flaws) => {
            for flaw in flaws {
                table.problem(&at.span, flaw);
            }
            None
        }
    }
}

fn interval(table: &Reader<'_, '_>) -> Interval {
    // Asked as text first: "auto" is no duration.
    match table.text("interval") {
        None => Interval::Auto,
        Some(at) if at.value == "auto" => Interval::Auto,
        Some(_) => table.duration("interval", &(0..=DAY)).map_or(Interval::Auto, |at| Interval::Fixed(at.value)),
    }
}

/// An upsert finds a row by its key, in whatever partition it stands.
fn check_upsert(
    table: &Reader<'_, '_>,
    (key, required): (&[ColumnName], &[ColumnName]),
    concurrency: Concurrency,
    tolerance: &Tolerance,
) {
    let span = table.value_span("write").unwrap_or_else(|| table.span());
    let tell = |what: String, remedy: &str| table.problem(&span, Flaw::new(what, remedy));
    if key.is_empty() {
        tell("`write = \"upsert\"`, but there is no `key`".to_owned(), "add `key = […]`, or write \"replace\"");
    }
    for part in key.iter().filter(|part| !required.contains(part)) {
        tell(format!("`write = \"upsert\"`, but `{part}` of the `key` may be null"), "add it to `required`");
    }
    if concurrency == Concurrency::Partition {
        let what = "`write = \"upsert\"` with `concurrency = \"partition\"`: two partitions may hold one key";
        tell(what.to_owned(), "write `concurrency = \"table\"`");
    }
    if tolerance.duplicate_keys > 0 {
        let what = format!("`write = \"upsert\"` with `duplicate_keys = {}`", tolerance.duplicate_keys);
        tell(what, "take `duplicate_keys` out: of two rows with one key nobody could say which is meant");
    }
    if tolerance.empty_source == EmptySource::Delete {
        let what = "`write = \"upsert\"` with `empty_source = \"delete\"`: rows that vanish from the files stay";
        tell(what.to_owned(), "take `empty_source` out");
    }
}

fn check_lookback(
    table: &Reader<'_, '_>,
    lookback: Option<At<Duration>>,
    parts: &[At<Part>],
    all_parts: bool,
) -> Option<Duration> {
    let dated = parts.iter().any(|at| matches!(at.value.kind, PartKind::Date | PartKind::Timestamp));
    match lookback {
        Some(at) if !dated && all_parts => {
            let remedy = "take it out, or write `type = \"date\"` for the part that is one";
            table.problem(&at.span, Flaw::new("there is a `lookback`, but no part is a date or a timestamp", remedy));
            None
        }
        Some(at) => Some(at.value),
        None => dated.then_some(DEFAULT_LOOKBACK),
    }
}

/// The columns of the files, and whether all of them could be read.
struct Columns {
    columns: Vec<At<Column>>,
    complete: bool,
}

impl Columns {
    fn read(table: &Reader<'_, '_>) -> Self {
        table.require("columns");
        let texts = table.texts("columns");
        let count = texts.len();
        let list = table.value_span("columns");
        if let (0, Some(list)) = (count, &list) {
            table.problem(list, Flaw::new("`columns` is empty", "name the columns of the files, in their order"));
        }
        let columns: Vec<At<Column>> = texts.into_iter().filter_map(|at| read(table, at, Column::parse)).collect();
        for (place, At { value: column, span }) in columns.iter().enumerate() {
            if columns[..place].iter().any(|earlier| earlier.value.name == column.name) {
                let flaw = Flaw::new(format!("column `{}` is there twice", column.name), "name each column once");
                table.problem(span, flaw);
            }
        }
        Self { complete: count > 0 && columns.len() == count, columns }
    }

    /// Names of columns out of a list, in the columns' order. Unknown ones are told, unless a column couldn't be read.
    fn listed(&self, table: &Reader<'_, '_>, key: &'static str) -> Vec<ColumnName> {
        let names: Vec<At<ColumnName>> =
            table.texts(key).into_iter().filter_map(|at| read(table, at, ColumnName::parse)).collect();
        for (place, At { value: name, span }) in names.iter().enumerate() {
            if names[..place].iter().any(|earlier| earlier.value == *name) {
                table.problem(span, Flaw::new(format!("`{key}` has `{name}` twice"), "name it once"));
            }
            if key == "key" && self.find(name).is_some_and(|column| column.sql_type == SqlType::Super) {
                let what = format!("`key` has `{name}`, and values of `super` can't be compared");
                table.problem(span, Flaw::new(what, "name other columns"));
            }
            if self.complete && self.find(name).is_none() {
                let remedy = "name one of `columns`; what is taken from the path is the same for the whole partition";
                table
                    .problem(span, Flaw::new(format!("`{key}` has `{name}`, which is no column of the files"), remedy));
            }
        }
        let listed = |column: &&At<Column>| names.iter().any(|at| at.value == column.value.name);
        self.columns.iter().filter(listed).map(|at| at.value.name.clone()).collect()
    }

    /// The column by which the newest row of a key is told.
    fn order_by(&self, table: &Reader<'_, '_>, write: WriteMode) -> Option<ColumnName> {
        let At { value: name, span } = table.text("order_by").and_then(|at| read(table, at, ColumnName::parse))?;
        if write != WriteMode::Upsert {
            let remedy = "take it out, or write `write = \"upsert\"`";
            table.problem(&span, Flaw::new("there is an `order_by`, but nothing is upserted", remedy));
        }
        if self.complete && self.find(&name).is_none() {
            let what = format!("`order_by` is `{name}`, which is no column of the files");
            let remedy = "name one of `columns`: it is compared in the target too; `select` may shape its values";
            table.problem(&span, Flaw::new(what, remedy));
        }
        Some(name)
    }

    /// `[x.select]`, in the columns' order.
    fn select(&self, table: &Reader<'_, '_>) -> Vec<(ColumnName, Expression)> {
        let Some(select) = table.table("select") else { return Vec::new() };
        let columns: Vec<&ColumnName> = self.columns.iter().map(|at| &at.value.name).collect();
        let mut read = Vec::new();
        for (key, At { value, span }) in select.every_text() {
            let name = select.told(&span, ColumnName::parse(key));
            let expression = select.told(&span, Expression::parse(value, &columns));
            let known = name.filter(|name| {
                let known = !self.complete || self.find(name).is_some();
                if !known {
                    let what = format!("`select` names `{name}`, which is no column of the files");
                    select.problem(&span, Flaw::new(what, "name one of `columns`: each goes into the target once"));
                }
                known
            });
            read.extend(known.zip(expression));
        }
        let place = |name: &ColumnName| columns.iter().position(|column| *column == name);
        read.sort_by_key(|(name, _)| place(name));
        read
    }

    /// Holds the parts' columns and the provenance columns against each other and those of the files.
    fn check_collisions(&self, table: &Reader<'_, '_>, parts: &[At<Part>], provenance: &[At<ColumnName>]) {
        let from_path = parts.iter().filter(|at| !at.value.in_files).count();
        let count = self.columns.len() + from_path + provenance.len();
        if count > MAX_COLUMNS {
            let flaw =
                Flaw::new(format!("the target has {count} columns"), format!("Redshift takes {MAX_COLUMNS} at most"));
            table.problem(&table.span(), flaw);
        }
        let mut taken: HashMap<ColumnName, String> = HashMap::new();
        for At { value: part, span } in parts {
            self.check_part(table, part, span);
            if let Some(by) = taken.insert(part.column.clone(), format!("part `{}`", part.name)) {
                let what = format!("column `{}` of part `{}` is that of {by} too", part.column, part.name);
                table.problem(span, Flaw::new(what, "give each part a column of its own"));
            }
        }
        for At { value: name, span } in provenance {
            let by = taken.insert(name.clone(), "`provenance`".to_owned());
            let by = by.or_else(|| self.find(name).map(|_| "the files".to_owned()));
            if let Some(by) = by {
                let what = format!("provenance column `{name}` is a column of {by} already");
                table.problem(span, Flaw::new(what, "give it a name of its own"));
            }
        }
    }

    fn check_part(&self, table: &Reader<'_, '_>, part: &Part, span: &Range<usize>) {
        let Part { name, column, kind, in_files, range } = part;
        let flaw = match (in_files, self.find(column)) {
            (true, None) if self.complete && range.is_some() => Flaw::new(
                format!("`range_of` of part `{name}` is `{column}`, which is no column of the files"),
                "name one of `columns`",
            ),
            (true, Some(found)) if let Some(range) = range => match misfit(range, found.sql_type) {
                Some(remedy) => Flaw::new(
                    format!("column `{column}` is {}, which has no range of part `{name}`", found.sql_type),
                    remedy,
                ),
                None => return,
            },
            (false, Some(_)) => Flaw::new(
                format!("column `{column}` of part `{name}` is in `columns`, but `in_files` is false"),
                "write `in_files = true` if the files hold it, else take it out of `columns`",
            ),
            (true, None) if self.complete => Flaw::new(
                format!("column `{column}` of part `{name}` isn't in `columns`, but `in_files` is true"),
                "write `in_files = false` to take it from the path, else add it to `columns`",
            ),
            (true, Some(found)) if !holds(found.sql_type, *kind) => Flaw::new(
                format!("column `{column}` is {}, which part `{name}` can't be compared with", found.sql_type),
                "give part and column the same type",
            ),
            _ => return,
        };
        table.problem(span, flaw);
    }

    fn find(&self, name: &ColumnName) -> Option<&Column> {
        self.columns.iter().map(|at| &at.value).find(|column| column.name == *name)
    }
}

/// Whether equality of the column and a value of the part means what it says.
fn holds(column: SqlType, part: PartKind) -> bool {
    match part {
        PartKind::Date => column == SqlType::Date,
        PartKind::Integer => matches!(column, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt),
        PartKind::Text => matches!(column, SqlType::Char(_) | SqlType::Varchar(_)),
        PartKind::Timestamp => column == SqlType::Timestamp,
    }
}

/// What to do where a column of this type has no such range.
fn misfit(range: &super::Range, column: SqlType) -> Option<&'static str> {
    match column {
        SqlType::Date if range.timezone.is_some() => {
            Some("take `timezone` out: a date has no moment; or name a timestamp or timestamptz")
        }
        SqlType::Date if range.grain == Grain::Hour => Some("name a timestamp or timestamptz: a date has no hours"),
        SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz => None,
        _ => Some("name a date, timestamp or timestamptz"),
    }
}

/// No two datasets may read one place or write one table, and none reads what Tidemark writes.
fn check_places(outlines: &[Outline<'_>], checks: &Checks, problems: &RefCell<Problems<'_>>) {
    for (place, outline) in outlines.iter().enumerate() {
        let tell = |span: &Range<usize>, flaw| problems.borrow_mut().add(Some(outline.name), span, flaw);
        let earlier = &outlines[..place];
        if let Some(At { value: root, span }) = &outline.root {
            let overlaps = |other: &&Outline<'_>| other.root.as_ref().is_some_and(|at| at.value.overlaps(root));
            for other in earlier.iter().filter(overlaps) {
                let remedy = "let each dataset have a root of its own, none inside another";
                tell(span, Flaw::new(format!("{root} overlaps the source of `{}`", other.name), remedy));
            }
            if checks.control_bucket.as_ref() == Some(&root.bucket) {
                let remedy = "read from another bucket: what Tidemark writes there would mark partitions";
                tell(span, Flaw::new(format!("{root} is in the control bucket"), remedy));
            }
        }
        if let Some(At { value: (database, target), span }) = &outline.target {
            let database = database.as_ref().or(checks.database.as_ref());
            let same = |other: &&Outline<'_>| {
                other.target.as_ref().is_some_and(|At { value: (other, table), .. }| {
                    let other = other.as_ref().or(checks.database.as_ref());
                    table == target && (other.is_none() || database.is_none() || other == database)
                })
            };
            for other in earlier.iter().filter(same) {
                let remedy = "let one dataset write a table";
                tell(span, Flaw::new(format!("{target} is the target of `{}` too", other.name), remedy));
            }
            if let (Some(asked), Some(ours)) = (database, &checks.database)
                && asked != ours
            {
                let remedy = format!("write `{target}`; another database needs a stack of its own");
                tell(
                    span,
                    Flaw::new(format!("the target is in database `{asked}`, this stack writes to `{ours}`"), remedy),
                );
            }
        }
    }
}
