//! Reads the product's own SQL, as far as it has to be understood: splits outside of quotes, literals, lists.

use std::fmt::Display;

/// Splits at the first `pattern` that stands outside of quotes. `pattern` itself holds none.
pub(super) fn split<'a>(sql: &'a str, pattern: &str) -> Option<(&'a str, &'a str)> {
    let mut quote = None;
    for (at, c) in sql.char_indices() {
        if let Some(open) = quote {
            // A doubled quote ends and begins again: no pattern fits between.
            quote = Some(open).filter(|open| *open != c);
        } else if sql[at..].starts_with(pattern) {
            return Some((&sql[..at], &sql[at + pattern.len()..]));
        } else if c == '\'' || c == '"' {
            quote = Some(c);
        }
    }
    None
}

/// What stands between two patterns, both outside of quotes.
pub(super) fn between<'a>(sql: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(split(split(sql, start)?.1, end)?.0)
}

/// The items of a list, without its brackets.
pub(super) fn items(list: &str) -> Vec<&str> {
    let mut items = vec![];
    let mut rest = list;
    while let Some((item, after)) = split(rest, ", ") {
        items.push(item);
        rest = after;
    }
    items.push(rest);
    items
}

/// The text of a literal.
pub(super) fn literal(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    Some(inner.replace("''", "'").replace("\\\\", "\\"))
}

/// A quoted identifier at the start, unquoted, and what follows it.
pub(super) fn identifier(sql: &str) -> Option<(String, &str)> {
    let (name, rest) = sql.strip_prefix('"')?.split_once('"')?;
    Some((name.to_owned(), rest))
}

/// The name of a staging table after `prefix`.
pub(super) fn staging(sql: &str, prefix: &str) -> Option<String> {
    let (_, rest) = split(sql, &format!("{prefix}tidemark_staging."))?;
    Some(identifier(rest)?.0)
}

/// What a procedure raises: the message in its own text that begins with `code`, filled with `values` in order.
pub(super) fn raised(procedure: &str, code: &str, values: &[&dyn Display]) -> String {
    let Some((_, message)) = procedure.split_once(&format!("RAISE EXCEPTION '{code}")) else {
        return format!("ERROR: the twin expects {code} of this procedure: {procedure}");
    };
    let mut pieces = message.split('\'').next().unwrap_or_default().split('%');
    let mut text = format!("ERROR: {code}{}", pieces.next().unwrap_or_default());
    for (piece, value) in pieces.zip(values) {
        text.push_str(&value.to_string());
        text.push_str(piece);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_inside_quotes_splits() {
        let sql = r#"CALL tidemark."claim ("('it''s, ( \\', 7, 'x')"#;
        let (head, args) = split(sql, "(").unwrap();
        assert_eq!(head, r#"CALL tidemark."claim (""#);
        assert_eq!(items(args.strip_suffix(')').unwrap()), [r"'it''s, ( \\'", "7", "'x'"]);
        assert_eq!(literal(r"'it''s, ( \\'").unwrap(), r"it's, ( \");
        assert_eq!(split("'a = b'", " = "), None);
    }
}
