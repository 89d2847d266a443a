//! In whose hands a batch is: a worker's, nobody's in good order, or nobody's because its worker died.

use jiff::Timestamp;
use tidemark_domain::dataset::Head;
use tidemark_domain::id::PartitionId;
use tidemark_domain::lock::Scope;
use tidemark_domain::partition::{FailureState, PartitionItem};
use tidemark_domain::take::failure_state;

use crate::Ports;
use crate::error::Error;

/// Who has the batch in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hands {
    /// There is no batch.
    NoBatch,
    /// Its worker left it in order: it goes on with the next take.
    Left,
    /// A worker is at it, or died a moment ago: its lease is over then.
    AtWork {
        /// When the lease is over.
        lease: Timestamp,
    },
    /// Its worker died. Whether a swap landed that was submitted only Redshift knows: what is *before commit* here may turn
    /// out as *after commit*.
    Died(FailureState),
}

/// Who has the partition's batch.
///
/// A lock of the scope `table` may be held for another partition: five minutes after the last take, and later, it isn't this
/// one's any more.
pub async fn of(ports: &Ports, head: &Head, id: &PartitionId, item: &PartitionItem) -> Result<Hands, Error> {
    let Some(batch) = &item.batch else { return Ok(Hands::NoBatch) };
    if batch.left {
        return Ok(Hands::Left);
    }
    let now = ports.clock.now();
    let lock = ports.state.read(&[Scope::of(id, head.concurrency).key()]).await?.pop().flatten();
    let lease = lock.as_ref().filter(|lock| lock.contains_key("holder"));
    let lease = lease.and_then(|lock| Timestamp::from_millisecond(lock.get("lease")?.as_i64()?).ok());
    let recent = item.due_at.is_some_and(|due| due > now);
    Ok(match lease.filter(|lease| *lease > now && recent) {
        Some(lease) => Hands::AtWork { lease },
        None => Hands::Died(failure_state(batch)),
    })
}
