//! A range of time, run: the hour that the clocks show twice.

use anyhow::{Result, anyhow};
use tidemark_domain::definition;
use tidemark_domain::sql::rebuild::{self, Request};
use tidemark_domain::sql::rows::{self, SwapCounts};
use tidemark_domain::sql::{identifier, install, lookup, survey};

use super::{World, listed, new_batch};

/// Rows each half hour around the end of summer time; the hour that the clocks show twice is swapped alone, and told by its name.
#[tokio::test]
async fn c059_the_hour_that_occurs_twice_is_swapped_as_one_and_nothing_beside_it() -> Result<()> {
    let mut world = World::new("local_hours", "").await?;
    for column in ["timestamp", "timestamptz"] {
        let text = format!(
            "[clicks_{column}]\nsource = \"s3://lake/{column}/\"\nlayout = \"{{yyyy}}/{{mm}}/{{dd}}/{{hh}}/\"\nformat = \"csv\"\n\
             target = \"web.clicks_{column}\"\ncolumns = [\"id bigint\", \"seen_at {column}\"]\n\
             [clicks_{column}.partition.hour]\ntype = \"timestamp\"\nrange_of = \"seen_at\"\ntimezone = \"Europe/Berlin\"\n"
        );
        world.definition = definition::parse(&text).map_err(|problems| anyhow!("{problems:?}"))?.remove(0);
        let target = world.definition.target.clone();
        world.sql(&[&format!("CREATE TABLE {target} (id bigint, seen_at {column})")]).await?;
        world.finish(&install::install_target(&target)?).await?;
        world.finish(&world.own("prod", 3, false)?).await?;
        let from: jiff::Timestamp = "2026-10-24T22:00:00Z".parse()?;
        let moments = (0..12).map(|half| from + jiff::SignedDuration::from_mins(30 * half));
        let rows: Vec<_> = moments.map(|at| format!("(0, CAST('{at}' AS {column}))")).collect();
        world.sql(&["SET timezone TO 'UTC'", &format!("INSERT INTO {target} VALUES {}", rows.join(", "))]).await?;

        let partition = world.definition.partition_of("2026/10/25/2/a.csv")?;
        let request = Request { accept_foreign_rows: true, ..world.request(&partition, new_batch(), 1) };
        let mut verified = world.stage(&request, 0).await?;
        let staging = identifier::staging(&request.staging_name())?;
        let edges = ["2026-10-25 00:00:00+00", "2026-10-25 01:59:59.999999+00", "2026-10-25 02:00:00+00"];
        let rows: Vec<_> = edges.iter().map(|at| format!("(1, CAST('{at}' AS {column}))")).collect();
        world
            .sql(&["SET timezone TO 'UTC'", &format!("INSERT INTO {staging} VALUES {}, (1, NULL)", rows.join(", "))])
            .await?;
        let recount = lookup::recount(&request)?;
        let counts = rows::stage_counts(&world.definition, &world.rows(&recount, recount.last()).await?)?;
        assert_eq!((counts.staged_rows, counts.target_rows, counts.other_partition_rows), (4, 4, 2), "{column}");

        world
            .sql(&[&format!(
                "DELETE FROM {staging} WHERE seen_at IS NULL OR seen_at = CAST('{}' AS {column})",
                edges[2]
            )])
            .await?;
        verified.staged_rows = 2;
        let built = rebuild::swap(&request, &listed(), &verified)?;
        let counts = rows::swap_counts(&world.rows(&built.batch, built.counts).await?)?;
        assert_eq!(counts, SwapCounts { staged_rows: 2, deleted_rows: 4, inserted_rows: 2, target_rows: 2 });
        assert_eq!(world.number(&format!("SELECT count(*) FROM {target} WHERE id = 0")).await?, 8);

        let groups = survey::row_groups(&world.definition)?;
        let groups = survey::read_row_groups(&world.definition, &world.rows(&groups, groups.last()).await?)?;
        let told: Vec<_> = groups.iter().map(|group| format!("{} {}", group.partition, group.rows)).collect();
        let expected = ["00:00:00 2", "01:00:00 2", "02:00:00 2", "03:00:00 2", "04:00:00 2"];
        assert_eq!(told, expected.map(|hour| format!("hour=2026-10-25T{hour}")), "{column}");
    }
    Ok(())
}
