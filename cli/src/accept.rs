//! What an operator lets pass, bound to the listings that were looked at.
//!
//! Missing objects, an empty source and a drop of rows are accepted of a listing. So they need the digest of the one that was
//! looked at; a listing that came since is not meant. Several partitions have one digest together, which a dry run tells.

use std::collections::BTreeSet;

use tidemark_domain::id::{Digest, PartitionName};
use tidemark_domain::partition::{Accept, PartitionItem};
use tidemark_domain::verify::GuardKind;
use tidemark_engine::selection::Chosen;

use crate::exit::Failure;

/// What may pass, and the digest that was given with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The kinds.
    pub(crate) kinds: BTreeSet<GuardKind>,
    given: Option<Digest>,
}

/// Whether what is accepted was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It was, or needn't be.
    Yes,
    /// That isn't said: this digest says it.
    Unsaid(Digest),
}

impl Accepted {
    /// The kinds as they are written, and the digest.
    pub(crate) fn read(names: &[String], digest: Option<&str>) -> Result<Self, Failure> {
        let read = |name: &String| {
            let kind = GuardKind::ALL.into_iter().find(|kind| kind.name() == name && kind.may_be_accepted());
            kind.ok_or_else(|| {
                let may = GuardKind::ALL.into_iter().filter(|kind| kind.may_be_accepted()).map(GuardKind::name);
                let may = may.collect::<Vec<_>>().join(", ");
                Failure::Usage(format!("{name:?} can't be accepted; write some of {may}"))
            })
        };
        let kinds = names.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { kinds, given: digest.map(Digest::stored) })
    }

    /// The kinds that are accepted of a listing.
    pub(crate) fn of_listings(&self) -> Vec<&'static str> {
        self.kinds.iter().filter(|kind| kind.accepted_with_digest()).map(|kind| kind.name()).collect()
    }

    /// The digest that stands for the listings that these partitions show; `None`: none is needed, or none is shown.
    pub(crate) fn shown(&self, chosen: &[Chosen]) -> Option<Digest> {
        if self.of_listings().is_empty() {
            return None;
        }
        let shown = chosen
            .iter()
            .filter_map(|chosen| Some((chosen.partition.name.clone(), shown_digest(chosen.item.as_ref()?)?)));
        let shown: Vec<(PartitionName, Digest)> = shown.collect();
        match shown.as_slice() {
            [] => None,
            [(_, digest)] => Some(digest.clone()),
            several => Some(Digest::of(
                several.iter().flat_map(|(name, digest)| [name.as_str().as_bytes(), digest.as_str().as_bytes()]),
            )),
        }
    }

    /// Whether the digest that was given is of what these partitions show; another one is refused.
    pub(crate) fn looked(&self, chosen: &[Chosen]) -> Result<Looked, Failure> {
        match (&self.given, self.shown(chosen)) {
            (Some(given), Some(shown)) if *given != shown => Err(Failure::Refused(format!(
                "digest {given} is accepted, but what is shown by now has {shown}; look again"
            ))),
            (None, Some(shown)) => Ok(Looked::Unsaid(shown)),
            (Some(_), _) | (None, None) => Ok(Looked::Yes),
        }
    }

    /// What the rebuild of one partition may let pass: bound to the listing it shows; where it shows none, to the one that was
    /// given, if that is of this partition `alone`.
    pub(crate) fn of(&self, item: Option<&PartitionItem>, alone: bool) -> Result<Option<Accept>, Failure> {
        if self.kinds.is_empty() {
            return Ok(None);
        }
        let given = self.given.clone().filter(|_| alone);
        let digest = item.and_then(shown_digest).or(given);
        if digest.is_none() && !self.of_listings().is_empty() {
            return Err(Failure::Refused(
                "there is no listing to accept: the partition is neither parked nor in a batch that has listed; \
                 replay it without --accept, then look with `tidemark show`"
                    .to_owned(),
            ));
        }
        Ok(Some(Accept { kinds: self.kinds.clone(), digest }))
    }
}

/// The digest of the listing that an operator sees: the one it was parked for, else that of the batch in progress.
pub(crate) fn shown_digest(item: &PartitionItem) -> Option<Digest> {
    let parked = item.parked.as_ref().filter(|_| item.rests_parked());
    let parked = parked.and_then(|parked| parked.digest.clone());
    parked.or_else(|| item.batch.as_ref()?.listed.as_ref().map(|listed| listed.digest.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidemark_domain::definition::parse;

    use super::*;

    fn accepted(names: &[&str], digest: Option<&str>) -> Result<Accepted, Failure> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Accepted::read(&names, digest)
    }

    fn item(parked: &Value) -> PartitionItem {
        let item = json!({ "marked": 3, "built": 2, "marked_at": 0, "fence": 4, "parked": parked });
        serde_json::from_value(item).unwrap()
    }

    fn parked(digest: &str) -> PartitionItem {
        item(&json!({ "generation": 3, "digest": digest, "kind": "empty_source", "message": "m" }))
    }

    fn chosen(items: Vec<Option<PartitionItem>>) -> Vec<Chosen> {
        let orders = "[orders]\nsource = \"s3://lake/orders/\"\nlayout = \"n={n}/\"\nformat = \"parquet\"\n\
                      target = \"sales.orders\"\ncolumns = [\"id bigint\"]\n[orders.partition.n]\ntype = \"integer\"\n";
        let orders = parse(orders).unwrap().remove(0);
        let named = |(n, item)| {
            let name = PartitionName::new(format!("n={n}")).unwrap();
            Chosen { partition: orders.partition(&name).unwrap(), item }
        };
        items.into_iter().enumerate().map(named).collect()
    }

    fn refused<T: std::fmt::Debug>(result: &Result<T, Failure>, words: &[&str]) {
        let Err(Failure::Refused(told)) = result else { panic!("{result:?}") };
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
    }

    #[test]
    fn what_is_accepted_goes_with_the_listing_that_was_looked_at() {
        let one = chosen(vec![Some(parked("seen"))]);
        let unsaid = accepted(&["empty_source", "row_drop"], None).unwrap();
        assert_eq!(unsaid.looked(&one), Ok(Looked::Unsaid(Digest::stored("seen"))));
        let said = accepted(&["empty_source", "row_drop"], Some("seen")).unwrap();
        assert_eq!(said.looked(&one), Ok(Looked::Yes));
        let accept = said.of(one[0].item.as_ref(), true).unwrap().unwrap();
        assert_eq!((accept.kinds.len(), accept.digest), (2, Some(Digest::stored("seen"))));
        refused(&said.looked(&chosen(vec![Some(parked("now"))])), &["seen", "now"]);
        // It isn't shown any more: it is held against what is listed then.
        let unshown = said.of(None, true).unwrap().unwrap();
        assert_eq!(unshown.digest, Some(Digest::stored("seen")));
    }

    #[test]
    fn several_partitions_have_one_digest_which_any_change_changes() {
        let kinds = accepted(&["empty_source"], None).unwrap();
        let digest = |items| kinds.shown(&chosen(items)).unwrap();
        let both = digest(vec![Some(parked("a")), Some(parked("b"))]);
        for other in [vec![Some(parked("b")), Some(parked("a"))], vec![Some(parked("a")), None, Some(parked("b"))]] {
            assert_ne!(digest(other), both);
        }
        let said = accepted(&["empty_source"], Some(both.as_str())).unwrap();
        let both = chosen(vec![Some(parked("a")), Some(parked("b"))]);
        assert_eq!(said.looked(&both), Ok(Looked::Yes));
        assert_eq!(said.of(both[1].item.as_ref(), false).unwrap().unwrap().digest, Some(Digest::stored("b")));
        refused(&said.of(None, false), &["no listing to accept"]);
    }

    #[test]
    fn a_listing_from_before_the_newest_mark_is_not_taken_for_it() {
        let old = item(&json!({ "generation": 2, "digest": "old", "kind": "empty_source", "message": "m" }));
        let kinds = accepted(&["empty_source"], None).unwrap();
        for item in [Some(old), None] {
            assert_eq!(kinds.shown(&chosen(vec![item.clone()])), None);
            refused(&kinds.of(item.as_ref(), true), &["no listing to accept"]);
        }
    }

    #[test]
    fn foreign_rows_are_of_the_target_and_need_no_listing() {
        let kinds = accepted(&["foreign_rows"], None).unwrap();
        assert_eq!(kinds.looked(&chosen(vec![Some(parked("a"))])), Ok(Looked::Yes));
        assert_eq!(kinds.of(None, true).unwrap().unwrap().digest, None);
    }

    #[test]
    fn only_what_may_be_accepted_is() {
        assert_eq!(accepted(&[], None).unwrap().of(None, true), Ok(None));
        let refused = accepted(&["duplicate_keys"], None);
        assert!(matches!(refused, Err(Failure::Usage(told)) if told.contains("row_drop")));
    }
}
