//! A table for a terminal: columns as wide as their widest cell, two blanks between them, colours around the text.

use std::fmt::Write as _;

use anstyle::Style;

use crate::console::{NAME, PLAIN};

/// A text and how it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
    /// Numbers stand at the right.
    right: bool,
}

impl Cell {
    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: Style::new(), right: false }
    }

    /// A number.
    pub(crate) fn number(text: &(impl ToString + ?Sized)) -> Self {
        Self { text: text.to_string(), style: Style::new(), right: true }
    }

    /// The same in this style.
    #[must_use]
    pub(crate) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

/// The lines of a table under its headings. Nothing stands behind the last cell of a line.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<Cell>>) -> String {
    let right = |column: usize| rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.right);
    let heading = |(column, text): (usize, &&str)| Cell { text: (*text).to_owned(), style: NAME, right: right(column) };
    let mut lines = vec![headings.iter().enumerate().map(heading).collect::<Vec<_>>()];
    lines.extend(rows);
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| lines.iter().filter_map(|row| Some(row.get(column)?.text.chars().count())).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for line in &lines {
        for (column, cell) in line.iter().enumerate() {
            let space = widths.get(column).copied().unwrap_or(0).saturating_sub(cell.text.chars().count());
            let (before, after) = if cell.right { (space, 0) } else { (0, space) };
            let last = column + 1 == line.len();
            let after = if last { 0 } else { after + 2 };
            // Writing to a String can't fail.
            let _ = write!(out, "{:before$}{}{}{PLAIN}{:after$}", "", cell.style, cell.text, "");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            vec![Cell::text("é/dt=2026-11-01"), Cell::number(&7), Cell::text("at rest")],
            vec![Cell::text("b"), Cell::number(&1_000), Cell::text("")],
        ];
        let shown = anstream::adapter::strip_str(&table(&["partition", "rows", "state"], rows)).to_string();
        expect![[r#"
            partition        rows  state
            é/dt=2026-11-01     7  at rest
            b                1000  
        "#]]
        .assert_eq(&shown);
    }
}
