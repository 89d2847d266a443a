//! Hostile messages: each marks, is counted with its reason, or is reported failed; none is dropped, none harms another.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use tidemark_engine::mark::{CatalogCache, EventMessage, Marked};

use super::world::{TOML, World};

/// A record as S3 could send it, and what must come of it.
#[derive(Debug, Clone)]
struct Record {
    bucket: &'static str,
    key: &'static str,
    /// In S3's own records, and in EventBridge's.
    event: (&'static str, &'static str),
    /// The partition it marks, or why it marks none.
    then: Result<&'static str, &'static str>,
}

const CREATED: (&str, &str) = ("ObjectCreated:Put", "Object Created");
const DELETED: (&str, &str) = ("ObjectRemoved:Delete", "Object Deleted");

fn records() -> impl Strategy<Value = Record> {
    let record = |bucket, key, event, then| Record { bucket, key, event, then };
    proptest::sample::select(vec![
        record("lake", "orders/dt=2026-11-01/a b+c%é.csv", CREATED, Ok("dt=2026-11-01")),
        record(
            "lake",
            "orders/DT=2026-11-01/'; drop table x;--.csv",
            ("s3:ObjectCreated:Copy", "Object Created"),
            Ok("dt=2026-11-01"),
        ),
        record("lake", "orders/dt=2026-11-02/雪\u{202e}\"\\.csv", DELETED, Ok("dt=2026-11-02")),
        record(
            "lake",
            "orders/dt=2026-11-02/..",
            ("ObjectRestore:Completed", "Object Restore Completed"),
            Ok("dt=2026-11-02"),
        ),
        record("lake", "orders/dt=2026-11-03%/a.csv", CREATED, Err("impossible_date")),
        record("lake", "orders/dt=2026-02-30/a.csv", CREATED, Err("impossible_date")),
        record("lake", "orders/dt=__HIVE_DEFAULT_PARTITION__/a.csv", CREATED, Err("null_partition")),
        record("lake", "orders/dt=2026-11-01/_SUCCESS", CREATED, Err("hidden")),
        record("lake", "orders//dt=2026-11-01/a.csv", CREATED, Err("empty_segment")),
        record("lake", "orders/dt=2026-11-01/../dt=2026-11-02/a.csv", CREATED, Err("wrong_depth")),
        record("lake", "/orders/dt=2026-11-01/a.csv", CREATED, Err("unclaimed")),
        record("pond", "orders/dt=2026-11-01/a.csv", CREATED, Err("unclaimed")),
        record("lake", "orders/dt=2026-11-01/a.csv", ("ObjectTagging:Put", "Object Tags Added"), Err("same_content")),
        record("lake", "orders/dt=2026-11-01/a.csv", ("ObjectInvented:Now", "Object Invented"), Err("unknown_event")),
    ])
}

/// What may be wrong with a message: then all of it comes back.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    NoKey,
    NoUtf8,
    OtherVersion,
    CutShort,
}

#[derive(Debug, Clone)]
struct Message {
    records: Vec<Record>,
    by_bridge: bool,
    by_sns: bool,
    wrong: Option<Wrong>,
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let wrong = proptest::sample::select(vec![Wrong::NoKey, Wrong::NoUtf8, Wrong::OtherVersion, Wrong::CutShort]);
    let records = proptest::collection::vec(records(), 0..5);
    let message = (records, any::<bool>(), any::<bool>(), proptest::option::weighted(0.2, wrong));
    let message = message.prop_map(|(mut records, by_bridge, by_sns, wrong)| {
        if by_bridge {
            records.truncate(1);
        }
        // EventBridge has one record, plain, and no version: what could be wrong there is that it is cut short.
        let by_bridge = by_bridge && !records.is_empty();
        let wrong = if by_bridge || records.is_empty() { wrong.map(|_| Wrong::CutShort) } else { wrong };
        Message { records, by_bridge, by_sns, wrong }
    });
    proptest::collection::vec(message, 0..6)
}

impl Message {
    fn body(&self) -> String {
        let inner = if self.by_bridge { self.bridged() } else { json!({ "Records": self.direct() }) };
        let body = if self.by_sns { json!({ "Type": "Notification", "Message": inner.to_string() }) } else { inner };
        let mut body = body.to_string();
        if let Some(Wrong::CutShort) = self.wrong {
            body.truncate(body.len() - 1);
        }
        body
    }

    fn bridged(&self) -> Value {
        let Record { bucket, key, event, .. } = &self.records[0];
        let detail = json!({ "bucket": { "name": bucket }, "object": { "key": key } });
        json!({ "source": "aws.s3", "detail-type": event.1, "detail": detail })
    }

    fn direct(&self) -> Vec<Value> {
        let mut records: Vec<Value> = self
            .records
            .iter()
            .map(|record| {
                let key = record.key.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
                let s3 = json!({ "bucket": { "name": record.bucket }, "object": { "key": key, "size": 1 } });
                json!({ "eventVersion": "2.1", "eventName": record.event.0, "s3": s3 })
            })
            .collect();
        if let Some(last) = records.last_mut() {
            match self.wrong {
                None | Some(Wrong::CutShort) => {}
                // Of an event that marks: others need no key.
                Some(Wrong::NoKey) => {
                    last["eventName"] = CREATED.0.into();
                    last["s3"]["object"]["key"] = Value::Null;
                }
                Some(Wrong::NoUtf8) => last["s3"]["object"]["key"] = "orders/dt%3D2026-11-01/%FF.csv".into(),
                Some(Wrong::OtherVersion) => last["eventVersion"] = "3.0".into(),
            }
        }
        records
    }
}

/// One invocation of mark in a fresh world; also which partitions are marked after it.
fn mark(bodies: &[String]) -> (Marked, BTreeSet<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new(TOML).await;
        let ids: Vec<String> = (0..bodies.len()).map(|id| id.to_string()).collect();
        let messages: Vec<_> = ids.iter().zip(bodies).map(|(id, body)| EventMessage { id, body }).collect();
        let marked = world.engine().mark(&CatalogCache::default(), &messages).await.unwrap();
        let partitions = world.items().into_keys().map(|key| key.trim_start_matches("PARTITION#").to_owned());
        (marked, partitions.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_record_marks_or_is_counted_or_its_message_fails(messages in messages()) {
        let bodies: Vec<String> = messages.iter().map(Message::body).collect();
        let (report, partitions) = mark(&bodies);
        let failed = messages.iter().enumerate().filter(|(_, message)| message.wrong.is_some());
        prop_assert_eq!(&report.failed, &failed.map(|(id, _)| id.to_string()).collect::<BTreeSet<String>>());
        let (mut marks, mut ignored) = (BTreeSet::new(), BTreeMap::new());
        for record in messages.iter().filter(|message| message.wrong.is_none()).flat_map(|message| &message.records) {
            match record.then {
                Ok(partition) => drop(marks.insert(partition.to_owned())),
                Err(reason) => *ignored.entry(reason).or_insert(0) += 1,
            }
        }
        prop_assert_eq!(report.marked.get("orders").copied().unwrap_or(0), marks.len() as u64);
        prop_assert_eq!(report.sent, marks.len() as u64);
        prop_assert_eq!(partitions, marks);
        prop_assert_eq!(report.ignored, ignored);
    }

    /// Whatever stands beside it, a good message marks.
    #[test]
    fn a_good_message_marks_whatever_is_beside_it(bodies in proptest::collection::vec(any::<String>(), 0..4)) {
        let good = json!({ "Records": [{
            "eventName": CREATED.0, "s3": { "bucket": { "name": "lake" }, "object": { "key": "orders/dt%3D2026-11-01/a.csv" } }
        }] });
        let all = [&bodies[..], &[good.to_string()]].concat();
        let (report, partitions) = mark(&all);
        prop_assert!(partitions.contains("dt=2026-11-01"));
        let good = (all.len() - 1).to_string();
        prop_assert!(!report.failed.contains(&good));
        for (id, body) in bodies.iter().enumerate() {
            prop_assert!(report.failed.contains(&id.to_string()), "{} was taken for an event", body);
        }
    }
}
