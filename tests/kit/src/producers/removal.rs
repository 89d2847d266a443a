//! Files that go without a delete of theirs: lifecycle rules, deletes of versions, archive tiers.

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketVersioningStatus, GlacierJobParameters, MetadataDirective, NotificationConfiguration, RestoreRequest,
    StorageClass, Tier, VersioningConfiguration,
};
use serde_json::json;

use super::lake::{DAY, Lake, rows};
use crate::state::Queue;

/// A lifecycle rule lets a file expire: S3 tells nobody who listens to ObjectRemoved.
pub(super) async fn lifecycle(lake: Lake<'_>) -> Result<()> {
    let (old, young) = (format!("{DAY}/old.parquet"), format!("{DAY}/young.parquet"));
    lake.write(&old, rows(0..40, "old")).await?;
    lake.write(&young, rows(40..80, "young")).await?;
    lake.wait_rows(DAY, &[rows(0..40, "old"), rows(40..80, "young")]).await?;
    let marked = lake.item(DAY).await?.context("it was built")?.number("marked");

    expire(lake, &old).await?;
    ensure!(lake.target(DAY).await?.len() == 80, "the rows of an expired file stay");
    lake.write(&format!("{DAY}/new.parquet"), rows(80..90, "new")).await?;
    let message = lake.wait_parked(DAY, "missing_objects").await?;
    ensure!(message.contains("old.parquet") && message.contains("events told of 0"), "{message}");
    ensure!(lake.target(DAY).await?.len() == 80, "also once other files mark the partition");
    let now = lake.item(DAY).await?.context("it is parked")?.number("marked");
    ensure!(now > marked, "the new file marked it");

    accept(lake, "missing_objects").await?;
    lake.wait_rows(DAY, &[rows(40..80, "young"), rows(80..90, "new")]).await
}

/// Deletes an object as a lifecycle rule does: the only event is of a family that nobody has to listen to.
async fn expire(lake: Lake<'_>, below: &str) -> Result<()> {
    let (s3, bucket) = (&lake.world.s3, lake.bucket());
    let told = s3.get_bucket_notification_configuration().bucket(bucket).send().await?;
    let silent = NotificationConfiguration::builder().build();
    s3.put_bucket_notification_configuration().bucket(bucket).notification_configuration(silent).send().await?;
    lake.delete(below).await?;
    let back = NotificationConfiguration::builder()
        .set_queue_configurations(told.queue_configurations)
        .set_topic_configurations(told.topic_configurations)
        .set_event_bridge_configuration(told.event_bridge_configuration);
    s3.put_bucket_notification_configuration().bucket(bucket).notification_configuration(back.build()).send().await?;
    // Whoever subscribed to that family as well changes nothing by it.
    let event = json!({ "Records": [{
        "eventVersion": "2.3", "eventSource": "aws:s3", "eventName": "LifecycleExpiration:Delete",
        "s3": { "bucket": { "name": bucket }, "object": { "key": lake.key(below).replace('=', "%3D") } },
    }]});
    lake.world.send(Queue::Events, &event.to_string()).await
}

/// Deletes that name a version: of an old one nothing changes, of the only one the file is gone and no event counts it.
pub(super) async fn versions(lake: Lake<'_>) -> Result<()> {
    let (s3, bucket) = (&lake.world.s3, lake.bucket());
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    s3.put_bucket_versioning().bucket(bucket).versioning_configuration(enabled).send().await?;
    let [first, second] = ["a.parquet", "b.parquet"].map(|name| format!("{DAY}/{name}"));
    lake.write(&first, rows(0..40, "first")).await?;
    lake.write(&second, rows(40..80, "first")).await?;
    lake.wait_rows(DAY, &[rows(0..80, "first")]).await?;
    lake.write(&first, rows(0..40, "second")).await?;
    let now = [rows(0..40, "second"), rows(40..80, "first")];
    lake.wait_rows(DAY, &now).await?;
    let (before, marked) = (lake.rebuilds(DAY).await?, lake.item(DAY).await?.context("it was built")?.number("marked"));

    delete_version(lake, &first, false).await?;
    lake.wait("the old version's delete to be answered", DAY, || async {
        Ok(lake.item(DAY).await?.filter(|item| item.number("marked") > marked && item.rests()).map(|_| ()))
    })
    .await?;
    lake.wait_rows(DAY, &now).await?;
    lake.ensure_rebuilds(DAY, before..=before).await?;

    delete_version(lake, &second, true).await?;
    let message = lake.wait_parked(DAY, "missing_objects").await?;
    ensure!(message.contains("b.parquet") && message.contains("events told of 0"), "{message}");
    accept(lake, "missing_objects").await?;
    lake.wait_rows(DAY, &now[..1]).await
}

async fn delete_version(lake: Lake<'_>, below: &str, latest: bool) -> Result<()> {
    let (s3, bucket, key) = (&lake.world.s3, lake.bucket(), lake.key(below));
    let listed = s3.list_object_versions().bucket(bucket).prefix(&key).send().await?;
    let version = listed.versions().iter().find(|version| version.is_latest() == Some(latest));
    let version = version.and_then(|version| version.version_id()).context("there is such a version")?;
    s3.delete_object().bucket(bucket).key(&key).version_id(version).send().await?;
    Ok(())
}

/// A file that a lifecycle rule moved to Glacier before it was loaded: COPY can't read it until it is restored.
pub(super) async fn glacier(lake: Lake<'_>) -> Result<()> {
    let (s3, bucket, key) = (&lake.world.s3, lake.bucket(), lake.key(&format!("{DAY}/cold.parquet")));
    let put = s3.put_object().bucket(bucket).key(&key).storage_class(StorageClass::Glacier);
    put.body(ByteStream::from(rows(0..40, "cold").parquet()?)).send().await?;
    let message = lake.wait_parked(DAY, "archived_objects").await?;
    ensure!(message.contains("cold.parquet") && message.contains("restore"), "{message}");
    let marked = lake.item(DAY).await?.context("it is parked")?.number("marked");

    let fast = GlacierJobParameters::builder().tier(Tier::Expedited).build()?;
    let restore = RestoreRequest::builder().days(1).glacier_job_parameters(fast).build();
    s3.restore_object().bucket(bucket).key(&key).restore_request(restore).send().await?;
    lake.wait("the restore to mark it", DAY, || async {
        Ok(lake.item(DAY).await?.filter(|item| item.number("marked") > marked).map(|_| ()))
    })
    .await?;
    // Here listings don't tell of a restored copy, as S3's do; so it is copied back to where it can be read for good.
    let source = format!("{bucket}/{key}").replace('=', "%3D");
    let copy = s3.copy_object().bucket(bucket).key(&key).copy_source(source).storage_class(StorageClass::Standard);
    copy.metadata_directive(MetadataDirective::Copy).send().await?;
    lake.wait_rows(DAY, &[rows(0..40, "cold")]).await?;
    lake.ensure_rebuilds(DAY, 1..=1).await
}

/// What an operator does who has looked: replays, accepting what was shown.
async fn accept(lake: Lake<'_>, kind: &str) -> Result<()> {
    lake.world.accept(lake.producer.name(), DAY, kind).await
}
