//! Reads one table of `datasets.toml`, key by key: wrong types, unknown and refused keys become problems.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml_edit::{Item, TableLike};

use super::problem::Problems;
use super::{Flaw, duration};

/// A value, and where it stands.
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

pub(super) struct Reader<'d, 't> {
    problems: &'d RefCell<Problems<'t>>,
    dataset: &'d str,
    /// As in the table's header, such as `orders.csv`.
    path: String,
    table: &'d dyn TableLike,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'d, 't> Reader<'d, 't> {
    /// Reads `item`, which must be a table.
    pub(super) fn new(
        problems: &'d RefCell<Problems<'t>>,
        dataset: &'d str,
        path: String,
        item: &'d Item,
        span: Range<usize>,
    ) -> Option<Self> {
        let table = item.as_table_like();
        if table.is_none() {
            let flaw = Flaw::new(
                format!("`{path}` is no table but a value of type {}", item.type_name()),
                format!("write `[{path}]`"),
            );
            problems.borrow_mut().add(Some(dataset), &span, flaw);
        }
        Some(Self { problems, dataset, path, table: table?, span, asked: RefCell::default() })
    }

    pub(super) fn dataset(&self) -> &'d str {
        self.dataset
    }

    /// Where the table begins.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub(super) fn problem(&self, span: &Range<usize>, flaw: Flaw) {
        self.problems.borrow_mut().add(Some(self.dataset), span, flaw);
    }

    /// Reads what `read` makes of a value; its flaw becomes a problem there.
    pub(super) fn told<T>(&self, span: &Range<usize>, result: Result<T, Flaw>) -> Option<T> {
        result.map_err(|flaw| self.problem(span, flaw)).ok()
    }

    pub(super) fn text(&self, key: &'static str) -> Option<At<&'d str>> {
        let (item, span) = self.item(key)?;
        let Some(value) = item.as_str() else {
            self.wrong_type(key, item.type_name(), &span, "text in quotes");
            return None;
        };
        Some(At { value, span })
    }

    pub(super) fn required_text(&self, key: &'static str) -> Option<At<&'d str>> {
        self.require(key);
        self.text(key)
    }

    /// Tells the key as missing where it is.
    pub(super) fn require(&self, key: &'static str) {
        if self.table.get(key).is_none() {
            let flaw = Flaw::new(format!("`{}` has no `{key}`", self.path), format!("add `{key} = …`"));
            self.problem(&self.span, flaw);
        }
    }

    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        let (item, span) = self.item(key)?;
        if item.as_bool().is_none() {
            self.wrong_type(key, item.type_name(), &span, "true or false");
        }
        item.as_bool()
    }

    pub(super) fn integer(&self, key: &'static str, bounds: &RangeInclusive<u64>) -> Option<At<u64>> {
        let (item, span) = self.item(key)?;
        let value =
            item.as_integer().and_then(|value| u64::try_from(value).ok()).filter(|value| bounds.contains(value));
        let Some(value) = value else {
            let wanted = format!("a whole number from {} to {}", bounds.start(), bounds.end());
            self.wrong_type(key, item.type_name(), &span, &wanted);
            return None;
        };
        Some(At { value, span })
    }

    pub(super) fn texts(&self, key: &'static str) -> Vec<At<&'d str>> {
        let Some((item, span)) = self.item(key) else {
            return Vec::new();
        };
        let Some(array) = item.as_array() else {
            self.wrong_type(key, item.type_name(), &span, "a list such as [\"a\", \"b\"]");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for value in array {
            let span = value.span().unwrap_or_else(|| span.clone());
            match value.as_str() {
                Some(value) => texts.push(At { value, span }),
                None => self.wrong_type(key, value.type_name(), &span, "text in quotes"),
            }
        }
        texts
    }

    /// Every key, whatever its name, with its text.
    pub(super) fn every_text(&self) -> Vec<(&'d str, At<&'d str>)> {
        let mut texts = Vec::new();
        for (key, item) in self.table.iter() {
            let span = item.span().unwrap_or_else(|| self.key_span(key));
            match item.as_str() {
                Some(value) => texts.push((key, At { value, span })),
                None => self.wrong_type(key, item.type_name(), &span, "text in quotes"),
            }
        }
        texts
    }

    /// A length of time; the bounds are in seconds.
    pub(super) fn duration(&self, key: &'static str, bounds: &RangeInclusive<u64>) -> Option<At<Duration>> {
        let At { value, span } = self.text(key)?;
        let value = self.told(&span, duration::parse(value, key, bounds))?;
        Some(At { value, span })
    }

    /// One word of a list.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let At { value, span } = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == value);
        if found.is_none() {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            let names = names.join(" or ");
            self.problem(&span, Flaw::new(format!("`{key}` is {value:?}"), format!("write {names}")));
        }
        found.map(|(_, choice)| *choice)
    }

    pub(super) fn table(&self, key: &'static str) -> Option<Self> {
        let (item, _) = self.item(key)?;
        self.inner(key, item, self.key_span(key))
    }

    /// All tables inside, by name.
    pub(super) fn tables(&self) -> Vec<(&'d str, Self)> {
        let inner = self.table.iter().filter_map(|(key, item)| Some((key, self.inner(key, item, self.key_span(key))?)));
        inner.collect()
    }

    fn inner(&self, key: &str, item: &'d Item, span: Range<usize>) -> Option<Self> {
        let span = item.as_table().and_then(toml_edit::Table::span).unwrap_or(span);
        Self::new(self.problems, self.dataset, format!("{}.{key}", self.path), item, span)
    }

    /// Tells each key that nobody asked for.
    pub(super) fn finish(&self) {
        self.finish_refusing(&[]);
    }

    /// Tells each key that nobody asked for; of those in `refused` (key, why, remedy) the reason too.
    pub(super) fn finish_refusing(&self, refused: &[(&str, &str, &str)]) {
        let known = |key: &str, what: &str| {
            let (_, why, remedy) = refused.iter().find(|(refused, ..)| *refused == key)?;
            Some(Flaw::new(format!("`{what}` {why}"), *remedy))
        };
        self.finish_with(known);
    }

    fn finish_with(&self, known: impl Fn(&str, &str) -> Option<Flaw>) {
        let asked = self.asked.borrow();
        for (key, item) in self.table.iter().filter(|(key, _)| !asked.contains(key)) {
            let what = if item.is_table() { format!("[{}.{key}]", self.path) } else { key.to_owned() };
            let flaw = known(key, &what).unwrap_or_else(|| {
                let remedy = match nearest(key, &asked) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("take it out; `{}` may have {}", self.path, asked.join(", ")),
                };
                Flaw::new(format!("`{what}` is unknown"), remedy)
            });
            let span = item.as_table().and_then(toml_edit::Table::span).unwrap_or_else(|| self.key_span(key));
            self.problem(&span, flaw);
        }
    }

    /// Where the value of `key` stands, if it is there.
    pub(super) fn value_span(&self, key: &'static str) -> Option<Range<usize>> {
        self.item(key).map(|(_, span)| span)
    }

    fn item(&self, key: &'static str) -> Option<(&'d Item, Range<usize>)> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        let item = self.table.get(key)?;
        Some((item, item.span().unwrap_or_else(|| self.key_span(key))))
    }

    fn key_span(&self, key: &str) -> Range<usize> {
        self.table.get_key_value(key).and_then(|(key, _)| key.span()).unwrap_or_else(|| self.span.clone())
    }

    fn wrong_type(&self, key: &str, type_name: &'static str, span: &Range<usize>, wanted: &str) {
        let value = self.problems.borrow().snippet(span).unwrap_or(type_name);
        self.problem(span, Flaw::new(format!("`{key}` is {value}"), format!("write {wanted}")));
    }
}

/// The word that was probably meant: at most two letters put in, left out, changed or swapped.
fn nearest<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    let near = words.iter().map(|known| (distance(word, known), *known)).min()?;
    (near.0 <= 2 && near.0 < near.1.len()).then_some(near.1)
}

/// Levenshtein's distance, two neighbours swapped counting one; words over 40 bytes are far from all.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() > 40 {
        return usize::MAX;
    }
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_meant_is_found() {
        let words = ["source", "layout", "format", "columns", "key", "write"];
        assert_eq!(nearest("colums", &words), Some("columns"));
        assert_eq!(nearest("fromat", &words), Some("format"));
        assert_eq!(nearest("Key", &words), Some("key"));
        assert_eq!(nearest("partitions", &words), None);
        assert_eq!(nearest("x", &words), None);
        assert_eq!(nearest(&"x".repeat(10_000), &words), None);
    }
}
