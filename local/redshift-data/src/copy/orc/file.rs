//! The frame of an ORC file: postscript, footer, stripes and their streams.

use std::io::Read as _;

use super::kind;

/// `Stream.Kind` of the specification.
pub(super) const PRESENT: u64 = 0;
pub(super) const DATA: u64 = 1;
pub(super) const LENGTH: u64 = 2;
pub(super) const DICTIONARY: u64 = 3;
pub(super) const SECONDARY: u64 = 5;

/// A file's footer.
#[derive(Debug)]
pub(super) struct Orc {
    compression: u64,
    pub(super) columns: Vec<Column>,
    pub(super) stripes: Vec<Place>,
}

/// A column of the row, or a part of a nested one.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) id: u64,
    /// Parts of lists and maps have none.
    pub(super) name: String,
    pub(super) kind: u64,
    /// A struct's members, a list's element, a map's key and value.
    pub(super) parts: Vec<Self>,
}

/// Where a stripe lies.
#[derive(Debug, Default)]
pub(super) struct Place {
    offset: usize,
    index: usize,
    data: usize,
    footer: usize,
    pub(super) rows: usize,
}

/// A stripe's streams, decompressed, and its columns' encodings.
#[derive(Debug)]
pub(super) struct Stripe {
    streams: Vec<(u64, u64, Vec<u8>)>,
    /// Kind and size of the dictionary.
    encodings: Vec<(u64, usize)>,
}

impl Orc {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_last()?;
        let (rest, postscript) = rest.split_at_checked(rest.len().checked_sub(usize::from(*length))?)?;
        let (mut footer, mut compression, mut magic) = (0, 0, false);
        for (id, value) in fields(postscript)? {
            match (id, value) {
                (1, Field::Number(length)) => footer = usize::try_from(length).ok()?,
                (2, Field::Number(kind)) => compression = kind,
                (8_000, Field::Bytes(b"ORC")) => magic = true,
                _ => {}
            }
        }
        let footer = magic.then(|| rest.len().checked_sub(footer).map(|at| &rest[at..])).flatten()?;
        let footer = unpack(footer, compression)?;
        let (mut stripes, mut types) = (Vec::new(), Vec::new());
        for (id, value) in fields(&footer)? {
            match (id, value) {
                (3, Field::Bytes(stripe)) => stripes.push(place(stripe)?),
                (4, Field::Bytes(found)) => types.push(found.to_vec()),
                _ => {}
            }
        }
        Some(Self { compression, columns: columns(&types)?, stripes })
    }

    pub(super) fn stripe(&self, bytes: &[u8], place: &Place) -> Option<Stripe> {
        let mut at = place.offset;
        let footer_at = at.checked_add(place.index)?.checked_add(place.data)?;
        let footer = unpack(bytes.get(footer_at..footer_at.checked_add(place.footer)?)?, self.compression)?;
        let mut stripe = Stripe { streams: Vec::new(), encodings: Vec::new() };
        for (id, value) in fields(&footer)? {
            match (id, value) {
                (1, Field::Bytes(stream)) => {
                    let (mut kind, mut column, mut length) = (0, 0, 0);
                    for (id, value) in fields(stream)? {
                        match (id, value) {
                            (1, Field::Number(value)) => kind = value,
                            (2, Field::Number(value)) => column = value,
                            (3, Field::Number(value)) => length = usize::try_from(value).ok()?,
                            _ => {}
                        }
                    }
                    let end = at.checked_add(length)?;
                    // Of the index nothing is wanted.
                    if kind <= SECONDARY {
                        stripe.streams.push((column, kind, unpack(bytes.get(at..end)?, self.compression)?));
                    }
                    at = end;
                }
                (2, Field::Bytes(encoding)) => {
                    let (mut kind, mut size) = (0, 0);
                    for (id, value) in fields(encoding)? {
                        match (id, value) {
                            (1, Field::Number(value)) => kind = value,
                            (2, Field::Number(value)) => size = usize::try_from(value).ok()?,
                            _ => {}
                        }
                    }
                    stripe.encodings.push((kind, size));
                }
                // Moments of another zone than UTC would be read an hour or more off.
                (3, Field::Bytes(zone)) if !matches!(zone, b"" | b"UTC" | b"GMT" | b"Etc/UTC") => return None,
                _ => {}
            }
        }
        Some(stripe)
    }
}

impl Stripe {
    pub(super) fn stream(&self, column: u64, kind: u64) -> Option<&[u8]> {
        let found = self.streams.iter().find(|(of, is, _)| (*of, *is) == (column, kind));
        found.map(|(_, _, bytes)| bytes.as_slice())
    }

    fn encoding(&self, column: u64) -> (u64, usize) {
        usize::try_from(column).ok().and_then(|column| self.encodings.get(column)).copied().unwrap_or_default()
    }

    pub(super) fn is_v2(&self, column: u64) -> bool {
        self.encoding(column).0 >= 2
    }

    /// How many words the column's dictionary has, if it has one.
    pub(super) fn dictionary(&self, column: u64) -> Option<usize> {
        let (kind, size) = self.encoding(column);
        (kind % 2 == 1).then_some(size)
    }
}

fn place(stripe: &[u8]) -> Option<Place> {
    let mut place = Place::default();
    for (id, value) in fields(stripe)? {
        let Field::Number(number) = value else { continue };
        let number = usize::try_from(number).ok()?;
        match id {
            1 => place.offset = number,
            2 => place.index = number,
            3 => place.data = number,
            4 => place.footer = number,
            5 => place.rows = number,
            _ => {}
        }
    }
    Some(place)
}

/// The columns of the row, which is the first type.
fn columns(types: &[Vec<u8>]) -> Option<Vec<Column>> {
    let row = column(types, 0, String::new(), 0)?;
    (row.kind == kind::STRUCT).then_some(row.parts)
}

fn column(types: &[Vec<u8>], id: u64, name: String, depth: usize) -> Option<Column> {
    const DEEPEST: usize = 100;
    let (mut kind, mut ids, mut names) = (0, Vec::new(), Vec::new());
    for (field, value) in fields(types.get(usize::try_from(id).ok()?)?)? {
        match (field, value) {
            (1, Field::Number(found)) => kind = found,
            (2, Field::Number(one)) => ids.push(one),
            (2, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    ids.push(varint(&mut packed)?);
                }
            }
            (3, Field::Bytes(name)) => names.push(String::from_utf8_lossy(name).into_owned()),
            _ => {}
        }
    }
    if depth > DEEPEST || kind == kind::STRUCT && ids.len() != names.len() {
        return None;
    }
    names.resize(ids.len(), String::new());
    let parts = ids.into_iter().zip(names).map(|(id, name)| column(types, id, name, depth + 1));
    Some(Column { id, name, kind, parts: parts.collect::<Option<_>>()? })
}

/// A stream's own bytes.
fn unpack(mut bytes: &[u8], compression: u64) -> Option<Vec<u8>> {
    if compression == 0 {
        return Some(bytes.to_vec());
    }
    let mut out = Vec::new();
    while let Some((header, rest)) = bytes.split_at_checked(3).filter(|(header, _)| header.len() == 3) {
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let (piece, rest) = rest.split_at_checked(usize::try_from(header >> 1).ok()?)?;
        bytes = rest;
        if header & 1 == 1 {
            out.extend(piece);
            continue;
        }
        match compression {
            1 => drop(flate2::read::DeflateDecoder::new(piece).read_to_end(&mut out).ok()?),
            2 => out.extend(snap::raw::Decoder::new().decompress_vec(piece).ok()?),
            5 => out.extend(zstd::decode_all(piece).ok()?),
            _ => return None,
        }
    }
    bytes.is_empty().then_some(out)
}

#[derive(Debug, Clone, Copy)]
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// The fields of a protobuf message.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let skip = |bytes: &mut &[u8], length| {
            *bytes = bytes.get(length..)?;
            Some(())
        };
        match tag & 7 {
            0 => found.push((tag >> 3, Field::Number(varint(&mut bytes)?))),
            1 => skip(&mut bytes, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                found.push((tag >> 3, Field::Bytes(value)));
                bytes = rest;
            }
            5 => skip(&mut bytes, 4)?,
            _ => return None,
        }
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
