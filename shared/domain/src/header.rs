//! The header of a CSV file, held against the columns it is loaded into.
//!
//! COPY passes a header over and takes columns by position: two that have changed places are loaded as each other where their
//! types agree. A header is worth a look, no more: who writes it may call a column by any name.

use std::io::Read as _;

use crate::definition::{Compression, Definition, Encoding, Format};
use crate::drift;

/// A longer line is no header.
const LONGEST: u64 = 256 * 1024;

/// Whether files of that definition begin with one line of names that can be read here.
pub fn is_told(definition: &Definition) -> bool {
    let copy = &definition.copy;
    definition.format == Format::Csv
        && copy.ignore_header == 1
        && copy.encoding == Encoding::Utf8
        && copy.compression != Compression::Bzip2
}

/// How the header of a file, given whole, differs from the definition's columns: by place, count and name, where case, blanks
/// and dashes don't matter. `None`: it doesn't, or can't be read.
pub fn difference(definition: &Definition, file: &[u8]) -> Option<String> {
    let line = first_line(definition, file)?;
    let copy = &definition.copy;
    let names = fields(&line, copy.delimiter, copy.quote);
    let differences: Vec<String> = (1..)
        .zip(names.iter().zip(&definition.columns))
        .filter(|(_, (found, expected))| plain(found) != plain(&expected.name.0))
        .map(|(place, (found, expected))| {
            format!("column {place} is `{}`, but the definition says `{}`", found.trim(), expected.name)
        })
        .collect();
    drift::told(differences, names.len(), definition.columns.len(), false)
}

fn first_line(definition: &Definition, file: &[u8]) -> Option<String> {
    let mut bytes = Vec::new();
    match definition.copy.compression {
        Compression::Plain => file.take(LONGEST).read_to_end(&mut bytes),
        Compression::Gzip => flate2::read::MultiGzDecoder::new(file).take(LONGEST).read_to_end(&mut bytes),
        Compression::Zstd => zstd::stream::read::Decoder::new(file).ok()?.take(LONGEST).read_to_end(&mut bytes),
        Compression::Bzip2 => return None,
    }
    .ok()?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let line = std::str::from_utf8(&text[..end]).ok()?.trim_end_matches('\r');
    (!line.is_empty()).then(|| line.to_owned())
}

fn fields(line: &str, delimiter: char, quote: char) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        if c == quote {
            quoted = !quoted;
        } else if c == delimiter && !quoted {
            fields.push(std::mem::take(&mut field));
        } else {
            field.push(c);
        }
    }
    fields.push(field);
    fields
}

fn plain(name: &str) -> String {
    name.trim().chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::definition::parse;

    fn definition_of(options: &str) -> Definition {
        let text = format!(
            "[orders]\nsource = \"s3://lake/orders/\"\nlayout = \"dt={{dt}}/\"\nformat = \"csv\"\ntarget = \"s.orders\"\n\
             columns = [\"order_id bigint\", \"customer varchar(9)\", \"amount bigint\"]\n\
             [orders.partition.dt]\ntype = \"date\"\n[orders.csv]\n{options}\n"
        );
        parse(&text).unwrap().remove(0)
    }

    #[test]
    fn names_are_held_against_columns_by_place() {
        let definition = definition_of("ignore_header = 1");
        assert!(is_told(&definition));
        for same in [
            "order_id,customer,amount\n1,2,3\n",
            "\u{feff}\"Order ID\",CUSTOMER , \"amount\"\r\n",
            "order-id,customer,amount",
        ] {
            assert_eq!(difference(&definition, same.as_bytes()), None, "{same}");
        }
        assert_eq!(difference(&definition, b""), None, "an empty file tells nothing");
        assert_eq!(difference(&definition, b"\xff\xfe\n"), None, "nor do other characters");
        assert_eq!(
            difference(&definition, b"order_id,amount,customer,note\n1,2,3,4\n").as_deref(),
            Some(
                "column 2 is `amount`, but the definition says `customer`; column 3 is `customer`, but the definition \
                 says `amount`; 4 columns, but the definition says 3"
            )
        );
    }

    #[test]
    fn delimiter_quote_and_compression_are_the_definitions() {
        let options = "ignore_header = 1\ndelimiter = \"|\"\nquote = \"'\"\ncompression = ";
        let text = b"order_id|'customer'|'a|b'\n";
        let told = Some("column 3 is `a|b`, but the definition says `amount`");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text).unwrap();
        for (compression, file) in [
            ("none", text.to_vec()),
            ("gzip", gzip.finish().unwrap()),
            ("zstd", zstd::encode_all(&text[..], 0).unwrap()),
        ] {
            let definition = definition_of(&format!("{options}\"{compression}\""));
            assert_eq!(difference(&definition, &file).as_deref(), told, "{compression}");
            assert_eq!(difference(&definition, b"\x1f\x8b no file of it"), None, "{compression}");
        }
        assert!(!is_told(&definition_of("ignore_header = 0")) && !is_told(&definition_of("ignore_header = 2")));
    }
}
