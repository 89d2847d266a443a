//! What an operator lets pass, bound to what was seen.

use std::collections::BTreeSet;

use tidemark_domain::id::Digest;
use tidemark_domain::partition::{Accept, PartitionItem};
use tidemark_domain::verify::GuardKind;

use crate::exit::Failure;

/// The kinds as they are written.
pub(crate) fn kinds(names: &[String]) -> Result<BTreeSet<GuardKind>, Failure> {
    let read = |name: &String| {
        let kind = GuardKind::ALL.into_iter().find(|kind| kind.name() == name && kind.may_be_accepted());
        kind.ok_or_else(|| {
            let may = GuardKind::ALL.into_iter().filter(|kind| kind.may_be_accepted()).map(GuardKind::name);
            Failure::Usage(format!("{name:?} can't be accepted; write some of {}", may.collect::<Vec<_>>().join(", ")))
        })
    };
    names.iter().map(read).collect()
}

/// What the rebuild of one partition may let pass. The digest that goes with it is the one that was given, or the one the
/// item shows.
pub(crate) fn of(
    kinds: &BTreeSet<GuardKind>,
    given: Option<&str>,
    item: Option<&PartitionItem>,
) -> Result<Option<Accept>, Failure> {
    if kinds.is_empty() {
        return Ok(None);
    }
    let (shown, given) = (item.and_then(shown_digest), given.map(Digest::stored));
    let needed = kinds.iter().any(|kind| kind.accepted_with_digest());
    if let (true, Some(given), Some(shown)) = (needed, &given, &shown)
        && given != shown
    {
        return Err(Failure::Refused(format!(
            "digest {given} is accepted, but the partition shows {shown} by now; look again with `tidemark show`"
        )));
    }
    let digest = given.or(shown);
    if digest.is_none() && needed {
        return Err(Failure::Refused(
            "there is no listing to accept: the partition is neither parked nor in a batch that has listed; \
             replay it without --accept, then look with `tidemark show`"
                .to_owned(),
        ));
    }
    Ok(Some(Accept { kinds: kinds.clone(), digest }))
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

    use super::*;

    fn accept(names: &[&str], digest: Option<&str>, item: Option<&PartitionItem>) -> Result<Option<Accept>, Failure> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        of(&kinds(&names)?, digest, item)
    }

    fn item(parked: &Value) -> PartitionItem {
        let item = json!({ "marked": 3, "built": 2, "marked_at": 0, "fence": 4, "parked": parked });
        serde_json::from_value(item).unwrap()
    }

    #[test]
    fn what_is_accepted_goes_with_the_listing_that_was_seen() {
        let parked = item(&json!({ "generation": 3, "digest": "seen", "kind": "empty_source", "message": "m" }));
        let accepted = accept(&["empty_source", "row_drop"], None, Some(&parked)).unwrap().unwrap();
        assert_eq!((accepted.kinds.len(), accepted.digest), (2, Some(Digest::stored("seen"))));
        let given = accept(&["empty_source"], Some("seen"), Some(&parked)).unwrap().unwrap();
        assert_eq!(given.digest, Some(Digest::stored("seen")));
        let unparked = accept(&["empty_source"], Some("seen"), None).unwrap().unwrap();
        assert_eq!(unparked.digest, Some(Digest::stored("seen")), "it is held against what is listed then");
    }

    #[test]
    fn another_listing_than_the_one_shown_is_refused_with_both_digests() {
        let parked = item(&json!({ "generation": 3, "digest": "now", "kind": "empty_source", "message": "m" }));
        let refused = accept(&["empty_source"], Some("then"), Some(&parked));
        assert!(
            matches!(&refused, Err(Failure::Refused(told)) if told.contains("then") && told.contains("now")),
            "{refused:?}"
        );
        assert!(accept(&["foreign_rows"], Some("then"), Some(&parked)).is_ok(), "needs none");
    }

    #[test]
    fn a_listing_from_before_the_newest_mark_is_not_taken_for_it() {
        let old = item(&json!({ "generation": 2, "digest": "old", "kind": "empty_source", "message": "m" }));
        assert!(matches!(accept(&["empty_source"], None, Some(&old)), Err(Failure::Refused(_))));
        assert!(matches!(accept(&["empty_source"], None, None), Err(Failure::Refused(_))));
        assert_eq!(accept(&["foreign_rows"], None, None).unwrap().unwrap().digest, None);
    }

    #[test]
    fn only_what_may_be_accepted_is() {
        assert_eq!(accept(&[], None, None), Ok(None));
        let refused = accept(&["duplicate_keys"], None, None);
        assert!(matches!(refused, Err(Failure::Usage(told)) if told.contains("row_drop")));
    }
}
