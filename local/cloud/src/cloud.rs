//! The whole local cloud: started together, checked, ended together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use tokio::sync::OnceCell;

use crate::code::Code;
use crate::listeners::{self, Listener};
use crate::packages::{self, Functions};
use crate::postgres::Postgres;
use crate::server::{Server, free_port};
use crate::stack::{Deployer, Stack, StackOptions};
use crate::venv::Venv;
use crate::workspace::{Run, workspace_root};
use crate::{emulator, redshift, self_check};

/// How often a start is tried when another program takes the port in between.
const STARTS: usize = 3;

/// How to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Check that the emulator keeps the promises Tidemark rests on (some seconds). Leave it out only for a repeated start
    /// in a process whose first start has checked.
    pub self_check: bool,
    /// Functions with failpoints: a test build, whose plans stand in [`LocalCloud::failpoints`].
    pub failpoints: bool,
    /// Deploy what `sam build` made instead of debug builds: its folder, `.aws-sam/build`; relative to the workspace. By
    /// default what the variable `TIDEMARK_ARTIFACTS` says, so that any test can be held against what is shipped.
    pub artifacts: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let artifacts = std::env::var_os("TIDEMARK_ARTIFACTS").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        Self { self_check: true, failpoints: false, artifacts }
    }
}

/// A running local cloud. Dropping it ends all its servers.
#[derive(Debug)]
pub struct LocalCloud {
    run: Run,
    venv: Venv,
    binaries: BTreeMap<String, PathBuf>,
    code: Code,
    emulator_port: u16,
    redshift_port: u16,
    accounts: AtomicU32,
    // Ended in this order: functions use the Redshift Data API, which uses PostgreSQL.
    emulator: Server,
    redshift: Server,
    postgres: Postgres,
}

impl LocalCloud {
    /// Builds what has to be built, starts all servers and waits until they answer. The first time this takes minutes
    /// (cargo, pip), later two to five seconds.
    pub async fn start(options: Options) -> Result<Self> {
        let run = Run::new()?;
        let venv = Venv::ensure("local/cloud/requirements.txt")?;
        let functions = match (&options.artifacts, options.failpoints) {
            (Some(_), true) => bail!("what sam build made has no failpoints; unset TIDEMARK_ARTIFACTS"),
            (Some(_), false) => Functions::None,
            (None, true) => Functions::WithFailpoints,
            (None, false) => Functions::Plain,
        };
        let binaries = built(functions).await?;
        let code = match &options.artifacts {
            Some(folder) => Code::of_artifacts(&workspace_root().join(folder))?,
            None => Code::of_binaries(&binaries)?,
        };
        let postgres = Postgres::start(&run).await?;
        let cloud = Self::start_servers(run, venv, binaries, code, postgres).await?;
        if options.self_check {
            self_check::run(&cloud).await?;
        }
        Ok(cloud)
    }

    /// The one cloud of this process, started by whoever asks first. It ends with the process.
    pub async fn shared() -> Result<&'static Self> {
        Self::shared_with(Options::default()).await
    }

    /// The same; it is started as whoever asks first wants it.
    pub async fn shared_with(options: Options) -> Result<&'static Self> {
        static SHARED: OnceCell<LocalCloud> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(options)).await
    }

    async fn start_servers(
        run: Run,
        venv: Venv,
        binaries: BTreeMap<String, PathBuf>,
        code: Code,
        postgres: Postgres,
    ) -> Result<Self> {
        let binary = binaries.get("redshift-data").context("cargo built no redshift-data")?;
        // Each needs the other's address: the emulator's port is chosen first, and may be lost to another program.
        let mut tries = 0;
        let (emulator, emulator_port, redshift, redshift_port) = loop {
            tries += 1;
            let port = free_port()?;
            let (redshift, redshift_port) = redshift::start(&run, binary, &postgres, &url(port)).await?;
            match emulator::start(&run, &venv, port, &url(redshift_port)).await {
                Ok(emulator) => break (emulator, port, redshift, redshift_port),
                Err(error) if tries == STARTS => return Err(error),
                Err(_) => {}
            }
        };
        let accounts = AtomicU32::new(1);
        Ok(Self { run, venv, binaries, code, emulator_port, redshift_port, accounts, emulator, redshift, postgres })
    }

    /// Where everything but the Redshift Data API is (`AWS_ENDPOINT_URL`).
    pub fn aws_endpoint(&self) -> String {
        url(self.emulator_port)
    }

    /// Where the Redshift Data API is (`AWS_ENDPOINT_URL_REDSHIFT_DATA`).
    pub fn redshift_endpoint(&self) -> String {
        url(self.redshift_port)
    }

    /// An account nobody has used in this cloud: nothing in it, nothing seen from others.
    pub fn fresh_account(&self) -> String {
        format!("{:012}", 100_000_000_000 + u64::from(self.accounts.fetch_add(1, Ordering::Relaxed)))
    }

    /// SDK configuration of an account, for all services but the Redshift Data API.
    pub async fn sdk_config(&self, account: &str) -> SdkConfig {
        sdk_config(account, &self.aws_endpoint()).await
    }

    /// SDK configuration of an account for the Redshift Data API.
    pub async fn redshift_sdk_config(&self, account: &str) -> SdkConfig {
        sdk_config(account, &self.redshift_endpoint()).await
    }

    /// The PostgreSQL below the Redshift Data API.
    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    /// Connection string of a database; see [`Postgres::conninfo`].
    pub fn conninfo(&self, database: &str) -> String {
        self.postgres.conninfo(database)
    }

    /// A line for a terminal that opens a database in psql.
    pub fn psql_line(&self, database: &str) -> String {
        self.postgres.psql_line(database)
    }

    /// Makes an empty database, which the Redshift Data API knows by the same name; gives its connection string.
    pub async fn create_database(&self, name: &str) -> Result<String> {
        self.postgres.create_database(name).await
    }

    /// Creates the product's own stack from `infra/template.yaml` with this workspace's functions, or from what `sam build`
    /// made, and waits for it.
    pub async fn deploy(&self, options: StackOptions) -> Result<Stack> {
        if !options.parameters.contains_key("RedshiftDatabase") {
            self.create_database(&options.database()).await?;
        }
        Stack::create(self.deployer(), self.code.clone(), options).await
    }

    /// The path of a binary built with the cloud: `redshift-data`, `tidemark`, and, unless `sam build` made them, `mark`,
    /// `rebuild`, `sweep`.
    pub fn binary(&self, name: &str) -> Result<&Path> {
        self.binaries.get(name).map(PathBuf::as_path).with_context(|| format!("cargo built no binary {name}"))
    }

    /// Every TCP socket our servers, and the functions they run, listen on.
    pub fn listeners(&self) -> Vec<Listener> {
        self.servers().into_iter().flat_map(listeners::of).collect()
    }

    /// Every process of ours that is alive.
    pub fn pids(&self) -> Vec<u32> {
        self.servers().into_iter().flat_map(|server| crate::processes::of_group(server.group())).collect()
    }

    /// The folder of failpoint plans, one folder a stack in it; functions built without failpoints don't look there.
    pub fn failpoints(&self) -> PathBuf {
        emulator::failpoints(&self.run)
    }

    /// The folder with one log per server.
    pub fn logs(&self) -> &Path {
        self.run.logs()
    }

    pub(crate) fn deployer(&self) -> Deployer {
        Deployer::new(self.venv.python(), self.aws_endpoint(), self.emulator.group())
    }

    fn servers(&self) -> [&Server; 3] {
        [&self.emulator, &self.redshift, self.postgres.server()]
    }
}

/// Built once per process: a second start waits for no other cargo.
async fn built(functions: Functions) -> Result<BTreeMap<String, PathBuf>> {
    static BUILT: [OnceCell<BTreeMap<String, PathBuf>>; 3] = [const { OnceCell::const_new() }; 3];
    BUILT[functions as usize].get_or_try_init(|| async { packages::build(functions) }).await.cloned()
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The emulator takes an access key of twelve digits for the account.
async fn sdk_config(account: &str, endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new(account, "local", None, None, "tidemark-local");
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new(emulator::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(endpoint)
        .load()
        .await
}
