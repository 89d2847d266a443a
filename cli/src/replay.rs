//! `tidemark replay DATASET PARTITION`

use std::collections::BTreeSet;

use tidemark_domain::dataset::Mode;
use tidemark_domain::id::Digest;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::{PartitionMessage, Replay, Wish};
use tidemark_domain::partition::{Accept, PartitionItem};
use tidemark_domain::verify::GuardKind;
use tidemark_engine::ports::Outgoing;

use crate::arguments;
use crate::cloud::{Cloud, Seen, unavailable};
use crate::console::{self, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};

/// Sends the message that asks for a rebuild, and prints it.
pub(crate) async fn run(arguments: &arguments::Replay) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let seen = cloud.look(&arguments.dataset, &arguments.partition).await?;
    if seen.head.mode == Mode::Retired {
        return Err(Failure::Refused(format!("{} is retired; apply a file that has it", seen.id.dataset)));
    }
    let accept = accept(arguments, seen.item.as_ref())?;
    let replay = Replay { reason: arguments.reason.clone(), force: !arguments.no_force, accept };
    let message = PartitionMessage { id: seen.id.clone(), wish: Wish::Replay(replay) };
    let body = message.body();
    // Held to the contract as rebuild will read it.
    PartitionMessage::parse(&body).map_err(|error| Failure::Refused(error.to_string()))?;
    let scope = Scope::of(&seen.id, seen.head.concurrency);
    let unsent = cloud.ports.queue.send(&[Outgoing { message, scope }]).await.map_err(unavailable)?;
    if let Some((_, why)) = unsent.into_iter().next() {
        return Err(unavailable(format!("the queue refused the message: {why}")));
    }
    if arguments.json {
        console::print(&format!("{body}\n"))?;
    } else {
        console::print(&told(&seen, &body))?;
    }
    Ok(Outcome::Done)
}

fn told(seen: &Seen, body: &str) -> String {
    let note = match seen.head.mode {
        Mode::Paused => format!("{WARN}note{PLAIN}: {} is paused; it is rebuilt once resumed\n", seen.id.dataset),
        Mode::Halted => format!(
            "{WARN}note{PLAIN}: {} is halted ({}); it is probed every 15 minutes\n",
            seen.id.dataset,
            seen.head.why.as_deref().unwrap_or("no reason is stored")
        ),
        Mode::Active | Mode::Retired => String::new(),
    };
    format!("{GOOD}sent{PLAIN}: {NAME}{}{PLAIN} {FAINT}{body}{PLAIN}\n{note}", seen.id)
}

/// What the rebuild may let pass. The digest that goes with it is the one that was given, or the one the item shows.
fn accept(arguments: &arguments::Replay, item: Option<&PartitionItem>) -> Result<Option<Accept>, Failure> {
    let mut kinds = BTreeSet::new();
    for name in &arguments.accept {
        let kind = GuardKind::ALL.into_iter().find(|kind| kind.name() == name && kind.may_be_accepted());
        kinds.insert(kind.ok_or_else(|| {
            let may = GuardKind::ALL.into_iter().filter(|kind| kind.may_be_accepted()).map(GuardKind::name);
            Failure::Usage(format!("{name:?} can't be accepted; write some of {}", may.collect::<Vec<_>>().join(", ")))
        })?);
    }
    if kinds.is_empty() {
        return Ok(None);
    }
    let (shown, given) = (item.and_then(shown_digest), arguments.digest.as_deref().map(Digest::stored));
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
    Ok(Some(Accept { kinds, digest }))
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

    fn asked(accept: &[&str], digest: Option<&str>) -> arguments::Replay {
        arguments::Replay {
            dataset: "orders".to_owned(),
            partition: "dt=2026-11-01".to_owned(),
            reason: None,
            no_force: false,
            accept: accept.iter().map(|kind| (*kind).to_owned()).collect(),
            digest: digest.map(str::to_owned),
            json: false,
        }
    }

    fn item(parked: &Value) -> PartitionItem {
        let item = json!({ "marked": 3, "built": 2, "marked_at": 0, "fence": 4, "parked": parked });
        serde_json::from_value(item).unwrap()
    }

    #[test]
    fn what_is_accepted_goes_with_the_listing_that_was_seen() {
        let parked = item(&json!({ "generation": 3, "digest": "seen", "kind": "empty_source", "message": "m" }));
        let accepted = accept(&asked(&["empty_source", "row_drop"], None), Some(&parked)).unwrap().unwrap();
        assert_eq!((accepted.kinds.len(), accepted.digest), (2, Some(Digest::stored("seen"))));
        let given = accept(&asked(&["empty_source"], Some("seen")), Some(&parked)).unwrap().unwrap();
        assert_eq!(given.digest, Some(Digest::stored("seen")));
        let unparked = accept(&asked(&["empty_source"], Some("seen")), None).unwrap().unwrap();
        assert_eq!(unparked.digest, Some(Digest::stored("seen")), "it is held against what is listed then");
    }

    #[test]
    fn another_listing_than_the_one_shown_is_refused_with_both_digests() {
        let parked = item(&json!({ "generation": 3, "digest": "now", "kind": "empty_source", "message": "m" }));
        let refused = accept(&asked(&["empty_source"], Some("then")), Some(&parked));
        assert!(
            matches!(&refused, Err(Failure::Refused(told)) if told.contains("then") && told.contains("now")),
            "{refused:?}"
        );
        assert!(accept(&asked(&["foreign_rows"], Some("then")), Some(&parked)).is_ok(), "needs none");
    }

    #[test]
    fn a_listing_from_before_the_newest_mark_is_not_taken_for_it() {
        let old = item(&json!({ "generation": 2, "digest": "old", "kind": "empty_source", "message": "m" }));
        assert!(matches!(accept(&asked(&["empty_source"], None), Some(&old)), Err(Failure::Refused(_))));
        assert!(matches!(accept(&asked(&["empty_source"], None), None), Err(Failure::Refused(_))));
        assert_eq!(accept(&asked(&["foreign_rows"], None), None).unwrap().unwrap().digest, None);
    }

    #[test]
    fn only_what_may_be_accepted_is() {
        assert_eq!(accept(&asked(&[], None), None), Ok(None));
        let refused = accept(&asked(&["duplicate_keys"], None), None);
        assert!(matches!(refused, Err(Failure::Usage(told)) if told.contains("row_drop")));
    }
}
