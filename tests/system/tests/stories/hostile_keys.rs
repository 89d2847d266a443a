//! Keys up to S3's 1,024 bytes, with quotes, line breaks and SQL in partition values.

use anyhow::Result;
use tidemark_kit::state::Queue;
use tidemark_kit::{Settings, World};

/// Bytes.
const LONGEST_KEY: usize = 1_024;

const NOTES: &str = r#"
[notes]
source = "s3://lake-raw/notes/"
layout = "by={author}/"
format = "csv"
target = "sales.notes"
columns = ["note_id bigint", "note varchar(200)"]
key = ["note_id"]
write = "replace"
concurrency = "partition"
interval = "0s"

[notes.partition.author]
type = "text"
column = "author"
in_files = false
"#;

#[tokio::test]
async fn hostile_partition_values_are_values_and_nothing_else() -> Result<()> {
    let world = World::deploy(&Settings::default()).await?;
    world.create_targets().await?;
    world.execute("CREATE TABLE sales.notes (note_id bigint, note varchar(200), author varchar(1000))").await?;
    world.tidemark_well(&["init"]).await?;
    world.apply(NOTES).await?;

    let mut values = vec![
        "O'Hara".to_owned(),
        "'; DROP TABLE sales.notes; --".to_owned(),
        "'); DELETE FROM tidemark.batches; --".to_owned(),
        "line\nbreak\r\n\ttab".to_owned(),
        "back\\slash \\' $$ $1 {} %s".to_owned(),
        "\"quoted\", and + and & and ?".to_owned(),
        "Zoë ☃ 𝄞".to_owned(),
    ];
    for (id, value) in values.iter().enumerate() {
        world.put(&format!("notes/by={value}/n.csv"), format!("{id},by {id}\n").into_bytes()).await?;
    }
    // The longest key that S3 takes, and a value of it that is too long to be a partition's name: counted, never NULL.
    let file = |prefix: &str| format!("{prefix}{}.csv", "n".repeat(LONGEST_KEY - prefix.len() - ".csv".len()));
    world.put(&file("notes/by=long/"), format!("{},long\n", values.len()).into_bytes()).await?;
    let too_long = "x".repeat(LONGEST_KEY - "notes/by=/n.csv".len());
    world.put(&format!("notes/by={too_long}/n.csv"), b"99,too long\n".to_vec()).await?;

    values.push("long".to_owned());
    let expected = values.into_iter().enumerate().map(|(id, value)| Ok((i64::try_from(id)?, value)));
    let expected: Vec<(i64, String)> = expected.collect::<Result<_>>()?;
    world.wait_rows("SELECT note_id, author FROM sales.notes ORDER BY note_id", &expected).await?;
    assert_eq!(world.depth(Queue::EventsDlq).await? + world.depth(Queue::PartitionsDlq).await?, 0);
    Ok(())
}
