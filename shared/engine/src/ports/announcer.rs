//! What the world is told: events for downstream systems, alerts for people. Both at least once.

use async_trait::async_trait;
use serde_json::Value;

/// An event on the bus, source `tidemark`.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `Partition Rebuilt` or `Partition Parked`.
    pub detail_type: &'static str,
    /// The detail, a JSON object of a documented shape.
    pub detail: Value,
}

/// A mail to the people on call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// At most 100 characters, ASCII.
    pub subject: String,
    /// Plain text.
    pub body: String,
}

/// Tells the world. An error means that it may not have been told; the caller tells again later.
#[async_trait]
pub trait Announcer: Send + Sync {
    /// Publishes an event.
    async fn publish(&self, event: Event) -> Result<(), String>;
    /// Sends an alert.
    async fn alert(&self, alert: Alert) -> Result<(), String>;
}
