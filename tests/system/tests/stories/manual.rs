//! The owner's manual, executed on data: the file that it shows becomes the rows that it shows.
//!
//! A `csv` block is the object that the line before it names; the `text` block that follows is what the query gives that the
//! line before it holds. Both stand in the dataset that the last `toml` block made.

#[path = "../../../../cli/tests/manual/blocks.rs"]
mod blocks;

use anyhow::{Context, Result, anyhow, ensure};
use futures::future::try_join_all;
use tidemark_domain::definition::{Definition, PartKind, parse};
use tidemark_kit::{Settings, World};
use tokio_postgres::SimpleQueryMessage;

use blocks::{Files, manual};

/// A file, and what it becomes.
#[derive(Debug)]
struct Example {
    line: usize,
    definitions: String,
    object: String,
    content: String,
    query: String,
    rows: String,
}

fn examples() -> Result<Vec<Example>> {
    let (mut files, mut last) = (Files::default(), String::new());
    let mut examples = Vec::new();
    let blocks = blocks::blocks(&manual());
    for (place, block) in blocks.iter().enumerate() {
        if block.info == "toml" {
            let file = files.with(block);
            files.keep(&file);
            last = file.to_string();
        }
        let (Some(object), Some(shown)) = (in_backticks(&block.before, "s3://"), blocks.get(place + 1)) else {
            continue;
        };
        if block.info == "csv" {
            let query = in_backticks(&shown.before, "SELECT ");
            examples.push(Example {
                line: block.line,
                definitions: last.clone(),
                object,
                content: block.text.clone(),
                query: query.with_context(|| format!("line {}: no query stands before it", shown.line))?,
                rows: shown.text.clone(),
            });
        }
    }
    Ok(examples)
}

fn in_backticks(line: &str, beginning: &str) -> Option<String> {
    line.split('`').find(|word| word.starts_with(beginning)).map(str::to_owned)
}

/// The target as its owner would make it.
fn target(definition: &Definition) -> String {
    let mut columns: Vec<String> = definition.columns.iter().map(ToString::to_string).collect();
    columns.extend(definition.parts.iter().filter(|part| !part.in_files).map(|part| {
        let kind = match part.kind {
            PartKind::Date => "date",
            PartKind::Integer => "bigint",
            PartKind::Text => "varchar(256)",
            PartKind::Timestamp => "timestamp",
        };
        format!("{} {kind}", part.column)
    }));
    columns.extend(definition.provenance.batch_id.iter().map(|name| format!("{name} varchar(36)")));
    columns.extend(definition.provenance.loaded_at.iter().map(|name| format!("{name} timestamp")));
    let table = &definition.target;
    format!("CREATE SCHEMA {}; CREATE TABLE {table} ({})", table.schema, columns.join(", "))
}

/// Plays an example in a stack of its own.
async fn play(example: &Example) -> Result<()> {
    let definitions = parse(&example.definitions).map_err(|problems| anyhow!("{problems:?}"))?;
    let world = World::deploy(&Settings::default()).await?;
    for definition in &definitions {
        world.execute(&target(definition)).await?;
    }
    world.tidemark_well(&["init"]).await?;
    world.apply(&example.definitions).await?;
    let key = example.object.strip_prefix("s3://lake-raw/").context("the object isn't in lake-raw")?;
    world.put(key, example.content.clone().into_bytes()).await?;
    let sql = world.connect().await?;
    let probe = async || {
        let mut rows = String::new();
        for message in sql.simple_query(&example.query).await? {
            if let SimpleQueryMessage::Row(row) = message {
                let cells = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL"));
                rows += &cells.collect::<Vec<_>>().join(" | ");
                rows.push('\n');
            }
        }
        ensure!(rows == example.rows, "{} gives\n{rows}", example.query);
        Ok(Some(()))
    };
    let below = definitions.iter().find_map(|definition| Some((definition, definition.source.below("lake-raw", key)?)));
    let (definition, below) = below.context("the object is below no source")?;
    let partition = definition.partition_of(below)?.name;
    let what = format!("what line {} of the manual says", example.line);
    world.wait_named(&what, definition.name.as_str(), partition.as_str(), probe).await
}

#[tokio::test]
async fn the_files_of_the_manual_become_the_rows_of_the_manual() -> Result<()> {
    let examples = examples()?;
    ensure!(examples.len() >= 2, "{examples:?}");
    try_join_all(examples.iter().map(play)).await?;
    Ok(())
}
