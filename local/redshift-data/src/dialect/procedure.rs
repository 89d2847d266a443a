//! `CREATE PROCEDURE … LANGUAGE plpgsql`: read by hand, for no SQL parser reads PL/pgSQL.
//!
//! The body is held to what Redshift allows: static tokens of its dialect, no `EXCEPTION` block, no transaction control,
//! `RAISE` with a literal and plain variables, `GET DIAGNOSTICS` of `ROW_COUNT` only.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use super::{names, refuse, rewrite};
use crate::failure::Failure;

/// The statement in PostgreSQL's words.
pub(crate) fn create(lexed: &Lexed) -> Result<String, Failure> {
    let start = if lexed.words_are(1, &["OR", "REPLACE"]) { 4 } else { 2 };
    let (_, open) = names::qualified(lexed, start)?;
    if !lexed.is(open, &Token::LParen) {
        return Err(lexed.error_at(open));
    }
    let mut at = lexed.after_parenthesis(open)?;
    for index in open..at {
        if matches!(lexed.word(index).as_str(), "OUT" | "INOUT") {
            return Err(Failure::not_imitated("an OUT argument of a procedure"));
        }
        if lexed.word(index) == "DEFAULT" || lexed.is(index, &Token::Eq) {
            return Err(lexed.error_at(index));
        }
    }
    let mut body = None;
    while at < lexed.tokens.len() {
        match lexed.word(at).as_str() {
            "NONATOMIC" => return Err(Failure::not_imitated("a NONATOMIC procedure")),
            "AS" => {
                body = Some(at + 1);
                at += 2;
            }
            "LANGUAGE" if lexed.tokens.get(at + 1).and_then(super::lex::Lexeme::name).as_deref() == Some("plpgsql") => {
                at += 2;
            }
            "SECURITY" if matches!(lexed.word(at + 1).as_str(), "INVOKER" | "DEFINER") => at += 2,
            "SET" => return Err(Failure::not_imitated("SET of a procedure")),
            _ => return Err(lexed.error_at(at)),
        }
    }
    let body = body.ok_or_else(|| lexed.error_at(lexed.tokens.len()))?;
    let Some(Token::DollarQuotedString(text)) = lexed.tokens.get(body).map(|lexeme| &lexeme.token) else {
        return Err(lexed.error_at(body));
    };
    let inner = Lexed::new(&text.value)?;
    check_body(&inner)?;
    let tag = text.tag.as_deref().unwrap_or("");
    let literal = format!("${tag}${}${tag}$", rewrite::lexed(&inner));
    let quoted = &lexed.tokens[body];
    let head = rewrite::plain(&lexed.text[..quoted.start])?;
    let tail = rewrite::plain(&lexed.text[quoted.end..])?;
    Ok(format!("{head}{literal}{tail}"))
}

fn check_body(body: &Lexed) -> Result<(), Failure> {
    refuse::check(body)?;
    for index in 0..body.tokens.len() {
        match body.word(index).as_str() {
            "EXCEPTION" if body.word(index + 1) == "WHEN" => {
                return Err(Failure::not_imitated(
                    "an EXCEPTION block (Redshift rolls the whole transaction back in it)",
                ));
            }
            "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "TRUNCATE" | "VACUUM" if begins_statement(body, index) => {
                return Err(Failure::not_imitated(&format!("{} in a procedure", body.word(index))));
            }
            "RAISE" => check_raise(body, index)?,
            "DIAGNOSTICS" => {
                let value = index + if body.is(index + 2, &Token::Assignment) { 3 } else { 0 };
                if body.word(value) != "ROW_COUNT" {
                    return Err(body.error_at(value.max(index + 2)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn begins_statement(body: &Lexed, index: usize) -> bool {
    index == 0
        || body.is(index - 1, &Token::SemiColon)
        || matches!(body.word(index - 1).as_str(), "BEGIN" | "THEN" | "ELSE" | "LOOP")
}

/// `RAISE level 'format' [, variable …];`
fn check_raise(body: &Lexed, index: usize) -> Result<(), Failure> {
    if !matches!(body.word(index + 1).as_str(), "INFO" | "NOTICE" | "WARNING" | "LOG" | "DEBUG" | "EXCEPTION") {
        return Err(body.error_at(index + 1));
    }
    if body.tokens.get(index + 2).and_then(super::lex::Lexeme::string).is_none() {
        return Err(body.error_at(index + 2));
    }
    let mut at = index + 3;
    while body.is(at, &Token::Comma) {
        if !matches!(body.tokens.get(at + 1).map(|lexeme| &lexeme.token), Some(Token::Word(_))) {
            return Err(body.error_at(at + 1));
        }
        at += 2;
    }
    if body.is(at, &Token::SemiColon) { Ok(()) } else { Err(body.error_at(at)) }
}

/// The tables a procedure's body writes, as it names them; to be locked before the call takes its snapshot.
pub(crate) fn written_tables(body: &str) -> Vec<(String, bool)> {
    let Ok(lexed) = Lexed::new(body) else { return Vec::new() };
    let mut out = Vec::new();
    for index in 0..lexed.tokens.len() {
        let (at, exclusive) = match (lexed.word(index).as_str(), lexed.word(index + 1).as_str()) {
            ("DELETE", "FROM") => (index + 2, true),
            ("UPDATE", _) if begins_statement(&lexed, index) => (index + 1, true),
            ("INSERT", "INTO") => (index + 2, false),
            _ => continue,
        };
        if let Ok((name, _)) = names::qualified(&lexed, at) {
            out.push((name, exclusive));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(body: &str) -> Result<String, String> {
        let sql = format!("CREATE OR REPLACE PROCEDURE s.p(a bigint, b varchar(max)) AS $$ {body} $$ LANGUAGE plpgsql");
        create(&Lexed::new(&sql).unwrap()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_fence_as_the_product_writes_it() {
        let sql = body(
            "DECLARE n integer; BEGIN UPDATE f SET fence = a WHERE p = b AND fence < a; GET DIAGNOSTICS n := ROW_COUNT; \
             IF n <> 1 THEN RAISE EXCEPTION 'fenced %', a; END IF; END;",
        )
        .unwrap();
        assert!(sql.contains("varchar(65535)") && sql.ends_with("LANGUAGE plpgsql"), "{sql}");
        assert_eq!(written_tables(sql.split("$$").nth(1).unwrap()), [("f".to_owned(), true)]);
    }

    #[test]
    fn what_would_fail_on_redshift() {
        for (text, error) in [
            ("BEGIN NULL; EXCEPTION WHEN OTHERS THEN NULL; END;", "EXCEPTION block"),
            ("BEGIN COMMIT; END;", "COMMIT in a procedure"),
            ("BEGIN RAISE EXCEPTION 'a %', a + 1; END;", "near \"+\""),
            ("BEGIN GET DIAGNOSTICS n = ROW_COUNT; END;", "syntax error"),
            ("BEGIN INSERT INTO t VALUES (1) RETURNING a INTO n; END;", "near \"RETURNING\""),
        ] {
            let failure = body(text).unwrap_err();
            assert!(failure.contains(error), "{text}: {failure}");
        }
    }
}
