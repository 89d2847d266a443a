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

/// Reads a refusal of the Data API. `code` is the exception's name, or `Transport` where no answer came.
///
/// A refused submit is hardly ever evidence that nothing runs: an earlier try inside the same call may have landed, and may
/// even be what the refusal is about. Only what is wrong with the request itself surely had no effect.
pub fn api_refusal(call: ApiCall, code: &str, message: &str) -> ApiRefusal {
    let code = code.rsplit('#').next().unwrap_or(code);
    let text = message.to_lowercase();
    let has = |needle: &str| text.contains(needle);
    match (call, code) {
        (ApiCall::Result, "ResourceNotFoundException") if has("does not have result") => return ApiRefusal::NoResult,
        (ApiCall::Describe | ApiCall::Result | ApiCall::Cancel, "ResourceNotFoundException") => {
            return ApiRefusal::NoSuchStatement;
        }
        (ApiCall::Describe | ApiCall::Result, "ActiveWaitingRequestsExceededException") => {
            return ApiRefusal::TooManyWaiters;
        }
        (ApiCall::Cancel, "ValidationException") if has("could not cancel a query that is already") => {
            return ApiRefusal::AlreadyOver;
        }
        _ => {}
    }
    let kind = match code {
        "ValidationException" if REFUSED_FOR_NOW.iter().any(|needle| has(needle)) => FailureKind::Unavailable,
        "ValidationException" if has("failed to satisfy constraint") => FailureKind::Bug,
        code if MISCONFIGURED_CODES.contains(&code) => FailureKind::Misconfigured,
        code if UNAVAILABLE_CODES.contains(&code) || is_passing_status(code) => FailureKind::Unavailable,
        _ => FailureKind::Bug,
    };
    let refused_itself =
        matches!(call, ApiCall::Submit) && matches!(code, "ValidationException" | "AccessDeniedException");
    let effect = if refused_itself && kind != FailureKind::Unavailable { Effect::NotApplied } else { Effect::Unknown };
    ApiRefusal::Failed(Failure { kind, effect, message: format!("{code}: {}", one_line(message)) })
}

/// Whether an answer without a code was one of a front end that is busy or down: `Http429`, `Http503`.
fn is_passing_status(code: &str) -> bool {
    let status = code.strip_prefix("Http").and_then(|status| status.parse::<u16>().ok());
    status.is_some_and(|status| status == 429 || status >= 500)
}

/// Texts under which the service says `ValidationException` and means: not now.
const REFUSED_FOR_NOW: [&str; 8] = [
    "throttlingexception",
    "rate exceeded",
    "too many requests",
    "paus",
    "resuming",
    "session is not available",
    "timed out",
    "try again",
];

const MISCONFIGURED_CODES: [&str; 8] = [
    "ValidationException",
    "AccessDeniedException",
    "UnauthorizedException",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "IncompleteSignature",
    "ResourceNotFoundException",
];

const UNAVAILABLE_CODES: [&str; 20] = [
    "Transport",
    "ActiveStatementsExceededException",
    "ActiveSessionsExceededException",
    "ActiveWaitingRequestsExceededException",
    "ThrottlingException",
    "Throttling",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "SlowDown",
    "InternalServerException",
    "InternalServerError",
    "InternalFailure",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "RequestTimeout",
    "ExpiredTokenException",
    "ExecuteStatementException",
    "BatchExecuteStatementException",
    "DatabaseConnectionException",
    "QueryTimeoutException",
];

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

/// The statement to blame: the first with an error of its own, never one that was only swept along.
pub fn culprit<'a>(errors: &[SubStatementError<'a>]) -> Option<SubStatementError<'a>> {
    errors.iter().find(|sub| !is_swept_along(&sub.error.to_lowercase())).copied()
}

/// The texts of statements after the one that failed.
fn is_swept_along(text: &str) -> bool {
    text.is_empty() || text.contains("prior query failed") || text.contains("current transaction is aborted")
}

/// Reads the error of a batch that ended FAILED or ABORTED. `parent` is the batch's own error.
///
/// With a culprit the transaction was rolled back. Without one the connection or the commit failed, and nobody knows.
pub fn statement_failure(culprit: Option<SubStatementError<'_>>, parent: &str) -> Failure {
    let Some(culprit) = culprit else {
        let text = parent.to_lowercase();
        let swept = is_swept_along(&text) && !text.is_empty();
        let kind = if swept { FailureKind::Unavailable } else { kind_of(&text, "") };
        let message =
            if text.is_empty() { "it was cancelled, and no error was told".to_owned() } else { one_line(parent) };
        return Failure { kind, effect: Effect::Unknown, message };
    };
    let verb = culprit.sql.split_whitespace().next().unwrap_or("?");
    let kind = kind_of(&culprit.error.to_lowercase(), verb);
    let effect = if kind == FailureKind::Unavailable { Effect::Unknown } else { Effect::NotApplied };
    Failure { kind, effect, message: format!("statement {} ({verb}): {}", culprit.number, one_line(culprit.error)) }
}

/// Whether the error says that the batch's own staging table is there already: it is whole, and may be counted again.
pub fn staging_exists(error: &str, staging_name: &str) -> bool {
    error.contains("already exists") && error.contains(staging_name)
}

/// Whether the error says that the batch's own staging table is gone: somebody dropped it, and a new batch makes another.
pub fn staging_is_gone(error: &str, staging_name: &str) -> bool {
    error.contains("does not exist") && error.contains(staging_name)
}

/// `text` is in lower case.
fn kind_of(text: &str, verb: &str) -> FailureKind {
    // `CancelStatement` leaves no text.
    let rule = RULES.iter().find(|(_, needles)| needles.iter().any(|needle| text.contains(needle)));
    match rule {
        None if text.is_empty() => FailureKind::TooSlow,
        // Cancelled while it waited for the lock: somebody else held it, this statement was not slow.
        Some((FailureKind::TooSlow, _)) if verb == "LOCK" => FailureKind::Contended,
        Some((kind, _)) => *kind,
        None => FailureKind::Bug,
    }
}

/// Texts of the engine, in lower case; the first rule with a text that occurs decides. The order matters: our own tokens
/// first, since they stand in front of anything; what S3 said before the load error it caused; "1018 … does not exist", which
/// is about snapshots, before names that don't exist. No text is so short that the name of a file could hold it by chance.
const RULES: &[(FailureKind, &[&str])] = &[
    (FailureKind::Superseded, &["tidemark-superseded:"]),
    (FailureKind::EpochOver, &["tidemark-epoch:"]),
    (FailureKind::Misconfigured, &["tidemark-owner:", "tidemark-rewound:"]),
    (FailureKind::ForeignRows, &["tidemark-foreign-rows:"]),
    (FailureKind::Bug, &["tidemark-staged:", "tidemark-seal:"]),
    (
        FailureKind::TooSlow,
        &["canceled on user's request", "cancelled on user's request", "statement timeout", "query monitoring rule"],
    ),
    (
        FailureKind::Contended,
        &[
            "error: 1023",
            "error: 1018",
            "serializable isolation violation",
            "deadlock detected",
            "conflict with concurrent transaction",
            "could not open relation with oid",
            "could not serialize access",
            "tuple concurrently updated",
        ],
    ),
    (FailureKind::Bug, &["file entry does not have 'meta' key", "syntax error at", "not supported on redshift tables"]),
    (
        FailureKind::SourceChanged,
        &[
            "error nosuchkey",
            "status 404",
            "the specified key does not exist",
            "the specified s3 prefix",
            "mandatory url is not present",
            "error code: 404",
            "error code: 412",
            "error code: 416",
            "status 412",
            "status 416",
        ],
    ),
    // Archived, which S3 answers with 403 too: of one file, nothing of the dataset.
    (FailureKind::RejectedData, &["invalidobjectstate", "not valid for the object's storage class"]),
    (
        FailureKind::Misconfigured,
        &[
            "status 403",
            "error code: 403",
            "access denied",
            "error nosuchbucket",
            "status 301",
            "not authorized",
            "permission denied",
            "must be owner",
            "password authentication failed",
        ],
    ),
    (
        FailureKind::Unavailable,
        &[
            "status 503",
            "status 500",
            "error code: 503",
            "error code: 500",
            "error slowdown",
            // Of Spectrum, which COPY reads columnar files with: AWS asks to try later.
            "retries exceeded",
            "access throttled",
            "resource temporarily unavailable",
        ],
    ),
    (
        FailureKind::RejectedData,
        &[
            "load into table",
            "stl_load_errors",
            "sys_load_error_detail",
            "spectrum scan error",
            "incompatible parquet schema",
            "invalid type: 4000",
            "failed to inflate",
            "avro file",
            "value too long",
            "invalid digit",
            "invalid input syntax",
            "cannot insert a null value",
            "null value in column",
            "numeric data overflow",
            "numeric field overflow",
            "out of range",
        ],
    ),
    (
        FailureKind::Unavailable,
        &[
            "timed out",
            "connection",
            // What Redshift's driver says of one that is gone: airbytehq/airbyte#34273.
            "i/o error occurred",
            "broken pipe",
            "terminated by",
            "service unavailable",
            "shutting down",
            "starting up",
            "is paused",
            "disk full",
            "out of memory",
            "too many clients",
        ],
    ),
    (
        FailureKind::Misconfigured,
        &[
            "does not exist",
            "must be included in column list",
            "but expression is of type",
            "default iam role",
            "invalid iam role",
        ],
    ),
];

/// On one line, without the place in a procedure.
fn one_line(text: &str) -> String {
    let text = text.split("\n  Where: ").next().unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
