//! `infra/redshift/grants.sql`, run: with all of a section's grants everything goes, with any one fewer it doesn't.

use anyhow::{Context as _, Result, ensure};
use tidemark_domain::sql::identifier::{self, PerTarget, per_target};
use tidemark_domain::sql::rebuild::{self, CopyRole, Verified};
use tidemark_domain::sql::{Batch, doctor, install, ledger, lookup, survey};
use tidemark_engine::ports::ExecutionStatus;
use tidemark_kit::grants::{Names, grants};
use tokio_postgres::Client;

use super::{World, new_batch, servers, swap};

/// A database, its superuser, and whose rights the sessions of the Data API have in it.
struct Users<'a> {
    world: World,
    admin: Client,
    names: Names<'a>,
}

impl<'a> Users<'a> {
    async fn new(names: Names<'a>) -> Result<Self> {
        let servers = servers()?;
        let world = World::bare(&servers.snapshot, names.database, "").await?;
        let conninfo = servers.postgres.conninfo(names.database);
        let (admin, connection) = tokio_postgres::connect(&conninfo, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        // PostgreSQL gives these to everybody; without this, their grants would show nothing.
        let database = names.database;
        let revoke =
            format!("REVOKE ALL ON DATABASE {database} FROM PUBLIC; REVOKE ALL ON LANGUAGE plpgsql FROM PUBLIC");
        admin.batch_execute(&revoke).await?;
        Ok(Self { world, admin, names })
    }

    async fn admin(&self, sql: &str) -> Result<()> {
        self.admin.batch_execute(sql).await.with_context(|| format!("cannot run {sql}"))
    }

    /// Runs what a section says; gives it.
    async fn grant(&self, section: u8) -> Result<Vec<String>> {
        let statements = grants(section, self.names);
        ensure!(!statements.is_empty(), "section {section} has no statements");
        self.admin(&statements.join(";")).await?;
        Ok(statements)
    }

    /// From here on, each session of the Data API in this database has that user's rights.
    async fn act_as(&self, user: &str) -> Result<()> {
        self.admin(&format!("ALTER ROLE tidemark IN DATABASE {} SET role = '{user}'", self.names.database)).await?;
        let is = format!(
            "SELECT count(*) FROM pg_user WHERE usename = '{user}' AND usename = current_user AND NOT usesuper"
        );
        assert_eq!(self.world.number(&is).await?, 1);
        Ok(())
    }

    /// Takes away one privilege after another of what was granted: each is missed at once. Gives those there were.
    async fn each_is_missed(
        &self,
        granted: &[String],
        work: impl AsyncFn() -> Result<Option<String>>,
    ) -> Result<Vec<String>> {
        let mut missed = Vec::new();
        for grant in granted.iter().filter_map(|sql| sql.strip_prefix("GRANT ")) {
            let (privileges, on) = grant.split_once(" ON ").context("GRANT … ON …")?;
            let (object, user) = on.split_once(" TO ").context("ON … TO …")?;
            for privilege in privileges.split(", ") {
                self.admin(&format!("REVOKE {privilege} ON {object} FROM {user}")).await?;
                let error = work().await?.with_context(|| format!("works without {privilege} on {object}"))?;
                assert!(error.contains("permission denied"), "without {privilege} on {object}: {error}");
                self.admin(&format!("GRANT {privilege} ON {object} TO {user}")).await?;
                missed.push(format!("{privilege} {object}"));
            }
        }
        assert_eq!(work().await?, None);
        Ok(missed)
    }
}

/// Runs one after the other; the first error.
async fn first_error(world: &World, batches: Vec<Batch>) -> Result<Option<String>> {
    for batch in batches {
        let execution = world.run(&batch).await?;
        if execution.status != ExecutionStatus::Finished {
            return Ok(Some(format!("{}: {:?}", batch.name(), execution.first_error())));
        }
    }
    Ok(None)
}

/// What operators do, but for rehearsals: `init`, `apply`, `doctor`.
fn of_operators(world: &World) -> Result<Vec<Batch>> {
    let target = &world.definition.target;
    Ok(vec![
        install::install()?,
        install::installed_version()?,
        install::install_target(target)?,
        world.own("prod", 3, false)?,
        survey::columns(&[target])?,
        survey::guards(&[target])?,
        survey::row_groups(&world.definition)?,
        doctor::rights(target)?,
    ])
}

/// What the functions do: a rebuild that is fenced off once, then sweep's book and tidy. Of the COPY of files, which has nothing
/// to read from here, an INSERT stands for what it writes.
fn of_functions(world: &World, fence: u64) -> Result<Vec<Batch>> {
    // One that has no fence yet, and no row.
    let partition = world.definition.partition_of(&format!("region={fence}/dt=2026-11-01/a.csv"))?;
    let request = world.request(&partition, new_batch(), fence);
    let staged_at = "2026-11-02T03:04:05.678Z".parse()?;
    let verified = Verified { staged_rows: 1, rejected_rows: 0, duplicate_rows: 0, staged_at, ..Verified::default() };
    let row = format!(
        "INSERT INTO {} (id, dt, said) VALUES (1, DATE '2026-11-01', 'x')",
        identifier::staging(&request.staging_name())?
    );
    let book = ledger::book(&[request.batch], "s3://control/manifest.json", &CopyRole::Default)?;
    let is_copy = |sql: &&String| sql.starts_with("COPY ");
    assert_eq!(book.statements().iter().filter(is_copy).count(), 1);
    let mut booked: Vec<String> = book.statements().iter().filter(|sql| !is_copy(sql)).cloned().collect();
    booked.push(format!("INSERT INTO tidemark.files VALUES ('{}', 'k', 'e', 1, GETDATE())", request.batch));
    let (dataset, stack) = (&world.definition.name, &world.stack);
    Ok(vec![
        rebuild::fence(&world.request(&partition, request.batch, fence - 1))?,
        lookup::look(&request)?,
        rebuild::stage(&request, None)?.batch,
        Batch::new("rows", vec![row])?,
        lookup::recount(&request)?,
        swap(&request, &verified)?,
        lookup::ledger_row(&request)?,
        lookup::blockers(&request, 1)?,
        ledger::unbooked(stack, None, None, 500)?,
        Batch::new("book", booked)?,
        ledger::newest_between(stack, dataset, None, None)?,
        ledger::newest_of(stack, dataset, std::slice::from_ref(&partition.name))?.0,
        ledger::staging_tables()?,
        ledger::drop_staging([request.staging_name().as_str()])?,
    ])
}

/// One user for functions and operators gets from `init` to a swap, books and tidies, and the doctor misses nothing.
#[tokio::test]
async fn each_grant_is_needed_and_together_they_suffice() -> Result<()> {
    let names =
        Names { user: "granted", functions: "", analyst: "an_analyst", database: "grants", target: "web.events" };
    let users = Users::new(names).await?;
    let mut granted = users.grant(1).await?;
    granted.extend(users.grant(2).await?);
    granted.extend(users.grant(3).await?);
    users.act_as("granted").await?;
    let fence = std::cell::Cell::new(1);
    let everything = async || {
        fence.set(fence.get() + 2);
        let mut batches = of_operators(&users.world)?;
        batches.extend(of_functions(&users.world, fence.get())?);
        first_error(&users.world, batches).await
    };
    let missed = users.each_is_missed(&granted, everything).await?;
    let expected = [
        "CREATE DATABASE grants",
        "TEMP DATABASE grants",
        "USAGE LANGUAGE plpgsql",
        "USAGE SCHEMA web",
        "SELECT TABLE web.events",
        "INSERT TABLE web.events",
        "DELETE TABLE web.events",
    ];
    assert_eq!(missed, expected);
    let rows = format!("SELECT count(*) FROM web.events WHERE region = '{}'", fence.get());
    assert_eq!(users.world.number(&rows).await?, 1);
    nothing_is_missing(&users.world).await?;

    let reads = users.grant(6).await?;
    users.act_as("an_analyst").await?;
    let files = "SELECT count(*) FROM tidemark.batches AS b JOIN tidemark.files AS f ON f.batch_id = b.batch_id";
    let reading = async || first_error(&users.world, vec![Batch::new("files", vec![files.to_owned()])?]).await;
    let missed = users.each_is_missed(&reads, reading).await?;
    assert_eq!(missed, ["USAGE SCHEMA tidemark", "SELECT TABLE tidemark.batches, tidemark.files"]);
    let raw = Batch::new("raw", vec!["CREATE TABLE tidemark_staging.mine (id bigint)".to_owned()])?;
    assert!(first_error(&users.world, vec![raw]).await?.is_some_and(|error| error.contains("permission denied")));
    Ok(())
}

/// Functions that are a user of their own do all they do with the grants of section 5, to a target that is applied after them,
/// and nothing that is the operators'.
#[tokio::test]
async fn functions_that_are_another_user_need_each_grant_of_section_5() -> Result<()> {
    let names = Names {
        user: "operators",
        functions: "\"IAMR:functions\"",
        analyst: "",
        database: "two_users",
        target: "web.events",
    };
    let users = Users::new(names).await?;
    for section in 1..=3 {
        users.grant(section).await?;
    }
    // As in Redshift, where only the owner may call a new procedure.
    users.admin("ALTER DEFAULT PRIVILEGES FOR USER operators REVOKE EXECUTE ON ROUTINES FROM PUBLIC").await?;
    let world = &users.world;
    users.act_as("operators").await?;
    assert_eq!(first_error(world, vec![install::install()?]).await?, None);
    let granted = users.grant(5).await?;
    assert_eq!(first_error(world, of_operators(world)?).await?, None);
    nothing_is_missing(world).await?;

    users.act_as("IAMR:functions").await?;
    let fence = std::cell::Cell::new(1);
    let work = async || {
        fence.set(fence.get() + 2);
        first_error(world, of_functions(world, fence.get())?).await
    };
    // What the default privileges gave, by the names that got it.
    let target = &world.definition.target;
    let name = |what| per_target(what, target);
    let owner = "varchar, bigint, varchar, varchar, bigint";
    let mut by_name = granted.clone();
    by_name.push(format!("GRANT SELECT, INSERT, UPDATE ON {} TO \"IAMR:functions\"", name(PerTarget::Fence)?));
    for procedure in [name(PerTarget::Claim)?, name(PerTarget::FenceOff)?] {
        by_name.push(format!("GRANT EXECUTE ON PROCEDURE {procedure}({owner}) TO \"IAMR:functions\""));
    }
    let missed = users.each_is_missed(&by_name, work).await?;
    let privileges: Vec<&str> = missed.iter().map(|missed| missed.split(' ').next().unwrap_or_default()).collect();
    let expected = [
        "TEMP", "USAGE", "SELECT", "INSERT", "DELETE", "USAGE", "USAGE", "CREATE", "SELECT", "INSERT", "SELECT",
        "INSERT", "DELETE", "DELETE", "EXECUTE", "SELECT", "INSERT", "UPDATE", "EXECUTE", "EXECUTE",
    ];
    assert_eq!(privileges, expected);

    // The ledger is insert-only for them, and what operators made stays theirs.
    for refused in [
        "DELETE FROM tidemark.batches".to_owned(),
        "UPDATE tidemark.batches SET fence = 0".to_owned(),
        format!("DELETE FROM {}", name(PerTarget::Fence)?),
        "CREATE TABLE tidemark.mine (id bigint)".to_owned(),
        "DROP TABLE tidemark.files".to_owned(),
    ] {
        let error = first_error(world, vec![Batch::new("refused", vec![refused.clone()])?]).await?;
        let error = error.with_context(|| format!("they may {refused}"))?;
        assert!(error.contains("permission denied") || error.contains("must be owner"), "{refused}: {error}");
    }
    Ok(())
}

/// The doctor's own question.
async fn nothing_is_missing(world: &World) -> Result<()> {
    let rights = doctor::rights(&world.definition.target)?;
    assert_eq!(doctor::read_rights(&world.rows(&rights, rights.last()).await?)?, []);
    Ok(())
}
