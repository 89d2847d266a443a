//! `SET`, `RESET` and `SHOW`: PostgreSQL's for what both have, without effect for what only Redshift has.

use super::lex::Lexed;
use super::{Action, rewrite};
use crate::failure::Failure;

/// Settings that mean the same in both.
const SHARED: [&str; 6] =
    ["STATEMENT_TIMEOUT", "TIMEZONE", "DATESTYLE", "APPLICATION_NAME", "EXTRA_FLOAT_DIGITS", "INTERVALSTYLE"];
/// Redshift's own, of which nothing here depends.
const IGNORED: [&str; 8] = [
    "QUERY_GROUP",
    "WLM_QUERY_SLOT_COUNT",
    "ENABLE_RESULT_CACHE_FOR_SESSION",
    "ANALYZE_THRESHOLD_PERCENT",
    "MAX_CURSOR_RESULT_SET_SIZE",
    "USE_FIPS_SSL",
    "SPECTRUM_QUERY_MAXERROR",
    "MV_ENABLE_AQMV_FOR_SESSION",
];

/// Reads a statement that begins with one of the three words.
pub(crate) fn read(lexed: &Lexed) -> Result<Action, Failure> {
    let verb = lexed.word(0);
    let at = usize::from(matches!(lexed.word(1).as_str(), "SESSION" | "LOCAL")) + 1;
    let name = lexed.word(at);
    if name == "TIME" && lexed.word(at + 1) == "ZONE" || SHARED.contains(&name.as_str()) {
        let sql = rewrite::lexed(lexed);
        return Ok(if verb == "SHOW" { Action::Query { sql, reads_tables: false } } else { Action::Run { sql } });
    }
    if name == "SEARCH_PATH" && verb == "SET" {
        // The stand-in's own functions and views stay in reach.
        return Ok(Action::Run { sql: format!("{}, redshift_local", rewrite::lexed(lexed)) });
    }
    if IGNORED.contains(&name.as_str()) && verb != "SHOW" {
        return Ok(Action::Nothing { outside_transactions: None });
    }
    if name == "ENABLE_CASE_SENSITIVE_IDENTIFIER" {
        let off = lexed.tokens.last().is_some_and(|last| {
            matches!(lexed.slice(last).trim_matches('\'').to_ascii_lowercase().as_str(), "false" | "off")
        });
        return if off {
            Ok(Action::Nothing { outside_transactions: None })
        } else {
            Err(Failure::not_imitated("enable_case_sensitive_identifier"))
        };
    }
    Err(Failure::new(format!("unrecognized configuration parameter \"{}\"", name.to_ascii_lowercase())))
}
