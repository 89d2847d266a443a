//! Columns of any kind as JSON, for a SUPER: structs and maps become objects, lists arrays, days and moments texts.

use super::super::parquet::{Bad, quote};
use super::super::value::Kind;
use super::file::{self, Column, Stripe};
use super::{Value, kind, present_values, runs};
use crate::dialect::copy::CopyCommand;

/// A stripe's values of a column that aren't NULL.
pub(super) fn present(stripe: &Stripe, column: &Column, count: usize, command: &CopyCommand) -> Option<Vec<Value>> {
    let found = match column.kind {
        kind::STRUCT => members(stripe, column, count, command)?,
        kind::LIST => {
            let [element] = column.parts.as_slice() else { return None };
            let lengths = lengths(stripe, column, count)?;
            let elements = all(stripe, element, lengths.iter().sum(), command)?;
            cut(elements, &lengths, |elements| Ok(format!("[{}]", texts(elements)?.join(","))))
        }
        kind::MAP => {
            let [key, value] = column.parts.as_slice() else { return None };
            let lengths = lengths(stripe, column, count)?;
            let total = lengths.iter().sum();
            let (keys, values) = (all(stripe, key, total, command)?, all(stripe, value, total, command)?);
            cut(keys.into_iter().zip(values).collect(), &lengths, |entries| {
                let entries = entries.into_iter().map(|(key, value)| {
                    let key = key?;
                    let key = if key.starts_with('"') { key } else { format!("\"{key}\"") };
                    Ok(format!("{key}:{}", value?))
                });
                Ok(format!("{{{}}}", entries.collect::<Result<Vec<_>, Bad>>()?.join(",")))
            })
        }
        scalar => {
            let values = present_values(stripe, column, count, Kind::Varchar { bytes: usize::MAX }, command)?;
            let json = |text: String| if is_quoted(scalar, &text) { quoted(&text) } else { plain(scalar, text) };
            values.into_iter().map(|value| Ok(json(value?.unwrap_or_default()))).collect()
        }
    };
    Some(found.into_iter().map(|value| value.map(Some)).collect())
}

type Json = Result<String, Bad>;

/// The same with NULLs between them, as `null`.
fn all(stripe: &Stripe, column: &Column, rows: usize, command: &CopyCommand) -> Option<Vec<Json>> {
    let values = super::values(stripe, column, rows, Kind::Super, command)?;
    Some(values.into_iter().map(|value| Ok(value?.unwrap_or_else(|| "null".to_owned()))).collect())
}

fn members(stripe: &Stripe, column: &Column, count: usize, command: &CopyCommand) -> Option<Vec<Json>> {
    let mut objects: Vec<Result<Vec<String>, Bad>> = vec![Ok(Vec::new()); count];
    for part in &column.parts {
        for (object, value) in objects.iter_mut().zip(all(stripe, part, count, command)?) {
            match (object.as_mut(), value) {
                (Ok(members), Ok(value)) => members.push(format!("{}:{value}", quoted(&part.name))),
                (_, Err(bad)) => *object = Err(bad),
                (Err(_), _) => {}
            }
        }
    }
    Some(objects.into_iter().map(|members| Ok(format!("{{{}}}", members?.join(",")))).collect())
}

fn lengths(stripe: &Stripe, column: &Column, count: usize) -> Option<Vec<usize>> {
    let stream = stripe.stream(column.id, file::LENGTH).unwrap_or(&[]);
    let lengths = runs::integers(stream, count, false, stripe.is_v2(column.id))?;
    lengths.into_iter().map(|length| usize::try_from(length).ok()).collect()
}

fn cut<T>(items: Vec<T>, lengths: &[usize], join: impl Fn(Vec<T>) -> Json) -> Vec<Json> {
    let mut items = items.into_iter();
    lengths.iter().map(|length| join(items.by_ref().take(*length).collect())).collect()
}

fn texts(values: Vec<Json>) -> Result<Vec<String>, Bad> {
    values.into_iter().collect()
}

/// Whether JSON has it as a text: also numbers that are none.
fn is_quoted(kind: u64, text: &str) -> bool {
    match kind {
        kind::BOOLEAN | kind::BYTE | kind::SHORT | kind::INT | kind::LONG | kind::DECIMAL => false,
        kind::FLOAT | kind::DOUBLE => text.parse::<f64>().is_ok_and(|value| !value.is_finite()),
        _ => true,
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(text, &mut out);
    out
}

fn plain(kind: u64, text: String) -> String {
    match (kind, text.as_str()) {
        (kind::BOOLEAN, "t") => "true".to_owned(),
        (kind::BOOLEAN, _) => "false".to_owned(),
        _ => text,
    }
}
