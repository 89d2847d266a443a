//! An [`Update`] as DynamoDB's expressions.
//!
//! Names and values are aliased by number (`#0`, `:0`), so that no reserved word matters and an expression's length
//! depends on the update's shape alone: DynamoDB refuses one of more than 4 KB.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tidemark_domain::update::{Change, Condition, Update};

use super::attribute::to_attribute;

/// The expressions of an update. Empty maps must not be sent: DynamoDB refuses them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Expressions {
    /// `ConditionExpression`.
    pub(crate) condition: Option<String>,
    /// `UpdateExpression`.
    pub(crate) update: Option<String>,
    /// `ExpressionAttributeNames`.
    pub(crate) names: Option<HashMap<String, String>>,
    /// `ExpressionAttributeValues`.
    pub(crate) values: Option<HashMap<String, AttributeValue>>,
}

impl Expressions {
    /// The expressions of `update`.
    pub(crate) fn of(update: &Update) -> Self {
        let mut aliases = Aliases::default();
        let conditions: Vec<_> = update.conditions.iter().map(|c| aliases.condition(c)).collect();
        let changes = aliases.changes(&update.changes);
        Self {
            condition: (!conditions.is_empty()).then(|| conditions.join(" AND ")),
            update: (!changes.is_empty()).then_some(changes),
            names: (!aliases.names.is_empty()).then_some(aliases.names),
            values: (!aliases.values.is_empty()).then_some(aliases.values),
        }
    }
}

#[derive(Default)]
struct Aliases {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
    by_name: HashMap<&'static str, String>,
}

impl Aliases {
    fn name(&mut self, name: &'static str) -> String {
        if let Some(alias) = self.by_name.get(name) {
            return alias.clone();
        }
        let alias = format!("#{}", self.names.len());
        self.names.insert(alias.clone(), name.to_owned());
        self.by_name.insert(name, alias.clone());
        alias
    }

    fn value(&mut self, value: &Value) -> String {
        let alias = format!(":{}", self.values.len());
        self.values.insert(alias.clone(), to_attribute(value));
        alias
    }

    fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Equals(name, value) => format!("{} = {}", self.name(name), self.value(value)),
            Condition::Exists(name) => format!("attribute_exists({})", self.name(name)),
            Condition::Absent(name) => format!("attribute_not_exists({})", self.name(name)),
            Condition::Less(name, bound) => format!("{} < {}", self.name(name), self.value(&(*bound).into())),
            Condition::Greater(name, bound) => format!("{} > {}", self.name(name), self.value(&(*bound).into())),
            Condition::Any(conditions) => {
                let any: Vec<_> = conditions.iter().map(|c| self.condition(c)).collect();
                format!("({})", any.join(" OR "))
            }
        }
    }

    fn changes(&mut self, changes: &[Change]) -> String {
        let (mut set, mut add, mut remove) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            match change {
                Change::Set(name, value) => set.push(format!("{} = {}", self.name(name), self.value(value))),
                Change::SetIfAbsent(name, value) => {
                    let name = self.name(name);
                    set.push(format!("{name} = if_not_exists({name}, {})", self.value(value)));
                }
                Change::Add(name, n) => add.push(format!("{} {}", self.name(name), self.value(&(*n).into()))),
                Change::Remove(name) => remove.push(self.name(name)),
            }
        }
        let clauses = [("SET", set), ("ADD", add), ("REMOVE", remove)];
        let clauses = clauses.iter().filter(|(_, actions)| !actions.is_empty());
        clauses.map(|(word, actions)| format!("{word} {}", actions.join(", "))).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
    use tidemark_domain::update::Key;
    use tidemark_domain::writes;

    use super::*;

    fn update(conditions: Vec<Condition>, changes: Vec<Change>) -> Update {
        Update { key: Key { pk: "P".into(), sk: "S".into() }, conditions, changes }
    }

    #[test]
    fn each_word_has_its_expression() {
        let e = Expressions::of(&update(
            vec![
                Condition::Equals("fence", 7.into()),
                Condition::Any(vec![Condition::Absent("holder"), Condition::Less("lease", 5)]),
                Condition::Exists("due_at"),
                Condition::Greater("marked", 2),
            ],
            vec![
                Change::Set("due_at", 9.into()),
                Change::SetIfAbsent("built", 0.into()),
                Change::Add("fence", 1),
                Change::Remove("parked"),
            ],
        ));
        assert_eq!(
            e.condition.unwrap(),
            "#0 = :0 AND (attribute_not_exists(#1) OR #2 < :1) AND attribute_exists(#3) AND #4 > :2"
        );
        assert_eq!(e.update.unwrap(), "SET #3 = :3, #5 = if_not_exists(#5, :4) ADD #0 :5 REMOVE #6");
        let names = e.names.unwrap();
        assert_eq!((names["#0"].as_str(), names["#3"].as_str(), names.len()), ("fence", "due_at", 7));
        assert_eq!(e.values.unwrap()[":0"], AttributeValue::N("7".into()));
    }

    #[test]
    fn nothing_empty_is_sent() {
        assert_eq!(Expressions::of(&update(vec![], vec![])), Expressions::default());
        let e = Expressions::of(&update(vec![Condition::Absent("a")], vec![Change::Remove("b")]));
        assert_eq!(e.values, None);
    }

    #[test]
    fn c114_a_marks_expression_is_short_whatever_it_marks() {
        let length = |partition: &str, removed| {
            let id = PartitionId {
                dataset: DatasetName::new("orders").unwrap(),
                partition: PartitionName::new(partition).unwrap(),
            };
            let e = Expressions::of(&writes::mark(&id, removed, Timestamp::UNIX_EPOCH));
            assert_eq!(e.condition, None, "a mark is unconditional");
            e.update.unwrap().len()
        };
        let short = length("p", 0);
        assert_eq!(short, length(&"x".repeat(1000), u64::MAX));
        assert!(short < 512, "{short} bytes of the 4,096 that DynamoDB allows");
    }
}
