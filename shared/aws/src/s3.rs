//! Objects in S3.

#[cfg(test)]
mod answers;
mod upload;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{EncodingType, Object, ObjectStorageClass, OptionalObjectAttributes};
use bytes::Bytes;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use tidemark_engine::ports::{Effect, ListedObject, ObjectError, Objects, Page, PartUpload};

use self::upload::Multipart;
use crate::error::{Cause, Fault};

/// Objects in S3.
#[derive(Debug, Clone)]
pub struct S3Objects {
    client: Client,
}

impl S3Objects {
    /// The buckets that `client` reaches.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Objects for S3Objects {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: bool,
        start_after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError> {
        let request = self
            .client
            .list_objects_v2()
            .bucket(bucket)
            .prefix(prefix)
            // Keys may hold characters that XML can't.
            .encoding_type(EncodingType::Url)
            .optional_object_attributes(OptionalObjectAttributes::RestoreStatus)
            .set_delimiter(delimiter.then(|| "/".to_owned()))
            .set_start_after(start_after.map(ToOwned::to_owned))
            .set_continuation_token(next.map(ToOwned::to_owned));
        let answer = request.send().await.map_err(|e| of(bucket, prefix, &Fault::of("ListObjectsV2", &e)))?;
        let decode = |text: &str| match answer.encoding_type() {
            Some(EncodingType::Url) => url_decode(text),
            _ => Some(text.to_owned()),
        };
        let odd = |what: &str| of(bucket, prefix, &Fault::unknown("ListObjectsV2", "Unreadable", what));
        let objects = answer.contents().iter().map(|object| listed(object, decode).ok_or_else(|| odd("an object")));
        let prefixes = answer.common_prefixes().iter();
        let prefixes = prefixes.map(|p| p.prefix().and_then(decode).ok_or_else(|| odd("a common prefix")));
        let next = match answer.is_truncated() {
            Some(true) => {
                Some(answer.next_continuation_token().ok_or_else(|| odd("no continuation token"))?.to_owned())
            }
            _ => None,
        };
        Ok(Page { objects: objects.collect::<Result<_, _>>()?, prefixes: prefixes.collect::<Result<_, _>>()?, next })
    }

    async fn read_tail(&self, bucket: &str, key: &str, etag: &str, length: u64) -> Result<Bytes, ObjectError> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let request = self.client.get_object().bucket(bucket).key(key);
        let request = request.range(format!("bytes=-{length}")).if_match(format!("\"{etag}\""));
        match request.send().await {
            Ok(answer) => body(bucket, key, answer).await,
            Err(error) => {
                let fault = Fault::of("GetObject", &error);
                match fault.code.as_str() {
                    "PreconditionFailed" | "Http412" | "NoSuchKey" => {
                        Err(ObjectError::Changed { bucket: bucket.to_owned(), key: key.to_owned() })
                    }
                    // An empty object has no last bytes.
                    "InvalidRange" => Ok(Bytes::new()),
                    _ => Err(of(bucket, key, &fault)),
                }
            }
        }
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, ObjectError> {
        match self.client.get_object().bucket(bucket).key(key).send().await {
            Ok(answer) => Ok(Some(body(bucket, key, answer).await?)),
            Err(error) => match Fault::of("GetObject", &error) {
                fault if fault.code == "NoSuchKey" => Ok(None),
                fault => Err(of(bucket, key, &fault)),
            },
        }
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let request = self.client.put_object().bucket(bucket).key(key).body(ByteStream::from(bytes));
        request.send().await.map_err(|e| of(bucket, key, &Fault::of("PutObject", &e)))?;
        Ok(())
    }

    async fn upload(&self, bucket: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError> {
        Ok(Box::new(Multipart::new(self.clone(), bucket, key)))
    }
}

/// One object of a listing; `None` where the service left out what it always gives.
fn listed(object: &Object, decode: impl Fn(&str) -> Option<String>) -> Option<ListedObject> {
    let modified = object.last_modified()?;
    Some(ListedObject {
        key: object.key().and_then(decode)?,
        etag: object.e_tag()?.trim_matches('"').to_owned(),
        size: u64::try_from(object.size()?).ok()?,
        modified: Timestamp::new(modified.secs(), i32::try_from(modified.subsec_nanos()).ok()?).ok()?,
        archived: is_archived(object),
    })
}

/// Whether an object can't be read. The archive tiers of `INTELLIGENT_TIERING` aren't told by a listing.
fn is_archived(object: &Object) -> bool {
    let in_archive =
        matches!(object.storage_class(), Some(ObjectStorageClass::Glacier | ObjectStorageClass::DeepArchive));
    // A restored copy has a date until which it is kept; one on its way has none.
    let restored = object.restore_status().is_some_and(|status| status.restore_expiry_date().is_some());
    in_archive && !restored
}

/// S3's `encoding-type=url` is that of forms: `+` is a blank, a plus is `%2B`.
fn url_decode(text: &str) -> Option<String> {
    Some(percent_decode_str(&text.replace('+', " ")).decode_utf8().ok()?.into_owned())
}

async fn body(bucket: &str, key: &str, answer: GetObjectOutput) -> Result<Bytes, ObjectError> {
    let read = answer.body.collect().await;
    read.map(aws_sdk_s3::primitives::AggregatedBytes::into_bytes).map_err(|error| ObjectError::Unavailable {
        message: format!("GetObject s3://{bucket}/{key}: the answer broke off: {error}"),
        effect: Effect::NotApplied,
    })
}

fn of(bucket: &str, key: &str, fault: &Fault) -> ObjectError {
    match fault.cause {
        Cause::Refused if fault.code == "InvalidObjectState" => {
            ObjectError::Archived { bucket: bucket.to_owned(), key: key.to_owned() }
        }
        Cause::Throttled | Cause::Unreachable => {
            ObjectError::Unavailable { message: fault.to_string(), effect: fault.effect }
        }
        Cause::Refused => {
            ObjectError::Misconfigured { bucket: bucket.to_owned(), key: key.to_owned(), message: fault.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::primitives::DateTime;
    use aws_sdk_s3::types::RestoreStatus;

    use super::*;

    /// By the archive tiers of `INTELLIGENT_TIERING`, or a lifecycle rule since the listing.
    #[test]
    fn an_object_in_an_archive_is_no_denied_bucket() {
        let of_code = |code: &str| {
            let cause = Cause::Refused;
            let (code, message) = (code.to_owned(), "status 403".to_owned());
            of("lake", "a", &Fault { operation: "GetObject", code, message, cause, effect: Effect::NotApplied })
        };
        assert!(matches!(of_code("InvalidObjectState"), ObjectError::Archived { .. }));
        assert!(matches!(of_code("AccessDenied"), ObjectError::Misconfigured { .. }));
    }

    #[test]
    fn a_listed_key_is_decoded_as_a_form() {
        assert_eq!(
            url_decode("dt%3D2026-11-01/late+file+%2B+fix%0A.csv").unwrap(),
            "dt=2026-11-01/late file + fix\n.csv"
        );
        assert_eq!(url_decode("a%20b/%E9%9B%AA").unwrap(), "a b/雪");
        assert_eq!(url_decode("%FF"), None);
    }

    #[test]
    fn archived_is_what_lies_in_an_archive_class_and_is_not_restored() {
        let object = |class: ObjectStorageClass, restore: Option<RestoreStatus>| {
            Object::builder().storage_class(class).set_restore_status(restore).build()
        };
        let under_way = RestoreStatus::builder().is_restore_in_progress(true).build();
        let restored = RestoreStatus::builder()
            .is_restore_in_progress(false)
            .restore_expiry_date(DateTime::from_secs(1_793_491_200))
            .build();
        assert!(!is_archived(&object(ObjectStorageClass::Standard, None)));
        assert!(!is_archived(&object(ObjectStorageClass::GlacierIr, None)));
        assert!(is_archived(&object(ObjectStorageClass::Glacier, None)));
        assert!(is_archived(&object(ObjectStorageClass::DeepArchive, Some(under_way))));
        assert!(!is_archived(&object(ObjectStorageClass::DeepArchive, Some(restored))));
    }
}
