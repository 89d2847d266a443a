//! The twins of the two ports that carry the protocol, with the eye on them; a flaw sits here, between the engine and its twin.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::update::{Item, Key, Update};
use tidemark_engine::memory::{MemoryState, MemoryWarehouse};
use tidemark_engine::ports::{
    DueEntry, Execution, Index, StateError, StateStore, StatementResult, Submission, Warehouse, WarehouseError, Written,
};

use crate::eye::Eye;
use crate::flaw::{Flaw, is_head};

/// The state table, watched.
#[derive(Clone)]
pub struct WatchedState {
    /// The twin.
    pub state: MemoryState,
    /// Who watches.
    pub eye: Eye,
    /// What is weakened.
    pub flaw: Option<Flaw>,
    /// Heads as a flaw remembers them.
    pub heads: Arc<Mutex<BTreeMap<Key, Item>>>,
}

#[async_trait]
impl StateStore for WatchedState {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        let mut items = self.state.read(keys).await?;
        if self.flaw == Some(Flaw::DefinitionCachedTooLong) {
            let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, item) in keys.iter().zip(&mut items).filter(|(key, item)| is_head(key, item.as_ref())) {
                let first = heads.entry(key.clone()).or_insert_with(|| item.clone().unwrap_or_default()).clone();
                *item = Some(first);
            }
        }
        Ok(items)
    }

    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        let weakened: Option<Vec<Update>> =
            self.flaw.map(|flaw| updates.iter().cloned().map(|update| flaw.weaken(update)).collect());
        let written = self.state.write(weakened.as_deref().unwrap_or(updates), token).await;
        self.eye.written(updates.iter().map(|update| &update.key));
        written
    }

    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError> {
        self.state.query(index, dataset, within, limit).await
    }

    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError> {
        self.state.partitions(dataset, after, limit).await
    }

    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError> {
        StateStore::items(&self.state, pk, prefix, after, limit).await
    }
}

/// Redshift, watched.
#[derive(Clone)]
pub struct WatchedWarehouse {
    /// The twin.
    pub warehouse: MemoryWarehouse,
    /// Who watches.
    pub eye: Eye,
    /// What is weakened.
    pub flaw: Option<Flaw>,
    /// Requests so far, for a flaw that tells them apart.
    pub requests: Arc<Mutex<u64>>,
}

impl WatchedWarehouse {
    /// The token a request goes out under.
    pub fn token(&self, token: &str) -> String {
        if self.flaw != Some(Flaw::FreshTokens) {
            return token.to_owned();
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests += 1;
        format!("{requests:064}")
    }
}

#[async_trait]
impl Warehouse for WatchedWarehouse {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        let bent = self.flaw.map(|flaw| flaw.bend(submission.statements));
        let statements = bent.as_deref().unwrap_or(submission.statements);
        let submitted = self.warehouse.submit(Submission { statements, ..submission }).await;
        self.eye.look();
        submitted
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        let described = self.warehouse.describe(id, wait_seconds).await;
        self.eye.look();
        described
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        self.warehouse.result(id).await
    }

    async fn cancel(&self, id: &str) -> Result<(), WarehouseError> {
        self.warehouse.cancel(id).await
    }
}
