//! The runbook's queries, filled in for a partition at hand. They only read.
//!
//! A query is a text with placeholders in braces, such as `{partition}`: whole literals and quoted names stand in their places,
//! never parts of them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::rebuild::Request;
use super::{SqlError, count, identifier, literal};
use crate::apply::lookback_over;
use crate::definition::Definition;
use crate::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation, StackName};
use crate::lateness::{self, Span};
use crate::partition_value::Partition;

/// What a query is about.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The stack that owns the target.
    pub stack: &'a StackName,
    /// The dataset, as it is in force.
    pub definition: &'a Definition,
    /// The partition.
    pub partition: &'a Partition,
    /// The newest committed batch.
    pub committed: Option<BatchId>,
    /// The batch in progress, or else the newest that ended: whose staging table may be there.
    pub newest: Option<(BatchId, Option<&'a Digest>)>,
}

/// Why a query can't be filled in for a partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// There is nothing that would stand in a placeholder's place.
    #[error("{0}")]
    Nothing(&'static str),
    /// The query has a placeholder that nobody knows.
    #[error("the query has the unknown placeholder {{{0}}}")]
    Unknown(String),
    /// A value or name has no SQL.
    #[error(transparent)]
    Sql(#[from] SqlError),
}

/// The placeholders there are, each with what stands in its place.
pub const PLACEHOLDERS: [(&str, &str); 10] = [
    ("stack", "the stack's name, as a literal"),
    ("dataset", "the dataset's name, as a literal"),
    ("partition", "the partition's name, such as 'dt=2026-11-01', as a literal"),
    ("target", "the target table"),
    ("of_partition", "the condition that a row of the target is of the partition, such as \"dt\" = DATE '2026-11-01'"),
    ("key", "the columns of the business key"),
    ("batch", "the id of the newest committed batch, as a literal"),
    ("staging", "the staging table of the newest batch, such as tidemark_staging.\"batch_0193…\""),
    ("day_over", "the moment at which the partition was over (its range, hour or day), in UTC"),
    ("lookback_over", "the moment from which lookback doesn't reach the partition any more, in UTC"),
];

/// The query with everything in its place. Comments that tell of placeholders are left out: a value with a line break would
/// leave the comment.
pub fn fill(query: &str, about: &About<'_>) -> Result<String, FillError> {
    let lines = query.lines().filter(|line| !(line.starts_with("--") && line.contains('{')));
    let query: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut filled = String::with_capacity(query.len());
    let mut rest = query.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| FillError::Unknown(after.to_owned()))?;
        filled += before;
        filled += &value(name, about)?;
        rest = after;
    }
    Ok(filled + rest)
}

fn value(name: &str, about: &About<'_>) -> Result<String, FillError> {
    let text = |text: &str| literal::text(text).map_err(SqlError::from);
    Ok(match name {
        "stack" => text(about.stack.as_str())?,
        "dataset" => text(about.definition.name.as_str())?,
        "partition" => text(about.partition.name.as_str())?,
        "target" => identifier::table(&about.definition.target).map_err(SqlError::from)?,
        "of_partition" => of_partition(about)?,
        "key" if about.definition.key.is_empty() => {
            return Err(FillError::Nothing("the dataset has no `key`, so nothing can be a duplicate"));
        }
        "key" => {
            let columns = about.definition.key.iter().map(identifier::column).collect::<Result<Vec<_>, _>>();
            columns.map_err(SqlError::from)?.join(", ")
        }
        "batch" => match about.committed {
            Some(batch) => text(&batch.to_string())?,
            None => return Err(FillError::Nothing("no batch of the partition has committed")),
        },
        "staging" => match about.newest {
            Some((batch, listed)) => {
                identifier::staging(&identifier::staging_name(batch, listed)).map_err(SqlError::from)?
            }
            None => return Err(FillError::Nothing("no batch of the partition is known")),
        },
        "day_over" => moment(span(about)?.end)?,
        "lookback_over" => {
            // A partition that has no time is refused, as above.
            span(about)?;
            moment(lookback_over(about.definition, about.partition).unwrap_or(Timestamp::MAX))?
        }
        unknown => return Err(FillError::Unknown(unknown.to_owned())),
    })
}

fn of_partition(about: &About<'_>) -> Result<String, SqlError> {
    let hash: DefinitionHash = about.definition.hash();
    count::of_partition(&Request {
        definition: about.definition,
        definition_hash: &hash,
        partition: about.partition,
        stack: about.stack,
        batch: BatchId(uuid::Uuid::nil()),
        fence: Fence(0),
        generation: Generation(0),
        epoch: Epoch(0),
        statement_timeout: Duration::ZERO,
        last: None,
        accept_foreign_rows: false,
        listed: None,
    })
}

/// The time that the partition stands for, as `tidemark lateness` takes it.
fn span(about: &About<'_>) -> Result<Span, FillError> {
    let nothing = FillError::Nothing("the partition has no date, so nothing of it is late");
    lateness::span(about.definition, about.partition).ok_or(nothing)
}

fn moment(at: Timestamp) -> Result<String, FillError> {
    // Beyond the years that a literal may have, nothing is.
    let last = jiff::civil::date(9999, 12, 31).at(23, 59, 59, 0);
    Ok(literal::timestamp(TimeZone::UTC.to_datetime(at).min(last)).map_err(SqlError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;
    use crate::id::PartitionName;
    use crate::lateness::Arrival;

    const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "region={region}/dt={dt}/"
format = "csv"
target = "sales.orders"
columns = ["id bigint"]
key = ["id"]
lookback = "3d"
[orders.partition.region]
type = "text"
[orders.partition.dt]
type = "date"
"#;

    fn filled(query: &str, toml: &str, partition: &str) -> Result<String, FillError> {
        let definition = parse(toml).unwrap().remove(0);
        let partition = definition.partition(&PartitionName::new(partition).unwrap()).unwrap();
        let stack = StackName::new("prod").unwrap();
        let batch = "01936000-0000-7000-8000-000000000001".parse().ok().map(BatchId);
        let newest = batch.map(|batch| (batch, None));
        let about = About { stack: &stack, definition: &definition, partition: &partition, committed: batch, newest };
        fill(query, &about)
    }

    #[test]
    fn each_placeholder_is_filled_in_once_whatever_values_hold() {
        let name = "region=O'Brien{target}/dt=2026-11-01";
        let told = |query: &str| filled(query, ORDERS, name).unwrap().trim_end().to_owned();
        assert_eq!(told("-- {partition} is told\n-- One.\nSELECT 1"), "-- One.\nSELECT 1");
        assert_eq!(told("{stack}|{dataset}|{partition}"), "'prod'|'orders'|'region=O''Brien{target}/dt=2026-11-01'");
        assert_eq!(told("{of_partition}"), "\"region\" = 'O''Brien{target}' AND \"dt\" = DATE '2026-11-01'");
        assert_eq!(told("{target} {key}"), "\"sales\".\"orders\" \"id\"");
        assert!(told("{staging}").starts_with("tidemark_staging.\"batch_01936000"));
        assert!(told("{day_over}").contains("2026-11-02 00:00:00"), "{}", told("{day_over}"));
        assert!(told("{lookback_over}").contains("2026-11-05 00:00:00"));
        for (name, _) in PLACEHOLDERS {
            assert!(!told(&format!("{{{name}}}")).is_empty());
        }
    }

    /// What the query calls late, and within lookback, is what the command and the metrics count.
    #[test]
    fn late_is_what_lateness_counts_as_late() {
        let hourly =
            ORDERS.replace("/dt={dt}/", "/dt={dt}/hour={hour}/") + "[orders.partition.hour]\ntype = \"integer\"\n";
        let ranged = ORDERS.replace("columns = [\"id bigint\"]", "columns = [\"id bigint\", \"at timestamptz\"]")
            + "range_of = \"at\"\ngrain = \"day\"\ntimezone = \"Europe/Berlin\"\n";
        let cases = [
            (ORDERS.to_owned(), "region=x/dt=2026-11-01"),
            (hourly, "region=x/dt=2026-11-01/hour=07"),
            (ranged, "region=x/dt=2026-11-01"),
        ];
        for (toml, name) in cases {
            let definition = parse(&toml).unwrap().remove(0);
            let partition = definition.partition(&PartitionName::new(name).unwrap()).unwrap();
            let told = |placeholder: &str| {
                let literal = filled(&format!("{{{placeholder}}}"), &toml, name).unwrap();
                let text = literal.split('\'').nth(1).unwrap().to_owned();
                TimeZone::UTC.to_timestamp(text.parse::<jiff::civil::DateTime>().unwrap()).unwrap()
            };
            let (over, lookback_over) = (told("day_over"), told("lookback_over"));
            let second = jiff::SignedDuration::from_secs(1);
            let arrivals = [over - second, over, lookback_over - second, lookback_over]
                .map(|came| lateness::arrival(&definition, &partition, came));
            let expected = [Arrival::InTime, Arrival::InWindow, Arrival::InWindow, Arrival::OutsideWindow];
            assert_eq!(arrivals, expected, "{name}: {over}, {lookback_over}");
        }
    }

    #[test]
    fn what_cannot_be_filled_in_says_why() {
        let plain = "[n]\nsource = \"s3://lake-raw/n/\"\nlayout = \"n={n}/\"\nformat = \"csv\"\ntarget = \"a.n\"\n\
                     columns = [\"id bigint\"]\n[n.partition.n]\ntype = \"integer\"\n";
        for (query, why) in [("{key}", "no `key`"), ("{day_over}", "no date"), ("{nonsense}", "{nonsense}")] {
            let error = filled(query, plain, "n=1").unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
