//! Events on EventBridge, alerts on SNS.

use async_trait::async_trait;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use tidemark_engine::ports::{Alert, Announcer, Event};

use crate::error::Fault;

/// Who the events say they are from.
const SOURCE: &str = "tidemark";

/// SNS refuses a longer subject.
const SUBJECT_CHARACTERS: usize = 100;

/// SNS refuses more than 256 KiB with everything.
const BODY_BYTES: usize = 200 * 1024;

/// An event bus and an alert topic.
#[derive(Debug, Clone)]
pub struct AwsAnnouncer {
    events: aws_sdk_eventbridge::Client,
    bus: String,
    alerts: aws_sdk_sns::Client,
    topic_arn: String,
}

impl AwsAnnouncer {
    /// The bus of this name or ARN, the topic of this ARN.
    pub fn new(
        events: aws_sdk_eventbridge::Client,
        bus: impl Into<String>,
        alerts: aws_sdk_sns::Client,
        topic_arn: impl Into<String>,
    ) -> Self {
        Self { events, bus: bus.into(), alerts, topic_arn: topic_arn.into() }
    }
}

#[async_trait]
impl Announcer for AwsAnnouncer {
    async fn publish(&self, event: Event) -> Result<(), String> {
        let entry = PutEventsRequestEntry::builder()
            .event_bus_name(&self.bus)
            .source(SOURCE)
            .detail_type(event.detail_type)
            .detail(event.detail.to_string());
        let answer = self.events.put_events().entries(entry.build()).send().await;
        let answer = answer.map_err(|e| Fault::of("PutEvents", &e).to_string())?;
        // The call succeeds although the entry in it failed.
        if answer.failed_entry_count() == 0 {
            return Ok(());
        }
        let failed = answer.entries().iter().find(|e| e.error_code().is_some());
        let code = failed.and_then(|e| e.error_code()).unwrap_or("no code");
        let message = failed.and_then(|e| e.error_message()).unwrap_or("no message");
        Err(format!("PutEvents: {code}: {message}"))
    }

    async fn alert(&self, alert: Alert) -> Result<(), String> {
        let request = self.alerts.publish().topic_arn(&self.topic_arn);
        let request = request.subject(subject(&alert.subject)).message(body(alert.body));
        request.send().await.map_err(|e| Fault::of("Publish", &e).to_string())?;
        Ok(())
    }
}

/// A subject that SNS takes, whatever a partition's name or an error holds: an alert must not fail by its own text.
fn subject(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' });
    let cut: String = plain.skip_while(|c| *c == ' ').take(SUBJECT_CHARACTERS).collect();
    match cut.trim_end() {
        "" => "Tidemark".to_owned(),
        text => text.to_owned(),
    }
}

fn body(mut text: String) -> String {
    if text.is_empty() {
        return "(no text)".to_owned();
    }
    text.truncate(text.floor_char_boundary(BODY_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stub::{Stub, refusal};

    fn announcer(stub: &Stub) -> AwsAnnouncer {
        let (events, alerts) = (aws_sdk_eventbridge::Client::new(&stub.sdk), aws_sdk_sns::Client::new(&stub.sdk));
        AwsAnnouncer::new(events, "default", alerts, "arn:aws:sns:eu-west-1:1:alerts")
    }

    #[tokio::test]
    async fn an_entry_that_failed_in_a_call_that_did_not_is_an_error() {
        let entry = json!({"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"});
        let stub = Stub::answering([(200, json!({"FailedEntryCount": 1, "Entries": [entry]}))]).await;
        let event = Event { detail_type: "Partition Rebuilt", detail: json!({"dataset": "orders"}) };
        let error = announcer(&stub).publish(event).await.unwrap_err();
        assert_eq!(error, "PutEvents: ThrottlingException: slow down");
        let entry = &stub.asked()[0].body["Entries"][0];
        assert_eq!((entry["Source"].as_str(), entry["EventBusName"].as_str()), (Some("tidemark"), Some("default")));
        assert_eq!(entry["Detail"], r#"{"dataset":"orders"}"#);
    }

    #[tokio::test]
    async fn a_call_that_failed_is_an_error() {
        let stub = Stub::answering((0..3).map(|_| refusal(500, "InternalException", "later"))).await;
        let event = Event { detail_type: "Partition Parked", detail: json!({}) };
        assert!(announcer(&stub).publish(event).await.unwrap_err().starts_with("PutEvents: InternalException"));
    }

    #[test]
    fn a_subject_is_always_one_that_sns_takes() {
        assert_eq!(subject("orders dt=2026-11-01 parked"), "orders dt=2026-11-01 parked");
        assert_eq!(subject(" käse\nparked "), "k?se?parked");
        assert_eq!(subject(""), "Tidemark");
        assert_eq!(subject(&"x".repeat(500)).len(), 100);
    }

    #[test]
    fn a_body_is_cut_between_characters() {
        assert_eq!(body(String::new()), "(no text)");
        assert!(body("ü".repeat(BODY_BYTES)).len() <= BODY_BYTES);
    }
}
