//! COPY: the statement that fills a staging table, with the options its definition asks for.

use super::rebuild::{CopyRole, CopySource, Request};
use super::{SqlError, literal};
use crate::definition::{Compression, Definition, Encoding, Format, Paths, SqlType, Switch};

/// COPY from a manifest into the batch's staging table.
pub(super) fn copy(request: &Request<'_>, source: &CopySource) -> Result<String, SqlError> {
    let definition = request.definition;
    let mut clauses = vec![
        format!("COPY {}", request.staging()?),
        format!("FROM {}", literal::text(&source.manifest_url)?),
        format!("IAM_ROLE {} MANIFEST", role(&source.role)?),
    ];
    if definition.format.is_columnar() {
        columnar(definition, &mut clauses)?;
        return Ok(clauses.join("\n"));
    }
    if let Some(region) = &source.region {
        clauses.push(format!("REGION AS {}", literal::text(region)?));
    }
    clauses.push(format(definition)?);
    clauses.extend(options(definition)?);
    clauses.push("COMPUPDATE OFF STATUPDATE OFF".to_owned());
    let allowed = definition.tolerance.rejected_rows;
    if allowed > 0 {
        // COPY fails once it has met this many errors, so one more than what is let pass; 100,000 is the most it takes.
        clauses.push(format!("MAXERROR AS {}", allowed.saturating_add(1).min(100_000)));
    }
    Ok(clauses.join("\n"))
}

/// How a COPY names its role.
pub(super) fn role(role: &CopyRole) -> Result<String, SqlError> {
    Ok(match role {
        CopyRole::Default => "default".to_owned(),
        CopyRole::Arn(arn) => literal::text(arn)?,
    })
}

/// Columnar formats take hardly an option: no COMPUPDATE, no MAXERROR, no REGION.
fn columnar(definition: &Definition, clauses: &mut Vec<String>) -> Result<(), SqlError> {
    let mut format = format!("FORMAT AS {} STATUPDATE OFF", definition.format.name().to_ascii_uppercase());
    if definition.columns.iter().any(|column| column.sql_type == SqlType::Super) {
        // Without it COPY takes no nested column.
        format.push_str(" SERIALIZETOJSON");
    }
    clauses.push(format);
    if definition.copy.has(Switch::FillRecord) {
        clauses.push("FILLRECORD".to_owned());
    }
    clauses.extend(accept_invalid(definition)?);
    Ok(())
}

fn format(definition: &Definition) -> Result<String, SqlError> {
    let copy = &definition.copy;
    let paths = match &copy.paths {
        Paths::Auto => "auto",
        Paths::AutoIgnoreCase => "auto ignorecase",
        Paths::File(url) => url,
    };
    Ok(match definition.format {
        Format::Json => format!("FORMAT AS JSON {}", literal::text(paths)?),
        Format::Avro => format!("FORMAT AS AVRO {}", literal::text(paths)?),
        Format::Csv | Format::Parquet | Format::Orc => format!(
            "FORMAT AS CSV QUOTE AS {} DELIMITER AS {}",
            literal::text(&copy.quote.to_string())?,
            literal::text(&copy.delimiter.to_string())?
        ),
    })
}

/// In a fixed order; nothing for what keeps Redshift's own default.
fn options(definition: &Definition) -> Result<Vec<String>, SqlError> {
    let copy = &definition.copy;
    let mut clauses = Vec::new();
    if copy.ignore_header > 0 {
        clauses.push(format!("IGNOREHEADER AS {}", copy.ignore_header));
    }
    if let Some(null_as) = &copy.null_as {
        clauses.push(format!("NULL AS {}", literal::text(null_as)?));
    }
    match copy.compression {
        Compression::Plain => {}
        Compression::Gzip => clauses.push("GZIP".to_owned()),
        Compression::Bzip2 => clauses.push("BZIP2".to_owned()),
        Compression::Zstd => clauses.push("ZSTD".to_owned()),
    }
    match copy.encoding {
        Encoding::Utf8 => {}
        Encoding::Utf16 => clauses.push("ENCODING AS UTF16".to_owned()),
        Encoding::Utf16Le => clauses.push("ENCODING AS UTF16LE".to_owned()),
        Encoding::Utf16Be => clauses.push("ENCODING AS UTF16BE".to_owned()),
        Encoding::Iso88591 => clauses.push("ENCODING AS ISO88591".to_owned()),
    }
    if let Some(format) = &copy.date_format {
        clauses.push(format!("DATEFORMAT AS {}", literal::text(format)?));
    }
    if let Some(format) = &copy.time_format {
        clauses.push(format!("TIMEFORMAT AS {}", literal::text(format)?));
    }
    clauses.extend(accept_invalid(definition)?);
    clauses.extend(copy.switches.iter().map(|switch| {
        match switch {
            Switch::TruncateColumns => "TRUNCATECOLUMNS",
            Switch::TrimBlanks => "TRIMBLANKS",
            Switch::BlanksAsNull => "BLANKSASNULL",
            Switch::EmptyAsNull => "EMPTYASNULL",
            Switch::IgnoreBlankLines => "IGNOREBLANKLINES",
            Switch::FillRecord => "FILLRECORD",
            Switch::RoundDecimals => "ROUNDEC",
        }
        .to_owned()
    }));
    Ok(clauses)
}

fn accept_invalid(definition: &Definition) -> Result<Option<String>, SqlError> {
    let with = definition.copy.accept_invalid.map(|with| literal::text(&with.to_string()));
    Ok(with.transpose()?.map(|with| format!("ACCEPTINVCHARS AS {with}")))
}
