//! The jobs and services that write lakes, each played as the calls it makes of S3, through the real events.
//!
//! Each has a dataset and a target of its own, so that many are played side by side in one [`World`]. A play ends well only if
//! the number of rebuilds, the state and the rows are what the manual says.

mod athena;
mod dms;
mod firehose;
mod glue;
mod in_place;
mod lake;
mod multipart;
mod removal;
mod restless;
mod spark;

use anyhow::{Context, Result};

use crate::world::World;
use lake::Lake;

/// Somebody who writes into a lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Producer {
    /// Spark's overwrite: all files are deleted, minutes later the new ones are renamed out of `_temporary`.
    SparkOverwrite,
    /// Spark's dynamic partition overwrite: only the partitions that are written are replaced, out of `.spark-staging`.
    SparkDynamicOverwrite,
    /// Hadoop's magic committer: uploads that are completed at the job's commit.
    SparkMagicCommitter,
    /// Glue, which appends: a job that ran twice has written its rows twice.
    Glue,
    /// Athena: CTAS, then INSERT INTO, then the table made again.
    Athena,
    /// Firehose: date paths by the hour, gzip, an error prefix, late deliveries.
    Firehose,
    /// DMS: a full load beside change files.
    Dms,
    /// A large file in many parts.
    MultipartUpload,
    /// A file is written anew while COPY reads it.
    ReplacedUnderCopy,
    /// A lifecycle rule lets files expire: no event tells of it.
    LifecycleExpiry,
    /// Versions of files are deleted, not the files.
    VersionDelete,
    /// A lifecycle rule moved a file to Glacier before it was loaded.
    Glacier,
    /// A stream of small files that never ends.
    Restless,
}

impl Producer {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::SparkOverwrite,
        Self::SparkDynamicOverwrite,
        Self::SparkMagicCommitter,
        Self::Glue,
        Self::Athena,
        Self::Firehose,
        Self::Dms,
        Self::MultipartUpload,
        Self::ReplacedUnderCopy,
        Self::LifecycleExpiry,
        Self::VersionDelete,
        Self::Glacier,
        Self::Restless,
    ];

    /// The name of its dataset, of its folder in the lake and of its table in the schema `shapes`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SparkOverwrite => "spark_overwrite",
            Self::SparkDynamicOverwrite => "spark_dynamic",
            Self::SparkMagicCommitter => "spark_magic",
            Self::Glue => "glue",
            Self::Athena => "athena",
            Self::Firehose => "firehose",
            Self::Dms => "dms",
            Self::MultipartUpload => "multipart",
            Self::ReplacedUnderCopy => "replaced",
            Self::LifecycleExpiry => "lifecycle",
            Self::VersionDelete => "versions",
            Self::Glacier => "glacier",
            Self::Restless => "restless",
        }
    }

    /// Its dataset, as `datasets.toml` has it.
    pub fn definition(self) -> String {
        let (layout, format, part, more) = self.shape();
        let name = self.name();
        let columns = match self {
            Self::Dms => "\"op char(1)\", \"changed_at timestamp\", \"id bigint\", \"note varchar(40)\"",
            _ => "\"id bigint\", \"note varchar(40)\"",
        };
        // A change file may hold many changes of one row.
        let key = if self == Self::Dms { "" } else { "key = [\"id\"]\n" };
        let interval = if self == Self::Restless { restless::INTERVAL_SECONDS } else { 0 };
        format!(
            "[{name}]\nsource = \"s3://lake-raw/{name}/\"\nlayout = \"{layout}\"\nformat = \"{format}\"\n\
             target = \"shapes.{name}\"\ncolumns = [{columns}]\n{key}required = [\"id\"]\nconcurrency = \"partition\"\n\
             interval = \"{interval}s\"\n\n[{name}.partition.{part}]\ntype = \"{}\"\n{more}\n",
            if part == "hour" { "timestamp" } else { "date" }
        )
    }

    /// Layout, format, part and further tables of the dataset.
    fn shape(self) -> (&'static str, &'static str, &'static str, String) {
        let table = |table: &str| format!("\n[{}.{table}\n", self.name());
        match self {
            Self::Firehose => ("{yyyy}/{mm}/{dd}/{hh}/", "csv", "hour", table("csv]\ncompression = \"gzip\"")),
            Self::Dms => ("{yyyy}/{mm}/{dd}/", "csv", "dt", table("tolerance]\npatience = \"1s\"")),
            Self::LifecycleExpiry | Self::VersionDelete => {
                ("dt={dt}/", "parquet", "dt", table("tolerance]\npatience = \"1s\"\nrow_drop = \"accept\""))
            }
            Self::SparkDynamicOverwrite => ("dt={dt}/", "parquet", "dt", table("tolerance]\nrow_drop = \"accept\"")),
            _ => ("dt={dt}/", "parquet", "dt", String::new()),
        }
    }

    /// Makes its target in the schema `shapes`.
    pub fn create_target(self) -> String {
        let name = self.name();
        let columns = match self {
            Self::Dms => "op char(1), changed_at timestamp, id bigint, note varchar(40), dt date",
            Self::Firehose => "id bigint, note varchar(40), hour timestamp",
            _ => "id bigint, note varchar(40), dt date",
        };
        format!("CREATE TABLE shapes.{name} ({columns})")
    }

    /// Whether it does something to the whole stack or bucket, so that nobody else may be at work there.
    pub fn needs_own_world(self) -> bool {
        matches!(self, Self::ReplacedUnderCopy | Self::LifecycleExpiry | Self::VersionDelete)
    }

    /// Plays it, in a world where its dataset is applied and nothing of it was played before.
    pub async fn play(self, world: &World) -> Result<()> {
        let lake = Lake { world, producer: self };
        let played = match self {
            Self::SparkOverwrite => spark::overwrite(lake).await,
            Self::SparkDynamicOverwrite => spark::dynamic_overwrite(lake).await,
            Self::SparkMagicCommitter => spark::magic_committer(lake).await,
            Self::Glue => glue::play(lake).await,
            Self::Athena => athena::play(lake).await,
            Self::Firehose => firehose::play(lake).await,
            Self::Dms => dms::play(lake).await,
            Self::MultipartUpload => multipart::play(lake).await,
            Self::ReplacedUnderCopy => in_place::play(lake).await,
            Self::LifecycleExpiry => removal::lifecycle(lake).await,
            Self::VersionDelete => removal::versions(lake).await,
            Self::Glacier => removal::glacier(lake).await,
            Self::Restless => restless::play(lake).await,
        };
        played.with_context(|| format!("as {} writes", self.name()))
    }
}
