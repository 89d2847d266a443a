//! What stands between an object's bytes and its text: compression, and characters other than UTF-8.

use std::io::Read as _;

use crate::dialect::copy::{Compression, Encoding};

/// A whole object, decompressed.
pub(super) fn decompress(bytes: &[u8], compression: Option<Compression>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let (read, name) = match compression {
        None => return Ok(bytes.to_vec()),
        Some(Compression::Gzip) => (flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out), "gzip"),
        Some(Compression::Bzip2) => (bzip2::read::MultiBzDecoder::new(bytes).read_to_end(&mut out), "bzip2"),
        Some(Compression::Zstd) => {
            let decoder = zstd::stream::read::Decoder::new(bytes);
            (decoder.and_then(|mut decoder| decoder.read_to_end(&mut out)), "zstd")
        }
    };
    read.map(|_| out).map_err(|error| format!("failed to inflate: it isn't {name}: {error}"))
}

/// A whole object's text as UTF-8, without a byte order mark.
pub(super) fn characters(bytes: Vec<u8>, encoding: Encoding) -> Vec<u8> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(units.strip_prefix(&[0xfeff]).unwrap_or(&units)).into_bytes()
    };
    match encoding {
        Encoding::Utf8 => match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => rest.to_vec(),
            None => bytes,
        },
        Encoding::Latin1 => bytes.into_iter().map(char::from).collect::<String>().into_bytes(),
        Encoding::Utf16 if bytes.starts_with(b"\xfe\xff") => utf16(&bytes, u16::from_be_bytes),
        Encoding::Utf16 | Encoding::Utf16Le => utf16(&bytes, u16::from_le_bytes),
        Encoding::Utf16Be => utf16(&bytes, u16::from_be_bytes),
    }
}
