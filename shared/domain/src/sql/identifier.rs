//! Quoted identifiers: the only door by which a name enters SQL.

use sha2::{Digest as _, Sha256};

use crate::definition::{ColumnName, TableName};
use crate::id::{BatchId, Digest};

/// Redshift's limit, in bytes.
pub const MAX_BYTES: usize = 127;
/// The schema of ledger, fence tables and procedures.
pub const SCHEMA: &str = "tidemark";
/// The schema of staging tables.
pub const STAGING_SCHEMA: &str = "tidemark_staging";
/// Digits of the digest in a staging table's name, which has 55 bytes with them.
const DIGEST_DIGITS: usize = 12;

/// Why a name is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentifier {
    /// Redshift cuts longer names silently.
    #[error("name {0:?} must have 1 to {MAX_BYTES} bytes")]
    Length(String),
    /// No identifier holds U+0000.
    #[error("name {0:?} holds a NUL byte")]
    Nul(String),
}

/// `"…"`, with quotes doubled. Always quoted, so that no name is ever a keyword.
pub fn quoted(name: &str) -> Result<String, InvalidIdentifier> {
    if !(1..=MAX_BYTES).contains(&name.len()) {
        return Err(InvalidIdentifier::Length(name.to_owned()));
    }
    if name.contains('\0') {
        return Err(InvalidIdentifier::Nul(name.to_owned()));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// A column.
pub fn column(name: &ColumnName) -> Result<String, InvalidIdentifier> {
    quoted(&name.0)
}

/// `"schema"."table"`.
pub fn table(name: &TableName) -> Result<String, InvalidIdentifier> {
    Ok(format!("{}.{}", quoted(&name.schema)?, quoted(&name.table)?))
}

/// The bare name of a batch's staging table: `batch_`, the batch's id, and the first digits of the digest of what it listed. So a
/// batch that lists once more, which one does that a restored state table knows as listing, never takes what it staged before for
/// its own.
pub fn staging_name(batch: BatchId, listed: Option<&Digest>) -> String {
    let digits: String = listed.map(|digest| digest.as_str().chars().take(DIGEST_DIGITS).collect()).unwrap_or_default();
    if digits.is_empty() { format!("batch_{batch}") } else { format!("batch_{batch}_{digits}") }
}

/// The batch whose staging table has this name, if it is one.
pub fn batch_of_staging(name: &str) -> Option<BatchId> {
    let name = name.strip_prefix("batch_")?;
    name.split_once('_').map_or(name, |(id, _)| id).parse().ok().map(BatchId)
}

/// `tidemark_staging."batch_…"`.
pub fn staging(name: &str) -> Result<String, InvalidIdentifier> {
    Ok(format!("{STAGING_SCHEMA}.{}", quoted(name)?))
}

/// What Tidemark keeps per target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerTarget {
    /// The fence table.
    Fence,
    /// The procedure at the head of a swap.
    Claim,
    /// The procedure that shuts older swaps out.
    FenceOff,
    /// The procedure that writes the guard row.
    Own,
}

/// `tidemark."fence_sales_orders_…"`.
pub fn per_target(what: PerTarget, target: &TableName) -> Result<String, InvalidIdentifier> {
    Ok(format!("{SCHEMA}.{}", quoted(&per_target_name(what, target))?))
}

/// The bare name: readable, at most 63 bytes (PostgreSQL's limit too), and told apart by a hash, since `a_b.c` and `a.b_c`
/// would otherwise share a name. Should two targets share it all the same, the guard row refuses the second.
pub fn per_target_name(what: PerTarget, target: &TableName) -> String {
    let prefix = match what {
        PerTarget::Fence => "fence",
        PerTarget::Claim => "claim",
        PerTarget::FenceOff => "fence_off",
        PerTarget::Own => "own",
    };
    let hash = hex::encode(Sha256::digest(target.to_string()));
    let readable: String = format!("{}_{}", target.schema, target.table)
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' })
        .take(40)
        .collect();
    format!("{prefix}_{readable}_{}", &hash[..10])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sqlparser::dialect::RedshiftSqlDialect;
    use sqlparser::tokenizer::{Token, Tokenizer};

    use super::*;

    #[test]
    fn names_have_1_to_127_bytes() {
        assert!(quoted(&"é".repeat(63)).is_ok());
        assert!(quoted(&"é".repeat(64)).is_err());
        assert!(quoted("").is_err());
        assert!(quoted("a\0").is_err());
    }

    #[test]
    fn staging_tables_are_named_by_their_batch_and_what_it_listed() {
        let batch = BatchId("01936000-0000-7000-8000-000000000002".parse().unwrap());
        let name = staging_name(batch, Some(&Digest::stored("0123456789abcdef".repeat(4))));
        assert_eq!(name, "batch_01936000-0000-7000-8000-000000000002_0123456789ab");
        assert_eq!(batch_of_staging(&name), Some(batch));
        assert_eq!(batch_of_staging(&staging_name(batch, None)), Some(batch));
        assert_eq!(batch_of_staging("batch_of_somebody"), None);
        assert_eq!(batch_of_staging("orders"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_one_quoted_word(name in r#"[^\x00"\[\]\\]{1,20}"#, quotes in "\"{0,3}") {
            let name = format!("{name}{quotes}");
            prop_assume!(name.len() <= MAX_BYTES);
            let tokens = Tokenizer::new(&RedshiftSqlDialect {}, &quoted(&name).unwrap()).tokenize().unwrap();
            prop_assert_eq!(tokens.len(), 1);
            match &tokens[0] {
                Token::Word(word) => prop_assert_eq!((&word.value, word.quote_style), (&name, Some('"'))),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
