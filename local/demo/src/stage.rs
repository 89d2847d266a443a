//! The stage: a world with everything deployed, and what was set short to make it watchable.

use std::path::Path;

use anyhow::Result;
use tidemark_kit::{LocalCloud, Settings, World};
use tidemark_local::Options;

use crate::tell::{Teller, text};

/// A world, and what the acts need to tell.
pub(crate) struct Stage {
    pub(crate) world: World,
}

impl Stage {
    /// Builds, starts, deploys, and applies the datasets.
    pub(crate) async fn set(artifacts: Option<&Path>, teller: &mut Teller) -> Result<Self> {
        let settings = Settings::default();
        teller.act("The stage");
        teller.line("building what is needed, starting the local cloud (the first time: minutes) …");
        let mut options = Options::default();
        options.artifacts = artifacts.map(Path::to_path_buf).or(options.artifacts);
        let built = options.artifacts.clone();
        let cloud = LocalCloud::shared_with(options).await?;
        teller.shown(format!(
            "S3, SQS, DynamoDB, Lambda … at {}, Redshift's Data API on PostgreSQL at {}",
            cloud.aws_endpoint(),
            cloud.redshift_endpoint()
        ));
        let world = World::deploy(&settings).await?;
        teller.shown(match built {
            Some(folder) => format!("deployed what sam build left in {}: template and functions", folder.display()),
            None => "deployed infra/template.yaml with the functions mark, rebuild and sweep".to_owned(),
        });
        teller.line(format!(
            "set short for you: settling {} s (else 30 s), rebuild's time-out {} s (else 120 s), its lease {} s longer \
             (else 60 s),",
            settings.settle_seconds, settings.rebuild_timeout_seconds, settings.lease_margin_seconds
        ));
        teller.line("  the guards' patience 2 s (else 15 min), no least interval between rebuilds (else up to 15 min)");
        world.create_targets().await?;
        teller.line("sales.orders and sales.returns made, as their owner would");
        world.tidemark_well(&["init"]).await?;
        teller.line("$ tidemark init");
        world.apply(&settings.definitions).await?;
        teller.shown("$ tidemark apply datasets.toml --yes");
        Ok(Self { world })
    }

    /// How to look around in what was left up.
    pub(crate) fn tell_how_to_reach(&self, teller: &mut Teller) -> Result<()> {
        let world = &self.world;
        teller.act("Everything is still up");
        text("look into Redshift:");
        text(format!("  {}", world.cloud.psql_line(world.stack.database())));
        text("reach the local cloud with the command, or with any AWS client:");
        for (name, value) in world.environment()? {
            text(format!("  export {name}={value}"));
        }
        let tidemark = world.cloud.binary("tidemark")?.display();
        text(format!("  {tidemark} show orders dt=2026-11-01"));
        text(format!(
            "the data bucket is s3://{}, the logs are in {}",
            world.stack.data_bucket(),
            world.cloud.logs().display()
        ));
        text("Ctrl-C ends it all.");
        Ok(())
    }
}
