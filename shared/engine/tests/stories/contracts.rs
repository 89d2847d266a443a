//! What is told and taken is what docs/events says; the patterns of docs/downstream.md match it.

use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::{Value, json};
use tidemark_domain::message::PartitionMessage;

use super::world::{TOML, World};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(docs(name)).unwrap()
}

fn schema(name: &str) -> Value {
    serde_json::from_str(&read(&format!("events/{name}.schema.json"))).unwrap()
}

/// Holds a value against a schema, in the words of JSON Schema that ours use; of any other it says so. `Err` says why.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().unwrap() {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is(value, name)),
                name => is(value, name),
            },
            "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= rule.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
            "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|item| check(rule, item, &format!("{at}[]")))?;
                true
            }
            "properties" => {
                let named =
                    rule.as_object().unwrap().iter().filter_map(|(name, rule)| Some((name, rule, value.get(name)?)));
                named.into_iter().try_for_each(|(name, rule, value)| check(rule, value, &format!("{at}.{name}")))?;
                true
            }
            "not" => check(rule, value, at).is_err(),
            "anyOf" => rule.as_array().unwrap().iter().any(|rule| check(rule, value, at).is_ok()),
            other => panic!("{other} isn't known to this test"),
        };
        if !fits {
            return Err(format!("{at}: {keyword} {rule} isn't met by {value}"));
        }
    }
    Ok(())
}

fn is(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other} isn't known to this test"),
    }
}

/// Whether EventBridge's pattern takes the event: each list holds the value that stands there.
fn matches(pattern: &Value, event: &Value) -> bool {
    match pattern {
        Value::Object(fields) => {
            fields.iter().all(|(name, pattern)| event.get(name).is_some_and(|event| matches(pattern, event)))
        }
        Value::Array(values) => values.contains(event),
        _ => false,
    }
}

/// The blocks of docs/downstream.md that begin with this line.
fn blocks(fence: &str) -> Vec<Value> {
    let text = read("downstream.md");
    let fence = format!("\n{fence}\n");
    let blocks = text.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap());
    blocks.map(|block| serde_json::from_str(block).unwrap()).collect()
}

/// Events as EventBridge delivers them, of a rebuild, a partition that parked and one that was emptied.
async fn events() -> Vec<Value> {
    let mut world = World::new(&TOML.replace("row_drop =", "empty_source = \"delete\"\nrow_drop =")).await;
    world.put("dt=2026-10-24/a.csv", "1\n").await;
    world.rest("built").await;
    world.put("dt=2026-10-24/b.csv", "2\n2\n").await;
    world.rest("parked").await;
    world.sweep().await;
    world.put("dt=2026-10-25/a.csv", "3\n").await;
    world.rest("another").await;
    let event = |event: tidemark_engine::ports::Event| json!({ "source": "tidemark", "detail-type": event.detail_type, "detail": event.detail });
    world.announcer.events().into_iter().map(event).collect()
}

#[tokio::test]
async fn events_are_as_their_schemas_say() {
    let events = events().await;
    let mut met = Vec::new();
    for event in &events {
        let name = event["detail-type"].as_str().unwrap().to_lowercase().replace(' ', "-");
        let schema = schema(&name);
        check(&schema, &event["detail"], &name).unwrap();
        // Nothing is told that isn't described.
        let described = schema["properties"].as_object().unwrap();
        for field in event["detail"].as_object().unwrap().keys() {
            assert!(described.contains_key(field), "{name}: {field}");
        }
        for field in described.keys() {
            let mut without = event["detail"].clone();
            without.as_object_mut().unwrap().remove(field);
            assert!(check(&schema, &without, &name).is_err(), "{name} is told always with {field}");
        }
        met.push(name);
    }
    assert_eq!(met, ["partition-rebuilt", "partition-parked", "partition-rebuilt"]);
    let watermarks = [0, 2].map(|at: usize| &events[at]["detail"]["watermark"]);
    assert_eq!(watermarks, ["dt=2026-10-24"; 2], "that of the event itself, then the one that is parked");
}

#[tokio::test]
async fn patterns_of_downstream_take_what_is_told() {
    let example = blocks("```json").remove(0);
    check(&schema("partition-rebuilt"), &example["detail"], "the example").unwrap();
    let [rebuilt, parked] = <[Value; 2]>::try_from(blocks("```json pattern")).unwrap();
    assert!(matches(&rebuilt, &example));
    let told: Vec<bool> = events().await.iter().map(|event| matches(&rebuilt, event)).collect();
    assert_eq!(told, [true, false, true]);
    let event = json!({ "source": "tidemark", "detail-type": "Partition Parked", "detail": { "kind": "row_drop" } });
    assert!(matches(&parked, &event) && !matches(&rebuilt, &event) && !matches(&parked, &example));
    // The template's rule is the same: its pattern stands there as YAML.
    let template = read("downstream/refresh.yaml");
    for line in [
        "source: [tidemark]",
        "detail-type: [Partition Rebuilt]",
        "partition: $.detail.partition",
        "rows: $.detail.rows",
    ] {
        assert!(template.contains(line), "{line}");
    }
}

#[test]
fn messages_are_taken_as_their_schema_says() {
    let schema = schema("partition-message");
    let of = |fields: Value| {
        let mut message = json!({ "version": 1, "dataset": "orders", "partition": "dt=2026-11-01" });
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        message
    };
    let good = [
        json!({ "generation": 7 }),
        json!({}),
        json!({ "reason": "corrected", "force": false, "something": "else" }),
        json!({ "accept": ["missing_objects", "row_drop"], "digest": "d" }),
        json!({ "accept": ["foreign_rows"], "force": true }),
        json!({ "generation": 7, "reason": "passed over" }),
    ];
    let bad = [
        json!({ "version": 2 }),
        json!({ "dataset": "Orders" }),
        json!({ "partition": "" }),
        json!({ "generation": -1 }),
        json!({ "force": "yes" }),
        json!({ "accept": ["row_drop"] }),
        json!({ "accept": ["row_drop"], "digest": "d", "force": false }),
        json!({ "accept": ["row_drop"], "digest": "d", "generation": 7 }),
        json!({ "accept": ["row_variance"], "digest": "d" }),
        json!({ "accept": ["everything"] }),
        json!({ "digest": 1 }),
    ];
    for (fields, expected) in good.map(|fields| (fields, true)).into_iter().chain(bad.map(|fields| (fields, false))) {
        let message = of(fields);
        let (by_schema, by_code) = (check(&schema, &message, "message"), PartitionMessage::parse(&message.to_string()));
        assert_eq!((by_schema.is_ok(), by_code.is_ok()), (expected, expected), "{message}: {by_schema:?}, {by_code:?}");
    }
}
