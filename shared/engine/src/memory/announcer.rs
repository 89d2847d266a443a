//! The world that is told: it keeps everything it heard.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::lock;
use crate::ports::{Alert, Announcer, Event};

/// Keeps events and alerts in the order they came. Clones are the same announcer.
#[derive(Debug, Clone, Default)]
pub struct MemoryAnnouncer(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    events: Vec<Event>,
    alerts: Vec<Alert>,
}

impl MemoryAnnouncer {
    /// All events so far.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.0).events.clone()
    }

    /// All alerts so far.
    pub fn alerts(&self) -> Vec<Alert> {
        lock(&self.0).alerts.clone()
    }
}

#[async_trait]
impl Announcer for MemoryAnnouncer {
    async fn publish(&self, event: Event) -> Result<(), String> {
        if !event.detail.is_object() {
            return Err(format!("the detail of {:?} is no JSON object: {}", event.detail_type, event.detail));
        }
        lock(&self.0).events.push(event);
        Ok(())
    }

    async fn alert(&self, alert: Alert) -> Result<(), String> {
        // SNS's own rule for a subject.
        if alert.subject.is_empty()
            || alert.subject.len() > 100
            || !alert.subject.bytes().all(|b| (32..127).contains(&b))
        {
            return Err(format!("subject {:?} must be 1 to 100 printable ASCII characters", alert.subject));
        }
        lock(&self.0).alerts.push(alert);
        Ok(())
    }
}
