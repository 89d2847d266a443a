//! A stack with targets and datasets, ready for files.

use anyhow::Result;
use tidemark_kit::{Settings, World};

/// Where all targets are.
pub(crate) const SCHEMA: &str = "shapes";

/// Deploys a stack of its own, makes the targets and applies the definitions.
pub(crate) async fn deploy(definitions: Vec<String>, targets: Vec<String>) -> Result<World> {
    let world = World::deploy(&Settings::default()).await?;
    world.execute(&format!("CREATE SCHEMA {SCHEMA}; {};", targets.join("; "))).await?;
    world.tidemark_well(&["init"]).await?;
    world.apply(&definitions.join("\n")).await?;
    Ok(world)
}
