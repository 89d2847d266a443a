//! An object that is written piece by piece: one `PutObject` where it is small, a multipart upload where it isn't.

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tidemark_engine::ports::{Effect, ObjectError, Objects as _, PartUpload};

use super::{S3Objects, of};
use crate::error::Fault;

/// The size of a part; S3 wants at least 5 MiB, and 10,000 parts at most (80 GiB of these).
const PART_BYTES: usize = 8 * 1024 * 1024;

/// A multipart upload, begun in S3 with the first full part. Dropped unfinished, it is aborted as far as possible; what is
/// left of it the bucket's lifecycle rule clears away.
pub(super) struct Multipart {
    objects: S3Objects,
    bucket: String,
    key: String,
    buffer: Vec<u8>,
    upload_id: Option<String>,
    parts: Vec<CompletedPart>,
}

impl Multipart {
    pub(super) fn new(objects: S3Objects, bucket: &str, key: &str) -> Self {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Self { objects, bucket, key, buffer: Vec::new(), upload_id: None, parts: Vec::new() }
    }

    fn failed(&self, fault: &Fault) -> ObjectError {
        of(&self.bucket, &self.key, fault)
    }

    async fn upload_id(&mut self) -> Result<String, ObjectError> {
        if let Some(id) = &self.upload_id {
            return Ok(id.clone());
        }
        let operation = "CreateMultipartUpload";
        let request = self.objects.client.create_multipart_upload().bucket(&self.bucket).key(&self.key);
        let answer = request.send().await.map_err(|e| self.failed(&Fault::of(operation, &e)))?;
        let id =
            answer.upload_id().ok_or_else(|| self.failed(&Fault::unknown(operation, "Unreadable", "no upload id")))?;
        self.upload_id = Some(id.to_owned());
        Ok(id.to_owned())
    }

    /// Sends what is buffered as the next part.
    async fn send_part(&mut self) -> Result<(), ObjectError> {
        let id = self.upload_id().await?;
        let number = i32::try_from(self.parts.len() + 1).unwrap_or(i32::MAX);
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        let request = self.objects.client.upload_part().bucket(&self.bucket).key(&self.key);
        let request = request.upload_id(id).part_number(number).body(ByteStream::from(part));
        let sent = request.send().await.map_err(|e| self.failed(&Fault::of("UploadPart", &e)))?;
        let part = CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag().map(ToOwned::to_owned));
        self.parts.push(part.build());
        Ok(())
    }

    async fn complete(&mut self, id: String) -> Result<(), ObjectError> {
        let parts = CompletedMultipartUpload::builder().set_parts(Some(std::mem::take(&mut self.parts))).build();
        let request = self.objects.client.complete_multipart_upload().bucket(&self.bucket).key(&self.key);
        match request.upload_id(id).multipart_upload(parts).send().await {
            Ok(_) => {
                self.upload_id = None;
                Ok(())
            }
            Err(error) => match Fault::of("CompleteMultipartUpload", &error) {
                // Completed by an attempt whose answer was lost, or cleared away: the object tells.
                fault if fault.code == "NoSuchUpload" => {
                    Err(ObjectError::Unavailable { message: fault.to_string(), effect: Effect::Unknown })
                }
                fault => Err(self.failed(&fault)),
            },
        }
    }
}

#[async_trait]
impl PartUpload for Multipart {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), ObjectError> {
        while !bytes.is_empty() {
            if self.buffer.capacity() == 0 && self.upload_id.is_some() {
                self.buffer.reserve_exact(PART_BYTES);
            }
            let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == PART_BYTES {
                self.send_part().await?;
            }
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), ObjectError> {
        if self.upload_id.is_none() {
            let whole = Bytes::from(std::mem::take(&mut self.buffer));
            return self.objects.put(&self.bucket, &self.key, whole).await;
        }
        if !self.buffer.is_empty() {
            self.send_part().await?;
        }
        match self.upload_id.clone() {
            Some(id) => self.complete(id).await,
            None => Ok(()),
        }
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.upload_id.take(), tokio::runtime::Handle::try_current()) else { return };
        let request = self.objects.client.abort_multipart_upload().bucket(&self.bucket).key(&self.key).upload_id(id);
        runtime.spawn(async move {
            if let Err(error) = request.send().await {
                tracing::warn!(error = %Fault::of("AbortMultipartUpload", &error), "an upload was left unfinished");
            }
        });
    }
}
