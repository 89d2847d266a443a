//! The COPY options of a dataset: `[orders.csv]`, `[orders.json]` and so on; an allow-list for each format.
//!
//! None hides the loss of data unless it is asked for by name. What isn't in a format's list is refused with the reason.

use super::reader::{At, Reader};
use super::text::Text;
use super::{Flaw, Format};

/// The COPY options that may be asked for. Each format has some of them; the others keep their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    /// CSV: one ASCII character; `,` unless told otherwise.
    pub delimiter: char,
    /// CSV: one ASCII character; `"` unless told otherwise.
    pub quote: char,
    /// CSV: header lines per file.
    pub ignore_header: u16,
    /// CSV: the text that stands for NULL; Redshift's own default is `\N`.
    pub null_as: Option<String>,
    /// CSV and JSON: how every object is compressed. The other formats' files say it themselves.
    pub compression: Compression,
    /// JSON and Avro: how fields find their columns.
    pub paths: Paths,
    /// CSV and JSON: the files' characters.
    pub encoding: Encoding,
    /// `DATEFORMAT`; Redshift's own default is `YYYY-MM-DD`.
    pub date_format: Option<String>,
    /// `TIMEFORMAT`; Redshift's own default is `YYYY-MM-DD HH:MI:SS`.
    pub time_format: Option<String>,
    /// `ACCEPTINVCHARS`: what is written for each invalid byte. Hides the loss of data.
    pub accept_invalid: Option<char>,
    /// Those that are on or off.
    pub switches: Vec<Switch>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            delimiter: ',',
            quote: '"',
            ignore_header: 0,
            null_as: None,
            compression: Compression::Plain,
            paths: Paths::Auto,
            encoding: Encoding::Utf8,
            date_format: None,
            time_format: None,
            accept_invalid: None,
            switches: Vec::new(),
        }
    }
}

impl CopyOptions {
    /// Whether it is on.
    pub fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }
}

/// How whole files are compressed, as an option of COPY says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip.
    Gzip,
    /// bzip2.
    Bzip2,
    /// Zstandard.
    Zstd,
}

/// How the fields of JSON and Avro find their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paths {
    /// By names equal to the columns', which are in lower case.
    Auto,
    /// By names equal but for case.
    AutoIgnoreCase,
    /// As a jsonpaths file in S3 says: `s3://bucket/key`.
    File(String),
}

/// The characters of text files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16 with a byte order mark.
    Utf16,
    /// UTF-16, little end first.
    Utf16Le,
    /// UTF-16, big end first.
    Utf16Be,
    /// ISO 8859-1, Latin 1.
    Iso88591,
}

/// An option that is on or off; off unless asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Longer texts are cut to the column. Hides the loss of data.
    TruncateColumns,
    /// Blanks at the end of a text are cut.
    TrimBlanks,
    /// A text of blanks only becomes NULL.
    BlanksAsNull,
    /// An empty text becomes NULL.
    EmptyAsNull,
    /// Empty lines are no rows.
    IgnoreBlankLines,
    /// Columns that lack at a row's (or a columnar file's) end become NULL.
    FillRecord,
    /// Digits beyond a decimal's scale are rounded, not cut.
    RoundDecimals,
}

impl Switch {
    const ALL: [Self; 7] = [
        Self::TruncateColumns,
        Self::TrimBlanks,
        Self::BlanksAsNull,
        Self::EmptyAsNull,
        Self::IgnoreBlankLines,
        Self::FillRecord,
        Self::RoundDecimals,
    ];

    /// As the owner writes it: Redshift's word in lower case.
    fn key(self) -> &'static str {
        match self {
            Self::TruncateColumns => "truncatecolumns",
            Self::TrimBlanks => "trimblanks",
            Self::BlanksAsNull => "blanksasnull",
            Self::EmptyAsNull => "emptyasnull",
            Self::IgnoreBlankLines => "ignoreblanklines",
            Self::FillRecord => "fillrecord",
            Self::RoundDecimals => "roundec",
        }
    }

    fn is_for(self, format: Format) -> bool {
        match self {
            Self::FillRecord => !matches!(format, Format::Json | Format::Avro),
            Self::IgnoreBlankLines => format == Format::Csv,
            _ => !format.is_columnar(),
        }
    }
}

const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::Plain),
    ("gzip", Compression::Gzip),
    ("bzip2", Compression::Bzip2),
    ("zstd", Compression::Zstd),
];

const ENCODINGS: [(&str, Encoding); 5] = [
    ("utf8", Encoding::Utf8),
    ("utf16", Encoding::Utf16),
    ("utf16le", Encoding::Utf16Le),
    ("utf16be", Encoding::Utf16Be),
    ("iso88591", Encoding::Iso88591),
];

/// Options of COPY that no format may have: why, and what to do.
const REFUSED: [(&str, &str, &str); 10] = [
    (
        "acceptanydate",
        "turns dates it can't read into NULL, and nothing counts them",
        "write `dateformat`, or load the column as varchar",
    ),
    ("maxerror", "is told by a tolerance", "write `rejected_rows` in `tolerance`"),
    ("ignoreallerrors", "lets any number of rows be lost", "write `rejected_rows` in `tolerance`"),
    ("explicit_ids", "has no use: the staging table has no identity column", "take it out"),
    ("region", "is the stack's to say", "take it out"),
    ("compupdate", "is always off for a staging table", "take it out"),
    ("statupdate", "is always off for a staging table", "take it out"),
    ("escape", "doesn't go with COPY's CSV, which doubles its quotes", "have the files written as CSV"),
    ("removequotes", "doesn't go with COPY's CSV, which takes quotes away itself", "take it out"),
    ("fixedwidth", "is a format of its own, which tells no row from a cut one", "have the files written as CSV"),
];

const OWN_COMPRESSION: (&str, &str, &str) =
    ("compression", "is not told here: each file says itself how it is compressed", "take it out");

/// Reads the table of the dataset's own format; one of another format is told.
pub(super) fn read(dataset: &Reader<'_, '_>, format: Option<Format>) -> CopyOptions {
    let mut found = CopyOptions::default();
    for of in Format::ALL {
        let Some(table) = dataset.table(of.name()) else { continue };
        if let Some(format) = format.filter(|format| *format != of) {
            let remedy = format!("take it out, or write `format = \"{of}\"`");
            table.problem(
                &table.span(),
                Flaw::new(format!("there are {of} options, but the format is {format}"), remedy),
            );
        }
        let options = options(&table, of);
        if format == Some(of) {
            found = options;
        }
    }
    found
}

fn options(table: &Reader<'_, '_>, format: Format) -> CopyOptions {
    let mut options = CopyOptions::default();
    if format == Format::Csv {
        csv(table, &mut options);
    }
    if matches!(format, Format::Csv | Format::Json) {
        options.compression = compression(table).unwrap_or(Compression::Plain);
        options.encoding = table.choice("encoding", &ENCODINGS).unwrap_or(Encoding::Utf8);
    }
    if matches!(format, Format::Json | Format::Avro) {
        options.paths = paths(table).unwrap_or(Paths::Auto);
    }
    if !format.is_columnar() {
        options.date_format = moment(table, "dateformat", &["auto"]);
        options.time_format = moment(table, "timeformat", &["auto", "epochsecs", "epochmillisecs"]);
    }
    options.accept_invalid = character(table, "acceptinvchars");
    for switch in Switch::ALL.into_iter().filter(|switch| switch.is_for(format)) {
        if table.boolean(switch.key()) == Some(true) {
            options.switches.push(switch);
        }
    }
    let mut refused = REFUSED.to_vec();
    if !matches!(format, Format::Csv | Format::Json) {
        refused.push(OWN_COMPRESSION);
    }
    if format.is_columnar() {
        let typed = "has no use: the files' values have types";
        refused.extend(["dateformat", "timeformat", "roundec", "encoding"].map(|key| (key, typed, "take it out")));
        let whole = "is not taken by COPY of columnar files";
        refused.extend(
            ["truncatecolumns", "trimblanks", "blanksasnull", "emptyasnull", "null_as"]
                .map(|key| (key, whole, "take it out")),
        );
    }
    table.finish_refusing(&refused);
    options
}

fn csv(table: &Reader<'_, '_>, options: &mut CopyOptions) {
    options.delimiter = character(table, "delimiter").unwrap_or(options.delimiter);
    options.quote = character(table, "quote").unwrap_or(options.quote);
    if options.delimiter == options.quote {
        let what = format!("`delimiter` and `quote` are both {:?}", options.delimiter);
        table.problem(&table.span(), Flaw::new(what, "write two characters"));
    }
    let ignore_header = table.integer("ignore_header", &(0..=u64::from(u16::MAX)));
    options.ignore_header = ignore_header.and_then(|at| u16::try_from(at.value).ok()).unwrap_or(0);
    options.null_as = table.text("null_as").and_then(|At { value, span }| {
        let plain = value.len() <= 100 && !value.chars().any(char::is_control);
        let flaw =
            || Flaw::new(format!("`null_as` is {value:?}"), "write at most 100 bytes without control characters");
        table.told(&span, if plain { Ok(value.to_owned()) } else { Err(flaw()) })
    });
}

/// One visible ASCII character, a blank or a tab.
fn character(table: &Reader<'_, '_>, key: &'static str) -> Option<char> {
    let At { value, span } = table.text(key)?;
    let mut characters = value.chars();
    let one = characters.next().filter(|c| c.is_ascii_graphic() || matches!(c, ' ' | '\t'));
    if characters.next().is_some() || one.is_none() {
        let remedy = "write one ASCII character (\"\\t\" for a tab)";
        table.problem(&span, Flaw::new(format!("`{key}` is {value:?}"), remedy));
        return None;
    }
    one
}

fn compression(table: &Reader<'_, '_>) -> Option<Compression> {
    if let Some(At { value: "lzop", span }) = table.text("compression") {
        let what = "`compression` is \"lzop\", for which there is no well-kept library to try it with";
        table.problem(&span, Flaw::new(what, "have the files written with zstd or gzip"));
        return None;
    }
    table.choice("compression", &COMPRESSIONS)
}

fn paths(table: &Reader<'_, '_>) -> Option<Paths> {
    let At { value, span } = table.text("paths")?;
    let file = || {
        let (bucket, key) = value.strip_prefix("s3://")?.split_once('/')?;
        let plain = !bucket.is_empty() && !key.is_empty() && !key.ends_with('/');
        (plain && value.len() <= 1_100 && !value.chars().any(char::is_control)).then(|| Paths::File(value.to_owned()))
    };
    let found = match value {
        "auto" => Some(Paths::Auto),
        "auto ignorecase" => Some(Paths::AutoIgnoreCase),
        _ => file(),
    };
    let remedy =
        "write the place of a jsonpaths file, such as \"s3://bucket/paths.json\", or \"auto\" or \"auto ignorecase\"";
    table.told(&span, found.ok_or_else(|| Flaw::new(format!("`paths` is {value:?}"), remedy)))
}

/// A word, or a pattern of Redshift's pieces with something between them.
fn moment(table: &Reader<'_, '_>, key: &'static str, words: &[&str]) -> Option<String> {
    let At { value, span } = table.text(key)?;
    let timed = key == "timeformat";
    if words.contains(&value) || is_pattern(value, timed) {
        return Some(value.to_owned());
    }
    let pieces = if timed { "YYYY, MM, DD, HH, MI and SS" } else { "YYYY, MM and DD" };
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let remedy = format!("write a pattern of {pieces}, each once, or {}", words.join(" or "));
    table.problem(&span, Flaw::new(format!("`{key}` is {value:?}"), remedy));
    None
}

/// Whether a text is a pattern: a year, a month and a day, with `timed` hours and minutes too, nothing twice.
fn is_pattern(text: &str, timed: bool) -> bool {
    // What is longer stands before what it begins with; what is of one kind may occur once.
    const PIECES: [(&str, usize); 13] = [
        ("YYYY", 0),
        ("YY", 0),
        ("MON", 1),
        ("MM", 1),
        ("DD", 2),
        ("HH24", 3),
        ("HH12", 3),
        ("HH", 3),
        ("MI", 4),
        ("SS", 5),
        ("AM", 6),
        ("PM", 6),
        ("OF", 7),
    ];
    let mut seen = [false; 8];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((piece, kind)) = PIECES.iter().find(|(piece, _)| rest.starts_with(piece)) {
            if std::mem::replace(&mut seen[*kind], true) {
                return false;
            }
            rest = &rest[piece.len()..];
        } else if matches!(first, '-' | '/' | '.' | ':' | ',' | ' ' | 'T') {
            rest = &rest[first.len_utf8()..];
        } else {
            return false;
        }
    }
    seen[..3].iter().all(|seen| *seen) && if timed { seen[3] && seen[4] } else { !seen[3..].contains(&true) }
}

/// Writes the table: what CSV always had in full, all else where it differs from the default.
pub(super) fn write(name: &str, format: Format, options: &CopyOptions, text: &mut Text) {
    let CopyOptions { delimiter, quote, ignore_header, null_as, compression, .. } = options;
    if format != Format::Csv && *options == CopyOptions::default() {
        return;
    }
    text.table(format_args!("{name}.{format}"));
    let word = |found: &Compression| COMPRESSIONS.iter().find(|(_, one)| one == found).map_or("none", |(word, _)| word);
    if format == Format::Csv {
        text.word("delimiter", delimiter);
        text.word("quote", quote);
        text.plain("ignore_header", ignore_header);
        if let Some(null_as) = null_as {
            text.word("null_as", null_as);
        }
        text.word("compression", word(compression));
    } else if *compression != Compression::Plain {
        text.word("compression", word(compression));
    }
    match &options.paths {
        Paths::Auto => {}
        Paths::AutoIgnoreCase => text.word("paths", "auto ignorecase"),
        Paths::File(url) => text.word("paths", url),
    }
    if let Some((word, _)) = ENCODINGS[1..].iter().find(|(_, one)| *one == options.encoding) {
        text.word("encoding", word);
    }
    for (key, format) in [("dateformat", &options.date_format), ("timeformat", &options.time_format)] {
        if let Some(format) = format {
            text.word(key, format);
        }
    }
    if let Some(with) = options.accept_invalid {
        text.word("acceptinvchars", with);
    }
    for switch in &options.switches {
        text.plain(switch.key(), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_each_piece_once() {
        for text in ["YYYY-MM-DD", "DD.MM.YYYY", "YYYYMMDD", "MM/DD/YY", "DD MON YYYY"] {
            assert!(is_pattern(text, false), "{text}");
        }
        for text in ["YYYY-MM-DDTHH:MI:SS", "MM/DD/YYYY HH12:MI AM", "YYYY-MM-DD HH24:MI:SSOF", "YYYYMMDDHHMISS"] {
            assert!(is_pattern(text, true) && !is_pattern(text, false), "{text}");
        }
        for text in ["", "YYYY-MM", "YYYY-MM-DD DD", "yyyy-mm-dd", "YYYY-MM-DD'; --", "%Y-%m-%d"] {
            assert!(!is_pattern(text, false) && !is_pattern(text, true), "{text}");
        }
    }
}
