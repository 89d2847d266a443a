//! A stored inventory that was damaged is refused, whatever happened to it; it is never read as one of fewer objects.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use bytes::Bytes;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;
use tidemark_domain::id::Digest;
use tidemark_domain::inventory::Entry;
use tidemark_engine::inventory::Parts;
use tidemark_engine::memory::{ManualClock, MemoryObjects};
use tidemark_engine::ports::Objects as _;

const INVENTORY: &str = "inventory/orders/b/l/";

fn entries(part: usize, number: usize) -> Vec<Entry> {
    let entry = |n| Entry {
        key: format!("orders/dt=2026-11-01/{part:02}-{n:02} é\"\\.parquet"),
        etag: format!("{n:032x}"),
        size: 7,
        modified: Timestamp::UNIX_EPOCH,
        rows: Some(3),
    };
    (0..number).map(entry).collect()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Stores these parts.
async fn stored(parts: &[Vec<Entry>]) -> MemoryObjects {
    let objects = MemoryObjects::new(ManualClock::new(Timestamp::UNIX_EPOCH, 1), &["control"]);
    let writer = Parts::new(&objects, "control", None);
    let mut hashes = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        hashes.push(writer.put(INVENTORY, number, part).await.unwrap());
    }
    // What an attempt before left behind.
    writer.put(INVENTORY, parts.len(), &entries(99, 1)).await.unwrap();
    writer.seal(INVENTORY, &hashes, &Digest::of([])).await.unwrap();
    objects
}

/// All entries, or the error.
async fn read(objects: &MemoryObjects) -> Result<Vec<Entry>, String> {
    let mut parts = Parts::new(objects, "control", Some(INVENTORY.to_owned()));
    let mut entries = Vec::new();
    while let Some(part) = parts.next_part().await.map_err(|error| error.to_string())? {
        entries.extend(part);
    }
    Ok(entries)
}

#[derive(Debug, Clone)]
enum Damage {
    Gone,
    Flip(Index, u8),
    Truncate(Index),
    /// Whole lines are gone: each that is left is as it was.
    Lines(Index),
    Replace(Vec<u8>),
}

fn damages() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Gone),
        (any::<Index>(), 1..=255_u8).prop_map(|(at, with)| Damage::Flip(at, with)),
        any::<Index>().prop_map(Damage::Truncate),
        any::<Index>().prop_map(Damage::Lines),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Damage::Replace),
    ]
}

fn damaged(bytes: &[u8], damage: &Damage) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    match damage {
        Damage::Gone => return None,
        Damage::Flip(at, with) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        Damage::Flip(..) => {}
        Damage::Truncate(at) => bytes.truncate(at.index(bytes.len() + 1)),
        Damage::Lines(keep) => {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
            let kept = bytes.split_inclusive(|byte| *byte == b'\n').take(keep.index(lines + 1));
            bytes = kept.collect::<Vec<_>>().concat();
        }
        Damage::Replace(with) => bytes.clone_from(with),
    }
    Some(bytes)
}

proptest! {
    #[test]
    fn a_damaged_inventory_is_refused_by_name(sizes in proptest::collection::vec(0..5_usize, 0..4), which in any::<Index>(), damage in damages()) {
        let parts: Vec<Vec<Entry>> = sizes.iter().enumerate().map(|(part, size)| entries(part, *size)).collect();
        run(async {
            let objects = stored(&parts).await;
            prop_assert_eq!(read(&objects).await, Ok(parts.concat()));
            let mut keys: Vec<String> = (0..parts.len()).map(|part| format!("{INVENTORY}part-{part:06}.jsonl")).collect();
            keys.push(format!("{INVENTORY}index.json"));
            let key = &keys[which.index(keys.len())];
            let (before, _) = objects.object("control", key).unwrap();
            match damaged(&before, &damage) {
                Some(after) if after == before => return Ok(()),
                Some(after) => objects.put("control", key, Bytes::from(after)).await.unwrap(),
                None => assert!(objects.delete("control", key)),
            }
            match read(&objects).await {
                Ok(entries) => prop_assert_eq!(entries, parts.concat(), "{}", key),
                Err(error) => prop_assert!(error.starts_with("s3://control/inventory/orders/b/l/") && error.contains("can't be read"), "{}", error),
            }
            Ok(())
        })?;
    }
}

#[test]
fn without_an_inventory_there_is_nothing() {
    run(async {
        let objects = MemoryObjects::new(ManualClock::new(Timestamp::UNIX_EPOCH, 1), &["control"]);
        assert_eq!(Parts::new(&objects, "control", None).next_part().await.unwrap(), None);
        match Parts::new(&objects, "control", Some(INVENTORY.to_owned())).next_part().await {
            Err(error) => assert_eq!(
                error.to_string(),
                "s3://control/inventory/orders/b/l/index.json can't be read: it is gone; put it back"
            ),
            read => panic!("{read:?}"),
        }
    });
}
