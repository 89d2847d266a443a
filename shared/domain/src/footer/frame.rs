//! The frame of a Parquet file: where its footer lies, and the part of it that is worth decoding.
//!
//! A footer describes each column of each row group: megabytes in wide files, and ten times as much once decoded. Only the
//! schema and the number of rows are wanted, so the rest is cut out first, without allocating anything. A damaged schema may
//! claim two thousand million columns, for which the decoder would reserve memory: such a claim is refused here, since a
//! function that runs out of memory can't tell which file it was.
//!
//! Source: `parquet.thrift` of the Parquet format (`FileMetaData`, `SchemaElement`) and Thrift's compact protocol.

use super::{FooterError, broken_parquet};

/// The length of the footer, and the four letters that end a file.
const TRAILER: usize = 8;
/// A longer footer is no footer of a table that Redshift could load: 1,600 columns in 10,000 row groups have less.
const MAX_FOOTER: u64 = 32 << 20;
/// Redshift's tables have 1,600 columns; nested ones may have parts. Decoded, so many take some 20 MB.
const MAX_ELEMENTS: u64 = 50_000;
/// How deep structures may lie in each other; those of a footer lie five deep.
const MAX_DEPTH: u8 = 16;

/// The bytes of the footer in the last bytes of a file of `size` bytes.
pub(super) fn footer(tail: &[u8], size: u64) -> Result<&[u8], FooterError> {
    let broken = |why: &str| broken_parquet(why);
    let Some((before, trailer)) = tail.split_at_checked(tail.len().wrapping_sub(TRAILER)) else {
        return Err(broken("it has fewer than 8 bytes"));
    };
    let (length, magic) = trailer.split_at(4);
    match magic {
        b"PAR1" => {}
        b"PARE" => return Err(broken("its footer is encrypted")),
        _ => return Err(broken("it doesn't end in `PAR1`")),
    }
    let length = u64::from(u32::from_le_bytes(length.try_into().unwrap_or_default()));
    let needed = length + TRAILER as u64;
    if needed > size {
        return Err(broken(&format!("its footer would be of {length} bytes, the file has {size}")));
    }
    if length > MAX_FOOTER {
        return Err(broken(&format!("its footer has {length} bytes, of which {MAX_FOOTER} can be read")));
    }
    let start = usize::try_from(length).ok().and_then(|length| before.len().checked_sub(length));
    start.map(|start| &before[start..]).ok_or(FooterError::NeedsMore(needed))
}

/// A footer of the same schema and number of rows, and without row groups.
pub(super) fn essentials(footer: &[u8]) -> Result<Vec<u8>, FooterError> {
    let unreadable = || broken_parquet("its footer is damaged");
    let mut cursor = Cursor(footer);
    let (mut schema, mut rows) = (None, None);
    let mut id = 0;
    while let Some(kind) = cursor.field(&mut id).ok_or_else(unreadable)? {
        let value = cursor.0;
        match (id, kind) {
            (2, LIST) => check_schema(&mut cursor)?,
            _ => cursor.skip(kind, 0).ok_or_else(unreadable)?,
        }
        let value = &value[..value.len() - cursor.0.len()];
        match (id, kind) {
            (2, LIST) => schema = Some(value),
            (3, I64) => rows = Some(value),
            _ => {}
        }
    }
    let (Some(schema), Some(rows)) = (schema, rows) else {
        return Err(broken_parquet("its footer has no schema or no number of rows"));
    };
    // Version 1, the schema, the rows, an empty list of row groups, the end.
    Ok([&[0x15, 0x02, 0x19], schema, &[0x16], rows, &[0x19, STRUCT, 0x00]].concat())
}

/// Passes over the schema, whose elements can't have more children than there are elements.
fn check_schema(cursor: &mut Cursor<'_>) -> Result<(), FooterError> {
    let unreadable = || broken_parquet("its schema is damaged");
    let (elements, kind) = cursor.list().ok_or_else(unreadable)?;
    if kind != STRUCT {
        return Err(unreadable());
    }
    if elements > MAX_ELEMENTS {
        let why = format!("its schema has {elements} columns and groups, of which {MAX_ELEMENTS} can be read");
        return Err(broken_parquet(why));
    }
    let mut children: u64 = 0;
    for _ in 0..elements {
        let mut id = 0;
        while let Some(kind) = cursor.field(&mut id).ok_or_else(unreadable)? {
            if (id, kind) == (5, I32) {
                // Zigzag: the number of children is half of it; a negative one is odd.
                let number = cursor.varint().ok_or_else(unreadable)?;
                children = children.saturating_add(number / 2 + number % 2);
            } else {
                cursor.skip(kind, 1).ok_or_else(unreadable)?;
            }
        }
    }
    if children >= elements.max(1) {
        let why =
            format!("its schema claims {children} columns and groups, and describes {}", elements.saturating_sub(1));
        return Err(broken_parquet(why));
    }
    Ok(())
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// What is left of the bytes; each step is `None` where they aren't Thrift.
struct Cursor<'f>(&'f [u8]);

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// Seven bits a byte, the lowest first.
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The type of the next field, whose id follows `id`; `Some(None)` at the end of the structure.
    #[expect(clippy::option_option, reason = "neither end nor field is one answer, not even that the other")]
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let header = self.byte()?;
        if header == 0 {
            return Some(None);
        }
        match header >> 4 {
            0 => {
                let zigzag = self.varint()?.cast_signed();
                *id = (zigzag >> 1) ^ -(zigzag & 1);
            }
            delta => *id = id.checked_add(i64::from(delta))?,
        }
        Some(Some(header & 0x0f))
    }

    /// The number and the type of a list's elements.
    fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let size = match header >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        Some((size, header & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => Some(()),
            I8 => self.pass(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST | SET => {
                let (size, kind) = self.list()?;
                (0..size).try_for_each(|_| self.skip_element(kind, depth + 1))
            }
            MAP => {
                let size = self.varint()?;
                let kinds = if size == 0 { 0 } else { self.byte()? };
                (0..size).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0x0f, depth + 1)
                })
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// As a field, but a truth value takes a byte: so every element takes one at least, and what a list claims is bounded by
    /// the bytes there are.
    fn skip_element(&mut self, kind: u8, depth: u8) -> Option<()> {
        if matches!(kind, TRUE | FALSE) { self.pass(1) } else { self.skip(kind, depth) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_is_found_by_its_length() {
        let file = b"....footer\x06\0\0\0PAR1";
        assert_eq!(footer(file, 18), Ok(&b"footer"[..]));
        assert_eq!(footer(&file[8..], 18), Err(FooterError::NeedsMore(14)));
        let refused = |tail: &[u8], size| match footer(tail, size) {
            Err(FooterError::Broken { why, .. }) => why,
            other => format!("{other:?}"),
        };
        assert_eq!(refused(b"PAR1", 4), "it has fewer than 8 bytes");
        assert_eq!(refused(b"\0\0\0\0ORC!", 8), "it doesn't end in `PAR1`");
        assert_eq!(refused(b"\0\0\0\0PARE", 8), "its footer is encrypted");
        assert_eq!(refused(b"\x01\0\0\0PAR1", 8), "its footer would be of 1 bytes, the file has 8");
        assert_eq!(refused(b"\0\0\0\x04PAR1", 1 << 40), "its footer has 67108864 bytes, of which 33554432 can be read");
    }

    #[test]
    fn numbers_and_ends_of_thrift_are_read() {
        assert_eq!(Cursor(&[0xac, 0x02]).varint(), Some(300));
        assert_eq!(Cursor(&[0x80]).varint(), None);
        assert_eq!(Cursor(&[0xff; 11]).varint(), None);
        // A list that claims more elements than there are bytes ends with them.
        assert_eq!(Cursor(&[0xf1, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1]).skip(LIST, 0), None);
        let mut nested = Cursor(&[0x19; 64]);
        assert_eq!(nested.skip(LIST, 0), None);
    }
}
