//! `CREATE TABLE` and `ALTER TABLE`: Redshift's grammar, read to its end, and PostgreSQL's written from it.
//!
//! Distribution, sort keys, encodings and backup are dropped. Primary, unique and foreign keys are dropped too, since
//! Redshift doesn't enforce them. A character type's length is in bytes: beside PostgreSQL's own type, which counts
//! characters, a check constraint named by [`constraint_name`] counts the bytes, and `LIKE` takes it along.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use super::names;
use super::rewrite;
use super::types::column_type;
use crate::failure::Failure;

const BYTES_PREFIX: &str = "redshift_bytes_";

/// The name of the check on a column's bytes. Unique in its table; it tells the type and its length.
fn constraint_name(column: &str, kind: &str, limit: u32) -> String {
    let kind = if kind == "character" { "char" } else { "varchar" };
    names::quoted(&names::folded(&format!("{BYTES_PREFIX}{kind}_{limit}_{}", column.trim_matches('"'))))
}

/// The type's name in messages and its bytes, if a check constraint of ours was violated.
pub(crate) fn byte_limit_of_constraint(name: &str) -> Option<(&'static str, u32)> {
    let (kind, rest) = name.strip_prefix(BYTES_PREFIX)?.split_once('_')?;
    let limit = rest.split('_').next()?.parse().ok()?;
    Some((if kind == "char" { "character" } else { "character varying" }, limit))
}

/// `CREATE [LOCAL] [TEMP] TABLE …` in PostgreSQL's words.
pub(crate) fn create_table(lexed: &Lexed) -> Result<String, Failure> {
    let mut at = 1;
    let mut out = String::from("CREATE ");
    if lexed.word(at) == "LOCAL" {
        at += 1;
    }
    if matches!(lexed.word(at).as_str(), "TEMP" | "TEMPORARY") {
        out.push_str("TEMP ");
        at += 1;
    }
    if lexed.word(at) != "TABLE" {
        return Err(lexed.error_at(at));
    }
    out.push_str("TABLE ");
    at += 1;
    let if_not_exists = lexed.words_are(at, &["IF", "NOT", "EXISTS"]);
    if if_not_exists {
        out.push_str("IF NOT EXISTS ");
        at += 3;
    }
    let (name, after) = names::qualified(lexed, at)?;
    out.push_str(&name);
    at = after;
    let mut columns = None;
    if lexed.is(at, &Token::LParen) {
        let end = lexed.after_parenthesis(at)?;
        columns = Some((at + 1, end - 1));
        at = end;
    }
    at = skip_attributes(lexed, at)?;
    if lexed.word(at) == "AS" {
        if if_not_exists {
            return Err(lexed.error_at(at));
        }
        if let Some((from, to)) = columns {
            out = format!("{out} ({})", rewrite::plain(lexed.between(from, to))?);
        }
        let query = &lexed.text[lexed.tokens[at].end..];
        super::check_query(query)?;
        return Ok(format!("{out} AS {}", rewrite::plain(query)?));
    }
    let (Some((from, to)), true) = (columns, at == lexed.tokens.len()) else { return Err(lexed.error_at(at)) };
    Ok(format!("{out} ({})", items(lexed, from, to)?.join(", ")))
}

/// The table's columns and constraints, each as PostgreSQL shall read it.
fn items(lexed: &Lexed, from: usize, to: usize) -> Result<Vec<String>, Failure> {
    let mut out = Vec::new();
    for (start, end) in split_at_commas(lexed, from, to) {
        match lexed.word(start).as_str() {
            "LIKE" => out.push(like(lexed, start, end)?),
            // Kept nowhere: Redshift takes such keys as a hint to its planner only.
            "PRIMARY" | "UNIQUE" | "FOREIGN" => {}
            "CONSTRAINT" if matches!(lexed.word(start + 2).as_str(), "PRIMARY" | "UNIQUE" | "FOREIGN") => {}
            "CHECK" | "EXCLUDE" => return Err(lexed.error_at(start)),
            "CONSTRAINT" => return Err(lexed.error_at(start + 2)),
            _ => out.extend(column(lexed, start, end)?),
        }
    }
    Ok(out)
}

fn like(lexed: &Lexed, start: usize, end: usize) -> Result<String, Failure> {
    let (parent, mut at) = names::qualified(lexed, start + 1)?;
    let mut out = format!("LIKE {parent} INCLUDING CONSTRAINTS");
    if at < end && lexed.word(at + 1) == "DEFAULTS" {
        match lexed.word(at).as_str() {
            "INCLUDING" => out.push_str(" INCLUDING DEFAULTS"),
            "EXCLUDING" => {}
            _ => return Err(lexed.error_at(at)),
        }
        at += 2;
    }
    if at == end { Ok(out) } else { Err(lexed.error_at(at)) }
}

/// One column: its definition, and the check on its bytes where it has one.
fn column(lexed: &Lexed, start: usize, end: usize) -> Result<Vec<String>, Failure> {
    let name = names::one(lexed, start)?;
    let (kind, mut at) = column_type(lexed, start + 1)?;
    let mut definition = format!("{name} {}", kind.sql);
    while at < end {
        match lexed.word(at).as_str() {
            "NOT" if lexed.word(at + 1) == "NULL" => {
                definition.push_str(" NOT NULL");
                at += 2;
            }
            "NULL" | "DISTKEY" | "SORTKEY" | "UNIQUE" => at += 1,
            "PRIMARY" if lexed.word(at + 1) == "KEY" => {
                // The one thing Redshift does enforce about a primary key.
                definition.push_str(" NOT NULL");
                at += 2;
            }
            "ENCODE" => at += 2,
            "COLLATE" if matches!(lexed.word(at + 1).as_str(), "CASE_SENSITIVE" | "CS") => at += 2,
            "COLLATE" => return Err(Failure::not_imitated("a case-insensitive collation")),
            "REFERENCES" => {
                at = names::qualified(lexed, at + 1)?.1;
                if lexed.is(at, &Token::LParen) {
                    at = lexed.after_parenthesis(at)?;
                }
            }
            "DEFAULT" => {
                let stop = default_end(lexed, at + 1, end)?;
                definition = format!("{definition} DEFAULT {}", rewrite::plain(lexed.between(at + 1, stop))?);
                at = stop;
            }
            "IDENTITY" => {
                definition = format!("{definition} GENERATED ALWAYS AS IDENTITY {}", sequence(lexed, at + 1)?);
                at = lexed.after_parenthesis(at + 1)?;
            }
            "GENERATED" if lexed.words_are(at, &["GENERATED", "BY", "DEFAULT", "AS", "IDENTITY"]) => {
                definition = format!("{definition} GENERATED BY DEFAULT AS IDENTITY {}", sequence(lexed, at + 5)?);
                at = lexed.after_parenthesis(at + 5)?;
            }
            _ => return Err(lexed.error_at(at)),
        }
    }
    let mut out = vec![definition];
    if let Some((kind, limit)) = kind.bytes {
        out.push(format!("CONSTRAINT {} CHECK (octet_length({name}) <= {limit})", constraint_name(&name, kind, limit)));
    }
    Ok(out)
}

/// `(seed, step)` as a sequence's options.
fn sequence(lexed: &Lexed, open: usize) -> Result<String, Failure> {
    let number = |index: usize| match lexed.tokens.get(index).map(|lexeme| &lexeme.token) {
        Some(Token::Number(text, _)) => Ok(text.clone()),
        _ => Err(lexed.error_at(index)),
    };
    Ok(format!("(START WITH {} INCREMENT BY {})", number(open + 1)?, number(open + 3)?))
}

/// Where a default's expression ends: at the next word that begins another property of the column.
fn default_end(lexed: &Lexed, from: usize, end: usize) -> Result<usize, Failure> {
    let mut at = from;
    while at < end {
        if at > from
            && matches!(
                lexed.word(at).as_str(),
                "NOT" | "NULL" | "ENCODE" | "DISTKEY" | "SORTKEY" | "UNIQUE" | "PRIMARY" | "REFERENCES" | "COLLATE"
            )
        {
            break;
        }
        at = if lexed.is(at, &Token::LParen) { lexed.after_parenthesis(at)? } else { at + 1 };
    }
    Ok(at)
}

/// What may stand after the parenthesis: `DISTSTYLE …`, `DISTKEY (…)`, `[COMPOUND|INTERLEAVED] SORTKEY …`, `BACKUP …`.
fn skip_attributes(lexed: &Lexed, mut at: usize) -> Result<usize, Failure> {
    loop {
        at = match (lexed.word(at).as_str(), lexed.word(at + 1).as_str()) {
            ("DISTSTYLE", "AUTO" | "EVEN" | "KEY" | "ALL")
            | ("BACKUP", "YES" | "NO")
            | ("ENCODE" | "SORTKEY", "AUTO") => at + 2,
            ("COMPOUND" | "INTERLEAVED", "SORTKEY") => at + 1,
            ("SORTKEY" | "DISTKEY", _) if lexed.is(at + 1, &Token::LParen) => lexed.after_parenthesis(at + 1)?,
            _ => return Ok(at),
        }
    }
}

/// The pieces between commas that stand in no inner parenthesis.
fn split_at_commas(lexed: &Lexed, from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let (mut start, mut depth) = (from, 0usize);
    for index in from..to {
        match lexed.tokens[index].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                out.push((start, index));
                start = index + 1;
            }
            _ => {}
        }
    }
    out.push((start, to));
    out
}

/// `ALTER TABLE …`: one action, of those Redshift has. None: it changes nothing here.
pub(crate) fn alter_table(lexed: &Lexed) -> Result<Option<String>, Failure> {
    let (table, at) = names::qualified(lexed, 2)?;
    let end = lexed.tokens.len();
    let head = format!("ALTER TABLE {table}");
    // The word COLUMN may be left out.
    let start = if lexed.word(at + 1) == "COLUMN" { at + 2 } else { at + 1 };
    let key = if lexed.word(at + 1) == "CONSTRAINT" { at + 3 } else { at + 1 };
    match lexed.word(at).as_str() {
        "ADD" if matches!(lexed.word(key).as_str(), "PRIMARY" | "UNIQUE" | "FOREIGN") => Ok(None),
        "ADD" if lexed.word(at + 1) == "CONSTRAINT" => Err(lexed.error_at(key)),
        "ADD" | "DROP" if lexed.word(start) == "IF" => Err(lexed.error_at(start)),
        "ADD" => Ok(Some(format!("{head} ADD {}", column(lexed, start, end)?.join(", ADD ")))),
        "DROP" => {
            let name = names::one(lexed, start)?;
            let behaviour = lexed.word(start + 1);
            match behaviour.as_str() {
                "" if start + 1 == end => Ok(Some(format!("{head} DROP COLUMN {name}"))),
                "CASCADE" | "RESTRICT" => Ok(Some(format!("{head} DROP COLUMN {name} {behaviour}"))),
                _ => Err(lexed.error_at(start + 1)),
            }
        }
        "RENAME" | "OWNER" | "SET" => Ok(Some(rewrite::lexed(lexed))),
        "ALTER"
            if matches!(lexed.word(at + 1).as_str(), "DISTKEY" | "DISTSTYLE" | "SORTKEY" | "ENCODE" | "COMPOUND") =>
        {
            Ok(None)
        }
        "ALTER" | "APPEND" => Err(Failure::not_imitated(&format!("ALTER TABLE {}", lexed.between(at, at + 2)))),
        _ => Err(lexed.error_at(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(sql: &str) -> Result<String, String> {
        create_table(&Lexed::new(sql).unwrap()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn redshifts_attributes_are_dropped_and_bytes_are_checked() {
        assert_eq!(
            create(
                "CREATE TABLE IF NOT EXISTS \"Sales\".orders (id bigint NOT NULL ENCODE az64 DISTKEY, c varchar(64), \
                 n decimal DEFAULT 0 NOT NULL, k bigint IDENTITY(1,1), j super, PRIMARY KEY (id)) \
                 DISTSTYLE KEY COMPOUND SORTKEY (id) BACKUP NO"
            )
            .unwrap(),
            "CREATE TABLE IF NOT EXISTS \"sales\".orders (id bigint NOT NULL, c varchar(64), \
             CONSTRAINT \"redshift_bytes_varchar_64_c\" CHECK (octet_length(c) <= 64), \
             n numeric(18,0) DEFAULT 0 NOT NULL, \
             k bigint GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1), j jsonb)"
        );
        assert_eq!(byte_limit_of_constraint("redshift_bytes_varchar_64_2"), Some(("character varying", 64)));
    }

    #[test]
    fn a_table_like_another() {
        assert_eq!(
            create("CREATE TABLE s (LIKE t INCLUDING DEFAULTS)").unwrap(),
            "CREATE TABLE s (LIKE t INCLUDING CONSTRAINTS INCLUDING DEFAULTS)"
        );
    }

    #[test]
    fn what_redshift_lacks_is_refused() {
        for (sql, near) in [
            ("CREATE TABLE t (a int CHECK (a > 0))", "syntax error at or near \"CHECK\""),
            ("CREATE TABLE t (a serial)", "type \"serial\" does not exist"),
            ("CREATE TABLE t (a int[])", "syntax error"),
            ("CREATE TABLE t (a uuid)", "type \"uuid\" does not exist"),
            ("CREATE TABLE t (a int) PARTITION BY RANGE (a)", "near \"PARTITION\""),
            ("CREATE UNLOGGED TABLE t (a int)", "near \"UNLOGGED\""),
            ("CREATE TABLE t (a varchar(65536))", "cannot exceed 65535"),
            ("CREATE TABLE t (LIKE u INCLUDING ALL)", "near \"INCLUDING\""),
        ] {
            let error = create(sql).unwrap_err();
            assert!(error.contains(near), "{sql}: {error}");
        }
    }
}
