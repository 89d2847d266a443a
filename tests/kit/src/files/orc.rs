//! ORC files of flat columns in one stripe, with the plain encodings that each reader knows.
//!
//! Source: the ORC specification, version 1 (`orc_proto.proto`, run-length encodings version 1). What is written here was
//! read back by the reference implementation in C++ (by way of pyarrow).

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use jiff::civil::{DateTime, date};

use super::{Cell, Compression, Table, Type};

/// Bytes of one compressed piece at most, before compression.
const BLOCK: usize = 64 * 1024;
/// Moments count from 2015-01-01.
const EPOCH_SECONDS: i64 = 1_420_070_400;

/// `Stream.Kind`.
const PRESENT: u64 = 0;
const DATA: u64 = 1;
const LENGTH: u64 = 2;
const SECONDARY: u64 = 5;

pub(super) fn write(table: &Table, compression: Compression) -> Result<Vec<u8>> {
    let (mut streams, mut encodings) = (Vec::new(), Message::default());
    let (mut out, mut footer) = (b"ORC".to_vec(), Message::default());
    let direct = Message::default().number(1, 0);
    encodings = encodings.message(2, &direct);
    for (place, (name, kind)) in table.columns.iter().enumerate() {
        let cells: Vec<&Cell> = table.rows.iter().filter_map(|row| row.get(place)).collect();
        let made = column(*kind, &cells).with_context(|| format!("column {name}"))?;
        streams.extend(made.into_iter().map(|(stream, bytes)| (place as u64 + 1, stream, bytes)));
        encodings = encodings.message(2, &direct);
    }
    let mut stripe_footer = Message::default();
    for (column, kind, bytes) in streams {
        let bytes = pieces(&bytes, compression)?;
        stripe_footer = stripe_footer
            .message(1, &Message::default().number(1, kind).number(2, column).number(3, bytes.len() as u64));
        out.extend(bytes);
    }
    let data = out.len() as u64 - 3;
    stripe_footer.0.extend(encodings.0);
    let stripe_footer = pieces(&stripe_footer.bytes(3, b"UTC").0, compression)?;
    out.extend(&stripe_footer);
    footer = footer.number(1, 3).number(2, out.len() as u64);
    let rows = table.rows.len() as u64;
    if rows > 0 {
        let stripe = Message::default().number(1, 3).number(2, 0).number(3, data);
        footer = footer.message(3, &stripe.number(4, stripe_footer.len() as u64).number(5, rows));
    }
    footer = types(table, footer).number(6, rows).number(8, 0);
    let footer = pieces(&footer.0, compression)?;
    out.extend(&footer);
    let code = match compression {
        Compression::Plain => 0,
        Compression::Deflate => 1,
        Compression::Snappy => 2,
        _ => 5,
    };
    let postscript = Message::default().number(1, footer.len() as u64).number(2, code).number(3, BLOCK as u64);
    let postscript = postscript.bytes(4, &[0, 12]).number(5, 0).number(6, 4).bytes(8_000, b"ORC").0;
    out.extend(&postscript);
    out.push(u8::try_from(postscript.len())?);
    Ok(out)
}

/// The row as a structure, then each column.
fn types(table: &Table, footer: Message) -> Message {
    let ids: Vec<u8> = (1..=table.columns.len() as u64).flat_map(|id| Message::default().varint(id).0).collect();
    let mut root = Message::default().number(1, 12).bytes(2, &ids);
    for (name, _) in &table.columns {
        root = root.bytes(3, name.as_bytes());
    }
    let mut footer = footer.message(4, &root);
    for (_, kind) in &table.columns {
        let number = |kind| Message::default().number(1, kind);
        let found = match kind {
            Type::Boolean => number(0),
            Type::SmallInt => number(2),
            Type::Integer => number(3),
            Type::BigInt => number(4),
            Type::Real => number(5),
            Type::Double => number(6),
            Type::Varchar(_) => number(7),
            Type::Timestamp | Type::TimestampTz => number(9),
            Type::Decimal(precision, scale) => number(14).number(5, u64::from(*precision)).number(6, u64::from(*scale)),
            Type::Date => number(15),
        };
        footer = footer.message(4, &found);
    }
    footer
}

/// A column's streams: which values there are, then the values.
fn column(kind: Type, cells: &[&Cell]) -> Result<Vec<(u64, Vec<u8>)>> {
    let present: Vec<&Cell> = cells.iter().copied().filter(|cell| **cell != Cell::Null).collect();
    let mut streams = Vec::new();
    if present.len() < cells.len() {
        streams.push((PRESENT, bits(cells.iter().map(|cell| **cell != Cell::Null))));
    }
    let (mut data, mut second) = (Vec::new(), Vec::new());
    let (mut bytes, mut truths) = (Vec::new(), Vec::new());
    for cell in present {
        match (kind, cell) {
            (Type::SmallInt | Type::Integer | Type::BigInt, Cell::Int(value)) => data.push(zigzag(i128::from(*value))),
            #[expect(clippy::cast_possible_truncation, reason = "a `real` holds no more")]
            (Type::Real, Cell::Float(value)) => bytes.extend((*value as f32).to_le_bytes()),
            (Type::Double, Cell::Float(value)) => bytes.extend(value.to_le_bytes()),
            (Type::Boolean, Cell::Bool(value)) => truths.push(*value),
            (Type::Varchar(_), Cell::Text(text)) => {
                bytes.extend(text.as_bytes());
                second.push(text.len() as u128);
            }
            (Type::Date, Cell::Date(day)) => {
                data.push(zigzag(i128::from(date(1970, 1, 1).until(*day)?.get_days())));
            }
            (Type::Decimal(_, scale), Cell::Decimal(unscaled, of)) if *of == scale => {
                bytes.extend(Message::default().varint128(zigzag(*unscaled)).0);
                second.push(zigzag(i128::from(scale)));
            }
            (Type::Timestamp | Type::TimestampTz, Cell::Timestamp(at)) => {
                let (seconds, nanos) = moment(*at)?;
                data.push(zigzag(i128::from(seconds)));
                second.push(u128::from(nanos));
            }
            (_, other) => bail!("{other:?} is of another type"),
        }
    }
    streams.extend(match kind {
        Type::Boolean => vec![(DATA, bits(truths.into_iter()))],
        Type::Real | Type::Double => vec![(DATA, bytes)],
        Type::Varchar(_) => vec![(DATA, bytes), (LENGTH, runs(&second))],
        Type::Decimal(..) => vec![(DATA, bytes), (SECONDARY, runs(&second))],
        Type::Timestamp | Type::TimestampTz => vec![(DATA, runs(&data)), (SECONDARY, runs(&second))],
        Type::SmallInt | Type::Integer | Type::BigInt | Type::Date => vec![(DATA, runs(&data))],
    });
    Ok(streams)
}

/// Seconds since ORC's epoch, and the nanoseconds with their last noughts counted instead of written.
fn moment(at: DateTime) -> Result<(i64, u64)> {
    let at = jiff::tz::TimeZone::UTC.to_timestamp(at)?;
    let nanos = at.as_nanosecond().rem_euclid(1_000_000_000);
    let mut seconds = i64::try_from(at.as_nanosecond().div_euclid(1_000_000_000))?;
    // What Java's writer does, and every reader takes back: before 1970 a moment's seconds are cut towards nought.
    if seconds < 0 && nanos > 999_999 {
        seconds += 1;
    }
    let (mut nanos, mut noughts) = (u64::try_from(nanos)?, 0);
    if nanos > 0 && nanos % 100 == 0 {
        nanos /= 100;
        noughts = 1;
        while nanos % 10 == 0 && noughts < 7 {
            nanos /= 10;
            noughts += 1;
        }
    }
    Ok((seconds - EPOCH_SECONDS, nanos << 3 | noughts))
}

/// Integers, none repeated by its run.
fn runs(values: &[u128]) -> Vec<u8> {
    let mut out = Message::default();
    for run in values.chunks(128) {
        out.0.push(literal(run.len()));
        for value in run {
            out = out.varint128(*value);
        }
    }
    out.0
}

/// Bits, the highest of each byte first, in runs of bytes.
fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let values: Vec<bool> = values.collect();
    let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << (7 - at));
    let bytes: Vec<u8> = values.chunks(8).map(byte).collect();
    bytes.chunks(128).flat_map(|run| [&[literal(run.len())], run].concat()).collect()
}

/// A run's header: minus the number of values.
fn literal(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(0).wrapping_neg()
}

fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)).cast_unsigned()
}

/// A stream as it stands in the file: in pieces, each with its length and whether it was left as it is.
fn pieces(bytes: &[u8], compression: Compression) -> Result<Vec<u8>> {
    if compression == Compression::Plain {
        return Ok(bytes.to_vec());
    }
    let mut out = Vec::new();
    for piece in bytes.chunks(BLOCK) {
        let packed = match compression {
            Compression::Deflate => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(piece)?;
                encoder.finish()?
            }
            Compression::Snappy => snap::raw::Encoder::new().compress_vec(piece)?,
            Compression::Zstd => zstd::encode_all(piece, 0)?,
            other => bail!("no orc file is compressed with {}", other.name()),
        };
        let (body, original) = if packed.len() < piece.len() { (packed.as_slice(), 0) } else { (piece, 1) };
        out.extend(&u32::try_from(body.len() << 1 | original)?.to_le_bytes()[..3]);
        out.extend(body);
    }
    Ok(out)
}

/// A protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(self, value: u64) -> Self {
        self.varint128(u128::from(value))
    }

    fn varint128(mut self, mut value: u128) -> Self {
        while value > 0x7f {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
        self
    }

    fn number(self, id: u64, value: u64) -> Self {
        self.varint(id << 3).varint(value)
    }

    fn bytes(self, id: u64, value: &[u8]) -> Self {
        let mut message = self.varint(id << 3 | 2).varint(value.len() as u64);
        message.0.extend(value);
        message
    }

    fn message(self, id: u64, value: &Self) -> Self {
        self.bytes(id, &value.0)
    }
}
