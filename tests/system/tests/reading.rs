//! The operator's reading commands on a deployed stack, as somebody on call runs them.

use anyhow::{Context, Result};
use serde_json::Value;
use tidemark_kit::{Dataset, Told, World, orders};

fn json(told: &Told) -> Result<Value> {
    serde_json::from_str(&told.out).with_context(|| format!("no JSON: {}{}", told.out, told.err))
}

fn code(told: &Told) -> Option<i32> {
    told.status.code()
}

/// A file whose second line is no row of `returns`.
const BAD: &[u8] = b"return_id,order_id,reason,quantity\n1,1,torn,1\n2,2,torn,many\n";

#[tokio::test]
async fn status_tells_on_one_screen_what_waits_for_somebody() -> Result<()> {
    let world = World::new().await?;
    let (good, bad) = (Dataset::Orders.day("2026-11-01"), Dataset::Returns.day("2026-11-01"));
    let quiet = world.tidemark(&["status"]).await?;
    assert_eq!(code(&quiet), Some(0), "{quiet:?}");
    assert!(quiet.out.contains("nothing waits for anybody"), "{quiet:?}");
    assert!(!quiet.out.contains('\u{1b}'), "no colours where there is no terminal: {quiet:?}");

    world.put_orders(&good.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.put(&bad.file("a.csv"), BAD.to_vec()).await?;
    world.wait_true(&good).await?;
    world.wait_parked(&bad).await?;
    let told = world.tidemark(&["status"]).await?;
    assert_eq!(code(&told), Some(1), "something waits for somebody: {told:?}");
    for words in ["returns  active      0         0     0       1", "1 parked (1 rejected_data): dt=2026-11-01"] {
        assert!(told.out.contains(words), "{words}: {}", told.out);
    }
    assert!(told.out.contains("tidemark runbook parked"), "{told:?}");
    let told = json(&world.tidemark(&["status", "--json"]).await?)?;
    let returns = &told["datasets"][1];
    assert_eq!((&returns["dataset"], &returns["parked"]), (&"returns".into(), &1.into()), "{told:#}");
    assert_eq!(returns["not_built_from"], "dt=2026-11-01", "{told:#}");
    assert_eq!(told["problems"][0]["runbook"], "parked", "{told:#}");

    let orders = world.tidemark(&["status", "orders"]).await?;
    assert_eq!(code(&orders), Some(0), "the other dataset is none of its business: {orders:?}");
    let nobody = world.tidemark(&["status", "nobody"]).await?;
    assert_eq!(code(&nobody), Some(1), "{nobody:?}");
    assert!(nobody.err.contains("has no dataset nobody"), "{nobody:?}");
    Ok(())
}
