//! The guarantees of [`Objects`].

use std::sync::Arc;

use bytes::Bytes;

use super::fresh;
use crate::ports::{ListedObject, ObjectError, Objects};

/// S3's page size, and so the port's.
const PAGE: usize = 1_000;

/// Every guarantee, below a fresh prefix of `bucket`.
pub async fn all(objects: Arc<dyn Objects>, bucket: &str) {
    a_write_shows_at_once(&*objects, bucket).await;
    the_tail_is_that_of_the_object_asked_for(&*objects, bucket).await;
    keys_are_kept_byte_for_byte_and_sorted_by_bytes(&*objects, bucket).await;
    a_delimiter_gives_common_prefixes(&*objects, bucket).await;
    a_listing_starts_after_a_key(&*objects, bucket).await;
    a_long_listing_comes_in_pages(&*objects, bucket).await;
    an_upload_appears_at_its_end(&*objects, bucket).await;
    a_missing_bucket_is_misconfigured(&*objects).await;
    a_reader_sees_an_object_whole(objects, bucket).await;
}

async fn put(objects: &dyn Objects, bucket: &str, key: &str, bytes: &[u8]) {
    objects.put(bucket, key, Bytes::copy_from_slice(bytes)).await.unwrap();
}

/// All pages of a listing: objects and common prefixes.
async fn list(
    objects: &dyn Objects,
    bucket: &str,
    prefix: &str,
    delimiter: bool,
    start_after: Option<&str>,
) -> (Vec<ListedObject>, Vec<String>) {
    let (mut listed, mut prefixes, mut next): (Vec<ListedObject>, Vec<String>, Option<String>) = (vec![], vec![], None);
    loop {
        let page = objects.list(bucket, prefix, delimiter, start_after, next.as_deref()).await.unwrap();
        let entries = page.objects.len() + page.prefixes.len();
        assert!(entries <= PAGE, "a page of {entries}");
        assert!(entries > 0 || page.next.is_none(), "an empty page says that there is another");
        listed.extend(page.objects);
        prefixes.extend(page.prefixes);
        next = page.next;
        if next.is_none() {
            return (listed, prefixes);
        }
    }
}

async fn keys(objects: &dyn Objects, bucket: &str, prefix: &str, start_after: Option<&str>) -> Vec<String> {
    list(objects, bucket, prefix, false, start_after).await.0.into_iter().map(|object| object.key).collect()
}

/// After a put: it is listed with its size, read as it is; after another put it is another object, with another `ETag`.
pub async fn a_write_shows_at_once(objects: &dyn Objects, bucket: &str) {
    let key = format!("{}/object", fresh());
    assert_eq!(objects.get(bucket, &key).await.unwrap(), None, "there is no object yet");
    assert_eq!(list(objects, bucket, &key, false, None).await, (vec![], vec![]));
    let mut etags = vec![];
    for bytes in [b"first".as_slice(), b"the second", b""] {
        put(objects, bucket, &key, bytes).await;
        assert_eq!(objects.get(bucket, &key).await.unwrap().as_deref(), Some(bytes));
        let (listed, _) = list(objects, bucket, &key, false, None).await;
        let [object] = listed.as_slice() else { panic!("one object was put, listed are {listed:?}") };
        assert_eq!((object.key.as_str(), object.size, object.archived), (key.as_str(), bytes.len() as u64, false));
        assert!(!object.etag.is_empty() && !object.etag.contains('"'), "an etag without quotes: {:?}", object.etag);
        etags.push(object.etag.clone());
    }
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), 3, "other bytes, another etag");
}

/// The tail is the last bytes, all of a shorter object; and it is refused where the object isn't the one that was listed.
pub async fn the_tail_is_that_of_the_object_asked_for(objects: &dyn Objects, bucket: &str) {
    let key = format!("{}/tail", fresh());
    put(objects, bucket, &key, b"0123456789").await;
    let etag = list(objects, bucket, &key, false, None).await.0.remove(0).etag;
    for (length, expected) in [(4, b"6789".as_slice()), (10, b"0123456789"), (99, b"0123456789")] {
        let tail = objects.read_tail(bucket, &key, &etag, length).await.unwrap();
        assert_eq!(tail, expected, "the last {length} bytes");
    }
    put(objects, bucket, &key, b"another").await;
    let changed = objects.read_tail(bucket, &key, &etag, 4).await;
    assert!(matches!(changed, Err(ObjectError::Changed { .. })), "another object stands there: {changed:?}");
    let gone = objects.read_tail(bucket, &format!("{key}-gone"), &etag, 4).await;
    assert!(matches!(gone, Err(ObjectError::Changed { .. })), "no object stands there: {gone:?}");
}

/// Keys are what they are, and sorted as UTF-8 bytes (which is not the order of UTF-16).
pub async fn keys_are_kept_byte_for_byte_and_sorted_by_bytes(objects: &dyn Objects, bucket: &str) {
    let prefix = format!("{}/", fresh());
    let long = "k".repeat(1_024 - prefix.len());
    let names = [
        "A",
        "B=1/%3D",
        "a",
        "a b+c",
        "a%20b",
        "a&b",
        "a'b\"c",
        "a//b",
        "a/b",
        "b",
        long.as_str(),
        "z",
        "e\u{301}",
        "\u{e9}",
        "\u{fffd}",
        "\u{10000}",
    ];
    let mut expected: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
    for key in &expected {
        put(objects, bucket, key, key.as_bytes()).await;
    }
    expected.sort();
    assert_eq!(keys(objects, bucket, &prefix, None).await, expected);
    for key in &expected {
        assert_eq!(objects.get(bucket, key).await.unwrap().as_deref(), Some(key.as_bytes()), "the object {key:?}");
    }
}

/// With a delimiter: objects directly below the prefix, and what lies deeper once, as whole keys up to the next `/`.
pub async fn a_delimiter_gives_common_prefixes(objects: &dyn Objects, bucket: &str) {
    let root = format!("{}/", fresh());
    for name in ["dt=1/a", "dt=1/b", "dt=1/hour=1/c", "dt=2/a", "file", "dt=1-x", "\u{e9} x/a"] {
        put(objects, bucket, &format!("{root}{name}"), b"x").await;
    }
    let (listed, prefixes) = list(objects, bucket, &root, true, None).await;
    let listed: Vec<String> = listed.into_iter().map(|object| object.key).collect();
    assert_eq!(listed, ["dt=1-x", "file"].map(|name| format!("{root}{name}")));
    assert_eq!(prefixes, ["dt=1/", "dt=2/", "\u{e9} x/"].map(|name| format!("{root}{name}")));
    let (listed, prefixes) = list(objects, bucket, &format!("{root}dt=1"), true, None).await;
    assert_eq!(listed.len(), 1, "a prefix need not end in a delimiter: {listed:?}");
    assert_eq!(prefixes, [format!("{root}dt=1/")]);
}

/// `start_after` skips keys up to and including it, whether there is such a key or not.
pub async fn a_listing_starts_after_a_key(objects: &dyn Objects, bucket: &str) {
    let prefix = format!("{}/", fresh());
    for name in ["a", "b", "c"] {
        put(objects, bucket, &format!("{prefix}{name}"), b"x").await;
    }
    for (after, expected) in [("", "abc"), ("a", "bc"), ("aa", "bc"), ("c", ""), ("z", "")] {
        let found = keys(objects, bucket, &prefix, Some(&format!("{prefix}{after}"))).await;
        let expected: Vec<String> = expected.chars().map(|name| format!("{prefix}{name}")).collect();
        assert_eq!(found, expected, "after {after:?}");
    }
}

/// More objects than a page holds: every one is listed once, in order, also where `next` is taken up much later.
pub async fn a_long_listing_comes_in_pages(objects: &dyn Objects, bucket: &str) {
    let prefix = format!("{}/", fresh());
    let expected: Vec<String> = (0..PAGE + 5).map(|n| format!("{prefix}{n:05}/x")).collect();
    for chunk in expected.chunks(32) {
        futures::future::join_all(chunk.iter().map(|key| put(objects, bucket, key, b"x"))).await;
    }
    assert_eq!(keys(objects, bucket, &prefix, None).await, expected);
    let (listed, prefixes) = list(objects, bucket, &prefix, true, None).await;
    assert!(listed.is_empty(), "everything lies deeper");
    assert_eq!(prefixes.len(), expected.len(), "each common prefix once, over pages too");
    let first = objects.list(bucket, &prefix, false, None, None).await.unwrap();
    assert_eq!(first.objects.len(), PAGE, "the first page is full");
    // S3's tokens don't hold a snapshot: what comes later shows.
    let late = format!("{prefix}99999/x");
    put(objects, bucket, &late, b"x").await;
    let rest = objects.list(bucket, &prefix, false, None, first.next.as_deref()).await.unwrap();
    let rest: Vec<String> = rest.objects.into_iter().map(|object| object.key).collect();
    assert_eq!(rest, [&expected[PAGE..], &[late]].concat());
}

/// An upload is no object before it is finished; then it is there whole, also where it is longer than one part.
pub async fn an_upload_appears_at_its_end(objects: &dyn Objects, bucket: &str) {
    for pieces in [0, 3, 40] {
        let key = format!("{}/upload", fresh());
        let piece: Vec<u8> = (0..500_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
        let mut upload = objects.upload(bucket, &key).await.unwrap();
        for _ in 0..pieces {
            upload.write(&piece).await.unwrap();
            assert_eq!(objects.get(bucket, &key).await.unwrap(), None, "nothing appears before the end");
        }
        upload.finish().await.unwrap();
        let found = objects.get(bucket, &key).await.unwrap();
        assert!(found.is_some_and(|found| found == piece.repeat(pieces)), "{pieces} pieces, whole and in order");
        let listed = keys(objects, bucket, &key, None).await;
        assert_eq!(listed, [key]);
    }
    let key = format!("{}/dropped", fresh());
    let mut upload = objects.upload(bucket, &key).await.unwrap();
    upload.write(b"lost").await.unwrap();
    drop(upload);
    assert_eq!(objects.get(bucket, &key).await.unwrap(), None, "an upload that is dropped makes no object");
}

/// A bucket that isn't there is a mistake of the settings, told as such.
pub async fn a_missing_bucket_is_misconfigured(objects: &dyn Objects) {
    let bucket = format!("none-{}", fresh());
    let told = [
        objects.list(&bucket, "", false, None, None).await.err(),
        objects.get(&bucket, "key").await.err(),
        objects.put(&bucket, "key", Bytes::new()).await.err(),
    ];
    for error in told {
        assert!(matches!(error, Some(ObjectError::Misconfigured { .. })), "a missing bucket is told as {error:?}");
    }
}

/// While an object is put again and again, a reader sees one of them whole.
pub async fn a_reader_sees_an_object_whole(objects: Arc<dyn Objects>, bucket: &str) {
    let key = format!("{}/raced", fresh());
    put(&*objects, bucket, &key, &vec![0; 100_000]).await;
    let writers: Vec<_> = (0..4_u8)
        .map(|writer| {
            let (objects, bucket, key) = (objects.clone(), bucket.to_owned(), key.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    put(&*objects, &bucket, &key, &vec![writer; 100_000 + usize::from(writer)]).await;
                }
            })
        })
        .collect();
    for _ in 0..40 {
        let found = objects.get(bucket, &key).await.unwrap().unwrap();
        assert!(found.iter().all(|byte| *byte == found[0]), "a mixture of two objects was read");
        assert_eq!(found.len(), 100_000 + usize::from(found[0]), "a part of an object was read");
    }
    for writer in writers {
        writer.await.unwrap();
    }
}
