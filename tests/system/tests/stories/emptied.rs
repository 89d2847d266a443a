//! All files of a partition are deleted.

use anyhow::Result;
use serde_json::json;
use tidemark_kit::state::Queue;
use tidemark_kit::{Dataset, World, orders};

#[tokio::test]
async fn an_emptied_source_parks_and_keeps_the_rows_until_it_is_accepted() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Returns.day("2026-11-02");
    let files = [day.file("a.csv"), day.file("b.csv")];
    world.put_returns(&files[0], &orders::returns(0, 30)).await?;
    world.put_returns(&files[1], &orders::returns(50, 30)).await?;
    let full = world.wait_true(&day).await?;
    for file in &files {
        world.delete(file).await?;
    }
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "empty_source", "{message}");
    assert_eq!(world.target(&day).await?, full.target);

    // What was seen must still be what is there: another digest is not let pass.
    let replay = |digest: &serde_json::Value| {
        json!({
            "version": 1, "dataset": "returns", "partition": day.name(), "reason": "void", "force": true,
            "accept": ["empty_source"], "digest": digest,
        })
        .to_string()
    };
    let marked = world.item(&day).await?.unwrap().number("marked");
    world.send(Queue::Partitions, &replay(&json!("ab".repeat(32)))).await?;
    let parked_again = || async {
        let item = world.item(&day).await?;
        Ok(item.filter(|item| item.number("marked") > marked && item.parked().is_some()))
    };
    let item = world.wait("to be parked again", &day, parked_again).await?;
    assert_eq!(world.target(&day).await?, full.target);

    world.send(Queue::Partitions, &replay(&item.0["parked"]["digest"])).await?;
    let emptied = world.wait_landed(&day, full.landed.len()).await?;
    assert!(emptied.target.rows.is_empty());
    assert_eq!(emptied.landed.last().unwrap().deleted_rows, 60);
    Ok(())
}
