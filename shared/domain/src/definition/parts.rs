//! The parts of the partition: `[x.partition.p]`, held against the layout.

use std::ops;

use super::reader::{At, Reader};
use super::{ColumnName, Flaw, Grain, Part, PartKind, Range, Zone};
use crate::layout::{Layout, is_part_name};

/// Reads the parts, in the layout's order. What is wrong in one of them is told, and it is left out.
pub(super) fn read(dataset: &Reader<'_, '_>, layout: Option<&At<Layout>>) -> Vec<At<Part>> {
    let tables = dataset.table("partition").map(|table| table.tables()).unwrap_or_default();
    let names: Vec<(&str, ops::Range<usize>)> = tables.iter().map(|(name, table)| (*name, table.span())).collect();
    let mut parts: Vec<At<Part>> = tables.iter().filter_map(|(name, table)| part(name, table)).collect();
    if let Some(At { value: layout, span }) = layout {
        check_against(layout, span, dataset, &names);
        for At { value: part, span } in
            parts.iter().filter(|at| !layout.named_parts().any(|name| name == at.value.name))
        {
            check_date(layout, part, span, dataset);
        }
        parts.sort_by_key(|at| place(layout, &at.value.name));
    }
    parts
}

fn part(name: &str, table: &Reader<'_, '_>) -> Option<At<Part>> {
    if !is_part_name(name) {
        let remedy = "name it with a-z, 0-9 and _, beginning with a letter, 63 at most, but not yyyy, mm, dd or hh";
        table.problem(&table.span(), Flaw::new(format!("part {name:?} has no valid name"), remedy));
    }
    table.require("type");
    let kinds = [
        ("date", PartKind::Date),
        ("integer", PartKind::Integer),
        ("text", PartKind::Text),
        ("timestamp", PartKind::Timestamp),
    ];
    let kind = table.choice("type", &kinds);
    let column = table.text("column");
    let span = column.as_ref().map_or_else(|| table.span(), |at| at.span.clone());
    let column = table.told(&span, ColumnName::parse(column.map_or(name, |at| at.value)));
    let in_files = table.boolean("in_files");
    let ranged = range(name, kind, in_files, table);
    table.finish();
    let (name, kind) = (name.to_owned(), kind?);
    match ranged {
        None => {
            let in_files = in_files.unwrap_or(false);
            Some(At { value: Part { name, kind, column: column?, in_files, range: None }, span })
        }
        Some((At { value: column, span }, range)) => {
            Some(At { value: Part { name, kind, column: column?, in_files: true, range: Some(range?) }, span })
        }
    }
}

/// `range_of` with its column, `grain` and `timezone`, as far as they are there and could be read.
fn range(
    name: &str,
    kind: Option<PartKind>,
    in_files: Option<bool>,
    table: &Reader<'_, '_>,
) -> Option<(At<Option<ColumnName>>, Option<Range>)> {
    let range_of = table.text("range_of");
    let grains = [("hour", Grain::Hour), ("day", Grain::Day), ("month", Grain::Month), ("year", Grain::Year)];
    let grain = table.choice("grain", &grains);
    let timezone = table.text("timezone");
    let timezone = timezone.and_then(|at| table.told(&at.span, Zone::parse(at.value)));
    let Some(range_of) = range_of else {
        for key in ["grain", "timezone"] {
            if let Some(span) = table.value_span(key) {
                let what = format!("`{key}` of part `{name}` says nothing without `range_of`");
                table.problem(&span, Flaw::new(what, "add `range_of` with a column of the files, or take it out"));
            }
        }
        return None;
    };
    if let Some(span) = table.value_span("column") {
        let what = format!("part `{name}` has both `column` and `range_of`");
        table.problem(&span, Flaw::new(what, "leave one: its column equals the value, or lies in its range"));
    }
    if in_files == Some(false) {
        let what = format!("part `{name}` has a `range_of`, but `in_files` is false");
        table.problem(&range_of.span, Flaw::new(what, "take `in_files` out: the column is one of the files"));
    }
    let column = table.told(&range_of.span, ColumnName::parse(range_of.value));
    let default = match kind {
        Some(PartKind::Timestamp) => Some(Grain::Hour),
        Some(PartKind::Date) => Some(Grain::Day),
        _ => None,
    };
    let grain = match (default, table.value_span("grain")) {
        (None, _) => {
            if kind.is_some() {
                let what = format!("part `{name}` has a `range_of`, but is no date or timestamp");
                table.problem(&range_of.span, Flaw::new(what, "write `type = \"date\"` or `type = \"timestamp\"`"));
            }
            None
        }
        (default, None) => default,
        (Some(default), Some(span)) => {
            if grain.is_some_and(|grain| (grain == Grain::Hour) != (default == Grain::Hour)) {
                let what = if default == Grain::Hour { "a timestamp begins an hour" } else { "a date begins no hour" };
                let remedy = "write \"hour\" for a timestamp; \"day\", \"month\" or \"year\" for a date";
                table.problem(&span, Flaw::new(format!("`grain` of part `{name}`: {what}"), remedy));
            }
            grain
        }
    };
    let range = grain.map(|grain| Range { grain, timezone: timezone.flatten() });
    Some((At { value: column, span: range_of.span }, range))
}

/// Each part of the layout needs its table, and each table its part of the layout.
fn check_against(
    layout: &Layout,
    span: &ops::Range<usize>,
    dataset: &Reader<'_, '_>,
    names: &[(&str, ops::Range<usize>)],
) {
    for part in layout.named_parts().filter(|part| !names.iter().any(|(name, _)| name == part)) {
        let remedy = format!("add `[{}.partition.{part}]` with its `type` and `column`", dataset.dataset());
        dataset.problem(span, Flaw::new(format!("the layout has `{{{part}}}`, which no table describes"), remedy));
    }
    let others: Vec<&(&str, ops::Range<usize>)> =
        names.iter().filter(|(name, _)| !layout.named_parts().any(|part| part == *name)).collect();
    if !layout.has_date_pieces() {
        for (name, span) in others {
            let remedy = format!("take the table out, or add a level such as `{name}={{{name}}}/`");
            dataset.problem(span, Flaw::new(format!("the layout has no `{{{name}}}`"), remedy));
        }
        return;
    }
    match others.as_slice() {
        [] => {
            let remedy = format!("add a table such as `[{}.partition.day]` with `type = \"date\"`", dataset.dataset());
            dataset.problem(
                span,
                Flaw::new("no table describes the date that the layout's `{yyyy}`, `{mm}`, `{dd}` make", remedy),
            );
        }
        [_] => {}
        several => {
            for (name, span) in several {
                let what = format!("part `{name}` is one of {} that the layout doesn't name", several.len());
                let remedy = "leave only the one that `{yyyy}`, `{mm}` and `{dd}` make";
                dataset.problem(span, Flaw::new(what, remedy));
            }
        }
    }
}

/// The part that the pieces of a date make.
fn check_date(layout: &Layout, part: &Part, span: &ops::Range<usize>, dataset: &Reader<'_, '_>) {
    let Some(finest) = layout.date_grain() else {
        return;
    };
    let grain = part.range.as_ref().map_or(Grain::Day, |range| range.grain);
    let remedy = match (part.kind, finest) {
        (PartKind::Timestamp, Grain::Hour) => return,
        (PartKind::Timestamp, _) => "write `type = \"date\"`, or add `{hh}/` to the layout",
        (PartKind::Date, Grain::Month) if grain == Grain::Day => {
            "add `{dd}/` to the layout, or write `range_of` with `grain = \"month\"`, or read the levels as integers, such as `year={year}/`"
        }
        (PartKind::Date, Grain::Year) if grain != Grain::Year => {
            "add `{mm}/{dd}/` to the layout, or write `range_of` with `grain = \"year\"`, or read the level as an integer, such as `{year}/`"
        }
        (PartKind::Date, Grain::Day | Grain::Hour) if grain == Grain::Year => {
            "write `grain = \"month\"`, or take `{dd}/` and what is below out of the layout"
        }
        (PartKind::Date, _) => return,
        _ => "write `type = \"date\"`",
    };
    let what = format!(
        "the layout's date pieces don't make the {} of part `{}`",
        if part.range.is_some() { "range" } else { "type" },
        part.name
    );
    dataset.problem(span, Flaw::new(what, remedy));
}

fn place(layout: &Layout, name: &str) -> (usize, usize) {
    match layout.named_parts().position(|part| part == name) {
        Some(place) => (place, 1),
        None => (layout.place_of_date(), 0),
    }
}
