//! Bodies as S3, SNS and EventBridge write them; the literals are never made by our own types.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const TEST_EVENT: &str = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-01T00:00:00.000Z","Bucket":"lake-raw-example","RequestId":"R1","HostId":"H1"}"#;

/// A body with one record of that name and object.
fn direct(name: &str, object: &Value) -> String {
    json!({"Records": [{"eventVersion": "2.1", "eventSource": "aws:s3", "eventName": name,
        "s3": {"bucket": {"name": "lake-raw-example"}, "object": object}}]})
    .to_string()
}

fn created(key: &str) -> String {
    direct("ObjectCreated:Put", &json!({"key": key, "size": 10}))
}

fn bridge(detail_type: &str, detail: &Value) -> String {
    json!({"version": "0", "id": "1", "source": "aws.s3", "detail-type": detail_type, "detail": detail}).to_string()
}

fn wrapped(message: &str) -> String {
    json!({"Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:x", "Message": message}).to_string()
}

fn one(body: &str) -> ObjectEvent {
    let mut events = parse(body).unwrap();
    assert_eq!(events.len(), 1);
    events.remove(0)
}

fn kind(name: &str, object: &Value) -> EventKind {
    one(&direct(name, object)).kind
}

#[test]
fn c001_an_encoded_equals_sign() {
    let body = r#"{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"lake-raw-example"},"object":{"key":"raw/orders/dt%3D2026-11-01/hour%3D00/part-0001.gz","size":10}}}]}"#;
    let event = one(body);
    assert_eq!(event.key, "raw/orders/dt=2026-11-01/hour=00/part-0001.gz");
    assert_eq!((event.bucket.as_str(), event.kind), ("lake-raw-example", EventKind::Created));
}

#[test]
fn c002_space_and_plus_in_an_event_key() {
    let event = one(&created("raw/orders/dt%3D2026-11-01/late+file+%2B+fix.csv"));
    assert_eq!(event.key, "raw/orders/dt=2026-11-01/late file + fix.csv");
}

#[test]
fn c004_eventbridge_keys_are_not_decoded() {
    for key in
        ["raw/orders/dt=2026-11-01/a+b.csv", "raw/orders/dt=2026-11-01/50%25.csv", "raw/orders/dt=2026-11-01/%FF"]
    {
        let detail = json!({"bucket": {"name": "lake-raw-example"}, "object": {"key": key}});
        assert_eq!(one(&bridge("Object Created", &detail)).key, key);
    }
}

#[test]
fn c006_an_encoded_slash_is_a_slash() {
    let encoded = one(&created("raw%2Forders%2Fdt%3D2026-11-01%2Fp.parquet"));
    assert_eq!(encoded.key, one(&created("raw/orders/dt%3D2026-11-01/p.parquet")).key);
}

#[test]
fn c007_url_decoded_key_is_never_looked_at() {
    for object in [
        json!({"key": "a%3D1/p"}),
        json!({"key": "a%3D1/p", "urlDecodedKey": ""}),
        json!({"key": "a%3D1/p", "urlDecodedKey": "b"}),
    ] {
        assert_eq!(one(&direct("ObjectCreated:Put", &object)).key, "a=1/p");
    }
}

#[test]
fn c009_malformed_escapes_in_events() {
    assert_eq!(one(&created("raw/orders/dt%3D2026-11-01/50%.csv")).key, "raw/orders/dt=2026-11-01/50%.csv");
    assert_eq!(one(&created("raw/orders/a%ZZ.csv")).key, "raw/orders/a%ZZ.csv");
    let error = parse(&created("raw/orders/a%FF.csv")).unwrap_err();
    assert_eq!(error.to_string(), r#"record 0 has key "raw/orders/a%FF.csv", which is no UTF-8 once decoded"#);
}

#[test]
fn c010_c011_a_test_event_holds_no_events() {
    assert_eq!(parse(TEST_EVENT), Ok(Vec::new()));
}

#[test]
fn c012_test_event_in_a_batch() {
    let bodies = [TEST_EVENT, &created("raw/orders/dt%3D2026-11-01/p"), "{}"];
    let counts: Vec<Option<usize>> = bodies.iter().map(|body| parse(body).ok().map(|events| events.len())).collect();
    assert_eq!(counts, [Some(0), Some(1), None]);
}

#[test]
fn c013_a_body_without_records_is_malformed() {
    for body in
        [r#"{"foo":1}"#, r#""text""#, "[]", "not json", "", r#"{"Records":null}"#, r#"{"Records":{}}"#, "{}", "null"]
    {
        assert!(parse(body).is_err(), "{body}");
    }
    assert_eq!(
        parse(r#"{"foo":1}"#).unwrap_err().to_string(),
        "message is no S3 event: it has no Records and isn't from EventBridge's aws.s3; its keys: foo"
    );
}

#[test]
fn c014_no_records_are_no_events() {
    assert_eq!(parse(r#"{"Records":[]}"#), Ok(Vec::new()));
}

#[test]
fn c016_direct_wrapped_raw_and_bridged_are_told_apart() {
    let plain = created("raw/orders/dt%3D2026-11-01/p");
    let detail = json!({"bucket": {"name": "lake-raw-example"}, "object": {"key": "raw/orders/dt=2026-11-01/p"}});
    let bridged = bridge("Object Created", &detail);
    for body in [plain.clone(), wrapped(&plain), bridged.clone(), wrapped(&bridged)] {
        assert_eq!(one(&body).key, "raw/orders/dt=2026-11-01/p", "{body}");
    }
}

#[test]
fn c017_a_wrapped_test_event_and_a_wrapped_text() {
    let test = r#"{"Type":"Notification","Message":"{\"Service\":\"Amazon S3\",\"Event\":\"s3:TestEvent\",\"Bucket\":\"b\"}"}"#;
    assert_eq!(parse(test), Ok(Vec::new()));
    assert!(matches!(parse(r#"{"Type":"Notification","Message":"hello"}"#), Err(MalformedEvent::Json(_))));
    assert!(matches!(parse(r#"{"Type":"Notification"}"#), Err(MalformedEvent::Shape(_))));
    let confirm = r#"{"Type":"SubscriptionConfirmation","Message":"You have chosen","Token":"t"}"#;
    assert!(matches!(parse(confirm), Err(MalformedEvent::Subscription(_))));
}

#[test]
fn c017_wrapped_twice_is_malformed() {
    assert!(parse(&wrapped(&wrapped(&created("p")))).is_err());
}

#[test]
fn c019_a_transformed_event_is_malformed() {
    assert!(matches!(parse(r#"{"myField":"x"}"#), Err(MalformedEvent::Shape(_))));
}

#[test]
fn c021_event_names_with_and_without_prefix() {
    for name in
        ["s3:ObjectCreated:Put", "ObjectCreated:CompleteMultipartUpload", "ObjectCreated:Copy", "ObjectCreated:Post"]
    {
        assert_eq!(kind(name, &json!({"key": "p"})), EventKind::Created, "{name}");
    }
}

#[test]
fn c022_a_delete_has_no_size_and_no_etag() {
    let object = json!({"key": "raw/orders/dt%3D2026-11-01/p.parquet", "sequencer": "0065"});
    assert_eq!(kind("ObjectRemoved:Delete", &object), EventKind::Removed { surely_current: true });
}

#[test]
fn c024_lifecycle_expiry_does_not_mark() {
    for name in ["LifecycleExpiration:Delete", "s3:LifecycleExpiration:DeleteMarkerCreated"] {
        assert_eq!(kind(name, &json!({"key": "p"})), EventKind::Ignored(Ignored::Lifecycle));
    }
    let detail = json!({"bucket": {"name": "b"}, "object": {"key": "p"}, "reason": "Lifecycle Expiration",
        "deletion-type": "Delete Marker Created"});
    assert_eq!(one(&bridge("Object Deleted", &detail)).kind, EventKind::Ignored(Ignored::Lifecycle));
}

#[test]
fn c026_version_id_null_absent_or_a_text() {
    for (object, version) in [
        (json!({"key": "p", "versionId": null}), None),
        (json!({"key": "p"}), None),
        (json!({"key": "p", "versionId": "3/L4kq"}), Some("3/L4kq")),
    ] {
        let event = one(&direct("ObjectRemoved:Delete", &object));
        assert_eq!(event.version_id.as_deref(), version);
        assert_eq!(event.kind, EventKind::Removed { surely_current: version.is_none() });
    }
}

#[test]
fn c027_event_time_is_optional_and_records_is_spelt_so() {
    for time in [json!(null), json!(1_793_491_200_000_i64), json!("2026-11-01T00:00:00Z")] {
        let body = json!({"Records": [{"eventTime": time, "eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": "b"}, "object": {"key": "p"}}}]});
        assert_eq!(one(&body.to_string()).kind, EventKind::Created);
    }
    assert!(parse(r#"{"records":[]}"#).is_err());
}

#[test]
fn c029_versions_2_and_absent_are_read_3_is_not() {
    for version in [json!("2.0"), json!("2.1"), json!("2.2"), json!("2.3"), json!("2.9"), json!(null), json!(2.1)] {
        let body = json!({"Records": [{"eventVersion": version, "eventName": "ObjectCreated:Put", "new": {"x": 1},
            "s3": {"bucket": {"name": "b"}, "object": {"key": "p"}}}]});
        assert_eq!(one(&body.to_string()).kind, EventKind::Created, "{version}");
    }
    for version in [json!("3.0"), json!("1.0"), json!("20.1"), json!("")] {
        let body = json!({"Records": [{"eventVersion": version, "eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": "b"}, "object": {"key": "p"}}}]});
        assert!(matches!(parse(&body.to_string()), Err(MalformedEvent::Version { .. })), "{version}");
    }
}

#[test]
fn c031_only_a_completed_restore_marks() {
    let object = json!({"key": "p"});
    assert_eq!(kind("ObjectRestore:Post", &object), EventKind::Ignored(Ignored::SameContent));
    assert_eq!(kind("ObjectRestore:Delete", &object), EventKind::Ignored(Ignored::SameContent));
    let completed = json!({"Records": [{"eventVersion": "2.3", "eventName": "ObjectRestore:Completed",
        "glacierEventData": {"restoreEventData": {"lifecycleRestoreStorageClass": "GLACIER"}},
        "s3": {"bucket": {"name": "b"}, "object": {"key": "p"}}}]});
    assert_eq!(one(&completed.to_string()).kind, EventKind::Restored);
    let detail = json!({"bucket": {"name": "b"}, "object": {"key": "p"}});
    assert_eq!(one(&bridge("Object Restore Completed", &detail)).kind, EventKind::Restored);
    assert_eq!(one(&bridge("Object Restore Expired", &detail)).kind, EventKind::Ignored(Ignored::SameContent));
}

#[test]
fn c032_sequencers_are_padded_on_the_right() {
    let order = |a: &str, b: &str| Sequencer(a.to_owned()).order(&Sequencer(b.to_owned()));
    assert_eq!(order("00A1", "009FFF"), Ordering::Greater);
    assert_eq!(order("0055AED6DCD90281E5", "0055AED6DCD90281E501"), Ordering::Less);
    assert_eq!(order("00a1", "00A100"), Ordering::Equal);
}

#[test]
fn c034_events_of_two_keys_both_mark() {
    let record = |(key, sequencer): (&str, &str)| {
        json!({"eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": "b"}, "object": {"key": key, "sequencer": sequencer}}})
    };
    let records = [("a", "0099"), ("b", "0012")].map(record);
    let body = json!({"Records": records});
    let kinds: Vec<EventKind> = parse(&body.to_string()).unwrap().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Created, EventKind::Created]);
}

#[test]
fn c036_put_and_delete_out_of_order_both_mark() {
    assert_eq!(
        kind("ObjectRemoved:Delete", &json!({"key": "p", "sequencer": "02"})),
        EventKind::Removed { surely_current: true }
    );
    assert_eq!(kind("ObjectCreated:Put", &json!({"key": "p", "sequencer": "01"})), EventKind::Created);
}

#[test]
fn c037_several_records_in_a_message() {
    let keys =
        ["raw/orders/dt%3D2026-11-01/a", "raw/orders/dt%3D2026-11-01/b", "raw/orders/dt%3D2026-11-02/a", "other/x"];
    let record =
        |key| json!({"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": key}}});
    let records = keys.map(record);
    let body = json!({"Records": records});
    assert_eq!(parse(&body.to_string()).unwrap().len(), 4);
}

#[test]
fn c042_a_key_of_1024_bytes() {
    let key = format!("raw/orders/dt=2026-11-01/{}", "雪".repeat(333));
    assert_eq!((key.len(), key.chars().count()), (1_024, 358));
    let encoded = utf8_percent_encode(&key, NON_ALPHANUMERIC).to_string();
    assert!(encoded.len() > 3_000);
    assert_eq!(one(&created(&encoded)).key, key);
}

#[test]
fn removals_that_surely_took_the_current_object_count() {
    let object = json!({"key": "p", "versionId": "v1"});
    assert_eq!(kind("ObjectRemoved:DeleteMarkerCreated", &object), EventKind::Removed { surely_current: true });
    assert_eq!(kind("ObjectRemoved:Delete", &object), EventKind::Removed { surely_current: false });
    let deleted = |kind: &str, version: Value| {
        let detail = json!({"bucket": {"name": "b"}, "object": {"key": "p", "version-id": version},
            "reason": "DeleteObject", "deletion-type": kind});
        one(&bridge("Object Deleted", &detail)).kind
    };
    assert_eq!(deleted("Permanently Deleted", json!(null)), EventKind::Removed { surely_current: true });
    assert_eq!(deleted("Permanently Deleted", json!("v1")), EventKind::Removed { surely_current: false });
    assert_eq!(deleted("Delete Marker Created", json!("v2")), EventKind::Removed { surely_current: true });
}

#[test]
fn unknown_events_are_ignored_even_without_a_key() {
    assert_eq!(kind("ObjectSomething:New", &json!({})), EventKind::Ignored(Ignored::Unknown));
    assert_eq!(kind("ObjectTagging:Put", &json!({"key": "p"})), EventKind::Ignored(Ignored::SameContent));
    assert_eq!(one(&bridge("Object Sung To", &json!({}))).kind, EventKind::Ignored(Ignored::Unknown));
    assert!(matches!(parse(&direct("ObjectCreated:Put", &json!({}))), Err(MalformedEvent::Field { .. })));
    assert!(matches!(parse(&bridge("Object Created", &json!({}))), Err(MalformedEvent::Field { .. })));
}

proptest! {
    #[test]
    fn any_key_survives_the_encoding_of_s3(key in "\\PC{1,300}") {
        let encoded = utf8_percent_encode(&key, NON_ALPHANUMERIC).to_string().replace("%20", "+").replace("%2F", "/");
        prop_assert_eq!(one(&created(&encoded)).key, key);
    }

    #[test]
    fn no_body_is_a_panic(body in any::<String>(), key in any::<String>(), name in any::<String>()) {
        let _ = parse(&body);
        let _ = parse(&created(&key));
        let _ = parse(&direct(&name, &json!({"key": key})));
        let _ = parse(&wrapped(&body));
    }
}
