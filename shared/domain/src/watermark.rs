//! Up to where a dataset is built: what `docs/watermark.md` says, made from the partitions that aren't.

use std::collections::BTreeMap;

use crate::definition::Definition;
use crate::id::PartitionName;
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

/// Whether everything known up to `partition` and with it is built, where `first` is the first that isn't.
pub fn reaches(first: Option<&Partition>, partition: &Partition) -> bool {
    first.is_none_or(|first| first.values > partition.values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;

    fn dataset(layout: &str, parts: &str) -> Definition {
        let toml = format!(
            "[n]\nsource = \"s3://lake-raw/n/\"\nlayout = \"{layout}\"\nformat = \"csv\"\ntarget = \"a.n\"\n\
             columns = [\"id bigint\"]\n{parts}"
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
        let first = day("2026-11-03");
        assert!(reaches(Some(&first), &day("2026-11-02")) && reaches(None, &first));
        assert!(!reaches(Some(&first), &first) && !reaches(Some(&first), &day("2026-11-04")));
    }
}
