//! The acts, in the order they are played. Each leaves every partition it touches true to its files.

mod bad_file;
mod burst;
mod deleted;
mod emptied;
mod killed;
mod late_file;
mod overwritten;
mod replayed;
mod three_days;
mod updated;

use anyhow::Result;
use tidemark_kit::World;

pub(crate) use three_days::DAYS;

use crate::stage::Stage;
use crate::tell::Teller;

/// Orders of a file.
const ROWS: usize = 500;

/// Plays the acts of the main job.
pub(crate) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    three_days::play(stage, teller).await?;
    burst::play(stage, teller).await?;
    late_file::play(stage, teller).await?;
    overwritten::play(stage, teller).await?;
    killed::play(stage, teller).await?;
    bad_file::play(stage, teller).await?;
    emptied::play(stage, teller).await?;
    replayed::play(stage, teller).await
}

/// Plays what becomes of the stack: updated, deleted, succeeded by another. Gives the world of the last.
pub(crate) async fn play_lifecycle(stage: &Stage, teller: &mut Teller) -> Result<World> {
    updated::play(stage, teller).await?;
    deleted::play(stage, teller).await
}
