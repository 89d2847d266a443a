//! The queries of the documents for CloudWatch Logs Insights, held against lines that the functions really write.
//!
//! A query is right here if each of its conditions can hold of some line, and if each field it shows stands on such a line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;
use regex::Regex;
use serde_json::Value;
use tidemark_kit::state::Item;
use tidemark_kit::{Dataset, World, orders};
use tidemark_local::workspace_root;

/// What isn't a field: commands, words and functions of the query language.
const LANGUAGE: [&str; 19] = [
    "filter",
    "fields",
    "stats",
    "sort",
    "limit",
    "by",
    "and",
    "or",
    "as",
    "asc",
    "desc",
    "ispresent",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bin",
    "like",
];
/// Fields whose values are ours, and not the example's.
const WORDS: [&str; 5] = ["message", "level", "status", "phase", "span.phase"];

/// A line, each member under its path, such as `span.batch`.
type Line = BTreeMap<String, Value>;

fn flat(path: &str, value: &Value, line: &mut Line) {
    if let Value::Object(members) = value {
        for (name, value) in members {
            flat(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value, line);
        }
    } else {
        line.insert(path.to_owned(), value.clone());
    }
}

/// The queries of a document and of all below a folder, with the document's name.
fn queries(path: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            found.extend(queries(&entry?.path())?);
        }
    } else if path.extension().is_some_and(|extension| extension == "md") {
        let text = fs::read_to_string(path)?;
        let blocks = text.split("```insights\n").skip(1).filter_map(|block| block.split("```").next());
        found.extend(blocks.map(|query| (path.display().to_string(), query.to_owned())));
    }
    Ok(found)
}

/// The fields that a part of a query names; those of CloudWatch itself begin with `@`.
fn named(part: &str) -> Result<BTreeSet<String>> {
    let text = Regex::new(r#""[^"]*"|/[^/]*/"#)?.replace_all(part, " ").into_owned();
    let words = Regex::new(r"@?[A-Za-z_][A-Za-z0-9_.]*")?;
    let words = words.find_iter(&text).map(|word| word.as_str().to_owned());
    Ok(words.filter(|word| !word.starts_with('@') && !LANGUAGE.contains(&word.as_str())).collect())
}

/// Whether a line has what one alternative of a filter asks of it.
fn matches(line: &Line, alternative: &str) -> Result<bool> {
    let values = Regex::new(r#"([A-Za-z_][A-Za-z0-9_.]*) = "([^"]*)""#)?;
    let ours = values
        .captures_iter(alternative)
        .all(|found| !WORDS.contains(&&found[1]) || line.get(&found[1]).is_some_and(|value| *value == found[2]));
    Ok(ours && named(alternative)?.iter().all(|field| line.contains_key(field)))
}

/// What is wrong with a query.
fn wrong(query: &str, lines: &[Line]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let commands: Vec<&str> = query.split('|').map(str::trim).collect();
    let (filters, others): (Vec<&str>, Vec<&str>) =
        commands.into_iter().partition(|command| command.starts_with("filter "));
    let mut of: Vec<&Line> = lines.iter().collect();
    for filter in filters {
        let mut kept = Vec::new();
        for alternative in filter.split(" or ") {
            let before = kept.len();
            for line in &of {
                if matches(line, alternative)? {
                    kept.push(*line);
                }
            }
            if kept.len() == before {
                wrong.push(format!("no line is as `{alternative}` says"));
            }
        }
        of = kept;
    }
    for command in others {
        for field in named(command)? {
            if !of.iter().any(|line| line.contains_key(&field)) {
                wrong.push(format!("no such line has `{field}`"));
            }
        }
    }
    Ok(wrong)
}

/// All that the three functions wrote.
async fn lines(world: &World) -> Result<Vec<Line>> {
    let mut found = Vec::new();
    for function in ["MarkFunctionName", "RebuildFunctionName", "SweepFunctionName"] {
        for line in world.stack.function_logs(world.stack.output(function)?).await? {
            let Ok(value @ Value::Object(_)) = serde_json::from_str(&line) else { continue };
            let mut line = Line::new();
            flat("", &value, &mut line);
            found.push(line);
        }
    }
    Ok(found)
}

#[tokio::test]
async fn every_query_of_the_documents_asks_for_what_the_functions_write() -> Result<()> {
    let world = World::new().await?;
    let (day, killed, parked) =
        (Dataset::Orders.day("2026-11-01"), Dataset::Orders.day("2026-11-02"), Dataset::Returns.day("2026-11-01"));
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&day).await?;
    world.put(&parked.file("a.csv"), b"return_id,order_id,reason,quantity\nno number,1,broken,1\n".to_vec()).await?;
    world.wait_parked(&parked).await?;
    world.slow_copy(5).await?;
    world.put_orders(&killed.file("a.parquet"), &orders::orders(100, 10)).await?;
    let loading = || async { Ok(world.item(&killed).await?.filter(Item::is_loading)) };
    world.wait("a COPY to run", &killed, loading).await?;
    assert!(world.kill_rebuild()? > 0);
    world.slow_copy(0).await?;
    world.wait_true_with_sweeps(&killed).await?;

    let lines = lines(&world).await?;
    let queries = queries(&workspace_root().join("docs"))?;
    assert!(queries.len() > 3, "{queries:?}");
    let mut found = Vec::new();
    for (page, query) in &queries {
        found.extend(wrong(query, &lines)?.into_iter().map(|what| format!("{page}: {what}, in\n{query}")));
    }
    assert!(found.is_empty(), "of {} lines: {}", lines.len(), found.join("\n"));

    // It can fail: a field that nobody writes, and one that stands on other lines only.
    for bad in ["filter LoadWindowUsd > 80 | fields batch", "filter message = \"swept\" | fields dataset, staged_rows"]
    {
        assert!(!wrong(bad, &lines)?.is_empty(), "{bad}");
    }
    Ok(())
}
