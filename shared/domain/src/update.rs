//! The vocabulary of conditional writes, and what each word means.
//!
//! Every write of a stored item is told as an [`Update`]: conditions on the item as it is, then changes. The same update is
//! carried out by DynamoDB (as one `UpdateItem`, or several in one `TransactWriteItems`) and by [`Update::apply`], which the
//! in-memory store and the checks use. So the writes of the protocol stand once, in [`crate::writes`].

use std::collections::BTreeMap;

use serde_json::Value;

/// A stored item: attribute name to value. Values are strings, integers, booleans, lists and objects; never null.
pub type Item = BTreeMap<String, Value>;

/// Where an item stands: partition key and sort key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `pk`
    pub pk: String,
    /// `sk`
    pub sk: String,
}

/// A condition on an item as it is; an absent item has no attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// The attribute is there and equals the value.
    Equals(&'static str, Value),
    /// The attribute is there.
    Exists(&'static str),
    /// The attribute is not there.
    Absent(&'static str),
    /// The attribute is there, a number, and less than this one.
    Less(&'static str, i64),
    /// The attribute is there, a number, and greater than this one.
    Greater(&'static str, i64),
    /// At least one of them holds.
    Any(Vec<Condition>),
}

/// A change of one attribute. An update names an attribute in at most one change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It has this value then.
    Set(&'static str, Value),
    /// It has this value then, unless it had one.
    SetIfAbsent(&'static str, Value),
    /// The number is greater by this much then; an absent one counts as 0.
    Add(&'static str, i64),
    /// It isn't there then.
    Remove(&'static str),
}

/// A conditional write of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Which item; it is made where it doesn't exist.
    pub key: Key,
    /// All of them must hold, or nothing is written.
    pub conditions: Vec<Condition>,
    /// Carried out together.
    pub changes: Vec<Change>,
}

impl Condition {
    /// Whether it holds for `item`.
    pub fn holds(&self, item: &Item) -> bool {
        match self {
            Self::Equals(name, value) => item.get(*name) == Some(value),
            Self::Exists(name) => item.contains_key(*name),
            Self::Absent(name) => !item.contains_key(*name),
            Self::Less(name, bound) => item.get(*name).and_then(Value::as_i64).is_some_and(|n| n < *bound),
            Self::Greater(name, bound) => item.get(*name).and_then(Value::as_i64).is_some_and(|n| n > *bound),
            Self::Any(conditions) => conditions.iter().any(|c| c.holds(item)),
        }
    }
}

impl Update {
    /// The item after the update, or `None` where a condition doesn't hold.
    pub fn apply(&self, item: Option<&Item>) -> Option<Item> {
        let mut item = item.cloned().unwrap_or_default();
        if !self.conditions.iter().all(|c| c.holds(&item)) {
            return None;
        }
        for change in &self.changes {
            match change {
                Change::Set(name, value) => {
                    item.insert((*name).to_owned(), value.clone());
                }
                Change::SetIfAbsent(name, value) => {
                    item.entry((*name).to_owned()).or_insert_with(|| value.clone());
                }
                Change::Add(name, n) => {
                    let before = item.get(*name).and_then(Value::as_i64).unwrap_or(0);
                    item.insert((*name).to_owned(), Value::from(before + n));
                }
                Change::Remove(name) => {
                    item.remove(*name);
                }
            }
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(conditions: Vec<Condition>, changes: Vec<Change>) -> Update {
        Update { key: Key { pk: "P".into(), sk: "S".into() }, conditions, changes }
    }

    #[test]
    fn nothing_changes_where_a_condition_fails() {
        let u = update(vec![Condition::Exists("a")], vec![Change::Add("a", 1)]);
        assert_eq!(u.apply(None), None);
        let item = Item::from([("a".into(), Value::from(1))]);
        assert_eq!(u.apply(Some(&item)), Some(Item::from([("a".into(), Value::from(2))])));
    }

    #[test]
    fn an_absent_number_is_neither_less_nor_greater() {
        let item = Item::new();
        assert!(!Condition::Less("n", 1).holds(&item));
        assert!(!Condition::Greater("n", -1).holds(&item));
        assert!(Condition::Any(vec![Condition::Less("n", 1), Condition::Absent("n")]).holds(&item));
    }

    #[test]
    fn changes_keep_what_they_do_not_name() {
        let item = Item::from([("kept".into(), Value::from("x")), ("gone".into(), Value::from(1))]);
        let u = update(
            vec![],
            vec![Change::Remove("gone"), Change::SetIfAbsent("kept", "y".into()), Change::Set("new", true.into())],
        );
        assert_eq!(
            u.apply(Some(&item)),
            Some(Item::from([("kept".into(), "x".into()), ("new".into(), Value::from(true))]))
        );
    }
}
