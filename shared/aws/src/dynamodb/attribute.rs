//! JSON values as DynamoDB attributes and back: text S, number N, boolean BOOL, list L, object M, null NULL.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Number, Value};
use tidemark_domain::update::{Item, Key};

/// An attribute that no item of ours has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("attribute of type {0} in an item, which Tidemark never writes")]
pub(crate) struct ForeignAttribute(String);

/// The value as an attribute.
pub(crate) fn to_attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(b) => AttributeValue::Bool(*b),
        Value::Number(n) => AttributeValue::N(n.to_string()),
        Value::String(s) => AttributeValue::S(s.clone()),
        Value::Array(list) => AttributeValue::L(list.iter().map(to_attribute).collect()),
        Value::Object(map) => AttributeValue::M(map.iter().map(|(k, v)| (k.clone(), to_attribute(v))).collect()),
    }
}

/// The attribute as a value. The names of an object come sorted, since DynamoDB keeps no order.
pub(crate) fn from_attribute(attribute: &AttributeValue) -> Result<Value, ForeignAttribute> {
    Ok(match attribute {
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::Bool(b) => Value::Bool(*b),
        AttributeValue::N(n) => Value::Number(number(n)?),
        AttributeValue::S(s) => Value::String(s.clone()),
        AttributeValue::L(list) => Value::Array(list.iter().map(from_attribute).collect::<Result<_, _>>()?),
        AttributeValue::M(map) => Value::Object(object(map)?),
        other => return Err(ForeignAttribute(format!("{other:?}").split('(').next().unwrap_or_default().to_owned())),
    })
}

/// Whole numbers stay whole, whatever DynamoDB made of their spelling.
fn number(text: &str) -> Result<Number, ForeignAttribute> {
    let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
    let any = || text.parse::<f64>().ok().and_then(Number::from_f64);
    whole.or_else(any).ok_or_else(|| ForeignAttribute(format!("N with the text {text:?}")))
}

fn object(map: &HashMap<String, AttributeValue>) -> Result<Map<String, Value>, ForeignAttribute> {
    let mut names: Vec<_> = map.iter().collect();
    names.sort_by_key(|(name, _)| *name);
    names.into_iter().map(|(name, value)| Ok((name.clone(), from_attribute(value)?))).collect()
}

/// An item without its key, which the caller knows.
pub(crate) fn from_item(attributes: &HashMap<String, AttributeValue>) -> Result<Item, ForeignAttribute> {
    let own = attributes.iter().filter(|(name, _)| !matches!(name.as_str(), "pk" | "sk"));
    own.map(|(name, value)| Ok((name.clone(), from_attribute(value)?))).collect()
}

/// A key, as every request wants it.
pub(crate) fn key(key: &Key) -> HashMap<String, AttributeValue> {
    [("pk", &key.pk), ("sk", &key.sk)].map(|(name, text)| (name.to_owned(), AttributeValue::S(text.clone()))).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_comes_back_as_it_went(value in values()) {
            prop_assert_eq!(from_attribute(&to_attribute(&value)), Ok(value));
        }
    }

    #[test]
    fn types_are_those_of_the_indexes_and_of_time_to_live() {
        assert_eq!(to_attribute(&json!("orders")), AttributeValue::S("orders".into()));
        assert_eq!(to_attribute(&json!(1_793_491_200_000_i64)), AttributeValue::N("1793491200000".into()));
    }

    #[test]
    fn an_attribute_that_is_not_ours_is_told() {
        let set = AttributeValue::Ss(vec!["a".into()]);
        assert_eq!(from_attribute(&set), Err(ForeignAttribute("Ss".into())));
        assert!(from_attribute(&AttributeValue::N("seven".into())).is_err());
    }

    #[test]
    fn an_item_comes_without_its_key() {
        let stored = Key { pk: "P".into(), sk: "S".into() };
        let mut attributes = key(&stored);
        attributes.insert("marked".into(), AttributeValue::N("7".into()));
        assert_eq!(from_item(&attributes), Ok(Item::from([("marked".into(), json!(7))])));
    }
}
