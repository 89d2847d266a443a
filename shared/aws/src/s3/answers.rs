//! Tests: what is asked of S3, and what becomes of its odd answers.

use bytes::Bytes;
use serde_json::Value;
use tidemark_engine::ports::{Effect, ObjectError, Objects as _};

use super::S3Objects;
use crate::stub::{Answer, Stub};

fn objects(stub: &Stub) -> S3Objects {
    let config = aws_sdk_s3::config::Builder::from(&stub.sdk).force_path_style(true);
    S3Objects::new(aws_sdk_s3::Client::from_conf(config.build()))
}

fn xml(text: &str) -> Answer {
    (200, Value::from(text))
}

fn refusal(status: u16, code: &str) -> Answer {
    (status, Value::from(format!("<Error><Code>{code}</Code><Message>m</Message></Error>")))
}

#[tokio::test]
async fn c002_a_listing_gives_keys_as_s3_holds_them() {
    let stub = Stub::answering([xml(
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>
        <EncodingType>url</EncodingType>
        <Contents><Key>raw/dt%3D2026-11-01/late+file+%2B+fix%0A.csv</Key><LastModified>2026-11-01T10:00:00.500Z</LastModified>
        <ETag>&quot;abc-2&quot;</ETag><Size>7</Size><StorageClass>GLACIER</StorageClass></Contents>
        <CommonPrefixes><Prefix>raw/a%3Db/</Prefix></CommonPrefixes></ListBucketResult>",
    )])
    .await;
    let page = objects(&stub).list("lake", "raw/", true, Some("raw/a"), None).await.unwrap();
    let object = &page.objects[0];
    assert_eq!((object.key.as_str(), object.etag.as_str()), ("raw/dt=2026-11-01/late file + fix\n.csv", "abc-2"));
    assert_eq!((object.size, object.archived), (7, true));
    assert_eq!(object.modified.to_string(), "2026-11-01T10:00:00.5Z");
    assert_eq!((page.prefixes[0].as_str(), page.next.as_deref()), ("raw/a=b/", Some("t")));
    let asked = &stub.asked()[0];
    assert!(asked.path.contains("encoding-type=url") && asked.path.contains("start-after=raw%2Fa"), "{}", asked.path);
    assert_eq!(asked.headers["x-amz-optional-object-attributes"], "RestoreStatus");
}

#[tokio::test]
async fn a_tail_is_of_the_object_asked_for_or_changed() {
    let stub = Stub::answering([
        (206, Value::from("tail")),
        refusal(412, "PreconditionFailed"),
        refusal(404, "NoSuchKey"),
        refusal(416, "InvalidRange"),
    ])
    .await;
    let objects = objects(&stub);
    assert_eq!(objects.read_tail("lake", "k", "e1", 4).await.unwrap(), Bytes::from("tail"));
    let asked = &stub.asked()[0];
    assert_eq!(
        (&asked.headers["range"], &asked.headers["if-match"]),
        (&"bytes=-4".parse().unwrap(), &"\"e1\"".parse().unwrap())
    );
    for _ in 0..2 {
        let error = objects.read_tail("lake", "k", "e1", 4).await.unwrap_err();
        assert!(matches!(error, ObjectError::Changed { .. }), "{error}");
    }
    assert_eq!(objects.read_tail("lake", "empty", "e1", 4).await.unwrap(), Bytes::new());
    assert_eq!(objects.read_tail("lake", "k", "e1", 0).await.unwrap(), Bytes::new());
    assert_eq!(stub.operations().len(), 4);
}

#[tokio::test]
async fn what_is_not_there_is_none_and_a_bucket_that_is_not_there_is_a_matter_of_configuration() {
    let stub =
        Stub::answering([refusal(404, "NoSuchKey"), refusal(404, "NoSuchBucket"), refusal(403, "AccessDenied")]).await;
    let objects = objects(&stub);
    assert_eq!(objects.get("lake", "k").await.unwrap(), None);
    for code in ["NoSuchBucket", "AccessDenied"] {
        let error = objects.get("lake", "k").await.unwrap_err();
        assert!(matches!(&error, ObjectError::Misconfigured { message, .. } if message.contains(code)), "{error}");
    }
}

#[tokio::test]
async fn a_throttled_s3_is_unavailable() {
    let stub = Stub::answering((0..3).map(|_| refusal(503, "SlowDown"))).await;
    let error = objects(&stub).put("lake", "k", Bytes::from("x")).await.unwrap_err();
    assert!(matches!(error, ObjectError::Unavailable { effect: Effect::Unknown, .. }), "{error}");
    assert!(stub.is_done());
}

#[tokio::test]
async fn an_upload_that_fails_is_aborted() {
    let begun = "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
    let stub = Stub::answering([xml(begun), refusal(403, "AccessDenied"), (204, Value::from(""))]).await;
    let mut upload = objects(&stub).upload("lake", "k").await.unwrap();
    let error = upload.write(&vec![0; 9 * 1024 * 1024]).await.unwrap_err();
    assert!(matches!(error, ObjectError::Misconfigured { .. }), "{error}");
    drop(upload);
    // The abort is sent beside: others run until it has been.
    while !stub.is_done() {
        tokio::task::yield_now().await;
    }
    let aborted = stub.asked().pop().unwrap();
    assert_eq!(aborted.operation, "DELETE");
    assert!(aborted.path.contains("uploadId=u1"), "{}", aborted.path);
}

#[tokio::test]
async fn a_completion_whose_answer_was_lost_has_an_unknown_effect() {
    let begun = "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
    let answers = [xml(begun), xml(""), xml(""), refusal(404, "NoSuchUpload"), (204, Value::from(""))];
    let stub = Stub::answering(answers).await;
    let mut upload = objects(&stub).upload("lake", "k").await.unwrap();
    upload.write(&vec![0; 9 * 1024 * 1024]).await.unwrap();
    let error = upload.finish().await.unwrap_err();
    assert!(matches!(error, ObjectError::Unavailable { effect: Effect::Unknown, .. }), "{error}");
}
