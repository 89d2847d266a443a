//! Files that can't be loaded: the partition is parked with a message that names the place, and heals by a new file.

use anyhow::Result;
use tidemark_kit::{Dataset, World, orders};

#[tokio::test]
async fn a_bad_csv_parks_with_file_line_and_column_and_heals() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Returns.day("2026-11-01");
    world.put_returns(&day.file("good.csv"), &orders::returns(100, 20)).await?;
    let good = world.wait_true(&day).await?;

    let bad = b"return_id,order_id,reason,quantity\n901,17,broken,1\n902,18,too small,three\n";
    world.put(&day.file("bad.csv"), bad.to_vec()).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "rejected_data", "{message}");
    for named in ["bad.csv", "line 3", "quantity"] {
        assert!(message.contains(named), "{named} is missing in: {message}");
    }
    assert_eq!(world.target(&day).await?, good.target, "a parked partition keeps its rows");

    world.put_returns(&day.file("bad.csv"), &orders::returns(901, 2)).await?;
    let healed = world.wait_landed(&day, good.landed.len()).await?;
    assert_eq!(healed.target.rows.len(), 22);
    Ok(())
}

#[tokio::test]
async fn an_unreadable_parquet_file_parks_by_name_and_its_neighbours_go_on() -> Result<()> {
    let world = World::new().await?;
    let [bad, neighbour] = ["2026-11-01", "2026-11-02"].map(|day| Dataset::Orders.day(day));
    let mut cut = orders::parquet(&orders::orders(0, 100))?;
    cut.truncate(cut.len() / 2);
    world.put(&bad.file("cut.parquet"), cut).await?;
    world.put_orders(&neighbour.file("a.parquet"), &orders::orders(500, 10)).await?;

    let (_, message) = world.wait_parked(&bad).await?;
    assert!(message.contains("cut.parquet"), "{message}");
    assert!(world.target(&bad).await?.rows.is_empty());
    world.wait_true(&neighbour).await?;

    world.put_orders(&bad.file("cut.parquet"), &orders::orders(0, 100)).await?;
    world.wait_true(&bad).await?;
    Ok(())
}

#[tokio::test]
async fn a_doubled_order_parks_as_duplicate_key() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.put_orders(&day.file("b.parquet"), &orders::orders(9, 10)).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "duplicate_keys", "{message}");
    world.delete(&day.file("b.parquet")).await?;
    let view = world.wait_true(&day).await?;
    assert_eq!(view.target.rows.len(), 10);
    Ok(())
}
