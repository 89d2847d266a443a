//! `COPY table FROM 's3://…' …`: read by hand; an option that isn't imitated is refused by name.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use super::names;
use crate::failure::Failure;

/// What to load, from where, how.
#[expect(clippy::struct_excessive_bools, reason = "COPY has that many switches")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyCommand {
    /// The table as SQL names it, quoted where needed.
    pub(crate) table: String,
    pub(crate) columns: Option<Vec<String>>,
    /// `s3://bucket/key` of the manifest, or a prefix.
    pub(crate) from: String,
    /// The role it assumes: `default`, an ARN, or several.
    pub(crate) role: String,
    pub(crate) manifest: bool,
    pub(crate) format: Format,
    /// How every object is compressed; the files of some formats say it themselves.
    pub(crate) compression: Option<Compression>,
    pub(crate) encoding: Encoding,
    /// `s3://bucket/key` of a jsonpaths file.
    pub(crate) json_paths: Option<String>,
    pub(crate) ignore_header: u64,
    /// Errors at which the load fails; 0 and 1 are the same.
    pub(crate) max_error: u64,
    pub(crate) null_as: String,
    pub(crate) date: DateFormat,
    pub(crate) time: TimeFormat,
    pub(crate) blanks_as_null: bool,
    pub(crate) empty_as_null: bool,
    pub(crate) truncate_columns: bool,
    pub(crate) trim_blanks: bool,
    /// SERIALIZETOJSON: nested columns fill a SUPER.
    pub(crate) serialize_to_json: bool,
    pub(crate) round_decimals: bool,
    /// What stands for an invalid byte; none: such a value is an error.
    pub(crate) accept_invalid: Option<char>,
    pub(crate) ignore_blank_lines: bool,
    pub(crate) fill_record: bool,
    pub(crate) explicit_ids: bool,
}

/// The files' format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `CSV`: quotes are doubled inside quotes.
    Csv {
        delimiter: u8,
        quote: u8,
    },
    /// No format named: fields between delimiters, nothing quoted.
    Delimited {
        delimiter: u8,
    },
    /// `JSON 'auto'`, or `'auto ignorecase'`.
    Json {
        ignore_case: bool,
    },
    /// `AVRO 'auto'`, or `'auto ignorecase'`.
    Avro {
        ignore_case: bool,
    },
    Parquet,
    Orc,
}

impl Format {
    /// Whether columns are mapped by position, and each file has a schema of its own.
    pub(crate) fn is_columnar(self) -> bool {
        matches!(self, Self::Parquet | Self::Orc)
    }

    /// As `sys_load_history.file_format` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csv { .. } => "csv",
            Self::Delimited { .. } => "text",
            Self::Json { .. } => "json",
            Self::Avro { .. } => "avro",
            Self::Parquet => "parquet",
            Self::Orc => "orc",
        }
    }
}

/// How whole files are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Bzip2,
    Zstd,
}

/// The files' characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// By its byte order mark.
    Utf16,
    Utf16Le,
    Utf16Be,
    Latin1,
}

/// `DATEFORMAT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DateFormat {
    Iso,
    Auto,
    Pattern(String),
}

/// `TIMEFORMAT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    Iso,
    Auto,
    Pattern(String),
    EpochSeconds,
    EpochMilliseconds,
}

/// Reads the command whose first word is `COPY`.
pub(crate) fn parse(lexed: &Lexed) -> Result<CopyCommand, Failure> {
    let (table, mut at) = names::qualified(lexed, 1)?;
    let mut columns = None;
    if lexed.is(at, &Token::LParen) {
        let end = lexed.after_parenthesis(at)?;
        let named: Result<Vec<String>, Failure> = (at + 1..end - 1)
            .filter(|index| !lexed.is(*index, &Token::Comma))
            .map(|index| names::one(lexed, index).map(|name| name.trim_matches('"').replace("\"\"", "\"")))
            .collect();
        columns = Some(named?);
        at = end;
    }
    if lexed.word(at) != "FROM" {
        return Err(lexed.error_at(at));
    }
    let from = string(lexed, at + 1)?;
    if !from.starts_with("s3://") {
        return Err(Failure::not_imitated("COPY from anything but s3://"));
    }
    let mut options = Options { lexed, at: at + 2, format: None, delimiter: None, quote: None, json_paths: None };
    let mut command = CopyCommand {
        table,
        columns,
        from,
        role: String::new(),
        manifest: false,
        format: Format::Delimited { delimiter: b'|' },
        compression: None,
        encoding: Encoding::Utf8,
        json_paths: None,
        ignore_header: 0,
        max_error: 0,
        null_as: "\\N".to_owned(),
        date: DateFormat::Iso,
        time: TimeFormat::Iso,
        blanks_as_null: false,
        empty_as_null: false,
        truncate_columns: false,
        trim_blanks: false,
        serialize_to_json: false,
        round_decimals: false,
        accept_invalid: None,
        ignore_blank_lines: false,
        fill_record: false,
        explicit_ids: false,
    };
    let mut seen = Vec::new();
    while options.at < lexed.tokens.len() {
        seen.push(lexed.word(options.at));
        options.one(&mut command)?;
    }
    options.finish(&mut command, &seen)?;
    Ok(command)
}

struct Options<'a> {
    lexed: &'a Lexed,
    at: usize,
    format: Option<Format>,
    delimiter: Option<u8>,
    quote: Option<u8>,
    json_paths: Option<String>,
}

impl Options<'_> {
    /// Reads one option.
    fn one(&mut self, command: &mut CopyCommand) -> Result<(), Failure> {
        let start = self.at;
        self.at += 1;
        match self.lexed.word(start).as_str() {
            "IAM_ROLE" => {
                command.role = if self.lexed.word(self.at) == "DEFAULT" {
                    self.at += 1;
                    "default".to_owned()
                } else {
                    self.string()?
                };
            }
            "MANIFEST" => command.manifest = true,
            "REGION" => drop(self.as_string()?),
            "FORMAT" => {
                self.skip("AS");
                let at = self.at;
                self.at += 1;
                self.format_named(at)?;
            }
            "CSV" | "JSON" | "PARQUET" | "AVRO" | "ORC" | "SHAPEFILE" | "FIXEDWIDTH" => self.format_named(start)?,
            "DELIMITER" => self.delimiter = Some(single_byte(&self.as_string()?)?),
            "QUOTE" => self.quote = Some(single_byte(&self.as_string()?)?),
            "GZIP" => command.compression = Some(Compression::Gzip),
            "BZIP2" => command.compression = Some(Compression::Bzip2),
            "ZSTD" => command.compression = Some(Compression::Zstd),
            "IGNOREHEADER" => command.ignore_header = self.as_number()?,
            "MAXERROR" => command.max_error = self.as_number()?,
            "NULL" => command.null_as = self.as_string()?,
            "DATEFORMAT" => {
                command.date = match self.as_string()?.as_str() {
                    "auto" => DateFormat::Auto,
                    "YYYY-MM-DD" => DateFormat::Iso,
                    other => DateFormat::Pattern(other.to_owned()),
                }
            }
            "TIMEFORMAT" => {
                command.time = match self.as_string()?.as_str() {
                    "auto" => TimeFormat::Auto,
                    "epochsecs" => TimeFormat::EpochSeconds,
                    "epochmillisecs" => TimeFormat::EpochMilliseconds,
                    "YYYY-MM-DD HH:MI:SS" => TimeFormat::Iso,
                    other => TimeFormat::Pattern(other.to_owned()),
                }
            }
            "BLANKSASNULL" => command.blanks_as_null = true,
            "EMPTYASNULL" => command.empty_as_null = true,
            "TRIMBLANKS" => command.trim_blanks = true,
            "SERIALIZETOJSON" => command.serialize_to_json = true,
            "TRUNCATECOLUMNS" => command.truncate_columns = true,
            "ROUNDEC" => command.round_decimals = true,
            "IGNOREBLANKLINES" => command.ignore_blank_lines = true,
            "FILLRECORD" => command.fill_record = true,
            "EXPLICIT_IDS" => command.explicit_ids = true,
            "ACCEPTINVCHARS" => {
                self.skip("AS");
                let replacement = self.lexed.tokens.get(self.at).and_then(super::lex::Lexeme::string);
                command.accept_invalid = Some(replacement.and_then(|text| text.chars().next()).unwrap_or('?'));
                self.at += usize::from(replacement.is_some());
            }
            "ENCODING" => {
                self.skip("AS");
                self.at += 1;
                command.encoding = match self.lexed.word(self.at - 1).as_str() {
                    "UTF8" => Encoding::Utf8,
                    "UTF16" => Encoding::Utf16,
                    "UTF16LE" => Encoding::Utf16Le,
                    "UTF16BE" => Encoding::Utf16Be,
                    "ISO88591" => Encoding::Latin1,
                    _ => return Err(self.lexed.error_at(self.at - 1)),
                };
            }
            "COMPUPDATE" | "STATUPDATE" => {
                if matches!(self.lexed.word(self.at).as_str(), "ON" | "OFF" | "TRUE" | "FALSE" | "PRESET") {
                    self.at += 1;
                }
            }
            known @ ("ESCAPE" | "REMOVEQUOTES" | "ACCEPTANYDATE" | "NOLOAD" | "COMPROWS" | "IGNOREALLERRORS"
            | "LZOP" | "ENCRYPTED" | "SSH" | "READRATIO" | "CREDENTIALS" | "ACCESS_KEY_ID" | "JOB") => {
                return Err(Failure::not_imitated(&format!("COPY {known}")));
            }
            _ => return Err(self.lexed.error_at(start)),
        }
        Ok(())
    }

    fn format_named(&mut self, at: usize) -> Result<(), Failure> {
        self.format = Some(match self.lexed.word(at).as_str() {
            "CSV" => Format::Csv { delimiter: b',', quote: b'"' },
            "PARQUET" => Format::Parquet,
            "ORC" => Format::Orc,
            word @ ("JSON" | "AVRO") => {
                self.skip("AS");
                let ignore_case = match self.string()?.as_str() {
                    "auto" => false,
                    "auto ignorecase" => true,
                    url if url.starts_with("s3://") => {
                        self.json_paths = Some(url.to_owned());
                        false
                    }
                    other => return Err(Failure::not_imitated(&format!("COPY {word} '{other}'"))),
                };
                if word == "JSON" { Format::Json { ignore_case } } else { Format::Avro { ignore_case } }
            }
            other @ ("SHAPEFILE" | "FIXEDWIDTH") => {
                return Err(Failure::not_imitated(&format!("COPY FORMAT {other}")));
            }
            _ => return Err(self.lexed.error_at(at)),
        });
        Ok(())
    }

    /// What only the whole list tells: which options go together.
    fn finish(self, command: &mut CopyCommand, seen: &[String]) -> Result<(), Failure> {
        if command.role.is_empty() {
            return Err(Failure::new("No valid credentials were given: IAM_ROLE is missing"));
        }
        command.format = match self.format {
            Some(Format::Csv { delimiter, quote }) => {
                Format::Csv { delimiter: self.delimiter.unwrap_or(delimiter), quote: self.quote.unwrap_or(quote) }
            }
            None => Format::Delimited { delimiter: self.delimiter.unwrap_or(b'|') },
            Some(other) if self.delimiter.is_some() || self.quote.is_some() => {
                return Err(not_for(other, "DELIMITER"));
            }
            Some(other) => other,
        };
        if self.quote.is_some() && !matches!(command.format, Format::Csv { .. }) {
            return Err(Failure::new("QUOTE is only supported with the CSV format"));
        }
        command.json_paths = self.json_paths;
        if command.format.is_columnar() {
            const ALLOWED: [&str; 10] = [
                "IAM_ROLE",
                "MANIFEST",
                "FORMAT",
                "PARQUET",
                "ORC",
                "FILLRECORD",
                "STATUPDATE",
                "EXPLICIT_IDS",
                "SERIALIZETOJSON",
                "ACCEPTINVCHARS",
            ];
            if let Some(other) = seen.iter().find(|word| !ALLOWED.contains(&word.as_str())) {
                return Err(not_for(command.format, other));
            }
        }
        Ok(())
    }

    fn skip(&mut self, word: &str) {
        self.at += usize::from(self.lexed.word(self.at) == word);
    }

    fn string(&mut self) -> Result<String, Failure> {
        self.at += 1;
        string(self.lexed, self.at - 1)
    }

    fn as_string(&mut self) -> Result<String, Failure> {
        self.skip("AS");
        self.string()
    }

    fn as_number(&mut self) -> Result<u64, Failure> {
        self.skip("AS");
        self.at += 1;
        self.lexed
            .tokens
            .get(self.at - 1)
            .and_then(|lexeme| self.lexed.slice(lexeme).parse().ok())
            .ok_or_else(|| self.lexed.error_at(self.at - 1))
    }
}

fn not_for(format: Format, option: &str) -> Failure {
    Failure::new(format!("{option} argument is not supported for {} based COPY", format.name().to_ascii_uppercase()))
}

fn string(lexed: &Lexed, at: usize) -> Result<String, Failure> {
    lexed.tokens.get(at).and_then(|lexeme| lexeme.string()).map(str::to_owned).ok_or_else(|| lexed.error_at(at))
}

fn single_byte(text: &str) -> Result<u8, Failure> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        // Redshift reads an escape in the delimiter's own text too.
        b"\\t" => Ok(b'\t'),
        _ => Err(Failure::new(format!("COPY delimiter must be a single ASCII character, not '{text}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(sql: &str) -> Result<CopyCommand, String> {
        parse(&Lexed::new(sql).unwrap()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_options_the_product_emits() {
        let command = copy(
            "COPY tidemark_staging.\"S1\" (\"a\", b) FROM 's3://control/m''s.json' IAM_ROLE default MANIFEST \
             FORMAT AS CSV QUOTE AS '\"' DELIMITER ';' IGNOREHEADER 1 NULL AS '\\\\N' GZIP DATEFORMAT 'auto' \
             TIMEFORMAT AS 'auto' MAXERROR 10 COMPUPDATE OFF STATUPDATE OFF",
        )
        .unwrap();
        assert_eq!(command.table, "tidemark_staging.\"s1\"");
        assert_eq!(command.columns.unwrap(), ["a", "b"]);
        assert_eq!(command.from, "s3://control/m's.json");
        assert_eq!(command.format, Format::Csv { delimiter: b';', quote: b'"' });
        assert_eq!(command.null_as, "\\N");
        assert!(command.manifest && command.compression == Some(Compression::Gzip));
        assert_eq!((command.ignore_header, command.max_error), (1, 10));
        assert_eq!((command.date, command.time), (DateFormat::Auto, TimeFormat::Auto));
    }

    #[test]
    fn options_that_do_not_go_with_parquet_or_do_not_exist() {
        for (sql, text) in [
            (
                "COPY t FROM 's3://b/k' IAM_ROLE default FORMAT PARQUET MAXERROR 3",
                "MAXERROR argument is not supported for PARQUET",
            ),
            (
                "COPY t FROM 's3://b/k' IAM_ROLE default FORMAT PARQUET REGION 'eu-west-1'",
                "REGION argument is not supported",
            ),
            ("COPY t FROM 's3://b/k' IAM_ROLE default FORMAT PARQUET COMPUPDATE OFF", "COMPUPDATE argument"),
            ("COPY t FROM STDIN", "near \"STDIN\""),
            ("COPY t FROM 's3://b/k' CSV", "IAM_ROLE"),
            ("COPY t FROM 's3://b/k' IAM_ROLE default HEADER", "near \"HEADER\""),
            ("COPY t FROM 's3://b/k' IAM_ROLE default AVRO 'schema'", "COPY AVRO 'schema' is not imitated"),
        ] {
            let error = copy(sql).unwrap_err();
            assert!(error.contains(text), "{sql}: {error}");
        }
    }
}
