//! The guarantees of [`Announcer`].

use async_trait::async_trait;
use serde_json::{Value, json};

use super::fresh;
use crate::ports::{Alert, Announcer, Event};

/// Who hears what an announcer says: the other end of bus and topic, read by the test.
#[async_trait]
pub trait Witness: Send + Sync {
    /// All events heard so far, as detail type and detail.
    async fn events(&self) -> Vec<(String, Value)>;
    /// All alerts heard so far.
    async fn alerts(&self) -> Vec<Alert>;
}

/// How often a witness is asked before something counts as not heard.
const PATIENCE: usize = 100;

/// Every guarantee.
pub async fn all(announcer: &dyn Announcer, witness: &dyn Witness) {
    an_event_arrives_as_it_is(announcer, witness).await;
    an_alert_arrives_as_it_is(announcer, witness).await;
}

/// What was acknowledged was heard: an event with its type and its whole detail.
pub async fn an_event_arrives_as_it_is(announcer: &dyn Announcer, witness: &dyn Witness) {
    for detail_type in ["Partition Rebuilt", "Partition Parked"] {
        let detail = json!({"partition": format!("dt=\u{e9} \" {}", fresh()), "rows": i64::MAX, "none": null, "deep": {"a": [1]}});
        announcer.publish(Event { detail_type, detail: detail.clone() }).await.unwrap();
        let expected = (detail_type.to_owned(), detail);
        let mut heard = vec![];
        for _ in 0..PATIENCE {
            heard = witness.events().await;
            if heard.contains(&expected) {
                break;
            }
        }
        assert!(heard.contains(&expected), "{expected:?} was acknowledged; heard was {heard:?}");
    }
}

/// What was acknowledged was heard: an alert with its subject and its whole body.
pub async fn an_alert_arrives_as_it_is(announcer: &dyn Announcer, witness: &dyn Witness) {
    let subject = format!("{:x<100}", format!("tidemark: orders is parked {}", fresh()));
    let alert = Alert { subject, body: "line 1\nline 2: \u{e9} \u{1f980} \"quoted\"\n".to_owned() };
    announcer.alert(alert.clone()).await.unwrap();
    let mut heard = vec![];
    for _ in 0..PATIENCE {
        heard = witness.alerts().await;
        if heard.contains(&alert) {
            break;
        }
    }
    assert!(heard.contains(&alert), "{alert:?} was acknowledged; heard was {heard:?}");
}
