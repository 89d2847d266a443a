//! The watermark, sentence by sentence of docs/watermark.md: as it is counted when asked, and as sweep writes it.

use std::time::Duration;

use jiff::SignedDuration;
use tidemark_domain::dataset::Mode;
use tidemark_domain::watermark::Watermark;
use tidemark_engine::memory::Pace;
use tidemark_engine::ports::Clock as _;
use tidemark_engine::read::gauges::{self, COUNTED_AT_MOST};

use super::world::{TOML, World};

impl World {
    /// The watermark, counted when asked; that of sweep, which comes now, must be the same.
    async fn watermark(&mut self, context: &str) -> Option<String> {
        let told = gauges::of(&self.engine().ports, &self.definition.name).await.unwrap();
        assert!(told.is_whole(), "{context}");
        let first = told.watermark(&self.definition).map(|first| first.name.to_string());
        self.clock.advance(Duration::from_mins(1));
        self.sweep().await;
        assert_eq!(self.head().watermark, first, "as sweep wrote it: {context}");
        first
    }
}

#[tokio::test]
async fn a_gap_that_is_known_holds_it_and_one_that_is_not_does_not() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.put("dt=2026-11-03/a.csv", "3\n").await;
    world.rest("").await;
    assert_eq!(world.watermark("the 2nd was never seen").await, None);
    world.put("dt=2026-11-02/a.csv", "2#bad\n").await;
    assert_eq!(world.watermark("its event isn't handled").await, None);
    world.rest("").await;
    assert_eq!(world.watermark("the 2nd is parked").await.as_deref(), Some("dt=2026-11-02"));
    // It falls when an old partition is marked, and rises when that is built.
    world.put("dt=2026-11-01/late.csv", "4\n").await;
    world.mark().await;
    assert_eq!(world.watermark("the 1st is dirty").await.as_deref(), Some("dt=2026-11-01"));
    world.rest("").await;
    assert_eq!(world.watermark("the 1st is built").await.as_deref(), Some("dt=2026-11-02"));
    world.put("dt=2026-11-02/a.csv", "2\n").await;
    world.rest("").await;
    assert_eq!(world.watermark("mended").await, None);
}

#[tokio::test]
async fn while_a_dataset_is_paused_or_halted_what_is_marked_holds_it() {
    for mode in [Mode::Paused, Mode::Halted] {
        let mut world = World::new(TOML).await;
        world.put("dt=2026-11-01/a.csv", "1\n").await;
        world.rest("").await;
        let since = world.clock.now();
        // A halted one is probed; not while this test lasts.
        let probe = (since + SignedDuration::from_hours(9)).as_millisecond();
        world.set_head(&[("mode", serde_json::to_value(mode).unwrap()), ("probe_at", probe.into())]);
        assert_eq!(world.watermark("what was built stays built").await, None);
        world.put("dt=2026-11-02/a.csv", "2\n").await;
        world.rounds(6).await;
        assert_eq!(world.watermark("marked since").await.as_deref(), Some("dt=2026-11-02"), "{mode:?}");
    }
}

#[tokio::test]
async fn what_is_being_built_holds_it() {
    let mut world = World::new(TOML).await;
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_mins(10)));
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.rebuild().await;
    assert!(world.item("dt=2026-11-01").batch.is_some(), "it stages");
    assert_eq!(world.watermark("building").await.as_deref(), Some("dt=2026-11-01"));
}

#[tokio::test]
async fn with_more_waiting_than_are_counted_the_one_that_sweep_wrote_is_told() {
    let world = World::new(TOML).await;
    let first: jiff::civil::Date = "1999-01-01".parse().unwrap();
    for n in 0..=COUNTED_AT_MOST {
        let day = first.checked_add(jiff::Span::new().days(i64::try_from(n).unwrap())).unwrap();
        let (dataset, at) = (world.definition.name.clone(), world.clock.now());
        let item = serde_json::json!({
            "marked": 1, "built": 0, "marked_at": at.as_millisecond(), "fence": 0, "work": dataset, "dirty_since": 0,
            "due_at": (at + SignedDuration::from_hours(1)).as_millisecond(),
        });
        let key = tidemark_domain::partition::PartitionItem::key(&world.id(&format!("dt={day}")));
        world.state.put(key, serde_json::from_value(item).unwrap());
    }
    let told = gauges::of(&world.engine().ports, &world.definition.name).await.unwrap();
    assert!(!told.is_whole() && told.unbuilt.len() == COUNTED_AT_MOST);
    assert_eq!(world.head().watermark, None, "sweep hasn't been there");
    assert_eq!(Watermark::of(None, told.is_whole()), Watermark::Unknown, "so nothing is said to be built");
    world.sweep().await;
    assert_eq!(world.head().watermark.as_deref(), Some("dt=1999-01-01"));
}
