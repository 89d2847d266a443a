//! A range of partitions as an operator writes it: from one to another, both included.
//!
//! An end is a partition's name (`dt=2026-11-01`, `dt=2026-11-01/hour=7`), or the values of its first parts, by which all
//! partitions that begin so are meant: with `dt=2026-11-01` all hours of that day. The first part's name may be left out
//! (`2026-11-01`). Values are compared as what they are, so that 9 comes before 10.

use crate::definition::Definition;
use crate::partition_value::{BadValue, Partition, PartitionValue};

/// Partitions from one to another; an end that is absent is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    from: Option<Vec<PartitionValue>>,
    to: Option<Vec<PartitionValue>>,
}

/// Why a text is no range of a dataset's partitions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRange {
    /// Not the dataset's parts in their order.
    #[error("{text:?} names no partitions of {dataset}; write {expected}, or only the first of its parts")]
    Shape {
        /// As written.
        text: String,
        /// Whose they would be.
        dataset: String,
        /// How its partitions are named.
        expected: String,
    },
    /// A value that isn't one.
    #[error("{part}={text} {why}")]
    Value {
        /// The part.
        part: String,
        /// As written.
        text: String,
        /// Why not.
        why: BadValue,
    },
    /// The ends are the wrong way round.
    #[error("nothing lies between {from} and {to}: the first is the later; exchange them")]
    Backwards {
        /// The first end, as written.
        from: String,
        /// The other.
        to: String,
    },
}

impl Range {
    /// Reads both ends.
    pub fn read(definition: &Definition, from: Option<&str>, to: Option<&str>) -> Result<Self, BadRange> {
        let end = |text: Option<&str>| text.map(|text| values(definition, text)).transpose();
        let range = Self { from: end(from)?, to: end(to)? };
        if let (Some(first), Some(last)) = (&range.from, &range.to) {
            let common = first.len().min(last.len());
            if first[..common] > last[..common] {
                let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
                return Err(BadRange::Backwards { from: text(from), to: text(to) });
            }
        }
        Ok(range)
    }

    /// Whether the partition lies in it.
    pub fn contains(&self, partition: &Partition) -> bool {
        let begin = |end: &Vec<PartitionValue>| partition.values[..end.len().min(partition.values.len())].to_vec();
        self.from.as_ref().is_none_or(|from| begin(from) >= *from) && self.to.as_ref().is_none_or(|to| begin(to) <= *to)
    }
}

fn values(definition: &Definition, text: &str) -> Result<Vec<PartitionValue>, BadRange> {
    let shape = || {
        let parts = definition.parts.iter().map(|part| format!("{}=<{}>", part.name, part.kind));
        let expected = parts.collect::<Vec<_>>().join("/");
        BadRange::Shape { text: text.to_owned(), dataset: definition.name.to_string(), expected }
    };
    let texts: Vec<&str> = text.trim_end_matches('/').split('/').collect();
    if texts.len() > definition.parts.len() {
        return Err(shape());
    }
    let mut values = Vec::new();
    for (n, (part, text)) in definition.parts.iter().zip(texts).enumerate() {
        let named = text.strip_prefix(part.name.as_str()).and_then(|rest| rest.strip_prefix('='));
        let text = match named {
            Some(value) => value,
            None if n == 0 && !text.contains('=') => text,
            None => return Err(shape()),
        };
        let bad = |why| BadRange::Value { part: part.name.clone(), text: text.to_owned(), why };
        values.push(part.read_encoded(text).map_err(bad)?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;
    use crate::id::PartitionName;

    fn hourly() -> Definition {
        let text = r#"
            [orders]
            source = "s3://lake/orders/"
            layout = "dt={dt}/hour={hour}/"
            format = "csv"
            target = "sales.orders"
            columns = ["id bigint"]
            [orders.partition.dt]
            type = "date"
            column = "dt"
            [orders.partition.hour]
            type = "integer"
            column = "hour"
        "#;
        parse(text).unwrap().remove(0)
    }

    fn within(from: Option<&str>, to: Option<&str>, name: &str) -> bool {
        let definition = hourly();
        let partition = definition.partition(&PartitionName::new(name).unwrap()).unwrap();
        Range::read(&definition, from, to).unwrap().contains(&partition)
    }

    #[test]
    fn both_ends_are_included_and_values_are_compared_as_what_they_are() {
        let (nine, ten) = ("dt=2026-11-01/hour=9", "dt=2026-11-01/hour=10");
        assert!(within(Some(nine), Some(ten), nine) && within(Some(nine), Some(ten), ten));
        assert!(!within(Some(ten), None, nine) && within(Some(nine), None, ten));
        assert!(!within(None, Some(nine), ten));
        assert!(within(None, None, nine));
    }

    #[test]
    fn the_first_parts_mean_all_that_begin_so() {
        for day in ["dt=2026-11-01", "2026-11-01", "dt=2026-11-01/"] {
            assert!(within(Some(day), Some(day), "dt=2026-11-01/hour=23"), "{day}");
            assert!(!within(Some(day), Some(day), "dt=2026-11-02/hour=0"), "{day}");
        }
        assert!(within(Some("2026-11-01/hour=5"), Some("2026-11-02"), "dt=2026-11-02/hour=3"));
        assert!(!within(Some("2026-11-01/hour=5"), Some("2026-11-02"), "dt=2026-11-01/hour=3"));
    }

    #[test]
    fn what_is_no_range_is_told_with_the_shape() {
        let told = |from, to| Range::read(&hourly(), Some(from), Some(to)).unwrap_err().to_string();
        assert!(told("day=2026-11-01", "x").contains("dt=<date>/hour=<integer>"));
        assert!(told("dt=2026-11-31", "x").contains("dt=2026-11-31 is no date"));
        assert!(told("2026-11-01/hour=1/x=1", "x").contains("names no partitions of orders"));
        assert!(told("2026-11-02", "2026-11-01/hour=3").contains("exchange them"));
    }
}
