//! Producers as they are: each plays its calls of S3 through the real events, and says itself what must come of them.

use anyhow::Result;
use tidemark_kit::{Producer, Settings, World};

/// A stack with the datasets of these producers, and nothing else.
async fn world_of(producers: &[Producer]) -> Result<World> {
    let definitions: Vec<String> = producers.iter().map(|producer| producer.definition()).collect();
    let world = World::deploy(&Settings::default()).await?;
    world.execute("CREATE SCHEMA shapes").await?;
    for producer in producers {
        world.execute(&producer.create_target()).await?;
    }
    world.tidemark_well(&["init"]).await?;
    world.apply(&definitions.join("\n")).await?;
    Ok(world)
}

async fn alone(producer: Producer) -> Result<()> {
    producer.play(&world_of(&[producer]).await?).await
}

#[tokio::test]
async fn c061_c062_spark_overwrites_and_nobody_sees_an_empty_day() -> Result<()> {
    alone(Producer::SparkOverwrite).await
}

#[tokio::test]
async fn c063_spark_overwrites_dynamically_and_leaves_other_days_alone() -> Result<()> {
    alone(Producer::SparkDynamicOverwrite).await
}

#[tokio::test]
async fn c064_the_magic_committer_marks_once() -> Result<()> {
    alone(Producer::SparkMagicCommitter).await
}

#[tokio::test]
async fn glue_that_appends_twice_is_held_up_by_its_keys() -> Result<()> {
    alone(Producer::Glue).await
}

#[tokio::test]
async fn athena_makes_inserts_and_makes_again() -> Result<()> {
    alone(Producer::Athena).await
}

#[tokio::test]
async fn c057_firehose_delivers_by_the_hour_and_late() -> Result<()> {
    alone(Producer::Firehose).await
}

#[tokio::test]
async fn dms_writes_a_full_load_beside_changes() -> Result<()> {
    alone(Producer::Dms).await
}

#[tokio::test]
async fn an_upload_in_parts_marks_when_it_is_completed() -> Result<()> {
    alone(Producer::MultipartUpload).await
}

#[tokio::test]
async fn c118_a_file_written_anew_under_the_copy_is_loaded_as_it_then_is() -> Result<()> {
    alone(Producer::ReplacedUnderCopy).await
}

#[tokio::test]
async fn c024_lifecycle_expiry_empties_nothing() -> Result<()> {
    alone(Producer::LifecycleExpiry).await
}

#[tokio::test]
async fn c026_deletes_of_versions_mark_and_are_not_counted() -> Result<()> {
    alone(Producer::VersionDelete).await
}

#[tokio::test]
async fn c031_what_lies_in_glacier_parks_until_it_is_restored() -> Result<()> {
    alone(Producer::Glacier).await
}

#[tokio::test]
async fn a_stream_that_never_ends_is_rebuilt_at_its_interval() -> Result<()> {
    alone(Producer::Restless).await
}
