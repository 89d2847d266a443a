//! The optional tables of a dataset: `provenance`, `tolerance`.

use super::reader::{At, Reader};
use super::{ColumnName, EmptySource, Flaw, ForeignRows, Format, MissingObjects, Provenance, RowDrop, Tolerance};

const WEEK: u64 = 7 * 86_400;

/// The provenance columns, each with its place.
pub(super) fn provenance(dataset: &Reader<'_, '_>) -> (Provenance, Vec<At<ColumnName>>) {
    let Some(table) = dataset.table("provenance") else {
        return (Provenance::default(), Vec::new());
    };
    let mut places = Vec::new();
    let mut column = |key| {
        let At { value, span } = table.text(key)?;
        let name = table.told(&span, ColumnName::parse(value))?;
        places.push(At { value: name.clone(), span });
        Some(name)
    };
    let provenance = Provenance { batch_id: column("batch_id"), loaded_at: column("loaded_at") };
    table.finish();
    (provenance, places)
}

pub(super) fn tolerance(dataset: &Reader<'_, '_>, format: Option<Format>, has_key: bool) -> Tolerance {
    let defaults = Tolerance::default();
    let Some(table) = dataset.table("tolerance") else {
        return defaults;
    };
    let count = |key, most: u64, no_use: Option<(&str, &str)>| {
        let at = table.integer(key, &(0..=most))?;
        if let (1.., Some((why, remedy))) = (at.value, no_use) {
            table.problem(&at.span, Flaw::new(format!("`{key} = {}`, but {why}", at.value), remedy));
        }
        Some(at.value)
    };
    let most = i64::MAX.unsigned_abs();
    let unknown = format.map(|format| format!("the rows of {format} files aren't known before COPY"));
    let uncounted = unknown.as_deref().filter(|_| format.is_some_and(|format| !format.is_columnar()));
    let uncounted = uncounted.map(|why| (why, "take it out"));
    let all_or_nothing = format.map(|format| format!("COPY of {format} fails at the first bad row"));
    let strict = all_or_nothing.as_deref().filter(|_| format.is_some_and(Format::is_columnar));
    let strict = strict.map(|why| (why, "take it out"));
    let keyless = (!has_key).then_some(("there is no `key`", "add `key = […]`, or take it out"));
    let tolerance = Tolerance {
        row_variance: count("row_variance", most, uncounted).unwrap_or(defaults.row_variance),
        // COPY gives up at MAXERROR errors, 100,000 at most, so one less may be let pass.
        rejected_rows: count("rejected_rows", 99_999, strict)
            .and_then(|rows| u32::try_from(rows).ok())
            .unwrap_or(defaults.rejected_rows),
        duplicate_keys: count("duplicate_keys", most, keyless).unwrap_or(defaults.duplicate_keys),
        missing_objects: table
            .choice(
                "missing_objects",
                &[
                    ("told", MissingObjects::Told),
                    ("refuse", MissingObjects::Refuse),
                    ("accept", MissingObjects::Accept),
                ],
            )
            .unwrap_or(defaults.missing_objects),
        empty_source: table
            .choice("empty_source", &[("refuse", EmptySource::Refuse), ("delete", EmptySource::Delete)])
            .unwrap_or(defaults.empty_source),
        row_drop: row_drop(&table).unwrap_or(defaults.row_drop),
        foreign_rows: table
            .choice("foreign_rows", &[("refuse", ForeignRows::Refuse), ("accept", ForeignRows::Accept)])
            .unwrap_or(defaults.foreign_rows),
        patience: table.duration("patience", &(0..=WEEK)).map_or(defaults.patience, |at| at.value),
    };
    table.finish();
    tolerance
}

fn row_drop(table: &Reader<'_, '_>) -> Option<RowDrop> {
    let At { value, span } = table.text("row_drop")?;
    let read = match value {
        "refuse" => Some(RowDrop::Refuse),
        "accept" => Some(RowDrop::Accept),
        _ => share(value).map(RowDrop::UpTo),
    };
    let remedy =
        "write a share such as \"10%\" (0 to 100, at most four digits after the point), \"refuse\" or \"accept\"";
    table.told(&span, read.ok_or_else(|| Flaw::new(format!("`row_drop` is {value:?}"), remedy)))
}

/// `10%`, `2.5%`: 0 to 100 with at most four digits after the point, as a share of 1.
fn share(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole, 3) || !digits(fraction, 4) {
        return None;
    }
    let millionths: u32 = format!("{whole}{fraction:0<4}").parse().ok()?;
    (millionths <= 1_000_000).then(|| f64::from(millionths) / 1e6)
}

/// The share as `share` reads it.
pub(super) fn share_text(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written_in_one_way() {
        for (text, normalised) in
            [("10%", "10%"), ("2.5%", "2.5%"), ("0.0001%", "0.0001%"), ("100.0%", "100%"), ("007%", "7%")]
        {
            let read = share(text).unwrap();
            assert_eq!(share_text(read), normalised);
            assert_eq!(share(normalised), Some(read));
        }
        for text in ["10", "%", "101%", "100.0001%", "-1%", "1e1%", ".5%", "5.%", "nan%", "1.00001%"] {
            assert_eq!(share(text), None, "{text}");
        }
    }
}
