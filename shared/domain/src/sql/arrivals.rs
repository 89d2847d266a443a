//! What the ledger knows of when files came: a row per partition and ten minutes, each file counted once.
//!
//! `tidemark.files` has a file again for each batch that listed it. A file is a key with an `ETag`: it came when that version was
//! first seen, and is of the partition that the newest batch says.

use jiff::{SignedDuration, Timestamp};

use super::rows::{Field, Reader, RowError};
use super::{Batch, SqlError, literal};
use crate::id::{DatasetName, InvalidId, PartitionName, StackName};
use crate::lateness::STEP;

/// Files of a partition that came in the same ten minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    /// Which partition.
    pub partition: PartitionName,
    /// The beginning of the ten minutes.
    pub at: Timestamp,
    /// How many.
    pub files: u64,
}

/// When the files of a dataset's committed batches came; read the result with [`read`].
pub fn arrivals(stack: &StackName, dataset: &DatasetName) -> Result<Batch, SqlError> {
    let sql = format!(
        "SELECT partition_name, step, COUNT(*)\n\
         FROM (\n    \
             SELECT b.partition_name,\n        \
                 DATEDIFF(minute, TIMESTAMP '1970-01-01 00:00:00', MIN(f.last_modified) OVER (PARTITION BY f.key, f.etag)) / {minutes} AS step,\n        \
                 ROW_NUMBER() OVER (PARTITION BY f.key, f.etag ORDER BY b.swapped_at DESC, b.batch_id DESC) AS nth\n    \
             FROM tidemark.batches AS b JOIN tidemark.files AS f ON f.batch_id = b.batch_id\n    \
             WHERE b.stack = {stack} AND b.dataset = {dataset}\n\
         ) AS seen\n\
         WHERE nth = 1\n\
         GROUP BY partition_name, step",
        minutes = STEP.as_mins(),
        stack = literal::text(stack.as_str())?,
        dataset = literal::text(dataset.as_str())?,
    );
    Batch::new(format!("tidemark/{dataset}/arrivals"), vec!["SET timezone TO 'UTC'".to_owned(), sql])
}

/// Reads the rows of [`arrivals`].
pub fn read(rows: &[Vec<Field>]) -> Result<Vec<Came>, RowError> {
    let read = |row: &Vec<Field>| {
        let mut row = Reader::new("arrivals", row);
        let name = row.text("partition_name")?;
        let partition = PartitionName::new(name.clone())
            .map_err(|_: InvalidId| row.wrong("partition_name", "a partition's name", Field::Text(name)))?;
        let steps = i32::try_from(row.count("step")?).unwrap_or(i32::MAX);
        let since: SignedDuration = STEP.saturating_mul(steps);
        let at = Timestamp::UNIX_EPOCH.checked_add(since).unwrap_or(Timestamp::MAX);
        Ok(Came { partition, at, files: row.count("count")? })
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_come() {
        let row = vec![Field::Text("dt=2026-11-01".into()), Field::Long(3), Field::Long(7)];
        let came = read(&[row]).unwrap().remove(0);
        assert_eq!(
            (came.partition.as_str(), came.at.to_string(), came.files),
            ("dt=2026-11-01", "1970-01-01T00:30:00Z".into(), 7)
        );
        assert!(read(&[vec![Field::Text(String::new()), Field::Long(3), Field::Long(7)]]).is_err());
        assert!(read(&[vec![Field::Text("p".into()), Field::Null, Field::Long(7)]]).is_err());
    }
}
