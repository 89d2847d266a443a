//! The footer of a Parquet file: how many rows, and which columns, without reading the rest.

mod frame;

use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;

/// How many bytes of a file's end are read at first: enough for the footer of most files.
pub const FIRST_READ: u64 = 64 * 1024;

/// What a footer tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// Rows of all row groups.
    pub rows: u64,
    /// The top-level columns' names, in the file's order.
    pub columns: Vec<String>,
}

/// Why a footer can't be had from these bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FooterError {
    /// The footer is longer: read this many bytes of the end.
    #[error("the footer needs the last {0} bytes")]
    NeedsMore(u64),
    /// Not a Parquet file, or a broken one.
    #[error("not a readable Parquet file: {0}")]
    Broken(String),
}

/// Reads the footer from the last bytes of a file of `size` bytes. Memory is bounded by the footer's own bytes.
pub fn read(tail: &[u8], size: u64) -> Result<Footer, FooterError> {
    let broken = |error: ParquetError| FooterError::Broken(error.to_string());
    let essentials = frame::essentials(frame::footer(tail, size)?)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&essentials).map_err(broken)?;
    let file = metadata.file_metadata();
    let rows = u64::try_from(file.num_rows())
        .map_err(|_| FooterError::Broken(format!("{} rows in its footer", file.num_rows())))?;
    let columns = file.schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
    Ok(Footer { rows, columns })
}
