//! The parts of the partition: `[x.partition.p]`, held against the layout.

use std::ops::Range;

use super::reader::{At, Reader};
use super::{ColumnName, Flaw, Part, PartKind};
use crate::layout::{Layout, is_part_name};

/// Keys of a part that are known and refused by name.
const LATER: &[&str] = &["range_of", "grain", "timezone"];

/// Reads the parts, in the layout's order. What is wrong in one of them is told, and it is left out.
pub(super) fn read(dataset: &Reader<'_, '_>, layout: Option<&At<Layout>>) -> Vec<At<Part>> {
    let tables = dataset.table("partition").map(|table| table.tables()).unwrap_or_default();
    let names: Vec<(&str, Range<usize>)> = tables.iter().map(|(name, table)| (*name, table.span())).collect();
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
    let kind = table.choice("type", &kinds, &[]);
    let column = table.text("column");
    let span = column.as_ref().map_or_else(|| table.span(), |at| at.span.clone());
    let column = table.told(&span, ColumnName::parse(column.map_or(name, |at| at.value)));
    let in_files = table.boolean("in_files").unwrap_or(false);
    table.finish(LATER);
    Some(At { value: Part { name: name.to_owned(), kind: kind?, column: column?, in_files }, span })
}

/// Each part of the layout needs its table, and each table its part of the layout.
fn check_against(layout: &Layout, span: &Range<usize>, dataset: &Reader<'_, '_>, names: &[(&str, Range<usize>)]) {
    for part in layout.named_parts().filter(|part| !names.iter().any(|(name, _)| name == part)) {
        let remedy = format!("add `[{}.partition.{part}]` with its `type` and `column`", dataset.dataset());
        dataset.problem(span, Flaw::new(format!("the layout has `{{{part}}}`, which no table describes"), remedy));
    }
    let others: Vec<&(&str, Range<usize>)> =
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
fn check_date(layout: &Layout, part: &Part, span: &Range<usize>, dataset: &Reader<'_, '_>) {
    let remedy = match (part.kind, layout.has_hour()) {
        (PartKind::Date, _) | (PartKind::Timestamp, true) => return,
        (PartKind::Timestamp, false) => "write `type = \"date\"`, or add `{hh}/` to the layout",
        _ => "write `type = \"date\"`",
    };
    if layout.has_date_pieces() {
        let what = format!("the layout's date pieces don't make the type of part `{}`", part.name);
        dataset.problem(span, Flaw::new(what, remedy));
    }
}

fn place(layout: &Layout, name: &str) -> (usize, usize) {
    match layout.named_parts().position(|part| part == name) {
        Some(place) => (place, 1),
        None => (layout.place_of_date(), 0),
    }
}
