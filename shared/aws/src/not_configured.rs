//! Stands for a port that a function has no use for: using it is a misconfiguration, told by name.

use async_trait::async_trait;
use tidemark_engine::ports::{
    Alert, Announcer, Effect, Event, Execution, StatementResult, Submission, Warehouse, WarehouseError,
};

/// A port that isn't configured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotConfigured;

fn refused(operation: &'static str) -> WarehouseError {
    WarehouseError {
        operation,
        code: "AccessDeniedException".to_owned(),
        message: "Redshift isn't configured here; set TIDEMARK_REDSHIFT_WORKGROUP or _CLUSTER, and _DATABASE"
            .to_owned(),
        effect: Effect::NotApplied,
    }
}

#[async_trait]
impl Warehouse for NotConfigured {
    async fn submit(&self, _: Submission<'_>) -> Result<Execution, WarehouseError> {
        Err(refused("BatchExecuteStatement"))
    }

    async fn describe(&self, _: &str, _: u32) -> Result<Option<Execution>, WarehouseError> {
        Err(refused("DescribeStatement"))
    }

    async fn result(&self, _: &str) -> Result<StatementResult, WarehouseError> {
        Err(refused("GetStatementResult"))
    }

    async fn cancel(&self, _: &str) -> Result<(), WarehouseError> {
        Err(refused("CancelStatement"))
    }
}

#[async_trait]
impl Announcer for NotConfigured {
    async fn publish(&self, _: Event) -> Result<(), String> {
        Err("no event bus is configured here".to_owned())
    }

    async fn alert(&self, _: Alert) -> Result<(), String> {
        Err("no topic is configured here; set TIDEMARK_ALERT_TOPIC_ARN".to_owned())
    }
}
