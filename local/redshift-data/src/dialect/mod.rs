//! From a statement of Redshift to what PostgreSQL shall run for it, or to the error Redshift would answer.

pub(crate) mod copy;
pub(crate) mod create_table;
pub(crate) mod lex;
pub(crate) mod names;
pub(crate) mod procedure;
mod refuse;
pub(crate) mod rewrite;
mod settings;
mod types;

use sqlparser::ast::{FromTable, SetExpr, Statement, TableFactor, TableObject};
use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use self::copy::CopyCommand;
use self::lex::Lexed;
use crate::failure::Failure;

/// What to do for a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// A query: it has a result set, maybe an empty one.
    Query {
        sql: String,
        reads_tables: bool,
    },
    /// INSERT, UPDATE, DELETE, MERGE: the number of rows is what it answers.
    Write {
        sql: String,
        table: String,
        exclusive: bool,
    },
    /// Anything else that PostgreSQL runs.
    Run {
        sql: String,
    },
    /// A procedure, by the name it is called by.
    Call {
        sql: String,
        procedure: String,
    },
    Copy(Box<CopyCommand>),
    /// Runs, then commits what the transaction has so far.
    Truncate {
        sql: String,
    },
    Begin,
    Commit,
    Rollback,
    /// Accepted, without effect here. The word is given if a transaction block refuses it.
    Nothing {
        outside_transactions: Option<&'static str>,
    },
}

/// Reads one statement.
pub(crate) fn read(lexed: &Lexed) -> Result<Action, Failure> {
    let lexed = &only_statement(lexed)?;
    refuse_all(lexed)?;
    let second = lexed.word(1);
    let run = |sql: Result<String, Failure>| sql.map(|sql| Action::Run { sql });
    match lexed.word(0).as_str() {
        "COPY" => Ok(Action::Copy(Box::new(copy::parse(lexed)?))),
        "LOCK" => run(lock(lexed)),
        "CREATE" if is_procedure(lexed) => run(procedure::create(lexed)),
        "CREATE" if matches!(second.as_str(), "TABLE" | "TEMP" | "TEMPORARY" | "LOCAL") => {
            run(create_table::create_table(lexed))
        }
        "CREATE" if matches!(second.as_str(), "SCHEMA" | "VIEW" | "USER" | "GROUP" | "OR") => run(checked(lexed)),
        "CREATE" if matches!(second.as_str(), "ROLE" | "DATABASE" | "EXTERNAL" | "FUNCTION" | "MATERIALIZED") => {
            Err(Failure::not_imitated(&format!("CREATE {second}")))
        }
        "ALTER" if second == "TABLE" => Ok(match create_table::alter_table(lexed)? {
            Some(sql) => Action::Run { sql },
            None => Action::Nothing { outside_transactions: None },
        }),
        "DROP" if matches!(second.as_str(), "TABLE" | "VIEW" | "SCHEMA" | "PROCEDURE" | "USER" | "GROUP") => {
            run(rewrite::plain(&lexed.text))
        }
        "CREATE" | "DROP" | "ALTER" => Err(lexed.error_at(1)),
        "GRANT" | "REVOKE" | "COMMENT" => run(rewrite::plain(&lexed.text)),
        "CALL" => call(lexed),
        "SET" | "RESET" | "SHOW" => settings::read(lexed),
        "BEGIN" | "START" => begin(lexed),
        "COMMIT" | "END" => Ok(Action::Commit),
        "ROLLBACK" | "ABORT" if second == "TO" => Err(lexed.error_at(1)),
        "ROLLBACK" | "ABORT" => Ok(Action::Rollback),
        "VACUUM" => Ok(Action::Nothing { outside_transactions: Some("VACUUM") }),
        "ANALYZE" => Ok(Action::Nothing { outside_transactions: None }),
        "TRUNCATE" => truncate(lexed),
        word @ ("UNLOAD" | "DECLARE" | "FETCH" | "CLOSE" | "PREPARE" | "EXECUTE" | "DEALLOCATE" | "EXPLAIN"
        | "CANCEL" | "USE" | "REFRESH" | "DESCRIBE" | "DESC") => Err(Failure::not_imitated(word)),
        "SELECT" | "WITH" | "INSERT" | "UPDATE" | "DELETE" | "MERGE" => sql(lexed),
        _ if lexed.is(0, &Token::LParen) => sql(lexed),
        _ => Err(lexed.error_at(0)),
    }
}

/// The text without closing semicolons; more than one statement is an error.
fn only_statement(lexed: &Lexed) -> Result<Lexed, Failure> {
    let mut lexed = lexed.clone();
    while lexed.tokens.last().is_some_and(|last| last.token == Token::SemiColon) {
        lexed.tokens.pop();
    }
    let end = lexed.tokens.last().map_or(0, |last| last.end);
    lexed.text.truncate(end);
    if lexed.tokens.is_empty() {
        return Err(Failure::new("syntax error at end of input"));
    }
    match lexed.tokens.iter().position(|lexeme| lexeme.token == Token::SemiColon) {
        Some(_) => Err(Failure::new("cannot insert multiple commands into a prepared statement")),
        None => Ok(lexed),
    }
}

/// Everywhere but in a procedure's head, whose body is checked by itself.
fn refuse_all(lexed: &Lexed) -> Result<(), Failure> {
    if is_procedure(lexed) {
        return Ok(());
    }
    if let Some(index) = lexed
        .tokens
        .iter()
        .position(|lexeme| matches!(lexeme.token, Token::DollarQuotedString(_) | Token::Placeholder(_)))
    {
        return Err(lexed.error_at(index));
    }
    refuse::check(lexed)
}

fn is_procedure(lexed: &Lexed) -> bool {
    lexed.words_are(0, &["CREATE", "PROCEDURE"]) || lexed.words_are(0, &["CREATE", "OR", "REPLACE", "PROCEDURE"])
}

/// Parses a query that is part of another statement.
fn check_query(text: &str) -> Result<(), Failure> {
    parse(&Lexed::new(text)?).map(drop)
}

/// The statement as a parser of Redshift's dialect understands it.
fn parse(lexed: &Lexed) -> Result<Statement, Failure> {
    let mut found = Parser::parse_sql(&RedshiftSqlDialect {}, &lexed.text)
        .map_err(|error| syntax_error(lexed, &error.to_string()))?;
    match found.pop() {
        Some(statement) if found.is_empty() => Ok(statement),
        _ => Err(lexed.error_at(0)),
    }
}

/// The parser's error at the token it names (`… at Line: 1, Column: 15`).
fn syntax_error(lexed: &Lexed, error: &str) -> Failure {
    let number = |label: &str| {
        let (_, rest) = error.rsplit_once(label)?;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().ok()
    };
    if let (Some(line), Some(column)) = (number("Line: "), number("Column: ")) {
        let before: usize =
            lexed.text.split_inclusive('\n').take(line.saturating_sub(1)).map(|l| l.chars().count()).sum();
        let position = before + column;
        if let Some(index) = lexed.tokens.iter().position(|lexeme| lexed.position(lexeme) >= position) {
            return lexed.error_at(index);
        }
    }
    lexed.error_at(lexed.tokens.len())
}

fn checked(lexed: &Lexed) -> Result<String, Failure> {
    parse(lexed)?;
    rewrite::plain(&lexed.text)
}

/// Queries and the four statements that write rows.
fn sql(lexed: &Lexed) -> Result<Action, Failure> {
    let statement = parse(lexed)?;
    let text = rewrite::lexed(lexed);
    let write = |name: String, exclusive| -> Result<Action, Failure> {
        Ok(Action::Write { sql: text.clone(), table: rewrite::plain(&name)?, exclusive })
    };
    match &statement {
        Statement::Query(query) => match query.body.as_ref() {
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => {
                let (name, exclusive) = written(inner, lexed)?;
                write(name, exclusive)
            }
            _ => {
                let reads_tables = (0..lexed.tokens.len()).any(|index| lexed.word(index) == "FROM");
                Ok(Action::Query { sql: text, reads_tables })
            }
        },
        other => {
            let (name, exclusive) = written(other, lexed)?;
            write(name, exclusive)
        }
    }
}

/// The table a statement writes, and whether it wants to be its only writer.
fn written(statement: &Statement, lexed: &Lexed) -> Result<(String, bool), Failure> {
    let plain_table = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => Some(name.to_string()),
        _ => None,
    };
    let (name, exclusive) = match statement {
        Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => (Some(name.to_string()), false),
            _ => (None, false),
        },
        Statement::Update(update) => (plain_table(&update.table.relation), true),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            match tables.as_slice() {
                [table] => {
                    if let TableFactor::Table { alias: Some(alias), .. } = &table.relation {
                        return Err(Failure::new(format!("syntax error at or near \"{alias}\"")));
                    }
                    (plain_table(&table.relation), true)
                }
                _ => (None, true),
            }
        }
        Statement::Merge(merge) => (plain_table(&merge.table), true),
        _ => (None, false),
    };
    Ok((name.ok_or_else(|| lexed.error_at(0))?, exclusive))
}

/// `LOCK [TABLE] a, b`: no modes, no NOWAIT.
fn lock(lexed: &Lexed) -> Result<String, Failure> {
    let mut at = if lexed.word(1) == "TABLE" { 2 } else { 1 };
    let mut tables = Vec::new();
    loop {
        let (name, next) = names::qualified(lexed, at)?;
        tables.push(name);
        at = next;
        if !lexed.is(at, &Token::Comma) {
            break;
        }
        at += 1;
    }
    if at < lexed.tokens.len() {
        return Err(lexed.error_at(at));
    }
    Ok(format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables.join(", ")))
}

fn call(lexed: &Lexed) -> Result<Action, Failure> {
    let (procedure, at) = names::qualified(lexed, 1)?;
    if !lexed.is(at, &Token::LParen) || lexed.after_parenthesis(at)? != lexed.tokens.len() {
        return Err(lexed.error_at(at));
    }
    Ok(Action::Call { sql: rewrite::lexed(lexed), procedure })
}

fn begin(lexed: &Lexed) -> Result<Action, Failure> {
    let allowed = ["BEGIN", "START", "WORK", "TRANSACTION", "ISOLATION", "LEVEL", "SERIALIZABLE", "READ", "COMMITTED"];
    let more = ["UNCOMMITTED", "REPEATABLE", "ONLY", "WRITE"];
    match (0..lexed.tokens.len()).find(|index| {
        let word = lexed.word(*index);
        !allowed.contains(&word.as_str()) && !more.contains(&word.as_str())
    }) {
        // Whatever level it names, the database's own holds.
        None => Ok(Action::Begin),
        Some(index) => Err(lexed.error_at(index)),
    }
}

/// `TRUNCATE [TABLE] one_table`.
fn truncate(lexed: &Lexed) -> Result<Action, Failure> {
    let (table, end) = names::qualified(lexed, if lexed.word(1) == "TABLE" { 2 } else { 1 })?;
    if end < lexed.tokens.len() {
        return Err(lexed.error_at(end));
    }
    Ok(Action::Truncate { sql: format!("TRUNCATE TABLE {table}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(sql: &str) -> Result<Action, String> {
        read(&Lexed::new(sql).unwrap()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn writes_know_their_table() {
        for (sql, table, exclusive) in [
            ("INSERT INTO \"Sales\".orders (a) SELECT a FROM s;", "\"sales\".orders", false),
            ("DELETE FROM sales.orders WHERE dt = DATE '2026-11-01'", "sales.orders", true),
            ("DELETE FROM t USING s WHERE t.a = s.a", "t", true),
            ("UPDATE t SET a = 1 FROM s WHERE t.a = s.a", "t", true),
            (
                "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1)",
                "t",
                true,
            ),
        ] {
            match read_text(sql) {
                Ok(Action::Write { table: found, exclusive: only, .. }) => {
                    assert_eq!((found.as_str(), only), (table, exclusive), "{sql}");
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
    }

    /// Every statement Tidemark emits, as its golden files have them.
    #[test]
    fn tidemarks_own_statements_are_read() {
        for golden in [
            include_str!("../../../../shared/domain/golden/csv.sql"),
            include_str!("../../../../shared/domain/golden/empty.sql"),
            include_str!("../../../../shared/domain/golden/install.sql"),
            include_str!("../../../../shared/domain/golden/parquet.sql"),
        ] {
            let statements: Vec<&str> = golden.split("\n---- ").skip(1).flat_map(numbered).collect();
            assert!(!statements.is_empty());
            for statement in statements {
                read_text(statement).unwrap_or_else(|error| panic!("{statement}\n{error}"));
            }
        }
    }

    /// The statements of one batch: each begins after a line `-- <number>`.
    fn numbered(batch: &str) -> Vec<&str> {
        let mut out = Vec::new();
        let mut rest = batch;
        for number in 1.. {
            let Some((_, after)) = rest.split_once(&format!("\n-- {number}\n")) else { break };
            let end = after.find(&format!("\n-- {}\n", number + 1)).unwrap_or(after.len());
            out.push(after[..end].trim());
            rest = &after[end..];
        }
        out
    }

    #[test]
    fn what_isnt_redshifts_is_refused() {
        for (sql, text) in [
            ("SELECT FROM WHERE", "syntax error at or near"),
            ("LOCK TABLE t IN EXCLUSIVE MODE", "near \"IN\""),
            ("LOCK t NOWAIT", "near \"NOWAIT\""),
            ("SAVEPOINT a", "near \"SAVEPOINT\""),
            ("ROLLBACK TO a", "near \"TO\""),
            ("CREATE INDEX i ON t (a)", "near \"INDEX\""),
            ("CREATE SEQUENCE s", "near \"SEQUENCE\""),
            ("DO $$ BEGIN END $$", "syntax error"),
            ("SELECT 1; SELECT 2", "multiple commands"),
            ("DELETE FROM t AS x WHERE x.a = 1", "syntax error"),
            ("UNLOAD ('SELECT 1') TO 's3://b/k' IAM_ROLE default", "not imitated"),
            ("TRUNCATE a, b", "near \",\""),
        ] {
            let error = read_text(sql).unwrap_err();
            assert!(error.contains(text), "{sql}: {error}");
        }
    }
}
