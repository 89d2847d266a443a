//! A stored inventory that was damaged is refused, whatever happened to it; it is never read as one of fewer objects.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use bytes::Bytes;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;
use tidemark_domain::id::Digest;
use tidemark_domain::inventory::Entry;
use tidemark_engine::inventory::{Parts, put_part, seal};
use tidemark_engine::memory::{ManualClock, MemoryObjects};
use tidemark_engine::ports::Objects as _;

const FOLDER: &str = "inventory/orders/b/";

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

fn control() -> MemoryObjects {
    MemoryObjects::new(ManualClock::new(Timestamp::UNIX_EPOCH, 1), &["control"])
}

/// Stores these parts and their index; gives its key.
async fn stored(objects: &MemoryObjects, parts: &[Vec<Entry>]) -> String {
    let mut hashes = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        hashes.push(put_part(objects, "control", FOLDER, number, part).await.unwrap());
    }
    seal(objects, "control", FOLDER, &hashes, &Digest::of([])).await.unwrap()
}

/// All entries, or the error.
async fn read(objects: &MemoryObjects, inventory: &str) -> Result<Vec<Entry>, String> {
    let mut parts = Parts::new(objects, "control", Some(inventory.to_owned()));
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
            let objects = control();
            let inventory = stored(&objects, &parts).await;
            prop_assert_eq!(read(&objects, &inventory).await, Ok(parts.concat()));
            let keys = objects.keys("control");
            prop_assert_eq!(keys.len(), parts.len() + 1);
            let key = &keys[which.index(keys.len())];
            let (before, _) = objects.object("control", key).unwrap();
            match damaged(&before, &damage) {
                Some(after) if after == before => return Ok(()),
                Some(after) => objects.put("control", key, Bytes::from(after)).await.unwrap(),
                None => assert!(objects.delete("control", key)),
            }
            let error = read(&objects, &inventory).await.unwrap_err();
            prop_assert!(error.starts_with(&format!("s3://control/{key} can't be read: ")), "{}", error);
            Ok(())
        })?;
    }
}

proptest! {
    /// Another attempt of the same batch wrote other parts, and what it wrote arrives again, at the latest.
    #[test]
    fn what_another_attempt_writes_changes_nothing(
        sizes in proptest::collection::vec(0..5_usize, 0..4), others in proptest::collection::vec(0..5_usize, 0..4)
    ) {
        let parts: Vec<Vec<Entry>> = sizes.iter().enumerate().map(|(part, size)| entries(part, *size)).collect();
        let other: Vec<Vec<Entry>> = others.iter().enumerate().map(|(part, size)| entries(part, *size)).collect();
        run(async {
            let objects = control();
            let inventory = stored(&objects, &parts).await;
            let another = stored(&objects, &other).await;
            prop_assert_eq!(read(&objects, &inventory).await, Ok(parts.concat()));
            prop_assert_eq!(read(&objects, &another).await, Ok(other.concat()));
            Ok(())
        })?;
    }
}

#[test]
fn without_an_inventory_there_is_nothing() {
    run(async {
        let objects = control();
        assert_eq!(Parts::new(&objects, "control", None).next_part().await.unwrap(), None);
        assert_eq!(
            read(&objects, "inventory/orders/b/index-0.json").await,
            Err("s3://control/inventory/orders/b/index-0.json can't be read: it is gone; put it back, or replay, which lists anew"
                .to_owned())
        );
    });
}
