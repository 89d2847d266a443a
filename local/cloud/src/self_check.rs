//! Does the emulator keep the promises Tidemark rests on?

use anyhow::Result;

use crate::cloud::LocalCloud;

pub(crate) async fn run(_cloud: &LocalCloud) -> Result<()> {
    Ok(())
}
