//! Uploads in parts: an object is there when its upload is completed, not before, and an aborted one never is.
//!
//! One part is as good as many here: S3 tells of either by one event when the upload is completed.

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};

use super::lake::{DAY, Lake, NEXT, rows};

/// An upload whose part is there.
pub(super) struct Upload {
    id: String,
    part: CompletedPart,
}

impl Lake<'_> {
    /// Uploads a body, and doesn't complete the upload.
    pub(super) async fn begin_upload(&self, below: &str, body: &[u8]) -> Result<Upload> {
        let (bucket, key) = (self.bucket(), self.key(below));
        let begun = self.world.s3.create_multipart_upload().bucket(bucket).key(&key).send().await;
        let id = begun.context("cannot begin an upload")?.upload_id.context("an upload has an id")?;
        let upload = self.world.s3.upload_part().bucket(bucket).key(&key).upload_id(&id).part_number(1);
        let uploaded = upload.body(ByteStream::from(body.to_vec())).send().await.context("cannot upload a part")?;
        Ok(Upload { id, part: CompletedPart::builder().part_number(1).set_e_tag(uploaded.e_tag).build() })
    }

    /// Completes an upload.
    pub(super) async fn complete(&self, below: &str, upload: Upload) -> Result<()> {
        let parts = CompletedMultipartUpload::builder().parts(upload.part).build();
        let complete = self.world.s3.complete_multipart_upload().bucket(self.bucket()).key(self.key(below));
        complete.upload_id(upload.id).multipart_upload(parts).send().await.context("cannot complete an upload")?;
        Ok(())
    }

    async fn abort(&self, below: &str, upload: Upload) -> Result<()> {
        let abort = self.world.s3.abort_multipart_upload().bucket(self.bucket()).key(self.key(below));
        abort.upload_id(upload.id).send().await.context("cannot abort an upload")?;
        Ok(())
    }
}

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    let (small, large) = (format!("{DAY}/small.parquet"), format!("{DAY}/large.parquet"));
    let aborted = format!("{NEXT}/aborted.parquet");
    let body = rows(100..400, "large").parquet()?;
    let begun = lake.begin_upload(&large, &body).await?;
    let given_up = lake.begin_upload(&aborted, &body).await?;
    lake.write(&small, rows(0..10, "small")).await?;
    lake.wait_rows(DAY, &[rows(0..10, "small")]).await?;
    lake.ensure_rebuilds(DAY, 1..=1).await?;

    lake.abort(&aborted, given_up).await?;
    lake.complete(&large, begun).await?;
    lake.wait_rows(DAY, &[rows(0..10, "small"), rows(100..400, "large")]).await?;
    lake.ensure_rebuilds(DAY, 2..=2).await?;
    ensure!(lake.item(NEXT).await?.is_none(), "an aborted upload marks nothing");
    Ok(())
}
