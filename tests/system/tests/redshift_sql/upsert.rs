//! Upserts and expressions, run: which row of a key wins, what stays, what `select` gives.

use anyhow::{Context as _, Result, anyhow};
use tidemark_domain::definition;
use tidemark_domain::failure::FailureKind;
use tidemark_domain::sql::rebuild::{self, Request, Verified};
use tidemark_domain::sql::rows::{self, Field, SwapCounts};
use tidemark_domain::sql::{Batch, identifier, lookup};
use tidemark_domain::verify::StageCounts;

use super::{EVENTS, World, listed, new_batch, swap};

/// `EVENTS`, upserted by `id`.
async fn upserting(database: &str, order_by: &str) -> Result<World> {
    let mut world = World::new(database, "").await?;
    let text = EVENTS.replace("key = [", &format!("write = \"upsert\"\n{order_by}\nkey = ["));
    let definitions = definition::parse(&text).map_err(|problems| anyhow!("{problems:?}"))?;
    world.definition = definitions.into_iter().next().context("one dataset")?;
    Ok(world)
}

impl World {
    /// Stages rows by hand; what is counted of them.
    async fn staged(&self, request: &Request<'_>, rows: &str) -> Result<(Verified, StageCounts)> {
        self.finish(&rebuild::stage(request, None)?.batch).await?;
        let staging = identifier::staging(&request.staging_name())?;
        self.sql(&[&format!("INSERT INTO {staging} (id, dt, said) VALUES {rows}")]).await?;
        let recount = lookup::recount(request)?;
        let counts = rows::stage_counts(&self.definition, &self.rows(&recount, recount.last()).await?)?;
        let staged_at = "2026-11-02T03:04:05.678Z".parse()?;
        Ok((
            Verified {
                staged_rows: counts.staged_rows,
                rejected_rows: 0,
                duplicate_rows: 0,
                staged_at,
                ..Verified::default()
            },
            counts,
        ))
    }

    async fn upserted(&self, day: u64, fence: u64, rows: &str) -> Result<SwapCounts> {
        let partition = self.day(day)?;
        let request = self.request(&partition, new_batch(), fence);
        let (verified, counts) = self.staged(&request, rows).await?;
        assert_eq!((counts.duplicate_rows, counts.elsewhere_rows), (0, 0));
        let built = rebuild::swap(&request, &listed(), &verified)?;
        Ok(rows::swap_counts(&self.rows(&built.batch, built.counts).await?)?)
    }

    /// `id:said` of every row, by id.
    async fn held(&self) -> Result<Vec<String>> {
        let sql = "SELECT id, said, dt FROM web.events ORDER BY id, dt";
        let batch = Batch::new("test", vec![sql.to_owned()])?;
        let text = |field: &Field| match field {
            Field::Long(number) => number.to_string(),
            Field::Text(text) => text.clone(),
            other => format!("{other:?}"),
        };
        let rows = self.rows(&batch, batch.last()).await?;
        Ok(rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(" ")).collect())
    }
}

#[tokio::test]
async fn an_upsert_replaces_by_key_and_leaves_what_is_staged_no_more() -> Result<()> {
    let world = upserting("upserted", "").await?;
    let day = "DATE '2026-11-01'";
    let counts = world.upserted(1, 4, &format!("(1, {day}, 'a'), (2, {day}, 'b')")).await?;
    assert_eq!(counts, SwapCounts { staged_rows: 2, deleted_rows: 0, inserted_rows: 2, target_rows: 2 });
    let counts = world.upserted(1, 5, &format!("(2, {day}, 'B'), (3, {day}, 'c')")).await?;
    assert_eq!(counts, SwapCounts { staged_rows: 2, deleted_rows: 1, inserted_rows: 2, target_rows: 2 });
    assert_eq!(world.held().await?, ["1 a 2026-11-01", "2 B 2026-11-01", "3 c 2026-11-01"]);
    // A key of that day turns up in the files of the next: counted before, and refused by the swap even if it weren't.
    let next = world.day(2)?;
    let request = world.request(&next, new_batch(), 6);
    let (verified, counts) = world.staged(&request, "(3, DATE '2026-11-02', 'C'), (9, DATE '2026-11-02', 'x')").await?;
    assert_eq!(counts.elsewhere_rows, 1);
    let failure = world.failure(&swap(&request, &verified)?).await?;
    assert_eq!(failure.kind, FailureKind::ForeignRows, "{}", failure.message);
    assert_eq!(world.held().await?, ["1 a 2026-11-01", "2 B 2026-11-01", "3 c 2026-11-01"]);
    Ok(())
}

#[tokio::test]
async fn of_rows_with_one_key_the_greatest_wins_among_the_staged_and_against_the_target() -> Result<()> {
    let world = upserting("newest_wins", "order_by = \"said\"").await?;
    let (one, two) = ("DATE '2026-11-01'", "DATE '2026-11-02'");
    let rows = format!(
        "(1, {one}, 'b'), (1, {one}, 'c'), (1, {one}, NULL), (2, {one}, NULL), (3, {one}, 'x'), (3, {one}, 'x')"
    );
    let counts = world.upserted(1, 4, &rows).await?;
    assert_eq!(counts, SwapCounts { staged_rows: 6, deleted_rows: 0, inserted_rows: 3, target_rows: 3 });
    assert_eq!(
        world.held().await?,
        ["1 c 2026-11-01", "2 NULL 2026-11-01", "3 x 2026-11-01"].map(|row| row.replace("NULL", "Null"))
    );
    // The next day: a smaller value, one over a null, a greater one. Then the first day comes late, once more.
    let counts = world.upserted(2, 5, &format!("(1, {two}, 'a'), (2, {two}, 'q'), (3, {two}, 'y')")).await?;
    assert_eq!(counts, SwapCounts { staged_rows: 3, deleted_rows: 2, inserted_rows: 2, target_rows: 3 });
    let expected = ["1 c 2026-11-01", "2 q 2026-11-02", "3 y 2026-11-02"];
    assert_eq!(world.held().await?, expected);
    let counts = world.upserted(1, 6, &rows).await?;
    assert_eq!((counts.deleted_rows, counts.inserted_rows, counts.target_rows), (1, 1, 3), "1 by its equal");
    assert_eq!(world.held().await?, expected);
    // Differing rows that are both the greatest: nobody could say which.
    let day = world.day(3)?;
    let request = world.request(&day, new_batch(), 7);
    let three = "DATE '2026-11-03'";
    let (_, counts) = world.staged(&request, &format!("(5, {three}, 'x'), (5, {two}, 'x'), (6, {three}, 'a')")).await?;
    assert_eq!(counts.duplicate_rows, 1);
    Ok(())
}

#[tokio::test]
async fn what_select_gives_is_what_is_counted_and_inserted() -> Result<()> {
    let settings = "[events.select]\nid = \"nullif(id, 0)\"\nsaid = \"lower(trim(said)) || '\\\\\\\\'\"\n";
    let world = World::new("selected", settings).await?;
    let partition = world.day(1)?;
    let request = world.request(&partition, new_batch(), 4);
    let day = "DATE '2026-11-01'";
    let (_, counts) = world.staged(&request, &format!("(0, {day}, 'a'), (1, {day}, 'b')")).await?;
    assert_eq!(counts.nulls[0].1, 1, "0 becomes null, which is required not to be");
    let request = world.request(&partition, new_batch(), 5);
    let (verified, counts) = world.staged(&request, &format!("(1, {day}, ' A '), (2, {day}, 'b')")).await?;
    assert_eq!((counts.nulls[0].1, counts.duplicate_rows), (0, 0));
    world.finish(&swap(&request, &verified)?).await?;
    assert_eq!(world.held().await?, ["1 a\\ 2026-11-01", "2 b\\ 2026-11-01"]);
    Ok(())
}
