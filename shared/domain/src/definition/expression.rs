//! One scalar expression over staged columns: what `[x.select]` may hold.
//!
//! An expression gives the same value for the same row, today and at a retry, in the count and in the insert: so it is made of
//! staged columns, literals, operators and functions of an allow-list, none of them volatile, none an aggregate, and holds no
//! subquery. It is kept as its owner wrote it; the parser reads it as Redshift does, a backslash in a literal being an escape.

use std::fmt;

use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, InTarget, Value, ValueWithSpan,
};
use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::parser::{Parser, ParserOptions};
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::{ColumnName, Flaw};

/// Longer ones are better made upstream, in bytes.
const MAX_BYTES: usize = 4_000;

/// Functions that give the same for the same arguments, one row at a time.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "abs", "add_months", "ascii", "btrim", "cbrt", "char_length", "character_length", "charindex", "chr", "coalesce", "concat",
    "convert_timezone", "crc32", "date_part", "date_trunc", "dateadd", "datediff", "decode", "dpow", "exp", "fnv_hash",
    "from_hex", "func_sha1", "greatest", "initcap", "is_valid_json", "is_valid_json_array", "json_array_length",
    "json_extract_array_element_text", "json_extract_path_text", "json_parse", "json_serialize", "last_day", "least", "left",
    "len", "length", "ln", "log", "lower", "lpad", "ltrim", "md5", "mod", "months_between", "next_day", "nullif", "nvl", "nvl2",
    "octet_length", "pow", "power", "regexp_count", "regexp_instr", "regexp_replace", "regexp_substr", "repeat", "replace",
    "replicate", "reverse", "right", "round", "rpad", "rtrim", "sha", "sha1", "sha2", "sign", "split_part", "sqrt", "strpos",
    "strtol", "substr", "substring", "textlen", "to_char", "to_date", "to_hex", "to_number", "to_timestamp", "translate",
    "trim", "trunc", "upper",
];

/// Functions whose first argument may be a bare word, the part of a date.
const OF_DATE_PARTS: &[&str] = &["dateadd", "datediff", "date_part"];

/// A checked expression, as its owner wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression(String);

impl Expression {
    /// Reads it; it may name `columns`, in any case of letters, and nothing else.
    pub(super) fn parse(text: &str, columns: &[&ColumnName]) -> Result<Self, Flaw> {
        let text = text.trim();
        let flaw = |what: String, remedy: &str| Flaw::new(format!("`{text}` {what}"), remedy);
        if text.len() > MAX_BYTES {
            let what = format!("the expression is {} bytes long", text.len());
            return Err(Flaw::new(what, format!("write {MAX_BYTES} at most")));
        }
        let tokens = Tokenizer::new(&RedshiftSqlDialect {}, text).with_unescape(false).tokenize();
        let tokens = tokens.map_err(|error| flaw(format!("is no SQL: {error}"), ONE))?;
        let comment = |token: &Token| {
            use Whitespace::{MultiLineComment, SingleLineComment};
            matches!(token, Token::Whitespace(SingleLineComment { .. } | MultiLineComment(_)))
        };
        if tokens.iter().any(comment) {
            return Err(flaw("holds a comment".to_owned(), "take it out"));
        }
        let options = ParserOptions::new().with_unescape(false);
        let mut parser = Parser::new(&RedshiftSqlDialect {}).with_options(options).with_tokens(tokens);
        let read = parser.parse_expr().map_err(|error| flaw(format!("is no SQL expression: {error}"), ONE))?;
        if parser.peek_token().token != Token::EOF {
            return Err(flaw(format!("goes on with `{}` after its end", parser.peek_token()), ONE));
        }
        scalar(&read, columns).map_err(|what| flaw(what, ONE))?;
        Ok(Self(text.to_owned()))
    }
}

const ONE: &str = "write one scalar expression over `columns`, such as \"lower(trim(customer))\"";

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says what makes an expression no scalar one over the columns.
fn scalar(read: &Expr, columns: &[&ColumnName]) -> Result<(), String> {
    let each = |inner: &[&Expr]| inner.iter().try_for_each(|inner| scalar(inner, columns));
    match read {
        Expr::Identifier(name) => column(&name.value, columns),
        Expr::Value(ValueWithSpan { value, .. }) => literal(value),
        Expr::TypedString(typed) => literal(&typed.value.value),
        Expr::Interval(interval) => scalar(&interval.value, columns),
        Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner)
        | Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::Cast { expr: inner, .. }
        | Expr::Extract { expr: inner, .. }
        | Expr::Ceil { expr: inner, .. }
        | Expr::Floor { expr: inner, .. } => scalar(inner, columns),
        Expr::BinaryOp { left, right, .. } => each(&[left, right]),
        Expr::Between { expr, low, high, .. } => each(&[expr, low, high]),
        Expr::Like { expr, pattern, any: false, .. }
        | Expr::ILike { expr, pattern, any: false, .. }
        | Expr::SimilarTo { expr, pattern, .. } => each(&[expr, pattern]),
        Expr::AtTimeZone { timestamp, time_zone } => each(&[timestamp, time_zone]),
        Expr::Position { expr, r#in } => each(&[expr, r#in]),
        Expr::In { expr, target: InTarget::List(list), .. } => {
            scalar(expr, columns)?;
            list.iter().try_for_each(|inner| scalar(inner, columns))
        }
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let bounds = substring_from.iter().chain(substring_for);
            scalar(expr, columns)?;
            bounds.map(|inner| &**inner).try_for_each(|inner| scalar(inner, columns))
        }
        Expr::Trim { expr, trim_what, trim_characters, .. } => {
            scalar(expr, columns)?;
            let what = trim_what.iter().map(|inner| &**inner).chain(trim_characters.iter().flatten());
            what.into_iter().try_for_each(|inner| scalar(inner, columns))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            let outer = operand.iter().chain(else_result).map(|inner| &**inner);
            let when = conditions.iter().flat_map(|CaseWhen { condition, result, .. }| [condition, result]);
            outer.chain(when).try_for_each(|inner| scalar(inner, columns))
        }
        Expr::Function(function) => call(function, columns),
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::In { .. } => Err("holds a subquery".to_owned()),
        other => Err(format!("holds `{other}`, which is not taken here")),
    }
}

fn column(name: &str, columns: &[&ColumnName]) -> Result<(), String> {
    let known = columns.iter().any(|column| column.0.eq_ignore_ascii_case(name));
    if known { Ok(()) } else { Err(format!("names `{name}`, which is no column of the files")) }
}

fn literal(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(..) | Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
        other => Err(format!("holds the literal {other}, which is not taken here")),
    }
}

fn call(function: &Function, columns: &[&ColumnName]) -> Result<(), String> {
    let name = function.name.to_string().to_lowercase();
    if !FUNCTIONS.contains(&name.as_str()) {
        return Err(format!("calls `{name}`, which may give another value at each call or more than one row's"));
    }
    let plain = function.over.is_none()
        && function.filter.is_none()
        && function.within_group.is_empty()
        && function.null_treatment.is_none()
        && matches!(function.parameters, FunctionArguments::None);
    let FunctionArguments::List(list) = &function.args else { return Err(format!("calls `{name}` without arguments")) };
    if !plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Err(format!("calls `{name}` with more than arguments"));
    }
    for (place, argument) in list.args.iter().enumerate() {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(word)))
                if place == 0 && OF_DATE_PARTS.contains(&name.as_str()) && word.quote_style.is_none() => {}
            FunctionArg::Unnamed(FunctionArgExpr::Expr(inner)) => scalar(inner, columns)?,
            _ => return Err(format!("calls `{name}` with an argument that is no expression")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Expression, Flaw> {
        let columns = ["order_id", "customer", "amount", "ordered_at"].map(|name| ColumnName(name.to_owned()));
        Expression::parse(text, &columns.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_gives_one_value_for_one_row_is_taken_as_it_is_written() {
        for text in [
            "lower(trim(customer))",
            "Customer",
            "\"customer\"",
            "coalesce(amount, 0) * 1.19 + -1",
            "case when amount > 100 then 'a''b' when customer in ('x', 'y') then customer else null end",
            "ordered_at::date",
            "cast(amount as varchar(20)) || '\\\\'",
            "dateadd(day, 1, date_trunc('month', ordered_at))",
            "extract(hour from ordered_at)",
            "regexp_replace(customer, '[0-9]+', '')",
            "customer like 'a%' and not (amount between 1 and 2) or amount is null",
            "substring(customer, 1, 3)",
            "convert_timezone('UTC', 'Europe/Berlin', ordered_at)",
            "left(customer, 3)",
            "customer || 'it\\'s'",
            "timestamp '2026-11-01 00:00:00' < ordered_at",
        ] {
            assert_eq!(read(text).map(|read| read.to_string()).map_err(|flaw| flaw.what), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_may_give_another_value_or_row_or_end_the_statement_is_refused_with_its_reason() {
        for (text, why) in [
            ("(select max(x) from t)", "holds a subquery"),
            ("customer in (select c from t)", "holds a subquery"),
            ("exists (select 1)", "holds a subquery"),
            ("random()", "calls `random`"),
            ("getdate()", "calls `getdate`"),
            ("current_timestamp", "calls `current_timestamp`"),
            ("sysdate", "names `sysdate`"),
            ("sum(amount)", "calls `sum`"),
            ("row_number() over (order by amount)", "calls `row_number`"),
            ("lower(customer) over ()", "calls `lower` with more"),
            ("f_mine(amount)", "calls `f_mine`"),
            ("other.lower(customer)", "calls `other.lower`"),
            ("t.customer", "holds `t.customer`"),
            ("price", "names `price`"),
            ("amount, customer", "goes on with `,`"),
            ("amount as x", "goes on with `as`"),
            ("amount) from t; drop table t; --", "holds a comment"),
            ("amount; drop table t", "goes on with `;`"),
            ("amount /* x */", "holds a comment"),
            ("'open", "is no SQL"),
            ("$1", "holds the literal"),
            ("*", "is no SQL expression"),
            ("", "is no SQL expression"),
        ] {
            let told = read(text).map_or_else(|flaw| flaw.what, |read| format!("taken: {read}"));
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
