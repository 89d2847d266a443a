//! Failures of Redshift and its Data API: who acts, may it be tried again, has it had an effect.
//!
//! The one place that reads error texts. Texts and codes are those of AWS's documents and of public reports; a text nobody
//! knows is [`FailureKind::Bug`]: park, keep staging, alarm, never guess.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of failure it is; it decides what happens to partition and dataset. The names are stored and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Somebody else was at the same data. Again after a jittered delay; never parks.
    Contended,
    /// The service can't now. Hold with back-off; never parks.
    Unavailable,
    /// The objects aren't those that were listed. List again.
    SourceChanged,
    /// The data is refused. Park.
    RejectedData,
    /// A statement was cancelled: by its time-out, or by somebody. The second overrun in a row parks.
    TooSlow,
    /// Ten takes in a row died. Park.
    Stuck,
    /// Permissions, names or settings are wrong. Halt the dataset.
    Misconfigured,
    /// A newer fence has the partition. Stop quietly.
    Superseded,
    /// The target's epoch was raised. Give the batch up, begin anew.
    EpochOver,
    /// Rows in the target are not ours. Park, as the guard `foreign_rows`.
    ForeignRows,
    /// A broken invariant or an unknown text. Park, keep staging, alarm.
    Bug,
}

impl FailureKind {
    /// Whether the same may be tried again with hope, without anybody acting.
    pub fn may_be_retried(self) -> bool {
        matches!(self, Self::Contended | Self::Unavailable | Self::SourceChanged | Self::TooSlow | Self::EpochOver)
    }

    /// The stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contended => "contended",
            Self::Unavailable => "unavailable",
            Self::SourceChanged => "source_changed",
            Self::RejectedData => "rejected_data",
            Self::TooSlow => "too_slow",
            Self::Stuck => "stuck",
            Self::Misconfigured => "misconfigured",
            Self::Superseded => "superseded",
            Self::EpochOver => "epoch_over",
            Self::ForeignRows => "foreign_rows",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether what was asked for has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Surely not, and it won't.
    NotApplied,
    /// It may have happened, or may yet: look before anything else.
    Unknown,
}

/// A failure, classified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Who acts.
    pub kind: FailureKind,
    /// Whether it has had an effect.
    pub effect: Effect,
    /// The engine's or service's own words, on one line.
    pub message: String,
}

/// What a call of the Data API was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiCall {
    /// `BatchExecuteStatement`.
    Submit,
    /// `DescribeStatement`.
    Describe,
    /// `GetStatementResult`.
    Result,
    /// `CancelStatement`.
    Cancel,
}

/// What a refused call of the Data API means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiRefusal {
    /// The call failed.
    Failed(Failure),
    /// The statement isn't known (any more): its outcome has to be looked up in Redshift.
    NoSuchStatement,
    /// The statement has no result yet, or none at all.
    NoResult,
    /// Too many wait for this statement: describe it without waiting.
    TooManyWaiters,
    /// It has ended already: nothing to cancel.
    AlreadyOver,
}

/// Reads a refusal of the Data API. `code` is the exception's name, or empty for a failure of the network.
pub fn api_refusal(call: ApiCall, code: &str, message: &str) -> ApiRefusal {
    let _ = (call, code);
    ApiRefusal::Failed(Failure { kind: FailureKind::Bug, effect: Effect::Unknown, message: message.to_owned() })
}

/// A sub-statement of a batch, as `DescribeStatement` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubStatementError<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its SQL, as it was submitted.
    pub sql: &'a str,
    /// The engine's text.
    pub error: &'a str,
}

/// The statement to blame: the first that failed, never one that was only swept along.
pub fn culprit<'a>(errors: &[SubStatementError<'a>]) -> Option<SubStatementError<'a>> {
    errors.first().copied()
}

/// Reads the error of a statement that ended FAILED or ABORTED. `culprit` is its guilty sub-statement, `parent` the batch's own error.
pub fn statement_failure(culprit: Option<SubStatementError<'_>>, parent: &str) -> Failure {
    let _ = culprit;
    Failure { kind: FailureKind::Bug, effect: Effect::NotApplied, message: parent.to_owned() }
}

/// Whether the error says that the batch's own staging table is there already: it is whole, and may be counted again.
pub fn staging_exists(error: &str, staging_table: &str) -> bool {
    error.contains("already exists") && error.contains(staging_table)
}
