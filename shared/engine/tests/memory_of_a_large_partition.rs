//! A partition of 100,000 objects, Parquet or ORC, with keys of 1,024 bytes is listed, its footers read, its manifest written
//! and listed again within the memory of a 128 MiB function.
//!
//! The test is alone in its binary, since it measures the process's peak. S3 is on disk or computed, so that it doesn't
//! count.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tidemark_domain::definition;
use tidemark_domain::id::PartitionName;
use tidemark_engine::inventory::{Built, Listing, Recheck, build, manifest, recheck};
use tidemark_engine::ports::{ListedObject, ObjectError, Objects, Page, PartUpload};

const OBJECTS: usize = 100_000;
const PAGE: usize = 1000;
const PREFIX: &str = "orders/dt=2026-11-01/";
/// A 128 MiB function, less what the Lambda runtime and the SDK's clients take (about 40 MiB).
const LIMIT_KIB: u64 = 88 * 1024;

/// Lists 100,000 objects out of nothing; keeps what is put on disk.
struct Lake {
    folder: PathBuf,
    footer: Bytes,
    tails: AtomicU64,
}

fn key(n: usize) -> String {
    let name = format!("{n:08}-");
    format!("{PREFIX}{name}{}", "x".repeat(1024 - PREFIX.len() - name.len()))
}

impl Lake {
    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key.replace('/', "_"))
    }
}

#[async_trait]
impl Objects for Lake {
    async fn list(
        &self,
        _bucket: &str,
        prefix: &str,
        delimiter: bool,
        after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError> {
        if delimiter {
            return Ok(Page { prefixes: vec![PREFIX.to_owned()], ..Page::default() });
        }
        assert_eq!(prefix, PREFIX);
        let number = |key: &str| key[PREFIX.len()..PREFIX.len() + 8].parse::<usize>().unwrap() + 1;
        let from = next.map_or_else(|| after.map_or(0, number), |next| next.parse().unwrap());
        let to = (from + PAGE).min(OBJECTS);
        let objects = (from..to).map(|n| ListedObject {
            key: key(n),
            etag: format!("{n:032x}"),
            size: self.footer.len() as u64,
            modified: Timestamp::UNIX_EPOCH,
            archived: false,
        });
        Ok(Page { objects: objects.collect(), prefixes: vec![], next: (to < OBJECTS).then(|| to.to_string()) })
    }

    async fn read_tail(&self, _: &str, _: &str, _: &str, _: u64) -> Result<Bytes, ObjectError> {
        self.tails.fetch_add(1, Ordering::Relaxed);
        Ok(self.footer.clone())
    }

    async fn get(&self, _: &str, key: &str) -> Result<Option<Bytes>, ObjectError> {
        Ok(fs::read(self.path(key)).ok().map(Bytes::from))
    }

    async fn put(&self, _: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        fs::write(self.path(key), bytes).unwrap();
        Ok(())
    }

    async fn upload(&self, _: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError> {
        Ok(Box::new(OnDisk(fs::File::create(self.path(key)).unwrap())))
    }
}

struct OnDisk(fs::File);

#[async_trait]
impl PartUpload for OnDisk {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.0.write_all(bytes).unwrap();
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), ObjectError> {
        Ok(())
    }
}

fn parquet_of_three_rows() -> Bytes {
    let schema = Arc::new(parse_message_type("message orders { required int64 order_id; }").unwrap());
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1, 2, 3], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    Bytes::from(bytes)
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Lists 100,000 objects with that footer, and lists them again.
async fn list_twice(format: &str, columns: &str, footer: Bytes) {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake { folder: folder.path().to_owned(), footer, tails: AtomicU64::new(0) };
    let file = format!(
        "[orders]\nsource = \"s3://lake/orders/\"\nlayout = \"dt={{dt}}/\"\nformat = \"{format}\"\n\
         target = \"sales.orders\"\ncolumns = [{columns}]\n[orders.partition.dt]\ntype = \"date\"\n"
    );
    let definition = definition::parse(&file).unwrap().remove(0);
    let partition = definition.partition(&PartitionName::new("dt=2026-11-01").unwrap()).unwrap();
    let mut listing = Listing {
        objects: &lake,
        definition: &definition,
        partition: &partition,
        control_bucket: "control",
        folder: "inventory/orders/first/".into(),
        previous: None,
        progress: None,
    };

    let Built::Whole(first) = build(&listing, &|| true).await.unwrap() else { panic!("not whole") };
    assert_eq!((first.listed.objects, first.listed.rows), (OBJECTS as u64, Some(3 * OBJECTS as u64)));
    assert_eq!(lake.tails.load(Ordering::Relaxed), OBJECTS as u64);
    manifest(&listing, &first.listed.inventory).await.unwrap();
    let written = fs::metadata(lake.path(&first.listed.inventory.replacen("inventory", "manifest", 1))).unwrap().len();
    assert!(written > 100 << 20, "the manifest is larger than what may be held: {written} bytes");
    assert_eq!(recheck(&listing, &first.listed.inventory, &|| true).await.unwrap(), Recheck::Same);

    listing.previous = Some(first.listed.inventory.clone());
    listing.folder = "inventory/orders/second/".into();
    let Built::Whole(second) = build(&listing, &|| true).await.unwrap() else { panic!("not whole") };
    assert_eq!(second.listed.digest, first.listed.digest);
    assert_eq!(lake.tails.load(Ordering::Relaxed), OBJECTS as u64, "known rows are not read again");
}

#[tokio::test]
async fn a_hundred_thousand_objects_fit_a_function_of_128_mib() {
    list_twice("parquet", "\"order_id bigint\"", parquet_of_three_rows()).await;
    let orc = include_bytes!("../../domain/tests/hostile/small.orc");
    let columns = "\"id bigint\", \"name varchar(9)\", \"amount decimal(12,2)\"";
    list_twice("orc", columns, Bytes::from_static(orc)).await;

    let peak = peak_kib();
    println!("peak resident memory: {peak} KiB");
    assert!(peak < LIMIT_KIB, "peak resident memory of {peak} KiB, at most {LIMIT_KIB} KiB fit");
}
