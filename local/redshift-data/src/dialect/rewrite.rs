//! The small edits that make PostgreSQL read a statement as Redshift would.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use super::names;
use crate::failure::Failure;

/// A parameter of the request: `:name` stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The statement with each `:name` replaced by its value as a literal, which the engine casts as it would a bound
/// string. A `:name` of no parameter stays, to fail as the engine has it.
pub(crate) fn bind(lexed: &Lexed, parameters: &[Parameter]) -> String {
    let mut edits = Vec::new();
    for (index, lexeme) in lexed.tokens.iter().enumerate() {
        if lexeme.token != Token::Colon {
            continue;
        }
        let Some(next) = lexed.tokens.get(index + 1).filter(|next| next.start == lexeme.end) else { continue };
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == lexed.slice(next)) else { continue };
        let value = parameter.value.replace('\\', "\\\\").replace('\'', "''");
        edits.push((lexeme.start, next.end, format!("'{value}'")));
    }
    lexed.edited(&edits)
}

/// Which of these parameters a statement uses.
pub(crate) fn uses(lexed: &Lexed, parameter: &Parameter) -> bool {
    lexed.tokens.windows(2).any(|pair| {
        pair[0].token == Token::Colon && pair[1].start == pair[0].end && lexed.slice(&pair[1]) == parameter.name
    })
}

/// [`lexed`], for a text not yet split.
pub(crate) fn plain(text: &str) -> Result<String, Failure> {
    Ok(lexed(&Lexed::new(text)?))
}

/// Names folded, and the words PostgreSQL hasn't replaced by those it has.
pub(crate) fn lexed(lexed: &Lexed) -> String {
    let mut edits = Vec::new();
    for (index, lexeme) in lexed.tokens.iter().enumerate() {
        let Token::Word(word) = &lexeme.token else { continue };
        let called = lexed.is(index + 1, &Token::LParen);
        let after_period = index > 0 && lexed.is(index - 1, &Token::Period);
        let new = if word.quote_style.is_some() {
            Some(names::quoted(&names::folded(&word.value)))
        } else if word.value.len() > 63 {
            Some(names::folded(&word.value))
        } else if after_period {
            None
        } else {
            match lexeme.word().as_str() {
                "SYSDATE" if !called => Some("redshift_local.sysdate()".to_owned()),
                "NVL" if called => Some("coalesce".to_owned()),
                "SUPER" if is_type(lexed, index) => Some("jsonb".to_owned()),
                // Which names SUPER as Redshift does.
                "INFORMATION_SCHEMA" if lexed.is(index + 1, &Token::Period) && lexed.word(index + 2) == "COLUMNS" => {
                    let end = lexed.tokens.get(index + 2).map_or(lexeme.end, |columns| columns.end);
                    edits.push((lexeme.start, end, "redshift_local.svv_columns".to_owned()));
                    None
                }
                "VARCHAR" if called && lexed.word(index + 2) == "MAX" => {
                    let close = lexed.tokens.get(index + 3).map_or(lexeme.end, |close| close.end);
                    edits.push((lexeme.start, close, "varchar(65535)".to_owned()));
                    None
                }
                "DATEADD" | "DATEDIFF" | "DATE_DIFF" if called => {
                    if let Some(part) = lexed.tokens.get(index + 2).filter(|part| !part.word().is_empty()) {
                        edits.push((part.start, part.end, format!("'{}'", part.word().to_ascii_lowercase())));
                    }
                    None
                }
                _ => None,
            }
        };
        edits.extend(new.map(|new| (lexeme.start, lexeme.end, new)));
    }
    edits.sort_by_key(|edit| edit.0);
    lexed.edited(&edits)
}

fn is_type(lexed: &Lexed, index: usize) -> bool {
    index > 0 && (lexed.is(index - 1, &Token::DoubleColon) || lexed.word(index - 1) == "AS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_redshift() {
        assert_eq!(
            plain("SELECT \"Order\", nvl(a, 'NVL(x)'), x::super, dateadd(day, 1, SYSDATE) FROM \"T\"").unwrap(),
            "SELECT \"order\", coalesce(a, 'NVL(x)'), x::jsonb, dateadd('day', 1, redshift_local.sysdate()) FROM \"t\""
        );
    }

    #[test]
    fn the_catalogue_of_columns_is_our_own() {
        assert_eq!(
            plain("SELECT data_type FROM information_schema.columns WHERE x").unwrap(),
            "SELECT data_type FROM redshift_local.svv_columns WHERE x"
        );
    }

    #[test]
    fn parameters_become_literals_but_not_in_strings_or_casts() {
        let lexed = Lexed::new("SELECT :a, ':a', x::date, :a::int, :b").unwrap();
        let a = Parameter { name: "a".into(), value: "it's \\".into() };
        assert!(uses(&lexed, &a));
        assert_eq!(bind(&lexed, &[a]), "SELECT 'it''s \\\\', ':a', x::date, 'it''s \\\\'::int, :b");
    }
}
