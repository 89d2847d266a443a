//! Files of each format, from S3 to the target, each by its name. Every type, compression, layout and mode of them is played by
//! `cargo shapes`.

use anyhow::Result;
use jiff::civil::date;
use tidemark_kit::files::{self, Cell, Compression, Format, Table, Type};
use tidemark_kit::state::Item;
use tidemark_kit::{Dataset, Settings, World};

const PARTITION: &str = "dt=2026-11-01";

/// A world with one dataset `goods` of these columns, and one file of it; waits for rest.
async fn landed(format: &str, options: &str, columns: &[&str], file: Vec<u8>) -> Result<World> {
    let world = World::deploy(&Settings::default()).await?;
    world.execute(&format!("CREATE SCHEMA shop; CREATE TABLE shop.goods ({}, dt date);", columns.join(", "))).await?;
    world.tidemark_well(&["init"]).await?;
    let columns = columns.iter().map(|column| format!("\"{}\"", column.replace("jsonb", "super"))).collect::<Vec<_>>();
    let definition = format!(
        "[goods]\nsource = \"s3://lake-raw/goods/\"\nlayout = \"dt={{dt}}/\"\nformat = \"{format}\"\ntarget = \"shop.goods\"\n\
         columns = [{}]\nkey = [\"id\"]\nrequired = [\"id\"]\ninterval = \"0s\"\n[goods.partition.dt]\ntype = \"date\"\n{options}",
        columns.join(", ")
    );
    world.apply(&definition).await?;
    world.put(&format!("goods/{PARTITION}/a file+é"), file).await?;
    let rests = || async {
        let item = world.item_named("goods", PARTITION).await?;
        if let Some((kind, why)) = item.as_ref().and_then(Item::parked) {
            anyhow::bail!("it is parked: {kind}: {why}");
        }
        Ok(item.filter(Item::rests).map(|_| ()))
    };
    world.wait("the file to land", &Dataset::Orders.day("2026-11-01"), rests).await?;
    Ok(world)
}

async fn lands(format: Format, compression: Compression, options: &str) -> Result<()> {
    let columns =
        [("id", Type::BigInt), ("name", Type::Varchar(40)), ("price", Type::Decimal(12, 2)), ("sold", Type::Timestamp)];
    let at = date(2026, 11, 1).at(7, 30, 0, 123_456_000);
    let table = Table {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind)).to_vec(),
        rows: vec![
            vec![Cell::Int(1), Cell::Text("Zoë, \"Z\"\n雪".to_owned()), Cell::Decimal(1205, 2), Cell::Timestamp(at)],
            vec![Cell::Int(2), Cell::Null, Cell::Decimal(-1, 2), Cell::Null],
        ],
    };
    let file = files::write(format, compression, &table)?;
    let told = ["id bigint", "name varchar(40)", "price decimal(12,2)", "sold timestamp"];
    let world = landed(format.name(), options, &told, file).await?;
    let right = "SELECT count(*) FROM shop.goods WHERE dt = '2026-11-01' AND (id = 1 AND name = E'Zoë, \"Z\"\\n雪' AND price = 12.05 \
                 AND sold = '2026-11-01 07:30:00.123456' OR id = 2 AND name IS NULL AND price = -0.01 AND sold IS NULL)";
    assert_eq!(world.count(right).await?, 2);
    assert_eq!(world.count("SELECT count(*) FROM shop.goods").await?, 2);
    Ok(())
}

#[tokio::test]
async fn parquet_lands() -> Result<()> {
    lands(Format::Parquet, Compression::Snappy, "").await
}

#[tokio::test]
async fn orc_lands() -> Result<()> {
    lands(Format::Orc, Compression::Deflate, "").await
}

#[tokio::test]
async fn csv_lands() -> Result<()> {
    lands(Format::Csv, Compression::Zstd, "[goods.csv]\nignore_header = 1\ncompression = \"zstd\"\n").await
}

#[tokio::test]
async fn json_lands() -> Result<()> {
    lands(Format::Json, Compression::Bzip2, "[goods.json]\ncompression = \"bzip2\"\n").await
}

#[tokio::test]
async fn avro_lands() -> Result<()> {
    lands(Format::Avro, Compression::Deflate, "").await
}

/// Structs, lists and maps of Arrow's C++ library.
async fn nested_lands(format: &str, file: &[u8]) -> Result<()> {
    let columns = ["id bigint", "profile jsonb", "marks jsonb", "sizes jsonb", "deep jsonb", "note jsonb"];
    let world = landed(format, "", &columns, file.to_vec()).await?;
    let right = "SELECT count(*) FROM shop.goods WHERE id = 1 AND profile->>'name' = 'Zoë \"Z\"' AND profile->'tags'->>2 = E'b\\nc' \
                 AND marks = '[1,2,3]' AND sizes = '{\"s\":0.5,\"m\":null}' AND deep = '[{\"x\":[1]},null]' AND note = '\"plain\"'";
    assert_eq!(world.count(right).await?, 1);
    assert_eq!(world.count("SELECT count(*) FROM shop.goods WHERE note IS NULL OR profile IS NULL").await?, 2);
    Ok(())
}

#[tokio::test]
async fn nested_parquet_fills_a_super() -> Result<()> {
    nested_lands("parquet", include_bytes!("../../../../local/redshift-data/tests/it/data/nested.parquet")).await
}

#[tokio::test]
async fn nested_orc_fills_a_super() -> Result<()> {
    nested_lands("orc", include_bytes!("../../../../local/redshift-data/tests/it/data/nested.orc")).await
}
