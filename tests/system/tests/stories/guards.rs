//! Guards that hold a swap back: each keeps the target as it was until an operator accepts what was seen.

use anyhow::Result;
use tidemark_kit::{Dataset, World, orders};

#[tokio::test]
async fn rows_nobody_of_ours_wrote_are_not_deleted_unless_accepted() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.execute("INSERT INTO sales.orders (order_id, amount, dt) VALUES (7000, 1.00, DATE '2026-11-01')").await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "foreign_rows", "{message}");
    assert_eq!(world.target(&day).await?.rows.len(), 1, "somebody's row is kept");

    world
        .tidemark_well(&["replay", "orders", &day.name(), "--accept", "foreign_rows", "--reason", "a test row"])
        .await?;
    let view = world.wait_true(&day).await?;
    assert_eq!((view.landed.len(), view.landed[0].deleted_rows, view.target.rows.len()), (1, 1, 20));
    Ok(())
}

#[tokio::test]
async fn a_drop_of_rows_holds_then_parks_and_is_accepted_by_command() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    let full = world.wait_true(&day).await?;

    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 95)).await?;
    let few_less = world.wait_landed(&day, full.landed.len()).await?;
    assert_eq!(few_less.target.rows.len(), 95, "up to a tenth may go");

    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 40)).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "row_drop", "{message}");
    assert_eq!(world.target(&day).await?, few_less.target);

    let shown = world.tidemark_well(&["show", "orders", &day.name()]).await?;
    assert!(shown.out.contains("row_drop"), "{}", shown.out);
    world.accept("orders", &day.name(), "row_drop").await?;
    let accepted = world.wait_landed(&day, few_less.landed.len()).await?;
    assert_eq!(accepted.target.rows.len(), 40);
    Ok(())
}

#[tokio::test]
async fn a_deleted_file_parks_by_row_drop_and_heals_when_it_is_back() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    let files = ["a", "b", "c"].map(|name| day.file(&format!("{name}.parquet")));
    for (file, first) in files.iter().zip([0, 1_000, 2_000]) {
        world.put_orders(file, &orders::orders(first, 50)).await?;
    }
    let full = world.wait_true(&day).await?;
    // Told by its event; but a third fewer rows is more than a tenth.
    world.delete(&files[2]).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "row_drop", "{message}");
    assert_eq!(world.target(&day).await?, full.target);

    // The file comes back: the partition heals without anybody.
    world.put_orders(&files[2], &orders::orders(2_000, 50)).await?;
    let view = world.wait_true(&day).await?;
    assert_eq!(view.target, full.target);
    Ok(())
}
