//! A stack of one's own in the one local cloud of this process, with its targets and datasets.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::types::{EventBridgeConfiguration, NotificationConfiguration};
use serde_json::Value;
use tidemark_local::{LocalCloud, Stack, StackOptions, workspace_root};
use tokio::process::Command;
use tokio_postgres::NoTls;

use crate::dataset::Dataset;

/// The data bucket that definitions name. Buckets are shared by all accounts, so each world has one of its own instead.
const BUCKET: &str = "lake-raw";

/// What is set short in the local cloud, and what isn't.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The datasets to apply.
    pub definitions: String,
    /// Seconds a partition settles after a file landed.
    pub settle_seconds: u32,
    /// Time-out of rebuild: one of the template's allowed values.
    pub rebuild_timeout_seconds: u32,
    /// Seconds beyond the time-out until lock and message of a killed rebuild are free.
    pub lease_margin_seconds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            definitions: include_str!("../datasets.toml").to_owned(),
            settle_seconds: 1,
            rebuild_timeout_seconds: 10,
            lease_margin_seconds: 1,
        }
    }
}

impl Settings {
    fn set(&self, options: StackOptions) -> StackOptions {
        options
            .with("SettleSeconds", self.settle_seconds.to_string())
            .with("RebuildTimeoutSeconds", self.rebuild_timeout_seconds.to_string())
            .with("LeaseMarginSeconds", self.lease_margin_seconds.to_string())
    }
}

/// A stack of one's own: an account, a database, a data bucket.
#[derive(Debug)]
pub struct World {
    /// The cloud, shared by all worlds of the process.
    pub cloud: &'static LocalCloud,
    /// The stack.
    pub stack: Stack,
    /// Where the applied datasets lie.
    pub definitions: PathBuf,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sql: tokio_postgres::Client,
}

/// What the operator's command told.
#[derive(Debug, Clone)]
pub struct Told {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Told {
    /// What it printed, as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("no JSON: {self:?}"))
    }

    /// Its exit code.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl World {
    /// A stack with the datasets of `datasets.toml`, ready for files.
    pub async fn new() -> Result<Self> {
        Self::with(&Settings::default()).await
    }

    /// The same with other settings.
    pub async fn with(settings: &Settings) -> Result<Self> {
        let world = Self::deploy(settings).await?;
        world.create_targets().await?;
        world.tidemark_well(&["init"]).await?;
        world.apply(&settings.definitions).await?;
        Ok(world)
    }

    /// A stack only: neither targets nor `init` nor `apply`.
    pub async fn deploy(settings: &Settings) -> Result<Self> {
        let cloud = LocalCloud::shared().await?;
        let account = cloud.fresh_account();
        let bucket = format!("{BUCKET}-{account}");
        // A name of its own: the emulator ends the processes of every function of a name when one of them is created.
        let name = format!("tidemark-{}", account.get(9..).unwrap_or_default());
        let options = StackOptions::new(name, account).with("DataBucketName", bucket);
        Self::of(cloud, settings.set(options)).await
    }

    /// A new stack in the place of this one, which was deleted: the same account, data bucket and database. The bucket exists,
    /// so its owner turns EventBridge on.
    pub async fn succeed(&self, settings: &Settings) -> Result<Self> {
        let options = StackOptions::new(format!("{}-new", self.stack.name()), self.stack.account())
            .with("CreateDataBucket", "false")
            .with("DataBucketName", self.stack.data_bucket())
            .with("RedshiftDatabase", self.stack.database());
        let world = Self::of(self.cloud, settings.set(options)).await?;
        let bridge = EventBridgeConfiguration::builder().build();
        let notifications = NotificationConfiguration::builder().event_bridge_configuration(bridge).build();
        let put = world.s3.put_bucket_notification_configuration().bucket(world.stack.data_bucket());
        put.notification_configuration(notifications).send().await.context("cannot turn EventBridge on")?;
        Ok(world)
    }

    async fn of(cloud: &'static LocalCloud, options: StackOptions) -> Result<Self> {
        let stack = cloud.deploy(options).await?;
        let config = cloud.sdk_config(stack.account()).await;
        let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(true).build();
        let sql = connect(&cloud.conninfo(stack.database())).await?;
        let definitions = cloud.logs().join(format!("datasets-{}.toml", stack.name()));
        Ok(Self {
            cloud,
            stack,
            definitions,
            s3: aws_sdk_s3::Client::from_conf(s3),
            sqs: aws_sdk_sqs::Client::new(&config),
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            sql,
        })
    }

    /// Makes the target tables, as their owner would.
    pub async fn create_targets(&self) -> Result<()> {
        let [orders, returns] = [Dataset::Orders, Dataset::Returns].map(Dataset::create_target);
        let statements = format!("CREATE SCHEMA sales; {orders}; {returns};");
        self.sql.batch_execute(&statements).await.context("cannot make the targets")
    }

    /// Applies datasets, without questions.
    pub async fn apply(&self, definitions: &str) -> Result<Told> {
        let file = self.write_definitions(definitions)?;
        self.tidemark_well(&["apply", &file, "--yes"]).await
    }

    /// Writes the file of datasets, with this world's own bucket in it; gives its path.
    pub fn write_definitions(&self, definitions: &str) -> Result<String> {
        let own = definitions.replace(&format!("s3://{BUCKET}/"), &format!("s3://{}/", self.stack.data_bucket()));
        fs::write(&self.definitions, own)?;
        Ok(self.definitions.display().to_string())
    }

    /// Runs the operator's command to its end.
    pub async fn tidemark(&self, arguments: &[&str]) -> Result<Told> {
        let mut command = Command::new(self.cloud.binary("tidemark")?);
        command.args(arguments).env_clear().env("PATH", env::var("PATH").unwrap_or_default());
        let output = command.envs(self.environment()?).current_dir(workspace_root()).output().await?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Told { status: output.status, out: text(output.stdout), err: text(output.stderr) })
    }

    /// The same, where it must end well.
    pub async fn tidemark_well(&self, arguments: &[&str]) -> Result<Told> {
        let told = self.tidemark(arguments).await?;
        let failed =
            || format!("tidemark {} ended with {}:\n{}{}", arguments.join(" "), told.status, told.out, told.err);
        ensure!(told.status.success(), failed());
        Ok(told)
    }

    /// What an operator does who has looked at a partition and lets these kinds pass: replays it, accepting what was shown.
    pub async fn accept(&self, dataset: &str, partition: &str, kinds: &str) -> Result<()> {
        let shown = self.tidemark_well(&["show", dataset, partition, "--json"]).await?;
        let shown: Value = serde_json::from_str(&shown.out).context("no JSON")?;
        let digest = shown["digest"].as_str().with_context(|| format!("no listing is shown: {shown:#}"))?;
        let reason = "it was looked at";
        let replay = ["replay", dataset, partition, "--accept", kinds, "--digest", digest, "--reason", reason];
        self.tidemark_well(&replay).await?;
        Ok(())
    }

    /// What the operator's command, and any other AWS client, needs in its environment to reach this world.
    pub fn environment(&self) -> Result<Vec<(&'static str, String)>> {
        let output = |name| self.stack.output(name).map(str::to_owned);
        Ok(vec![
            ("AWS_ENDPOINT_URL", self.cloud.aws_endpoint()),
            ("AWS_ENDPOINT_URL_REDSHIFT_DATA", self.cloud.redshift_endpoint()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", self.stack.account().to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("TIDEMARK_STACK", self.stack.name().to_owned()),
            ("TIDEMARK_TABLE", output("TableName")?),
            ("TIDEMARK_PARTITIONS_QUEUE_URL", output("PartitionsQueueUrl")?),
            ("TIDEMARK_PARTITIONS_DLQ_URL", output("PartitionsDlqUrl")?),
            ("TIDEMARK_EVENTS_QUEUE_URL", output("EventsQueueUrl")?),
            ("TIDEMARK_EVENTS_DLQ_URL", output("EventsDlqUrl")?),
            ("TIDEMARK_FUNCTIONS", self.functions()?),
            ("TIDEMARK_CONTROL_BUCKET", output("ControlBucketName")?),
            ("TIDEMARK_REDSHIFT_WORKGROUP", "local".to_owned()),
            ("TIDEMARK_REDSHIFT_DATABASE", self.stack.database().to_owned()),
            ("TIDEMARK_COPY_ROLE_ARN", "default".to_owned()),
        ])
    }

    /// The functions' names: mark, rebuild, sweep.
    fn functions(&self) -> Result<String> {
        let names = ["MarkFunctionName", "RebuildFunctionName", "SweepFunctionName"];
        Ok(names.map(|name| self.stack.output(name)).into_iter().collect::<Result<Vec<_>>>()?.join(","))
    }

    /// A connection of one's own to the database below Redshift, as superuser.
    pub async fn connect(&self) -> Result<tokio_postgres::Client> {
        connect(&self.cloud.conninfo(self.stack.database())).await
    }

    /// The one number that a query on the database below Redshift gives.
    pub async fn count(&self, query: &str) -> Result<i64> {
        let row = self.sql.query_one(query, &[]).await.with_context(|| format!("cannot run {query}"))?;
        Ok(row.try_get(0)?)
    }

    /// A statement on the database below Redshift, as superuser.
    pub async fn execute(&self, statement: &str) -> Result<()> {
        self.sql.batch_execute(statement).await.with_context(|| format!("cannot run {statement}"))
    }
}

async fn connect(conninfo: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(conninfo, NoTls).await.context("cannot reach postgresql")?;
    tokio::spawn(connection);
    Ok(client)
}
