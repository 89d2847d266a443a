//! Reads the messages that S3 sends: directly, through SNS (wrapped or raw), or through EventBridge, told apart per message.
//!
//! Keys leave here decoded, once and by their source: S3's own records form-encode them, EventBridge's are plain. What is no
//! S3 message is an error, never an empty list: it must end where somebody sees it, with its payload.
//!
//! Sources: the notification structure in the S3 user guide ("Event message structure", "EventBridge event message
//! structure"); versions 2.x are processed, whatever they add.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::object_key::form_decoded;

/// What one record says happened to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent {
    /// The bucket's name.
    pub bucket: String,
    /// The object's key, decoded.
    pub key: String,
    /// What it means for the object's partition.
    pub kind: EventKind,
    /// The event's name as it was sent, such as `ObjectCreated:Put`.
    pub name: String,
    /// For information: of the version the event is about.
    pub version_id: Option<String>,
    /// For information: orders the events of one key, and only of one.
    pub sequencer: Option<Sequencer>,
}

/// What an event means for the object's partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Written, in whatever way: marks.
    Created,
    /// Readable again after its restore from an archive: marks.
    Restored,
    /// Removed: marks.
    Removed {
        /// Whether it surely took the current object, so that it counts as removed: a delete marker, or a delete without
        /// version id. A delete of a version may be of one that wasn't current.
        surely_current: bool,
    },
    /// Doesn't mark.
    Ignored(Ignored),
}

/// Why an event doesn't mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// The bucket's lifecycle expired the object: the warehouse keeps its rows.
    Lifecycle,
    /// The object's content is as it was: a restore begun or over, tags, access, storage class, replication.
    SameContent,
    /// An event that isn't known.
    Unknown,
}

impl Ignored {
    /// A stable word for metrics and logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::SameContent => "same_content",
            Self::Unknown => "unknown_event",
        }
    }
}

/// Why a message is none of S3's, or can't be processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedEvent {
    /// Not JSON.
    #[error("message is no JSON: {0}")]
    Json(String),
    /// JSON of no known shape.
    #[error("message is no S3 event: {0}")]
    Shape(String),
    /// An SNS topic waits to have its subscription confirmed.
    #[error("message is an SNS {0}: confirm the topic's subscription, or take it away")]
    Subscription(String),
    /// A record of a version whose structure isn't known.
    #[error("record {index} has version {version:?}; 2.x can be read")]
    Version {
        /// Place of the record, from 0.
        index: usize,
        /// As sent.
        version: String,
    },
    /// A record without something it needs.
    #[error("record {index} has no {field}")]
    Field {
        /// Place of the record, from 0.
        index: usize,
        /// What is missing, or of another type.
        field: &'static str,
    },
    /// A key that is no UTF-8 once decoded.
    #[error("record {index} has key {key:?}, which is no UTF-8 once decoded")]
    Key {
        /// Place of the record, from 0.
        index: usize,
        /// As sent.
        key: String,
    },
}

/// The events of a message's body; none for S3's test message.
pub fn parse(body: &str) -> Result<Vec<ObjectEvent>, MalformedEvent> {
    let message = object(body)?;
    let is_sns = message.get("Type").is_some_and(Value::is_string);
    if !is_sns {
        return unwrapped(&message);
    }
    match (text(&message, "Type"), text(&message, "Message")) {
        (Some("Notification"), Some(inner)) => unwrapped(&object(inner)?),
        (Some(kind @ ("SubscriptionConfirmation" | "UnsubscribeConfirmation")), _) => {
            Err(MalformedEvent::Subscription(kind.to_owned()))
        }
        _ => Err(MalformedEvent::Shape("it has a Type, but is no SNS notification with a Message".to_owned())),
    }
}

fn object(body: &str) -> Result<Map<String, Value>, MalformedEvent> {
    match serde_json::from_str(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(MalformedEvent::Shape("it is no JSON object".to_owned())),
        Err(error) => Err(MalformedEvent::Json(error.to_string())),
    }
}

fn unwrapped(message: &Map<String, Value>) -> Result<Vec<ObjectEvent>, MalformedEvent> {
    if text(message, "Event") == Some("s3:TestEvent") {
        return Ok(Vec::new());
    }
    if let Some(records) = message.get("Records") {
        let records = records.as_array().ok_or_else(|| MalformedEvent::Shape("Records is no list".to_owned()))?;
        return records.iter().enumerate().map(|(index, value)| record(index, value)).collect();
    }
    if text(message, "source") == Some("aws.s3") && message.contains_key("detail-type") {
        return Ok(vec![bridged(message)?]);
    }
    let keys: Vec<&str> = message.keys().take(5).map(String::as_str).collect();
    Err(MalformedEvent::Shape(format!(
        "it has no Records and isn't from EventBridge's aws.s3; its keys: {}",
        keys.join(", ")
    )))
}

/// A record as S3 writes it itself.
fn record(index: usize, record: &Value) -> Result<ObjectEvent, MalformedEvent> {
    let missing = |field| MalformedEvent::Field { index, field };
    let version = match record.get("eventVersion") {
        None | Some(Value::Null) => "2.0".to_owned(),
        Some(Value::String(version)) => version.clone(),
        Some(other) => other.to_string(),
    };
    if !version.starts_with("2.") {
        return Err(MalformedEvent::Version { index, version });
    }
    let name = record.get("eventName").and_then(Value::as_str).ok_or_else(|| missing("eventName"))?;
    let object = record.pointer("/s3/object");
    let version_id = object.and_then(|object| filled(object, "versionId"));
    let kind = kind_of_record(name.strip_prefix("s3:").unwrap_or(name), version_id.is_some());
    let bucket = record.pointer("/s3/bucket/name").and_then(Value::as_str);
    let key = object.and_then(|object| filled(object, "key"));
    let (bucket, key) = match (bucket, key, kind) {
        (Some(bucket), Some(key), _) => (bucket.to_owned(), key),
        // What doesn't mark needs no key; newer kinds of event may have none.
        (bucket, key, EventKind::Ignored(_)) => (bucket.unwrap_or_default().to_owned(), key.unwrap_or_default()),
        (None, _, _) => return Err(missing("s3.bucket.name")),
        (_, None, _) => return Err(missing("s3.object.key")),
    };
    let key = form_decoded(&key).map_err(|_| MalformedEvent::Key { index, key })?;
    let sequencer = object.and_then(|object| filled(object, "sequencer")).map(Sequencer);
    Ok(ObjectEvent { bucket, key, kind, name: name.to_owned(), version_id, sequencer })
}

fn kind_of_record(name: &str, has_version: bool) -> EventKind {
    let (family, event) = name.split_once(':').unwrap_or((name, ""));
    match (family, event) {
        ("ObjectCreated", _) => EventKind::Created,
        ("ObjectRestore", "Completed") => EventKind::Restored,
        ("ObjectRemoved", "DeleteMarkerCreated") => EventKind::Removed { surely_current: true },
        ("ObjectRemoved", "Delete") => EventKind::Removed { surely_current: !has_version },
        ("ObjectRemoved", _) => EventKind::Removed { surely_current: false },
        ("LifecycleExpiration", _) => EventKind::Ignored(Ignored::Lifecycle),
        (
            "ObjectRestore"
            | "LifecycleTransition"
            | "IntelligentTiering"
            | "ObjectAcl"
            | "ObjectTagging"
            | "Replication"
            | "ReducedRedundancyLostObject"
            | "TestEvent",
            _,
        ) => EventKind::Ignored(Ignored::SameContent),
        _ => EventKind::Ignored(Ignored::Unknown),
    }
}

/// An event as EventBridge writes it: one object, its key plain.
fn bridged(message: &Map<String, Value>) -> Result<ObjectEvent, MalformedEvent> {
    let missing = |field| MalformedEvent::Field { index: 0, field };
    let name = text(message, "detail-type").ok_or_else(|| missing("detail-type"))?;
    let detail = message.get("detail").unwrap_or(&Value::Null);
    let object = detail.get("object").unwrap_or(&Value::Null);
    let version_id = filled(object, "version-id");
    let kind = kind_of_bridged(name, detail, version_id.is_some());
    let bucket = detail.pointer("/bucket/name").and_then(Value::as_str);
    let (bucket, key) = match (bucket, filled(object, "key"), kind) {
        (Some(bucket), Some(key), _) => (bucket.to_owned(), key),
        (bucket, key, EventKind::Ignored(_)) => (bucket.unwrap_or_default().to_owned(), key.unwrap_or_default()),
        (None, _, _) => return Err(missing("detail.bucket.name")),
        (_, None, _) => return Err(missing("detail.object.key")),
    };
    let sequencer = filled(object, "sequencer").map(Sequencer);
    Ok(ObjectEvent { bucket, key, kind, name: name.to_owned(), version_id, sequencer })
}

fn kind_of_bridged(name: &str, detail: &Value, has_version: bool) -> EventKind {
    let says = |key: &str| detail.get(key).and_then(Value::as_str).unwrap_or_default();
    match name {
        "Object Created" => EventKind::Created,
        "Object Restore Completed" => EventKind::Restored,
        "Object Deleted" if says("reason") == "Lifecycle Expiration" => EventKind::Ignored(Ignored::Lifecycle),
        "Object Deleted" => {
            let marker = says("deletion-type") == "Delete Marker Created";
            let whole = says("deletion-type") == "Permanently Deleted" && !has_version;
            EventKind::Removed { surely_current: marker || whole }
        }
        "Object Restore Initiated"
        | "Object Restore Expired"
        | "Object Storage Class Changed"
        | "Object Access Tier Changed"
        | "Object ACL Updated"
        | "Object Tags Added"
        | "Object Tags Deleted" => EventKind::Ignored(Ignored::SameContent),
        _ => EventKind::Ignored(Ignored::Unknown),
    }
}

fn text<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    object.get(key).and_then(Value::as_str)
}

/// A text that says something: null and the empty text are as good as absent.
fn filled(object: &Value, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// S3's number of an event among those of one key: hexadecimal, of varying length. It must not be compared across keys.
///
/// The shorter is filled up with zeros on the right, as the S3 user guide says today (an older edition said left).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequencer(String);

impl Sequencer {
    /// How this event of a key stands to another event of the same key.
    pub fn order(&self, other: &Self) -> Ordering {
        let padded = |text: &str| {
            let digits = text.to_ascii_uppercase();
            format!("{digits:0<width$}", width = self.0.len().max(other.0.len()))
        };
        padded(&self.0).cmp(&padded(&other.0))
    }

    /// As sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests;
