//! What an operator does by command: replays of several, backfills, pause and resume.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tidemark_kit::state::Queue;
use tidemark_kit::{Dataset, Partition, Settings, World, orders};

async fn marked(world: &World, day: &Partition) -> Result<i64> {
    Ok(world.item(day).await?.map_or(0, |item| item.number("marked")))
}

#[tokio::test]
async fn several_partitions_are_replayed_by_name_by_range_and_as_parked() -> Result<()> {
    let world = World::new().await?;
    let days = ["2026-11-01", "2026-11-02", "2026-11-03"].map(|day| Dataset::Orders.day(day));
    for day in &days {
        world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    }
    for day in &days {
        world.wait_true(day).await?;
    }

    // A dry run tells the messages, and sends none.
    let before = marked(&world, &days[0]).await?;
    let range = ["replay", "orders", "--from", "2026-11-01", "--to", "dt=2026-11-02"];
    let dry = world.tidemark_well(&[&range[..], &["--dry-run"]].concat()).await?;
    assert!(dry.out.contains("would send") && dry.out.contains("would send 2 messages"), "{dry:?}");
    assert_eq!((world.depth(Queue::Partitions).await?, marked(&world, &days[0]).await?), (0, before));

    world.tidemark_well(&[&range[..], &["--reason", "a test"]].concat()).await?;
    world.wait_landed(&days[0], 1).await?;
    world.wait_landed(&days[1], 1).await?;
    assert_eq!(world.landed(&days[2]).await?.len(), 1, "it lies beyond the range");
    let named = ["replay", "orders", "dt=2026-11-03", "dt=2026-11-03", "dt=2026-11-01", "--no-force", "--json"];
    let messages = world.tidemark_well(&named).await?.json()?["messages"].clone();
    assert_eq!(messages.as_array().map(Vec::len), Some(2), "each once: {messages:#}");
    assert_eq!(messages[0]["force"], false);

    // Parked ones: each with the listing that it shows, which was looked at before.
    world.put_orders(&days[2].file("a.parquet"), &orders::orders(0, 2)).await?;
    world.wait_parked(&days[2]).await?;
    let parked = ["replay", "orders", "--parked", "--accept", "row_drop", "--json"];
    let looked = world.tidemark_well(&[&parked[..], &["--dry-run"]].concat()).await?.json()?;
    let messages = &looked["messages"];
    let digest = world.item(&days[2]).await?.context("it is there")?.0["parked"]["digest"].clone();
    assert_eq!((messages.as_array().map(Vec::len), &messages[0]["digest"]), (Some(1), &digest), "{messages:#}");
    let digest = looked["digest"].as_str().context("it is told")?;
    world.tidemark_well(&[&parked[..], &["--digest", digest]].concat()).await?;
    assert_eq!(world.wait_landed(&days[2], 1).await?.target.rows.len(), 2);
    assert!(world.tidemark_well(&["replay", "orders", "--parked"]).await?.out.starts_with("nothing to do"));

    let long = "a".repeat(257);
    for (arguments, words) in [
        (vec!["replay", "orders"], "name the partitions"),
        (vec!["replay", "orders", "--from", "2026-11-03", "--to", "2026-11-01"], "exchange them"),
        (vec!["replay", "orders", "--from", "week 5"], "is no date"),
        (vec!["replay", "orders", "dt=2026-11-01", "--digest", "x"], "--accept"),
        (vec!["replay", "orders", "dt=2026-11-01", "--reason", &long], "256 are kept"),
    ] {
        let told = world.tidemark(&arguments).await?;
        assert!(told.code() == Some(2) && told.err.contains(words), "{words}: {told:?}");
    }
    Ok(())
}

/// Marks gather while it is paused; more than fifty partitions are for a job; resuming wakes what gathered.
#[tokio::test]
async fn a_paused_dataset_gathers_marks_and_goes_on_where_it_is_resumed() -> Result<()> {
    let world = World::new().await?;
    let paused = world.tidemark_well(&["pause", "returns", "--reason", "a migration"]).await?;
    assert!(paused.out.starts_with("paused: returns"), "{paused:?}");
    let days: Vec<Partition> = (0..52)
        .map(|n| jiff::civil::date(2026, 9, 1) + jiff::Span::new().days(n))
        .map(|day| Dataset::Returns.day(&day.to_string()))
        .collect();
    for day in &days {
        world.put_returns(&day.file("a.csv"), &orders::returns(0, 3)).await?;
    }
    let last = &days[days.len() - 1];
    let gathered = || async { Ok((marked(&world, last).await? > 0).then_some(())) };
    world.wait("to be marked", last, gathered).await?;
    world.wait_quiet(last).await?;
    assert!(world.landed(&days[0]).await?.is_empty(), "nothing is rebuilt");
    let shown = world.tidemark_well(&["show", "returns", &days[0].name()]).await?;
    assert!(shown.out.contains("a migration") && shown.out.contains("until the dataset is resumed"), "{shown:?}");

    let many = world.tidemark(&["replay", "returns", "--from", "2026-09-01"]).await?;
    assert_eq!(many.code(), Some(1), "{many:?}");
    let instead = "write `tidemark backfill returns --from 2026-09-01`";
    assert!(many.err.contains("52 partitions are more than the 50") && many.err.contains(instead), "{many:?}");
    let dry = world.tidemark_well(&["backfill", "returns", "--from", "2026-09-01", "--dry-run", "--json"]).await?;
    let plan = dry.json()?;
    assert_eq!((&plan["made"], plan["partitions"].as_array().map(Vec::len)), (&Value::Bool(false), Some(52)));
    assert_eq!(world.tidemark_well(&["backfill", "--list"]).await?.out, "no jobs\n");

    let dry = world.tidemark_well(&["resume", "returns", "--dry-run"]).await?;
    assert!(dry.out.contains("would resume") && dry.out.contains("a migration"), "{dry:?}");
    let resumed = world.tidemark_well(&["resume", "returns", "--json"]).await?.json()?;
    assert_eq!((&resumed["was"], &resumed["gathered"], &resumed["woken"]), (&"paused".into(), &52.into(), &52.into()));
    world.wait_true(&days[0]).await?;
    assert!(world.tidemark_well(&["resume", "returns"]).await?.out.starts_with("nothing to do"));
    Ok(())
}

/// A job: of partitions that are only in S3, and of those that are only in state. It can be cancelled and goes on.
#[tokio::test]
async fn a_backfill_rebuilds_all_there_is_by_a_job() -> Result<()> {
    let world = World::deploy(&Settings::default()).await?;
    world.create_targets().await?;
    world.tidemark_well(&["init"]).await?;
    let old = Dataset::Orders.day("2026-01-01");
    world.put_orders(&old.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_quiet(&old).await?;
    world.apply(&Settings::default().definitions).await?;
    assert!(world.item(&old).await?.is_none(), "before the lookback, and its event came before the dataset");
    let [kept, gone] = ["2026-11-01", "2026-11-02"].map(|day| Dataset::Orders.day(day));
    for day in [&kept, &gone] {
        world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
        world.wait_true(day).await?;
    }
    world.delete(&gone.file("a.parquet")).await?;
    assert_eq!(world.wait_parked(&gone).await?.0, "empty_source");

    let all = ["backfill", "orders", "--all", "--reason", "a new column", "--accept", "empty_source"];
    let unsaid = world.tidemark(&all).await?;
    assert!(unsaid.code() == Some(1) && unsaid.err.contains("write --yes"), "{unsaid:?}");
    assert!(unsaid.out.contains("3 partitions") && unsaid.out.contains("1 of them have files and were never marked"));
    let unbound = world.tidemark(&[&all[..], &["--yes", "--json"]].concat()).await?;
    let shown = unbound.json()?;
    let digest = shown["digest"].as_str().context("one of them shows a listing")?;
    let says = unbound.err.contains(&format!("write --yes --digest {digest}"));
    assert!(unbound.code() == Some(1) && says && shown["made"] == false, "{unbound:?}");
    let yes = ["--yes", "--json", "--digest", digest];
    let made = world.tidemark_well(&[&all[..], &yes].concat()).await?.json()?;
    let expected: Vec<Value> = [&old, &kept, &gone].map(|day| day.name().into()).into();
    assert_eq!(made["partitions"], Value::Array(expected), "{made:#}");

    let id = made["job"]["id"].as_str().context("a job has an id")?.to_owned();
    let cancelled = world.tidemark_well(&["backfill", "--cancel", &id]).await?;
    assert!(cancelled.out.contains("0 of 3 marked"), "{cancelled:?}");
    world.sweep().await?;
    assert!(world.item(&old).await?.is_none(), "a cancelled job marks nothing");
    let listed = world.tidemark_well(&["backfill", "--list", "orders"]).await?;
    assert!(listed.out.contains("cancelled") && listed.out.contains("a new column"), "{listed:?}");
    let again = world.tidemark(&["backfill", "--cancel", &id]).await?;
    assert!(again.code() == Some(1) && again.err.contains("has ended already"), "{again:?}");

    world.tidemark_well(&["backfill", "--resume", &id]).await?;
    world.sweep().await?;
    let watched = world.tidemark_well(&["backfill", "orders", "--watch"]).await?;
    assert!(watched.out.contains("done: job") && watched.out.contains("3 of 3 marked and rebuilt"), "{watched:?}");
    assert_eq!(watched.err, "", "no bar where nobody looks");
    assert_eq!(world.wait_true(&old).await?.landed.len(), 1);
    assert_eq!(world.wait_true(&kept).await?.landed.len(), 2, "forced");
    assert!(world.wait_true(&gone).await?.target.rows.is_empty(), "accepted as it was seen");
    Ok(())
}

/// By hand on the queue, redriven from the dead-letter queue, by command: one path, and doubled messages harm nothing.
#[tokio::test]
async fn a_replay_by_hand_by_redrive_and_by_command_is_one_path() -> Result<()> {
    let world = World::deploy(&Settings::default()).await?;
    world.create_targets().await?;
    world.tidemark_well(&["init"]).await?;
    let day = Dataset::Orders.day("2026-01-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    world.wait_quiet(&day).await?;
    let replay = json!({
        "version": 1, "dataset": "orders", "partition": day.name(), "reason": "by hand", "by": "operator", "force": true,
    });

    // Before the dataset is applied nobody can read it: it lies with the dead letters, as does what is no message.
    world.send_alone(Queue::Partitions, &replay.to_string()).await?;
    world.send_alone(Queue::Partitions, "{}").await?;
    let lying = || async { Ok((world.depth(Queue::PartitionsDlq).await? == 2).then_some(())) };
    world.wait("two dead letters", &day, lying).await?;
    let event = json!({ "Records": [{
        "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
        "eventTime": "2026-11-01T00:00:00.000Z",
        "s3": {
            "bucket": { "name": world.stack.data_bucket() },
            "object": { "key": day.file("a.parquet").replace('=', "%3D"), "size": 1, "sequencer": "00" },
        },
    }]});
    world.send(Queue::EventsDlq, &event.to_string()).await?;
    world.send(Queue::EventsDlq, "hello").await?;

    for _ in 0..2 {
        let told = world.tidemark_well(&["dlq", "--json"]).await?.json()?;
        let [events, partitions] = [&told["events"], &told["partitions"]];
        assert_eq!((&events["count"], &partitions["count"]), (&2.into(), &2.into()), "nothing is eaten: {told:#}");
        let of = |letters: &Value, body: &str, field: &str| {
            let letters = letters["letters"].as_array().cloned().unwrap_or_default();
            letters.iter().find(|letter| letter["body"] == body).map(|letter| letter[field].to_string())
        };
        let reason = of(partitions, &replay.to_string(), "reason").context("the replay lies there")?;
        assert!(reason.contains("no dataset is named orders"), "{told:#}");
        assert!(of(partitions, &replay.to_string(), "stays").is_some_and(|why| why.contains("has no dataset orders")));
        assert!(of(partitions, "{}", "stays").is_some_and(|why| why.contains("missing field")), "{told:#}");
        assert_eq!(of(events, &event.to_string(), "stays").as_deref(), Some("null"), "{told:#}");
        assert!(of(events, "hello", "stays").is_some_and(|why| why != "null"), "{told:#}");
    }

    world.apply(&Settings::default().definitions).await?;
    let unsaid = world.tidemark(&["dlq", "redrive"]).await?;
    assert!(unsaid.code() == Some(1) && unsaid.err.contains("write --yes"), "{unsaid:?}");
    let dry = world.tidemark_well(&["dlq", "redrive", "--queue", "partitions", "--dry-run"]).await?;
    assert!(dry.out.contains("partitions: would send back 1 message, 1 stay"), "{dry:?}");
    assert_eq!((world.depth(Queue::PartitionsDlq).await?, marked(&world, &day).await?), (2, 0));
    let done = world.tidemark_well(&["dlq", "redrive", "--queue", "partitions", "--yes"]).await?;
    assert!(done.out.contains("partitions: sent back 1 message, 1 stay"), "{done:?}");
    let view = world.wait_landed(&day, 0).await?;
    assert_eq!((world.depth(Queue::PartitionsDlq).await?, view.landed.len()), (1, 1));
    assert_eq!(view.item.number("marked"), 1);
    let done = world.tidemark_well(&["dlq", "redrive", "--queue", "events", "--yes"]).await?;
    assert!(done.out.contains("events: sent back 1 message, 1 stay"), "{done:?}");
    let answered = || async { Ok(world.item(&day).await?.filter(|item| item.number("built") > 1 && item.rests())) };
    world.wait("the redriven event to be answered", &day, answered).await?;
    assert_eq!(world.depth(Queue::EventsDlq).await?, 1);

    // The command sends the very message, to the same queue.
    let command = ["replay", "orders", &day.name(), "--reason", "by hand"];
    let dry = world.tidemark_well(&[&command[..], &["--dry-run", "--json"]].concat()).await?.json()?;
    assert_eq!(dry["messages"][0], replay, "{dry:#}");
    world.tidemark_well(&command).await?;
    world.wait_landed(&day, 1).await?;
    for _ in 0..3 {
        world.send_alone(Queue::Partitions, &replay.to_string()).await?;
    }
    world.wait_landed(&day, 2).await?;
    world.wait_quiet(&day).await?;
    let after = world.wait_true(&day).await?;
    assert_eq!((after.target, after.item.number("marked") >= 6), (view.target, true), "{:#}", after.item.0);
    Ok(())
}

/// List, stage, verify, tell, drop; the partition, its target and the ledger are as they were.
#[tokio::test]
async fn a_rehearsal_tells_what_a_rebuild_would_come_to_and_touches_nothing() -> Result<()> {
    let world = World::new().await?;
    let [day, bad] = [Dataset::Orders.day("2026-11-01"), Dataset::Returns.day("2026-11-01")];
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    world.wait_true(&day).await?;
    for dataset in ["orders", "returns"] {
        world.tidemark_well(&["pause", dataset]).await?;
    }
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 5)).await?;
    world.put(&bad.file("a.csv"), b"return_id,order_id,reason,quantity\n1,1,late,many\n".to_vec()).await?;
    let gathered = || async { Ok((marked(&world, &day).await? > 1 && marked(&world, &bad).await? > 0).then_some(())) };
    world.wait("to be marked", &day, gathered).await?;
    world.wait_quiet(&day).await?;
    let before = world.view(&day).await?.context("it is there")?;

    let rehearse = ["replay", "orders", &day.name(), "--rehearse"];
    let refused = world.tidemark(&rehearse).await?;
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    for words in
        ["would not land", "1 object", "5 rows", "20 rows of the partition now", "row_drop", "touched    nothing"]
    {
        assert!(refused.out.contains(words), "{words}: {refused:?}");
    }
    let told = world.tidemark_well(&[&rehearse[..], &["--accept", "row_drop", "--json"]].concat()).await?;
    let told = &told.json()?[0];
    assert_eq!(
        (&told["would_land"], &told["staged_rows"], &told["target_rows"], &told["unchanged"], &told["left"]),
        (&true.into(), &5.into(), &20.into(), &false.into(), &Value::Null),
        "{told:#}"
    );
    let broken = world.tidemark(&["replay", "returns", &bad.name(), "--rehearse"]).await?;
    assert!(broken.code() == Some(1) && broken.out.contains("a.csv") && broken.out.contains("quantity"), "{broken:?}");

    let after = world.view(&day).await?.context("it is there")?;
    assert_eq!((after.item, after.target, after.landed), (before.item, before.target, before.landed));
    assert_eq!(world.count("SELECT count(*) FROM pg_tables WHERE schemaname = 'tidemark_staging'").await?, 0);
    Ok(())
}
