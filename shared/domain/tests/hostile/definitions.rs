//! Definitions: any text is a `datasets.toml`, or a list of problems, each with its place in that text.

use proptest::prelude::*;
use tidemark_domain::definition::parse;

use crate::cases;
use crate::damage::{damaged, damages};

const WHOLE: &str = r#"# ours
[orders]
source = "s3://lake-raw/orders/"
layout = "region={region}/dt={dt}/*.csv"
format = "csv"
target = "sales.orders"
columns = ["order_id bigint", "customer varchar(64)", "amount decimal(12,2)", "ordered_at timestamp"]
key = ["order_id"]
required = ["order_id", "amount"]
write = "replace"
concurrency = "table"
lookback = "3d"
interval = "auto"
load_window = "30m"

[orders.partition.dt]
type = "date"
column = "dt"
in_files = false

[orders.partition.region]
type = "text"

[orders.provenance]
batch_id = "_batch_id"
loaded_at = "_loaded_at"

[orders.csv]
delimiter = "\t"
quote = "'"
ignore_header = 1
null_as = 'NULL'
compression = "gzip"

[orders.tolerance]
rejected_rows = 5
missing_objects = "told"
row_drop = "2.5%"
patience = "1h"
"#;

const WORDS: &[&str] = &[
    "\"",
    "'''",
    "\"\"\"",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    "\n",
    "\r",
    "#",
    "\\",
    "\\u0000",
    "\\uD800",
    "\u{feff}",
    "\0",
    ".",
    "[orders]\n",
    "[a.b.c.d]\n",
    "x = {}\n",
    "true",
    "1979-05-27T07:32:00Z",
    "-1",
    "9999999999999999999",
    "nan",
    "é",
    "雪",
    "{dt}",
    "{yyyy}/{mm}/{dd}/",
    "dt={yyyy-mm-dd}/hour={hh}/",
    "*",
    "//",
    "s3://",
    "(",
    ")",
    "decimal(",
    "varchar(max)",
    "; drop table",
    "101%",
    "99999999999d",
];

/// Each problem has a place that is in the text, and says what and what to do on one line.
fn valid_or_told(text: &str) -> Result<(), TestCaseError> {
    match parse(text) {
        Ok(definitions) => {
            for definition in definitions {
                let again = parse(&definition.to_text());
                prop_assert_eq!(again, Ok(vec![definition]));
            }
        }
        Err(problems) => {
            prop_assert!(!problems.is_empty());
            let lines: Vec<&str> = text.split('\n').collect();
            for problem in problems {
                let line = lines.get(problem.line.wrapping_sub(1));
                prop_assert!(line.is_some(), "no line {}: {problem}", problem.line);
                let length = line.map_or(0, |line| line.chars().count());
                prop_assert!((1..=length + 1).contains(&problem.column), "{} of {length}: {problem}", problem.column);
                let told = problem.to_string();
                prop_assert!(!problem.what.is_empty() && !problem.remedy.is_empty(), "{told}");
                prop_assert!(!told.contains(char::is_control), "{told:?}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn a_damaged_file_is_valid_or_told(damages in damages(WORDS)) {
        valid_or_told(&String::from_utf8_lossy(&damaged(WHOLE.as_bytes(), &damages)))?;
    }

    #[test]
    fn any_text_is_valid_or_told(text in any::<String>()) {
        valid_or_told(&text)?;
    }

    /// One value of the file is another's: the likeliest mistake, and each key's reader meets what it doesn't expect.
    #[test]
    fn any_value_at_any_key_is_valid_or_told(at in any::<proptest::sample::Index>(), value in values()) {
        let lines: Vec<&str> = WHOLE.lines().collect();
        let keys: Vec<usize> = (0..lines.len()).filter(|&line| lines[line].contains(" = ")).collect();
        let changed = keys[at.index(keys.len())];
        let (key, _) = lines[changed].split_once(" = ").unwrap();
        let with = format!("{key} = {value}");
        let text: Vec<&str> = lines.iter().enumerate().map(|(line, text)| if line == changed { &with } else { *text }).collect();
        valid_or_told(&text.join("\n"))?;
    }
}

fn values() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec![
        "true",
        "-1",
        "0",
        "18446744073709551615",
        "1.5",
        "inf",
        "[]",
        "[1]",
        "[[]]",
        "{}",
        "{a = 1}",
        "2026-11-01",
        "\"\"",
        "\"auto\"",
        "\"10%\"",
        "\"dt={dt}/\"",
        "\"s3://b/\"",
        "[\"order_id\"]",
        "[\"a super\"]",
        "\"date\"",
        "\"orc\"",
        "\"upsert\"",
    ]);
    let quoted =
        any::<String>().prop_map(|text| format!("{}", serde_json::Value::from(text.replace(char::is_control, ""))));
    prop_oneof![word.prop_map(str::to_owned), quoted]
}

#[test]
fn tables_nested_deeper_than_the_stack_are_told() {
    for text in
        [format!("a = {}", "[".repeat(100_000)), format!("[{}]", "a.".repeat(100_000)), "a = {b=".repeat(50_000)]
    {
        assert!(parse(&text).is_err());
    }
}

#[test]
fn the_file_that_is_damaged_here_is_valid() {
    assert_eq!(parse(WHOLE).map(|definitions| definitions.len()), Ok(1));
}
