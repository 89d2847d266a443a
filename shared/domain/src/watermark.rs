//! Up to where a dataset is built: what `docs/watermark.md` says, made from the partitions that aren't.

use std::collections::BTreeMap;

use crate::definition::Definition;
use crate::id::PartitionName;
use crate::partition::PartitionItem;
use crate::partition_value::{Partition, PartitionValue};

/// For each combination of a partition's leading values, the first partition that isn't built: every known one before it that
/// has the same leading values is. Of a dataset whose partitions have one value there is one, under the empty name.
pub fn within<'n>(
    definition: &Definition,
    unbuilt: impl Iterator<Item = &'n PartitionName>,
) -> Vec<(String, Partition)> {
    let mut first: BTreeMap<Vec<PartitionValue>, Partition> = BTreeMap::new();
    for partition in unbuilt.filter_map(|name| definition.partition(name).ok()) {
        let leading = partition.values.split_last().map_or(&[][..], |(_, leading)| leading).to_vec();
        match first.get(&leading) {
            Some(known) if known.values <= partition.values => {}
            _ => _ = first.insert(leading, partition),
        }
    }
    let name = |partition: &Partition| partition.name.as_str().rsplit_once('/').map_or("", |(name, _)| name).to_owned();
    first.into_values().map(|partition| (name(&partition), partition)).collect()
}

/// How far a dataset is known to be built.
#[derive(Debug, Clone, PartialEq)]
pub enum Watermark {
    /// Every known partition is built.
    All,
    /// Every known one before this one is.
    Before(Partition),
    /// More wait than are counted when asked, and sweep hasn't written a watermark yet.
    Unknown,
}

impl Watermark {
    /// The watermark by its first partition that isn't built, where all of them were `counted`, or sweep counted for it.
    pub fn of(first: Option<Partition>, counted: bool) -> Self {
        match first {
            Some(first) => Self::Before(first),
            None if counted => Self::All,
            None => Self::Unknown,
        }
    }

    /// The first partition that isn't built, where one is known.
    pub fn first(&self) -> Option<&Partition> {
        match self {
            Self::Before(first) => Some(first),
            Self::All | Self::Unknown => None,
        }
    }

    /// Why it can't be said that `partition`, and every known one before it, is built; `None` where it can. `item` is what is
    /// stored of it.
    pub fn why_not_through(&self, partition: &Partition, item: Option<&PartitionItem>) -> Option<&'static str> {
        match (item, self) {
            (None, _) => Some("no file of it was ever seen"),
            (Some(item), _) if !item.at_rest() => Some("it isn't built itself"),
            (_, Self::Before(first)) if first.values <= partition.values => Some("one before it isn't built"),
            (_, Self::Unknown) => Some("more partitions wait than are counted; sweep counts them within ten minutes"),
            (_, Self::All | Self::Before(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;

    fn dataset(layout: &str, parts: &str) -> Definition {
        let toml = format!(
            "[n]\nsource = \"s3://lake-raw/n/\"\nlayout = \"{layout}\"\nformat = \"csv\"\ntarget = \"a.n\"\n\
             columns = [\"id bigint\", \"seen_at timestamp\"]\n{parts}"
        );
        parse(&toml).unwrap().remove(0)
    }

    fn firsts(definition: &Definition, names: &[&str]) -> Vec<String> {
        let names: Vec<_> = names.iter().map(|name| PartitionName::new(*name).unwrap()).collect();
        within(definition, names.iter())
            .into_iter()
            .map(|(within, first)| format!("{within}: {}", first.name))
            .collect()
    }

    #[test]
    fn values_are_compared_as_what_they_are_not_as_text() {
        let numbers = dataset("n={n}/", "[n.partition.n]\ntype = \"integer\"\n");
        assert_eq!(firsts(&numbers, &["n=10", "n=9", "n=-3"]), [": n=-3"]);
        let texts = dataset("n={n}/", "[n.partition.n]\ntype = \"text\"\n");
        assert_eq!(firsts(&texts, &["n=é", "n=z", "n=Z"]), [": n=Z"]);
        assert_eq!(firsts(&numbers, &["n=zwei"]), [""; 0], "what the layout doesn't yield says nothing");
    }

    #[test]
    fn each_leading_value_has_its_own() {
        let parts = "[n.partition.r]\ntype = \"text\"\n[n.partition.dt]\ntype = \"date\"\n";
        let two = dataset("r={r}/dt={dt}/", parts);
        let told = firsts(&two, &["r=us/dt=2026-11-02", "r=eu/dt=2026-11-09", "r=us/dt=2026-11-01"]);
        assert_eq!(told, ["r=eu: r=eu/dt=2026-11-09", "r=us: r=us/dt=2026-11-01"]);
    }

    #[test]
    fn it_reaches_what_lies_before_the_first_that_is_not_built() {
        let days = dataset("dt={dt}/", "[n.partition.dt]\ntype = \"date\"\n");
        let day = |day: &str| days.partition(&PartitionName::new(format!("dt={day}")).unwrap()).unwrap();
        let item = |built: u64| -> PartitionItem {
            let item = serde_json::json!({ "marked": 2, "built": built, "marked_at": 0, "fence": 1 });
            serde_json::from_value(item).unwrap()
        };
        let (built, dirty) = (item(2), item(1));
        let before = Watermark::of(Some(day("2026-11-03")), true);
        let why = |watermark: &Watermark, at: &str, item| watermark.why_not_through(&day(at), item).unwrap_or("built");
        assert_eq!(why(&before, "2026-11-02", Some(&built)), "built");
        assert_eq!(why(&before, "2026-11-02", Some(&dirty)), "it isn't built itself");
        assert_eq!(why(&before, "2026-11-04", Some(&built)), "one before it isn't built");
        assert_eq!(why(&before, "2026-11-01", None), "no file of it was ever seen");
        assert_eq!(why(&Watermark::of(None, true), "2026-11-04", Some(&built)), "built");
        // With more than are counted, none is known until sweep has been there; the one it wrote holds as any other.
        assert!(why(&Watermark::of(None, false), "2026-11-04", Some(&built)).starts_with("more partitions wait"));
        assert_eq!(why(&Watermark::of(Some(day("2026-11-03")), false), "2026-11-02", Some(&built)), "built");
    }

    #[test]
    fn a_range_stands_in_the_order_of_its_beginnings() {
        let parts = "[n.partition.day]\ntype = \"date\"\nrange_of = \"seen_at\"\ntimezone = \"Europe/Berlin\"\n";
        let days = dataset("{yyyy}/{mm}/{dd}/", parts);
        assert_eq!(firsts(&days, &["day=2026-11-10", "day=2026-11-02"]), [": day=2026-11-02"]);
        let parts = "[n.partition.hour]\ntype = \"timestamp\"\nrange_of = \"seen_at\"\ngrain = \"hour\"\n";
        let hours = dataset("hour={hour}/", parts);
        assert_eq!(
            firsts(&hours, &["hour=2026-11-01T10:00:00", "hour=2026-11-01T09:00:00"]),
            [": hour=2026-11-01T09:00:00"]
        );
    }
}
