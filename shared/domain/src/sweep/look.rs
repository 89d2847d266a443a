//! Whether a partition's listing is one that nobody has dealt with yet: the net for events that were lost.

use jiff::{SignedDuration, Timestamp};

use crate::id::Digest;
use crate::partition::PartitionItem;

/// An event that takes longer is late or lost: S3 tells of most objects within seconds.
const EVENTS_TAKE: SignedDuration = SignedDuration::from_mins(10);

/// What a listing showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// The digest of it.
    pub digest: Digest,
    /// How many objects.
    pub objects: u64,
    /// When the newest of them was last modified.
    pub newest: Option<Timestamp>,
}

/// Whether the partition is to be marked for what was seen of it. `item` was read before the listing.
///
/// - On its way already: no. What is committed: no. Neither on its way nor at rest: yes, whatever is there.
/// - Parked: only if something else is there than what it was parked for, so that nobody is paged twice for the same thing.
///   If that is what was committed last, the mark brings it back to rest.
/// - Parked before a listing was whole (a file that doesn't fit the definition): only if a file came since.
pub fn is_news(item: Option<&PartitionItem>, seen: &Glance) -> bool {
    let Some(item) = item else { return seen.objects > 0 };
    if item.on_its_way() {
        return false;
    }
    if item.rests_parked() {
        let parked = item.parked.as_ref().and_then(|parked| parked.digest.as_ref());
        return match parked {
            Some(digest) => *digest != seen.digest,
            None => seen.newest.is_some_and(|newest| item.parked_since.is_none_or(|since| newest > since)),
        };
    }
    !item.at_rest() || item.last.as_ref().map_or(seen.objects > 0, |last| last.digest != seen.digest)
}

/// Whether an event was missed: a file came since the round before this one began, which is `since`, long enough before this one,
/// `now`, and its partition wasn't marked after it. Of news only; files that went, and those that were there before the first
/// round or the last, say nothing of events.
pub fn is_missed(item: Option<&PartitionItem>, seen: &Glance, since: Option<Timestamp>, now: Timestamp) -> bool {
    let (Some(newest), Some(since)) = (seen.newest, since) else { return false };
    newest > since && now.duration_since(newest) >= EVENTS_TAKE && item.is_none_or(|item| newest > item.marked_at)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(fields: &Value) -> PartitionItem {
        let mut item = json!({ "marked": 3, "built": 3, "marked_at": 0, "fence": 4 });
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(item).unwrap()
    }

    fn last(digest: &str) -> Value {
        json!({ "batch": "01936000-0000-7000-8000-000000000001", "generation": 3, "fence": 4, "digest": digest,
            "inventory": "i/", "rows": 1, "took_seconds": 1, "committed_at": 0 })
    }

    fn glance(digest: &str, objects: u64, newest: i64) -> Glance {
        let newest = (objects > 0).then(|| Timestamp::from_millisecond(newest).unwrap());
        Glance { digest: Digest::stored(digest), objects, newest }
    }

    #[test]
    fn what_was_never_marked_is_news_once_there_are_files() {
        assert!(is_news(None, &glance("a", 1, 0)));
        assert!(!is_news(None, &glance("a", 0, 0)));
    }

    #[test]
    fn what_is_committed_is_no_news_and_c186_times_do_not_matter() {
        let built = item(&json!({ "last": last("a") }));
        assert!(!is_news(Some(&built), &glance("a", 1, 99)));
        assert!(is_news(Some(&built), &glance("b", 1, -99)), "an older file is one all the same");
        assert!(is_news(Some(&built), &glance("b", 0, 0)), "vanished files");
    }

    #[test]
    fn c203_an_event_was_missed_where_a_file_came_since_the_last_round_and_no_mark_after_it() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let seen = |minutes: i64| glance("b", 1, minutes * 60_000);
        let (last_round, now) = (Some(at(100)), at(160));
        let marked = |minutes: i64| item(&json!({ "marked_at": minutes * 60_000, "last": last("a") }));
        assert!(is_missed(Some(&marked(50)), &seen(130), last_round, now));
        assert!(is_missed(None, &seen(130), last_round, now), "a new partition");
        assert!(is_missed(None, &seen(150), last_round, now), "ten minutes");
        assert!(!is_missed(None, &seen(151), last_round, now), "its event may be on its way");
        assert!(!is_missed(Some(&marked(131)), &seen(130), last_round, now), "it was marked for it");
        assert!(!is_missed(None, &seen(99), last_round, now), "the round before would have told");
        assert!(!is_missed(None, &seen(130), None, now), "a dataset that was just applied: its files were there");
        assert!(!is_missed(Some(&marked(50)), &glance("b", 0, 0), last_round, now), "files that went");
    }

    #[test]
    fn what_is_on_its_way_is_no_news() {
        let due = json!({ "work": "orders", "due_at": 0, "dirty_since": 0, "last": last("a") });
        for fields in [json!({ "marked": 4 }), json!({ "unresolved": true })] {
            let mut dirty = due.clone();
            dirty.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            assert!(!is_news(Some(&item(&dirty)), &glance("b", 1, 0)));
        }
    }

    #[test]
    fn what_has_work_to_do_and_is_in_no_index_is_news() {
        let let_go = item(&json!({ "marked": 4, "last": last("a") }));
        assert!(is_news(Some(&let_go), &glance("a", 1, 0)), "nobody else would find it");
    }

    #[test]
    fn what_is_parked_is_no_news_until_something_else_is_there() {
        let parked = |digest: Value| {
            let mut parked = json!({ "generation": 4, "kind": "k", "message": "m" });
            if !digest.is_null() {
                parked["digest"] = digest;
            }
            item(
                &json!({ "marked": 4, "last": last("a"), "parked": parked, "parked_since": 50, "parked_work": "orders" }),
            )
        };
        assert!(!is_news(Some(&parked("b".into())), &glance("b", 1, 99)));
        assert!(is_news(Some(&parked("b".into())), &glance("c", 1, 0)));
        assert!(is_news(Some(&parked("b".into())), &glance("a", 1, 0)), "back to what is committed: it comes to rest");
        assert!(!is_news(Some(&parked(Value::Null)), &glance("c", 1, 50)));
        assert!(is_news(Some(&parked(Value::Null)), &glance("c", 1, 51)), "a file came since");
    }
}
