//! The tail of an ORC file: postscript and footer, from which only the row's columns and the number of rows are taken.
//!
//! A file's own claims bound nothing: what a compressed piece may unpack to is checked before memory is given to it.
//! Source: the ORC specification, version 1 (`orc_proto.proto`).

use std::io::Read as _;

use super::{Decimals, Family, FileColumn, Footer, FooterError};

/// The longest footer that is read, packed or not.
const MAX_FOOTER: usize = 32 << 20;
/// As with Parquet: no table of Redshift has more columns, with their parts.
const MAX_TYPES: usize = 50_000;
const STRUCT: u64 = 12;
const DECIMAL: u64 = 14;

/// Reads the footer from the last bytes of a file of `size` bytes.
pub(super) fn read(tail: &[u8], size: u64) -> Result<Footer, FooterError> {
    let (length, before) = tail.split_last().ok_or_else(|| broken("it is empty"))?;
    let length = usize::from(*length);
    if length as u64 >= size {
        return Err(broken("it doesn't end as an ORC file does"));
    }
    let Some(at) = before.len().checked_sub(length) else { return Err(FooterError::NeedsMore(length as u64 + 1)) };
    let (before, postscript) = before.split_at(at);
    let (mut footer, mut compression, mut magic) = (0, 0, false);
    let mut message = Message(postscript);
    while let Some(field) = message.next().transpose()? {
        match field {
            (1, Field::Number(length)) => footer = length,
            (2, Field::Number(kind)) => compression = kind,
            (8_000, Field::Bytes(b"ORC")) => magic = true,
            _ => {}
        }
    }
    if !magic {
        return Err(broken("it doesn't end as an ORC file does"));
    }
    let needed = footer.saturating_add(length as u64 + 1);
    if needed > size || footer > MAX_FOOTER as u64 {
        return Err(broken(&format!("its footer would be of {footer} bytes")));
    }
    let footer = usize::try_from(footer).ok().and_then(|footer| before.len().checked_sub(footer));
    let footer = footer.map(|at| &before[at..]).ok_or(FooterError::NeedsMore(needed))?;
    essentials(&unpack(footer, compression)?)
}

fn essentials(footer: &[u8]) -> Result<Footer, FooterError> {
    let (mut types, mut rows) = (Vec::new(), 0);
    let mut message = Message(footer);
    while let Some(field) = message.next().transpose()? {
        match field {
            (4, Field::Bytes(found)) if types.len() < MAX_TYPES => types.push(found),
            (4, _) => return Err(broken(&format!("its schema has more than {MAX_TYPES} types"))),
            (6, Field::Number(number)) => rows = number,
            _ => {}
        }
    }
    Ok(Footer { rows, columns: columns(&types)? })
}

/// The columns of the row, which is the first type.
fn columns(types: &[&[u8]]) -> Result<Vec<FileColumn>, FooterError> {
    let row = Type::read(types.first().ok_or_else(|| broken("it has no schema"))?)?;
    if row.kind != STRUCT || row.names.len() != row.parts.len() {
        return Err(broken("its schema is no row of columns"));
    }
    let column = |(name, part): (String, u64)| {
        let found = usize::try_from(part).ok().and_then(|part| types.get(part));
        let found = Type::read(found.ok_or_else(|| broken("its schema names a type that isn't there"))?)?;
        let (described, fills) = found.told();
        // Files of Hive before 0.12 don't tell how many digits.
        let told = found.kind == DECIMAL && found.precision > 0;
        let decimals = told.then_some(Decimals { precision: found.precision, scale: found.scale, bytes: None });
        Ok(FileColumn { name, described, fills, decimals })
    };
    row.names.into_iter().zip(row.parts).map(column).collect()
}

#[derive(Default)]
struct Type {
    kind: u64,
    parts: Vec<u64>,
    names: Vec<String>,
    precision: u64,
    scale: u64,
}

impl Type {
    fn read(bytes: &[u8]) -> Result<Self, FooterError> {
        let mut found = Self::default();
        let mut message = Message(bytes);
        while let Some(field) = message.next().transpose()? {
            match field {
                (1, Field::Number(kind)) => found.kind = kind,
                (2, Field::Number(part)) => found.parts.push(part),
                (2, Field::Bytes(packed)) => {
                    let mut packed = Message(packed);
                    while !packed.0.is_empty() {
                        found.parts.push(packed.varint().ok_or_else(damaged)?);
                    }
                }
                (3, Field::Bytes(name)) => found.names.push(String::from_utf8_lossy(name).into_owned()),
                (5, Field::Number(precision)) => found.precision = precision,
                (6, Field::Number(scale)) => found.scale = scale,
                _ => {}
            }
        }
        Ok(found)
    }

    /// What it is called, and what it may fill.
    fn told(&self) -> (String, &'static [Family]) {
        let (name, fills): (&str, &'static [Family]) = match self.kind {
            0 => ("boolean", &[Family::Boolean, Family::Super]),
            1 => ("tinyint", &[Family::SmallInt, Family::Super]),
            2 => ("smallint", &[Family::SmallInt, Family::Super]),
            3 => ("int", &[Family::Integer, Family::Super]),
            4 => ("bigint", &[Family::BigInt, Family::Super]),
            5 => ("float", &[Family::Real, Family::Super]),
            6 => ("double", &[Family::Double, Family::Super]),
            7 => ("string", &[Family::Text, Family::Super]),
            8 => ("binary", &[Family::Text]),
            9 => ("timestamp", &[Family::Timestamp, Family::Super]),
            10 => ("list", &[Family::Super]),
            11 => ("map", &[Family::Super]),
            STRUCT => ("struct", &[Family::Super]),
            DECIMAL => {
                return (format!("decimal({},{})", self.precision, self.scale), &[Family::Decimal, Family::Super]);
            }
            15 => ("date", &[Family::Date, Family::Super]),
            16 => ("varchar", &[Family::Text, Family::Super]),
            17 => ("char", &[Family::Text, Family::Super]),
            18 => ("timestamp with local time zone", &[Family::Timestamp, Family::Super]),
            _ => ("a type that Redshift doesn't read", &[]),
        };
        (name.to_owned(), fills)
    }
}

/// The footer's own bytes: pieces, each with its length and whether it is packed.
fn unpack(bytes: &[u8], compression: u64) -> Result<Vec<u8>, FooterError> {
    if compression == 0 {
        return Ok(bytes.to_vec());
    }
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let ([a, b, c], after) = rest.split_first_chunk().ok_or_else(damaged)?;
        let header = u32::from_le_bytes([*a, *b, *c, 0]);
        let length = usize::try_from(header >> 1).map_err(|_| damaged())?;
        let (piece, after) = after.split_at_checked(length).ok_or_else(damaged)?;
        rest = after;
        let room = MAX_FOOTER - out.len();
        if header & 1 == 1 {
            out.extend(piece);
        } else {
            unpack_piece(piece, compression, room, &mut out)?;
        }
        if out.len() >= MAX_FOOTER {
            return Err(broken(&format!("its footer has more than {MAX_FOOTER} bytes")));
        }
    }
    Ok(out)
}

fn unpack_piece(piece: &[u8], compression: u64, room: usize, out: &mut Vec<u8>) -> Result<(), FooterError> {
    match compression {
        1 => {
            let mut decoder = flate2::read::DeflateDecoder::new(piece).take(room as u64);
            decoder.read_to_end(out).map(drop).map_err(|_| damaged())
        }
        2 if snap::raw::decompress_len(piece).is_ok_and(|length| length <= room) => {
            out.extend(snap::raw::Decoder::new().decompress_vec(piece).map_err(|_| damaged())?);
            Ok(())
        }
        2 => Err(damaged()),
        5 => {
            let decoder = zstd::stream::read::Decoder::with_buffer(piece).map_err(|_| damaged())?;
            decoder.take(room as u64).read_to_end(out).map(drop).map_err(|_| damaged())
        }
        other => {
            let name = match other {
                3 => "lzo",
                4 => "lz4",
                6 => "brotli",
                _ => "something unknown",
            };
            Err(broken(&format!("it is compressed with {name}; have it written with zlib, snappy or zstd")))
        }
    }
}

fn broken(why: &str) -> FooterError {
    FooterError::Broken { format: "ORC", why: why.to_owned() }
}

fn damaged() -> FooterError {
    broken("its footer is damaged")
}

enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// What is left of a protobuf message. Nothing is allocated for what it claims.
struct Message<'b>(&'b [u8]);

impl<'b> Message<'b> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn pass(&mut self, length: u64) -> Option<&'b [u8]> {
        let (passed, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(passed)
    }

    fn field(&mut self) -> Option<(u64, Field<'b>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.pass(8)?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.pass(length)?)
            }
            5 => Field::Bytes(self.pass(4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'b> Iterator for Message<'b> {
    type Item = Result<(u64, Field<'b>), FooterError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() { None } else { Some(self.field().ok_or_else(damaged)) }
    }
}
