//! An object of JSON as a row: its members by the columns' names, or by the expressions of a jsonpaths file.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::target::Target;
use super::value::{self, Problem, code};
use crate::dialect::copy::{CopyCommand, Format};
use crate::failure::Failure;

/// One step of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Element(usize),
}

/// How columns find their values.
#[derive(Debug, Clone)]
pub(super) struct Members {
    ignore_case: bool,
    /// An expression a column, in the columns' order.
    paths: Option<Vec<Vec<Step>>>,
}

impl Members {
    /// By names, as the command says it.
    pub(super) fn by_name(format: Format) -> Self {
        let (Format::Json { ignore_case } | Format::Avro { ignore_case }) = format else {
            return Self { ignore_case: false, paths: None };
        };
        Self { ignore_case, paths: None }
    }

    /// By the expressions of a jsonpaths file: as many as there are columns.
    pub(super) fn by_path(file: &[u8], columns: usize) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct File {
            jsonpaths: Vec<String>,
        }
        let file: File = serde_json::from_slice(file)
            .map_err(|error| Failure::new(format!("Invalid JSONPath format: jsonpaths file is not valid: {error}")))?;
        if file.jsonpaths.len() != columns {
            let found = file.jsonpaths.len();
            return Err(Failure::new(format!(
                "Number of jsonpaths and the number of columns should match. JSONPath size: {found}, Number of columns in \
                 table or column list: {columns}"
            )));
        }
        let invalid = |path: &String| Failure::new(format!("Invalid JSONPath format: {path}"));
        let paths = file.jsonpaths.iter().map(|path| steps(path).ok_or_else(|| invalid(path)));
        Ok(Self { ignore_case: false, paths: Some(paths.collect::<Result<_, _>>()?) })
    }

    /// Writes the object's row.
    pub(super) fn row(
        &self,
        text: &[u8],
        target: &Target,
        command: &CopyCommand,
        buffer: &mut Vec<u8>,
    ) -> Result<(), (Option<usize>, Problem)> {
        let invalid = |error| (None, Problem::new(code::INVALID_LINE, format!("Invalid JSON: {error}")));
        let mut members: HashMap<String, &RawValue> = serde_json::from_slice(text).map_err(invalid)?;
        if self.ignore_case {
            members = members.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        }
        for (index, column) in target.columns.iter().enumerate() {
            if index > 0 {
                buffer.push(b'\t');
            }
            let at = |problem| (Some(index), problem);
            let raw = match &self.paths {
                None => members.get(&column.name).map(|raw| raw.get()),
                Some(paths) => paths.get(index).and_then(|path| follow(text, path)),
            };
            let value = match raw {
                None => column.default.clone(),
                Some("null") => None,
                Some(raw) if column.kind == value::Kind::Super => Some(raw.to_owned()),
                Some(raw) => {
                    // A string's own text; all else as it is written.
                    let text =
                        if raw.starts_with('"') { serde_json::from_str(raw).map_err(invalid)? } else { raw.to_owned() };
                    value::from_text(text.as_bytes(), column.kind, command).map_err(at)?.map(Cow::into_owned)
                }
            };
            if value.is_none() {
                column.null().map_err(at)?;
            }
            value::encode(buffer, value.as_deref());
        }
        Ok(())
    }
}

/// `$.a.b`, `$['a']['b']`, `$.a[0]`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, after) = quoted.split_once("']")?;
            steps.push(Step::Member(name.to_owned()));
            rest = after;
        } else if let Some(indexed) = rest.strip_prefix('[') {
            let (index, after) = indexed.split_once(']')?;
            steps.push(Step::Element(index.parse().ok()?));
            rest = after;
        } else {
            let named = rest.strip_prefix('.')?;
            let end = named.find(['.', '[']).unwrap_or(named.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Member(named[..end].to_owned()));
            rest = &named[end..];
        }
    }
    (!steps.is_empty()).then_some(steps)
}

fn follow<'t>(text: &'t [u8], path: &[Step]) -> Option<&'t str> {
    path.iter().try_fold(std::str::from_utf8(text).ok()?, |text, step| match step {
        Step::Member(name) => {
            serde_json::from_str::<HashMap<String, &RawValue>>(text).ok()?.get(name).map(|raw| raw.get())
        }
        Step::Element(index) => serde_json::from_str::<Vec<&RawValue>>(text).ok()?.get(*index).map(|raw| raw.get()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_followed_to_what_stands_there() {
        let text = br#"{"a":{"b c":[1,{"d":"x"}]}}"#;
        let at = |path: &str| follow(text, &steps(path).unwrap());
        assert_eq!(at("$.a['b c'][0]"), Some("1"));
        assert_eq!(at("$['a']['b c'][1].d"), Some("\"x\""));
        assert_eq!((at("$.A"), at("$.a[0]")), (None, None));
        for path in ["a", "$", "$.", "$..a", "$[x]", "$['a'"] {
            assert_eq!(steps(path), None, "{path}");
        }
    }
}
