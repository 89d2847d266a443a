//! A definition's partitions: by an object's key, and by name.

use super::{Definition, Part};
use crate::id::PartitionName;
use crate::layout::{Unroutable, named};
use crate::partition_value::{BadValue, Partition};

impl Definition {
    /// The partition of an object, by its key without the root.
    pub fn partition_of(&self, below: &str) -> Result<Partition, Unroutable> {
        self.layout.partition_of(&self.parts, below)
    }

    /// Reads a partition's name, such as `dt=2026-11-01/hour=7`, as the layout yields it. The name that comes back is the
    /// canonical one (`hour=07` is `hour=7` where the part is an integer): go on with that.
    pub fn partition(&self, name: &PartitionName) -> Result<Partition, NotAPartition> {
        let shape = || NotAPartition::Shape { name: name.to_string(), expected: self.name_shape() };
        let texts: Vec<&str> = name.as_str().split('/').collect();
        if texts.len() != self.parts.len() {
            return Err(shape());
        }
        let mut values = Vec::new();
        for (part, text) in self.parts.iter().zip(texts) {
            let text =
                text.strip_prefix(part.name.as_str()).and_then(|rest| rest.strip_prefix('=')).ok_or_else(shape)?;
            let value = part.read_encoded(text);
            let bad = |why| NotAPartition::Value { part: part.name.clone(), text: text.to_owned(), why };
            values.push(value.map_err(bad)?);
        }
        if !self.layout.yields(&self.parts, &values) {
            return Err(NotAPartition::NotYielded { name: name.to_string(), layout: self.layout.to_string() });
        }
        named(&self.parts, values).map_err(|error| NotAPartition::Name(error.to_string()))
    }

    /// The partition of this very name, if the layout yields one that is named so. What an item's name was under another definition
    /// may be one of several names of a partition now, or one that holds another.
    pub fn yields(&self, name: &PartitionName) -> Option<Partition> {
        self.partition(name).ok().filter(|partition| partition.name == *name)
    }

    /// How its partitions' names look, such as `dt=<date>/hour=<integer>`.
    fn name_shape(&self) -> String {
        let shape = |part: &Part| format!("{}=<{}>", part.name, part.kind);
        self.parts.iter().map(shape).collect::<Vec<_>>().join("/")
    }
}

/// Why a name is none of a dataset's partitions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPartition {
    /// Other parts than the definition's, or in another order.
    #[error("{name:?} is no partition's name here; write `{expected}`")]
    Shape {
        /// As given.
        name: String,
        /// The parts in their order.
        expected: String,
    },
    /// A value that can't be one of its part.
    #[error("value {text:?} of {part} {why}")]
    Value {
        /// The part's name.
        part: String,
        /// As given.
        text: String,
        /// What is wrong with it.
        why: BadValue,
    },
    /// No object can be of it.
    #[error("no key of the layout `{layout}` can be of partition {name:?}")]
    NotYielded {
        /// As given.
        name: String,
        /// The dataset's layout.
        layout: String,
    },
    /// Its canonical name is too long.
    #[error("the partition's name {0}")]
    Name(String),
}
