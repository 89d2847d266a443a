//! What right is: told from S3, Redshift, the ledger and the state table, each read by the kit and not by the product.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use tidemark_kit::story::View;
use tidemark_kit::{Partition, World};

/// A partition before a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before {
    pub(crate) fence: i64,
    /// Batches in the ledger.
    pub(crate) landed: usize,
}

/// A partition from all sides, once it rests.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Source, target, ledger and item.
    pub(crate) view: View,
    /// Batches that state tells as committed.
    pub(crate) told: BTreeSet<String>,
    /// How often each batch that landed since was loaded, oldest first.
    pub(crate) copies: Vec<i64>,
}

impl Seen {
    /// Everything there is to be seen of `day`.
    pub(crate) async fn of(world: &World, day: &Partition, view: View, before: &Before) -> Result<Self> {
        let mut copies = Vec::new();
        for landed in view.landed.iter().skip(before.landed) {
            copies.push(world.copies(&landed.batch).await?);
        }
        Ok(Self { told: world.told_committed(day).await?, view, copies })
    }

    /// An error tells what is wrong. `copied_twice`: a COPY failed, so that it had to be made again.
    ///
    /// The partition is at rest; the target holds just the rows of the files; the ledger holds just the batches that state
    /// tells as committed, each fence once; the last of them is the item's, and wrote what stands there; none was loaded twice.
    pub(crate) fn is_right(&self, copied_twice: bool) -> Result<()> {
        let View { source, target, landed, item } = &self.view;
        ensure!(item.rests(), "it isn't at rest: {:#}", item.0);
        ensure!(
            source.rows == target.rows,
            "the target holds {} rows, the files {}; in one only: {:?}",
            target.rows.len(),
            source.rows.len(),
            differing(&source.rows, &target.rows)
        );
        ensure!(target.duplicates == 0, "{} keys stand twice in the target", target.duplicates);
        let fences: Vec<i64> = landed.iter().map(|landed| landed.fence).collect();
        ensure!(fences.windows(2).all(|pair| pair[0] < pair[1]), "a fence stands twice in the ledger: {fences:?}");
        let batches: BTreeSet<String> = landed.iter().map(|landed| landed.batch.clone()).collect();
        ensure!(
            batches == self.told,
            "only in the ledger, or only told as committed: {:?}",
            batches.symmetric_difference(&self.told)
        );
        let last = landed.last().map(|landed| landed.batch.as_str());
        ensure!(last == item.0["last"]["batch"].as_str(), "the newest batch of the ledger isn't the item's last");
        let rows = landed.last().map_or(0, |landed| landed.target_rows);
        ensure!(usize::try_from(rows) == Ok(target.rows.len()), "the ledger tells {rows} rows of the newest batch");
        for (copies, landed) in self.copies.iter().rev().zip(landed.iter().rev()) {
            ensure!(*copies == 1 || copied_twice, "batch {} was loaded {copies} times", landed.batch);
        }
        Ok(())
    }
}

/// What must be true once sweep has booked: of each batch in the ledger just as many files are told as it loaded, each once, and
/// of the partition's newest just those of its inventory.
pub(crate) async fn books_are_right(world: &World, day: &Partition) -> Result<()> {
    let differ = "SELECT count(*) FROM tidemark.batches AS b \
                  LEFT JOIN (SELECT batch_id, count(*) AS files FROM tidemark.files GROUP BY 1) AS f USING (batch_id) \
                  WHERE b.source_objects <> coalesce(f.files, 0)";
    let differ = world.count(differ).await?;
    ensure!(differ == 0, "{differ} batches are booked with more or fewer files than they loaded");
    let landed = world.landed(day).await?;
    let newest = landed.last().context("nothing has landed")?;
    let (booked, listed) = (world.booked(&newest.batch).await?, world.inventory(newest).await?);
    ensure!(booked == listed.into_iter().collect::<Vec<_>>(), "of {} other files are booked: {booked:?}", newest.batch);
    Ok(())
}

/// A few rows of which one side has more than the other.
fn differing<'r>(ours: &'r [String], theirs: &'r [String]) -> Vec<&'r String> {
    let count = |rows: &[String], row: &String| rows.iter().filter(|other| *other == row).count();
    let all: BTreeSet<&String> = ours.iter().chain(theirs).collect();
    all.into_iter().filter(|row| count(ours, row) != count(theirs, row)).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemark_kit::{Dataset, orders};

    /// Breaks by hand what no crash may break, one after the other: each is seen, and what is mended is right again.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_broken_on_purpose_is_seen() {
        let world = World::new().await.unwrap();
        let day = Dataset::Orders.day("2026-11-01");
        world.put_orders(&day.file("a.parquet"), &orders::orders(0, 50)).await.unwrap();
        world.wait_true(&day).await.unwrap();
        let told = async || {
            let view = world.view(&day).await.unwrap().unwrap();
            let seen = Seen::of(&world, &day, view, &Before { fence: 0, landed: 0 }).await.unwrap();
            seen.is_right(false).map_err(|error| error.to_string())
        };
        assert_eq!(told().await, Ok(()));

        let before = "CREATE TABLE kept_orders AS SELECT * FROM sales.orders; CREATE TABLE kept_batches AS SELECT * FROM tidemark.batches";
        world.execute(before).await.unwrap();
        let doubled = "INSERT INTO sales.orders SELECT * FROM sales.orders";
        let mend = "DELETE FROM sales.orders; INSERT INTO sales.orders SELECT * FROM kept_orders; \
                    DELETE FROM tidemark.batches; INSERT INTO tidemark.batches SELECT * FROM kept_batches";
        let breaks = [
            (doubled, "the target holds 100 rows, the files 50"),
            ("DELETE FROM sales.orders WHERE order_id = 7", "the target holds 49 rows"),
            ("UPDATE sales.orders SET amount = amount + 1 WHERE order_id = 7", "in one only"),
            ("DELETE FROM tidemark.batches", "told as committed"),
            ("INSERT INTO tidemark.batches SELECT * FROM tidemark.batches", "a fence stands twice in the ledger"),
            ("UPDATE tidemark.batches SET target_rows = 49", "the ledger tells 49 rows"),
        ];
        for (broken, expected) in breaks {
            world.execute(broken).await.unwrap();
            let seen = told().await.unwrap_err();
            assert!(seen.contains(expected), "{broken}: {seen}");
            world.execute(mend).await.unwrap();
            assert_eq!(told().await, Ok(()), "mended after {broken}");
        }
        books_that_are_broken_on_purpose_are_seen(&world, &day).await;
    }

    async fn books_that_are_broken_on_purpose_are_seen(world: &World, day: &Partition) {
        let told = async || books_are_right(world, day).await.map_err(|error| error.to_string());
        world.sweep().await.unwrap();
        assert!(told().await.unwrap_err().contains("1 batches are booked with more or fewer files"), "not booked yet");
        world.round_now("book", None).await.unwrap();
        world.sweep().await.unwrap();
        assert_eq!(told().await, Ok(()));
        world.execute("CREATE TABLE kept_files AS SELECT * FROM tidemark.files").await.unwrap();
        let breaks = [
            ("INSERT INTO tidemark.files SELECT * FROM tidemark.files", "more or fewer files"),
            ("DELETE FROM tidemark.files", "more or fewer files"),
            ("UPDATE tidemark.files SET etag = 'another'", "other files are booked"),
        ];
        for (broken, expected) in breaks {
            world.execute(broken).await.unwrap();
            let seen = told().await.unwrap_err();
            assert!(seen.contains(expected), "{broken}: {seen}");
            let mend = "DELETE FROM tidemark.files; INSERT INTO tidemark.files SELECT * FROM kept_files";
            world.execute(mend).await.unwrap();
        }
        assert_eq!(told().await, Ok(()), "mended");
    }
}
