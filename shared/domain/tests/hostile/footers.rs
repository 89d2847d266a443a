//! Footers of files: any bytes are a footer, a wish for more bytes, or an error; in bounded memory.

use std::process::Command;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidemark_domain::definition::Format;
use tidemark_domain::footer::{FooterError, read};

use crate::cases;
use crate::damage::{damaged, damages};

/// Also the greatest numbers that Thrift writes, where lengths and counts stand.
const WORDS: &[&[u8]] = &[
    b"PAR1",
    b"PARE",
    b"\x00\x00\x00\x7f",
    b"\xff\xff\xff\xff",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x15\xfe\xff\xff\xff\x0f",
    b"\xfc\xff\xff\xff\x07",
    b"\x19",
    b"\x1c",
    b"\x00",
];
/// Set for the process that has little memory.
const CHILD: &str = "TIDEMARK_HOSTILE_CHILD";

fn parquet(groups: i64) -> Vec<u8> {
    let schema = "message orders { required int64 order_id; optional binary customer (UTF8); optional group tags (LIST) { \
                  repeated group list { optional binary element (UTF8); } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    for number in 0..groups {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[number, 2, 3], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let names = [ByteArray::from("Ada"), ByteArray::from("O'Hara")];
        column.typed::<ByteArrayType>().write_batch(&names, Some(&[1, 0, 1]), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&[], Some(&[0, 0, 0]), Some(&[0, 0, 0])).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

/// The start of the footer: what is damaged before it isn't read.
fn footer_start(file: &[u8]) -> usize {
    let end = file.len() - 8;
    let length = u32::from_le_bytes(file[end..end + 4].try_into().unwrap());
    end - usize::try_from(length).unwrap()
}

/// A file with another footer, whose length is right.
fn sealed_again(data: &[u8], footer: &[u8]) -> Vec<u8> {
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [data, footer, &length, b"PAR1"].concat()
}

/// Reads as the engine does: first the end, then as much more as is asked for, once.
fn read_to_the_end(file: &[u8], first: usize) -> Result<(), TestCaseError> {
    let size = file.len() as u64;
    let tail = |length: usize| &file[file.len() - length.min(file.len())..];
    let first = first.min(file.len());
    match read(Format::Parquet, tail(first), size) {
        Err(FooterError::NeedsMore(needed)) => {
            prop_assert!(needed > first as u64 && needed <= size, "{needed} of {size} after {first}");
            let again = read(Format::Parquet, tail(usize::try_from(needed).unwrap()), size);
            prop_assert!(!matches!(again, Err(FooterError::NeedsMore(_))), "{again:?}");
        }
        Err(error) => prop_assert!(!error.to_string().is_empty()),
        Ok(_) => {}
    }
    Ok(())
}

fn damaged_footers(groups: i64) -> impl Strategy<Value = Vec<u8>> {
    let file = parquet(groups);
    let start = footer_start(&file);
    let end = file.len() - 8;
    (damages(WORDS), any::<bool>()).prop_map(move |(damages, sealed)| {
        if !sealed {
            return [&file[..start], &damaged(&file[start..], &damages)].concat();
        }
        sealed_again(&file[..start], &damaged(&file[start..end], &damages))
    })
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), first in 0..200_usize) {
        read_to_the_end(&bytes, first)?;
        let sealed = [&bytes[..], b"PAR1"].concat();
        read_to_the_end(&sealed, first)?;
    }

    #[test]
    fn a_truncated_file_is_refused(keep in any::<proptest::sample::Index>(), first in 8..4_000_usize) {
        let file = parquet(3);
        let cut = &file[..keep.index(file.len())];
        read_to_the_end(cut, first)?;
        let refused = matches!(read(Format::Parquet, cut, cut.len() as u64), Err(FooterError::Broken { .. }));
        prop_assert!(refused);
    }
}

#[test]
fn a_footer_tells_rows_and_columns_whatever_else_is_in_it() {
    for groups in [0, 1, 3, 500] {
        let file = parquet(groups);
        let footer = read(Format::Parquet, &file, file.len() as u64).unwrap();
        assert_eq!(
            (footer.rows, footer.columns.into_iter().map(|column| column.name).collect::<Vec<_>>()),
            (3 * groups.unsigned_abs(), ["order_id", "customer", "tags"].map(str::to_owned).to_vec())
        );
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    /// Of ORC: any bytes before any postscript, and a real tail with bytes changed.
    #[test]
    fn a_damaged_orc_is_refused_or_read(damages in damages(WORDS), noise in proptest::collection::vec(any::<u8>(), 0..99)) {
        for bytes in [damaged(ORC, &damages), [&noise[..], ORC].concat(), noise] {
            for kept in [bytes.len(), bytes.len() / 2, bytes.len().min(20)] {
                let read = read(Format::Orc, &bytes[bytes.len() - kept..], bytes.len() as u64);
                let asked = matches!(read, Err(FooterError::NeedsMore(needed)) if needed <= bytes.len() as u64);
                prop_assert!(asked || !matches!(read, Err(FooterError::NeedsMore(_))), "{read:?}");
            }
        }
    }
}

/// Written by ORC's C++ library (`pyarrow.orc`, zlib): `id bigint, name string, amount decimal(12,2)`, three rows.
const ORC: &[u8] = include_bytes!("small.orc");

#[test]
fn an_orc_footer_tells_rows_and_columns() {
    let footer = read(Format::Orc, ORC, ORC.len() as u64).unwrap();
    let columns: Vec<_> =
        footer.columns.iter().map(|column| (column.name.as_str(), column.described.as_str())).collect();
    assert_eq!(footer.rows, 3);
    assert_eq!(columns, [("id", "bigint"), ("name", "string"), ("amount", "decimal(12,2)")]);
}

/// The process that plays damaged footers may have no more memory than a function: an allocation beyond it ends it.
#[test]
fn a_damaged_footer_takes_no_more_memory_than_there_is() {
    if std::env::var_os(CHILD).is_some() {
        return damaged_footers_are_refused_or_read();
    }
    let limited = "ulimit -v 400000 && exec \"$0\" --exact footers::a_damaged_footer_takes_no_more_memory_than_there_is --nocapture";
    let test = std::env::current_exe().unwrap();
    let child = Command::new("sh")
        .args(["-c", limited])
        .arg(test)
        .env(CHILD, "1")
        .env("RUST_TEST_THREADS", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {}{told}", child.status, String::from_utf8_lossy(&child.stdout));
}

/// A schema that claims two thousand million columns.
fn boastful() -> Vec<u8> {
    let file = parquet(1);
    let start = footer_start(&file);
    let footer = &file[start..file.len() - 8];
    let (number, more): (&[u8], &[u8]) = (b"\x15\x06", b"\x15\xfe\xff\xff\xff\x0f");
    let at = footer.windows(2).position(|two| two == number).unwrap();
    sealed_again(&file[..start], &[&footer[..at], more, &footer[at + 2..]].concat())
}

fn damaged_footers_are_refused_or_read() {
    let file = boastful();
    assert!(matches!(read(Format::Parquet, &file, file.len() as u64), Err(FooterError::Broken { .. })));
    let config = cases(20_000);
    eprintln!("replay: PROPTEST_RNG_SEED={:?}", config.rng_seed);
    let mut runner = TestRunner::new(config);
    let played = runner.run(&(damaged_footers(3), 8..4_000_usize), |(file, first)| read_to_the_end(&file, first));
    played.unwrap_or_else(|error| panic!("{error}"));
}
