//! A Redshift that understands exactly the statements of [`tidemark_domain::sql`], and fails every other with a clear error.
//!
//! Not SQL, but what the statements mean: staging tables are lists of rows, a target is a list of rows for each partition's
//! condition, procedures do what their text says. A transaction works on a copy and is kept only if all of it succeeded; the
//! system views of COPY stay, as they do in Redshift. Primary keys are not enforced.

mod fence;
mod ledger;
mod questions;
mod rows;
mod statements;
mod swap;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemark_domain::sql::rows::Field;

use fence::FenceTable;
use rows::{Load, TargetRow};

pub use rows::{FileError, FileReader, FileRow, lines};
pub(super) use statements::Transaction;

/// Rows of a result.
pub(super) type Rows = Vec<Vec<Field>>;

/// A row of the ledger, by column.
pub(super) type LedgerRow = BTreeMap<String, Field>;

/// What is committed. Every transaction begins with a copy: what is large is shared until it is changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Database {
    /// Tables without which statements fail: `tidemark.batches`, targets as `"schema"."table"`.
    tables: BTreeSet<String>,
    /// Procedures, by how they are called, with their text.
    procedures: Arc<BTreeMap<String, String>>,
    version: Option<i64>,
    /// By the part of their name that follows `fence_`.
    fences: BTreeMap<String, FenceTable>,
    staging: BTreeMap<String, Vec<FileRow>>,
    /// By table and condition, as the SQL has it: `"dt" = DATE '2026-11-01'`.
    target: Arc<BTreeMap<(String, String), Vec<TargetRow>>>,
    ledger: Vec<Arc<LedgerRow>>,
    files: Vec<ledger::FileRow>,
    /// Tables of one number column, for the contract suite.
    numbers: BTreeMap<String, Vec<i64>>,
}

/// What no transaction takes back.
#[derive(Debug, Default)]
pub(super) struct Views {
    loads: BTreeMap<i64, Load>,
    queries: i64,
    /// Who holds the lock that others wait for: pid, user, mode.
    pub(super) blockers: Rows,
    /// Keys that no load of `tidemark.files` takes.
    pub(super) refused_files: BTreeSet<String>,
    /// URLs below which COPY's role may not read.
    pub(super) denied_to_role: BTreeSet<String>,
}

impl Views {
    /// A fresh query id.
    pub(super) fn query_id(&mut self) -> i64 {
        self.queries += 1;
        1_000 + self.queries
    }
}

impl Database {
    pub(super) fn drop_table(&mut self, table: &str) {
        self.tables.remove(table);
    }

    pub(super) fn put_ledger(&mut self, row: LedgerRow) {
        self.ledger.push(Arc::new(row));
    }

    pub(super) fn create_table(&mut self, table: String) {
        self.tables.insert(table);
    }

    /// The keys of a target's rows, by condition, in order.
    pub(super) fn rows(&self, table: &str) -> BTreeMap<String, Vec<String>> {
        let of_table = self.target.iter().filter(|((of, _), rows)| of == table && !rows.is_empty());
        of_table
            .map(|((_, condition), rows)| {
                let mut keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
                keys.sort();
                (condition.clone(), keys)
            })
            .collect()
    }

    /// Puts rows that no batch wrote.
    pub(super) fn put_rows(&mut self, table: &str, condition: &str, keys: &[&str]) {
        let rows = Arc::make_mut(&mut self.target).entry((table.to_owned(), condition.to_owned())).or_default();
        rows.extend(keys.iter().map(|key| TargetRow { key: (*key).to_owned(), tag: None }));
    }

    /// Takes out the rows of this key.
    pub(super) fn take_row(&mut self, table: &str, condition: &str, key: &str) {
        let rows = Arc::make_mut(&mut self.target).entry((table.to_owned(), condition.to_owned())).or_default();
        rows.retain(|row| row.key != key);
    }

    pub(super) fn fence(&self, table: &str, partition: &str) -> Option<i64> {
        self.fences.get(table)?.fences.get(partition).copied()
    }

    pub(super) fn staging_tables(&self) -> Vec<String> {
        self.staging.keys().cloned().collect()
    }

    pub(super) fn files(&self) -> &[ledger::FileRow] {
        &self.files
    }

    pub(super) fn put_staging(&mut self, name: String) {
        self.staging.insert(name, vec![]);
    }

    pub(super) fn ledger(&self) -> &[Arc<LedgerRow>] {
        &self.ledger
    }
}
