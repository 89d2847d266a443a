//! `infra/redshift/grants.sql` and nothing beyond it, end to end: two users, of whom neither is a superuser nor owns a target.

use anyhow::{Context, Result, ensure};
use tidemark_domain::id::BatchId;
use tidemark_domain::sql::identifier;
use tidemark_kit::grants::{Names, grants};
use tidemark_kit::{Dataset, Settings, World, orders};

/// Operators and functions, in a world where nobody has a right that wasn't given.
struct Users {
    world: World,
    operators: String,
    functions: String,
}

impl Users {
    async fn new(settings: &Settings) -> Result<Self> {
        let world = World::deploy(settings).await?;
        world.create_targets().await?;
        // Only who is asked to sweeps: never as the wrong user.
        world.stack.unschedule().await?;
        // The first call has the local Redshift make what is its own, as a superuser.
        world.tidemark(&["doctor"]).await?;
        let of = |who: &str| format!("{who}_{}", world.stack.account());
        let users = Self { operators: of("operators"), functions: of("functions"), world };
        let database = users.world.stack.database();
        users
            .world
            .execute(&format!(
                "REVOKE ALL ON DATABASE \"{database}\" FROM PUBLIC; REVOKE ALL ON LANGUAGE plpgsql FROM PUBLIC"
            ))
            .await?;
        users.grant(&[1, 2], Dataset::Orders, &users.operators).await?;
        for dataset in [Dataset::Orders, Dataset::Returns] {
            users.grant(&[3], dataset, &users.operators).await?;
        }
        let operators = &users.operators;
        let as_in_redshift =
            format!("ALTER DEFAULT PRIVILEGES FOR USER {operators} REVOKE EXECUTE ON ROUTINES FROM PUBLIC");
        users.world.execute(&as_in_redshift).await?;
        Ok(users)
    }

    async fn grant(&self, sections: &[u8], dataset: Dataset, user: &str) -> Result<()> {
        let database = format!("\"{}\"", self.world.stack.database());
        let (functions, target) = (self.functions.as_str(), dataset.target());
        let names = Names { user, functions, analyst: "", database: &database, target };
        for section in sections {
            self.world.execute(&grants(*section, names).join(";")).await?;
        }
        Ok(())
    }

    /// From here on, each session of the Data API in this world has that user's rights.
    async fn act_as(&self, user: &str) -> Result<()> {
        let database = self.world.stack.database();
        let set = format!(
            "DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I SET role = %L', current_user, '{database}', '{user}'); END $$"
        );
        self.world.execute(&set).await?;
        let sql = self.world.connect().await?;
        let is: bool = sql
            .query_one("SELECT current_user = $1 AND NOT usesuper FROM pg_user WHERE usename = current_user", &[&user])
            .await?
            .try_get(0)?;
        ensure!(is, "sessions are not {user}'s");
        Ok(())
    }

    /// A staging table that a batch of ten days ago left.
    async fn left_over(&self, owner: &str) -> Result<String> {
        let ten_days_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(240);
        let at = uuid::Timestamp::from_unix(uuid::NoContext, u64::try_from(ten_days_ago.as_second())?, 0);
        let table = identifier::staging_name(BatchId(uuid::Uuid::new_v7(at)), None);
        let make = format!(
            "CREATE TABLE tidemark_staging.\"{table}\" (id bigint); ALTER TABLE tidemark_staging.\"{table}\" OWNER TO {owner}"
        );
        self.world.execute(&make).await?;
        Ok(table)
    }

    async fn is_there(&self, table: &str) -> Result<bool> {
        let count =
            format!("SELECT count(*) FROM pg_tables WHERE schemaname = 'tidemark_staging' AND tablename = '{table}'");
        Ok(self.world.count(&count).await? == 1)
    }
}

#[tokio::test]
async fn two_users_do_all_they_do_with_their_grants_alone() -> Result<()> {
    let settings = Settings::default();
    let users = Users::new(&settings).await?;
    let world = &users.world;
    users.act_as(&users.operators).await?;
    world.tidemark_well(&["init"]).await?;
    users.grant(&[5], Dataset::Orders, &users.operators).await?;
    users.grant(&[3], Dataset::Returns, &users.functions).await?;
    world.apply(&settings.definitions).await?;

    // Rebuilds, the second over rows of the first.
    users.act_as(&users.functions).await?;
    let (day, returned) = (Dataset::Orders.day("2026-11-01"), Dataset::Returns.day("2026-11-01"));
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.put_returns(&returned.file("a.csv"), &orders::returns(0, 5)).await?;
    world.wait_true(&day).await?;
    world.wait_true(&returned).await?;
    world.put_orders(&day.file("b.parquet"), &orders::orders(100, 10)).await?;
    world.wait_landed(&day, 1).await?;

    // Sweep: books, drops what is left over but what isn't its own, holds items against the ledger, and heals.
    let (ours, theirs) = (users.left_over(&users.functions).await?, users.left_over(&users.operators).await?);
    world.sweep().await?;
    world.round_now("book", None).await?;
    world.round_now("staging", None).await?;
    world.sweep().await?;
    assert_eq!(world.count("SELECT count(*) FROM tidemark.files").await?, 1 + 1 + 2);
    assert_eq!((users.is_there(&ours).await?, users.is_there(&theirs).await?), (false, true));
    world.execute("DELETE FROM tidemark.batches WHERE dataset = 'returns'; DELETE FROM sales.returns").await?;
    world.round_now("tidy", Some(Dataset::Returns)).await?;
    world.sweep().await?;
    world.wait_true(&returned).await?;
    world.wait_quiet(&day).await?;

    // Operators: the doctor misses nothing; a rehearsal stages; a changed definition and a replay are for the functions to do.
    users.act_as(&users.operators).await?;
    let told = world.tidemark(&["doctor", "--json"]).await?;
    let report = told.json()?;
    let checks = report["checks"].as_array().context("checks")?;
    let failed: Vec<_> = checks.iter().filter(|check| check["result"] == "failed").collect();
    assert!(failed.is_empty() && checks.len() > 10, "{failed:#?}");
    world.tidemark_well(&["replay", "orders", &day.name(), "--rehearse"]).await?;
    let changed = settings.definitions.replace("required = [\"order_id\", \"amount\"]", "required = [\"order_id\"]");
    ensure!(changed != settings.definitions, "nothing is changed");
    world.apply(&changed).await?;
    world.tidemark_well(&["replay", "orders", &day.name(), "--reason", "to see it done"]).await?;
    users.act_as(&users.functions).await?;
    world.sweep().await?;
    world.wait_landed(&day, 2).await?;
    Ok(())
}
