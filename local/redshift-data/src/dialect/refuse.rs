//! What PostgreSQL would run and Redshift would not, told by the tokens alone, so that it is found everywhere: in
//! statements, subqueries and the bodies of procedures.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use crate::failure::Failure;

/// Runs of words Redshift's grammar has no place for; the error stands at the word of this index.
const PHRASES: [(&[&str], usize); 22] = [
    (&["RETURNING"], 0),
    (&["ON", "CONFLICT"], 1),
    (&["IS", "DISTINCT", "FROM"], 1),
    (&["IS", "NOT", "DISTINCT", "FROM"], 2),
    (&["FOR", "UPDATE"], 0),
    (&["FOR", "SHARE"], 0),
    (&["FOR", "NO", "KEY"], 0),
    (&["SKIP", "LOCKED"], 0),
    (&["LATERAL"], 0),
    (&["TABLESAMPLE"], 0),
    (&["FETCH", "FIRST"], 0),
    (&["AS", "MATERIALIZED"], 1),
    (&["AS", "NOT", "MATERIALIZED"], 1),
    (&["EXCEPT", "ALL"], 1),
    (&["INTERSECT", "ALL"], 1),
    (&["WITH", "ORDINALITY"], 0),
    (&["OVERRIDING", "SYSTEM"], 0),
    (&["OVERRIDING", "USER"], 0),
    (&["CREATE", "INDEX"], 1),
    (&["NULLS", "NOT", "DISTINCT"], 1),
    (&["WHEN", "MATCHED", "AND"], 2),
    (&["DO", "NOTHING"], 1),
];

/// Functions PostgreSQL has and Redshift hasn't.
const NO_SUCH_FUNCTION: [&str; 40] = [
    "STRING_AGG",
    "ARRAY_AGG",
    "JSON_AGG",
    "JSONB_AGG",
    "JSON_BUILD_OBJECT",
    "JSONB_BUILD_OBJECT",
    "JSON_OBJECT_AGG",
    "JSONB_OBJECT_AGG",
    "TO_JSON",
    "TO_JSONB",
    "ROW_TO_JSON",
    "JSONB_EACH",
    "JSONB_ARRAY_ELEMENTS",
    "JSONB_EXTRACT_PATH_TEXT",
    "GEN_RANDOM_UUID",
    "UUID_GENERATE_V4",
    "CLOCK_TIMESTAMP",
    "STATEMENT_TIMESTAMP",
    "TRANSACTION_TIMESTAMP",
    "MAKE_DATE",
    "MAKE_TIMESTAMP",
    "MAKE_INTERVAL",
    "FORMAT",
    "CONCAT_WS",
    "REGEXP_MATCHES",
    "REGEXP_SPLIT_TO_TABLE",
    "STRING_TO_ARRAY",
    "ARRAY_TO_STRING",
    "UNNEST",
    "PG_ADVISORY_LOCK",
    "PG_ADVISORY_XACT_LOCK",
    "PG_TRY_ADVISORY_LOCK",
    "PG_TRY_ADVISORY_XACT_LOCK",
    "PG_SLEEP",
    "NEXTVAL",
    "CURRVAL",
    "SETVAL",
    "TO_REGCLASS",
    "NUM_NONNULLS",
    "EVERY",
];

/// Functions of Redshift's leader node, of no use beside a table.
const LEADER_ONLY: [&str; 4] = ["GENERATE_SERIES", "NOW", "AGE", "CURRENT_SETTING"];
const LEADER_ONLY_WORDS: [&str; 4] = ["CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_TIME", "LOCALTIME"];

/// Types that a cast may not name.
const NO_SUCH_TYPE: [&str; 16] = [
    "JSON",
    "JSONB",
    "UUID",
    "BYTEA",
    "SERIAL",
    "BIGSERIAL",
    "MONEY",
    "INET",
    "CIDR",
    "XML",
    "TSVECTOR",
    "INT4RANGE",
    "INT8RANGE",
    "DATERANGE",
    "TSRANGE",
    "TSTZRANGE",
];

/// Refuses what isn't Redshift's.
pub(crate) fn check(lexed: &Lexed) -> Result<(), Failure> {
    for index in 0..lexed.tokens.len() {
        at(lexed, index)?;
    }
    Ok(())
}

fn at(lexed: &Lexed, index: usize) -> Result<(), Failure> {
    let lexeme = &lexed.tokens[index];
    match &lexeme.token {
        Token::Word(word) if word.quote_style.is_some_and(|quote| quote != '"') => return Err(lexed.error_at(index)),
        Token::Word(word) if word.quote_style.is_some() => return Ok(()),
        Token::Word(_) => {}
        // `E'…'` and its like came after the PostgreSQL that Redshift grew from.
        Token::EscapedStringLiteral(_) => {
            return Err(Failure::new("type \"e\" does not exist").with_position(lexed.position(lexeme)));
        }
        Token::UnicodeStringLiteral(_) | Token::HexStringLiteral(_) | Token::NationalStringLiteral(_) => {
            return Err(lexed.error_at(index));
        }
        _ => return Ok(()),
    }
    if index > 0 && lexed.is(index - 1, &Token::Period) {
        return Ok(());
    }
    if let Some((_, offset)) = PHRASES.iter().find(|(words, _)| lexed.words_are(index, words)) {
        return Err(lexed.error_at(index + offset));
    }
    let word = lexeme.word();
    let called = lexed.is(index + 1, &Token::LParen);
    let position = lexed.position(lexeme);
    let no_function = || {
        Failure::new(format!("function {}() does not exist", word.to_ascii_lowercase()))
            .with_detail(
                "No function matches the given name and argument types. You may need to add explicit type casts.",
            )
            .with_position(position)
    };
    let cast_to = index > 0 && lexed.is(index - 1, &Token::DoubleColon)
        || index > 0 && lexed.word(index - 1) == "AS" && lexed.is(index + 1, &Token::RParen);
    match word.as_str() {
        "FILTER" if called && index > 0 && lexed.is(index - 1, &Token::RParen) => Err(lexed.error_at(index + 1)),
        "DISTINCT" if lexed.word(index + 1) == "ON" && lexed.is(index + 2, &Token::LParen) => {
            Err(Failure::new("SELECT DISTINCT ON is not supported"))
        }
        "ARRAY" if lexed.is(index + 1, &Token::LBracket) => Err(lexed.error_at(index + 1)),
        "VALUES" if index == 0 || index > 1 && values_as_table(lexed, index) => Err(lexed.error_at(index)),
        "LISTAGG" | "DECODE" if called => Err(Failure::not_imitated(&format!("{word}()"))),
        "QUALIFY" | "PIVOT" | "UNPIVOT" | "MINUS" => Err(Failure::not_imitated(&word)),
        _ if called && NO_SUCH_FUNCTION.contains(&word.as_str()) => Err(no_function()),
        _ if called && LEADER_ONLY.contains(&word.as_str()) => Err(not_on_tables(&word)),
        _ if !called && LEADER_ONLY_WORDS.contains(&word.as_str()) => Err(not_on_tables(&word)),
        _ if cast_to && NO_SUCH_TYPE.contains(&word.as_str()) => {
            Err(Failure::new(format!("type \"{}\" does not exist", word.to_ascii_lowercase())).with_position(position))
        }
        _ => Ok(()),
    }
}

/// `FROM (VALUES …)`, `JOIN (VALUES …)`, `AS (VALUES …)`.
fn values_as_table(lexed: &Lexed, index: usize) -> bool {
    lexed.is(index - 1, &Token::LParen) && matches!(lexed.word(index - 2).as_str(), "FROM" | "JOIN" | "AS" | "IN")
        || lexed.is(index - 1, &Token::LParen) && lexed.is(index - 2, &Token::Comma)
}

fn not_on_tables(word: &str) -> Failure {
    Failure::new("Specified types or functions (one per INFO message) not supported on Redshift tables.")
        .with_detail(format!("Function \"{}\" not supported.", word.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_are_found_wherever_they_stand() {
        for (sql, text) in [
            ("INSERT INTO t VALUES (1) RETURNING id", "syntax error at or near \"RETURNING\"\n  Position: 26"),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "near \"CONFLICT\""),
            ("DELETE FROM t WHERE a IS NOT DISTINCT FROM b", "near \"DISTINCT\""),
            ("SELECT * FROM t FOR UPDATE", "near \"FOR\""),
            ("SELECT string_agg(a, ',') FROM t", "function string_agg() does not exist"),
            ("INSERT INTO t SELECT n FROM generate_series(1, 3) n", "not supported on Redshift tables"),
            ("SELECT count(*) FILTER (WHERE a) FROM t", "near \"(\""),
            ("SELECT * FROM (VALUES (1)) v", "near \"VALUES\""),
            ("SELECT a::jsonb FROM t", "type \"jsonb\" does not exist"),
            ("SELECT E'a'", "type \"e\" does not exist"),
            ("SELECT DISTINCT ON (a) a FROM t", "DISTINCT ON"),
        ] {
            let error = check(&Lexed::new(sql).unwrap()).unwrap_err().to_string();
            assert!(error.contains(text), "{sql}: {error}");
        }
    }

    #[test]
    fn the_same_words_as_names_or_text_are_fine() {
        for sql in [
            "SELECT \"returning\", t.filter FROM t WHERE a = 'ON CONFLICT'",
            "INSERT INTO t (a, b) VALUES (1, 2)",
            "SELECT count(*) FROM t WHERE (a in (1)) is not true",
        ] {
            check(&Lexed::new(sql).unwrap()).unwrap();
        }
    }
}
