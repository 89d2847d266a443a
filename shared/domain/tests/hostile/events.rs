//! Event bodies: every record of a message is told, or the message is refused with a reason.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidemark_domain::s3_event::{ObjectEvent, parse};

use crate::cases;
use crate::damage::{damaged, damages};

const DIRECT: &str = r#"{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"us-east-1","eventTime":"2026-11-01T07:03:09.000Z","eventName":"ObjectCreated:Put","s3":{"s3SchemaVersion":"1.0","bucket":{"name":"lake-raw"},"object":{"key":"orders/dt%3D2026-11-01/part+1.parquet","size":1024,"eTag":"d41d8","versionId":"3/L4kq","sequencer":"0055AED6DCD90281E5"}}},{"eventVersion":"2.1","eventName":"ObjectRemoved:Delete","s3":{"bucket":{"name":"lake-raw"},"object":{"key":"orders/dt%3D2026-11-02/old.parquet","sequencer":"0065"}}}]}"#;
const BRIDGED: &str = r#"{"version":"0","id":"17793124-05d4","detail-type":"Object Created","source":"aws.s3","detail":{"version":"0","bucket":{"name":"lake-raw"},"object":{"key":"orders/dt=2026-11-01/a+b.csv","size":5,"etag":"b1946","version-id":"IYV3","sequencer":"00617F"},"reason":"PutObject"}}"#;
const TEST_EVENT: &str =
    r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-01T00:00:00.000Z","Bucket":"lake-raw"}"#;

const WORDS: &[&str] = &[
    "null",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "\\ud800",
    "%",
    "%FF",
    "%00",
    "+",
    "\"Records\":",
    "\"Type\":\"Notification\",",
    "\"Message\":",
    "1e999",
    "-0",
    "\"Event\":\"s3:TestEvent\",",
    "\"key\":\"\",",
    "\"eventVersion\":\"3.0\",",
    "\u{feff}",
];

fn wrapped(inner: &str) -> String {
    json!({ "Type": "Notification", "TopicArn": "arn:aws:sns:us-east-1:1:t", "Message": inner }).to_string()
}

/// A body of any kind S3's events come in.
fn bodies() -> impl Strategy<Value = String> {
    let plain = prop_oneof![Just(DIRECT), Just(BRIDGED), Just(TEST_EVENT)];
    (plain, any::<bool>()).prop_map(|(body, by_sns)| if by_sns { wrapped(body) } else { body.to_owned() })
}

/// How many records a body has, by a reader of its own: `None` where it is nothing that S3 sends.
fn records(body: &str) -> Option<usize> {
    let mut message: Value = serde_json::from_str(body).ok()?;
    if message.get("Type").is_some_and(Value::is_string) {
        message = serde_json::from_str(message["Message"].as_str()?).ok()?;
    }
    if message["Event"] == "s3:TestEvent" {
        return Some(0);
    }
    match message.get("Records") {
        Some(records) => Some(records.as_array()?.len()),
        None => (message["source"] == "aws.s3" && message.get("detail-type").is_some()).then_some(1),
    }
}

/// Nothing is lost between the two answers, and an error says something.
fn told_or_refused(body: &str) -> Result<Vec<ObjectEvent>, TestCaseError> {
    match parse(body) {
        Ok(events) => {
            prop_assert_eq!(Some(events.len()), records(body), "{}", body);
            Ok(events)
        }
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            Ok(Vec::new())
        }
    }
}

/// Any JSON, also with the names that S3 uses, at any place.
fn json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        4 => proptest::sample::select(vec![
            "Records", "Type", "Message", "Event", "eventName", "eventVersion", "s3", "object", "key", "bucket", "name", "source",
            "detail-type", "detail", "versionId", "version-id", "sequencer", "reason", "deletion-type",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let text = prop_oneof![
        3 => proptest::sample::select(vec![
            "Notification", "SubscriptionConfirmation", "s3:TestEvent", "aws.s3", "Object Created", "Object Deleted", "2.1",
            "3.0", "ObjectCreated:Put", "s3:ObjectRemoved:Delete", "LifecycleExpiration:Delete", "ObjectRestore:Completed",
            "lake-raw", "a%2", "%FF", "+", DIRECT, BRIDGED,
        ]).prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        1 => Just(Value::Null), 1 => any::<bool>().prop_map(Value::from), 1 => any::<i64>().prop_map(Value::from), 5 => text
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        let object = proptest::collection::vec((name.clone(), inner.clone()), 0..6);
        prop_oneof![
            1 => proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            3 => object.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn a_damaged_message_is_refused_or_told_whole(body in bodies(), damages in damages(WORDS)) {
        let bytes = damaged(body.as_bytes(), &damages);
        told_or_refused(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_text_is_refused_or_told_whole(body in any::<String>()) {
        told_or_refused(&body)?;
    }

    #[test]
    fn any_json_is_refused_or_told_whole(message in json(), by_sns in any::<bool>()) {
        let body = message.to_string();
        told_or_refused(&if by_sns { wrapped(&body) } else { body })?;
    }

    #[test]
    fn any_record_is_refused_or_told(record in json(), good in any::<bool>()) {
        let mut records = vec![record];
        if good {
            records.push(serde_json::from_str::<Value>(DIRECT).unwrap()["Records"][0].clone());
        }
        told_or_refused(&json!({ "Records": records }).to_string())?;
    }
}

#[test]
fn bodies_as_s3_sends_them_are_told() {
    for (body, keys) in [
        (DIRECT, &["orders/dt=2026-11-01/part 1.parquet", "orders/dt=2026-11-02/old.parquet"][..]),
        (BRIDGED, &["orders/dt=2026-11-01/a+b.csv"]),
        (TEST_EVENT, &[]),
    ] {
        for body in [body.to_owned(), wrapped(body)] {
            let told = parse(&body).unwrap();
            assert_eq!(told.iter().map(|event| event.key.as_str()).collect::<Vec<_>>(), keys);
        }
    }
}

#[test]
fn a_body_nested_deeper_than_the_stack_is_refused() {
    for open in ["[", "{\"Records\":[", "{\"a\":"] {
        assert!(parse(&open.repeat(200_000)).is_err());
        assert!(parse(&wrapped(&open.repeat(200_000))).is_err());
    }
}
