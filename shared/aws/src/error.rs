//! Errors of the SDK, classified: whose fault it is, and whether the call may have had its effect.
//!
//! The SDK has already retried what is safe to retry (throttling, 5xx, a broken connection) when an error arrives here. So
//! even a clear "throttled" may follow an attempt whose answer was lost, and doesn't prove that nothing happened; only a
//! refusal of the request itself does.

use std::error::Error;
use std::fmt;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tidemark_engine::ports::Effect;

/// Codes of throttling, of all services; S3 says `SlowDown`, Lambda-like services `TooManyRequestsException`.
const THROTTLED: [&str; 14] = [
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "ThrottlingError",
    "TooManyRequestsException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "EC2ThrottledException",
];

/// Codes that come with status 400 and say that the service could not, not that it would not.
const PASSING: [&str; 3] = ["RequestTimeout", "TransactionInProgressException", "RequestTimeoutException"];

/// Whose fault a failed call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Too many calls.
    Throttled,
    /// The service didn't answer, or answered that it can't now.
    Unreachable,
    /// The service won't: permission, a name, the request itself.
    Refused,
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The operation, as AWS writes it.
    pub(crate) operation: &'static str,
    /// The service's code; `Transport` where no answer came, `Client` where no request could be made.
    pub(crate) code: String,
    /// The service's words, or the chain of causes, on one line.
    pub(crate) message: String,
    /// Whose fault it is.
    pub(crate) cause: Cause,
    /// Whether it may have had its effect.
    pub(crate) effect: Effect,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.operation, self.code, self.message)
    }
}

impl Fault {
    /// Classifies the error of a call.
    pub(crate) fn of<E>(operation: &'static str, error: &SdkError<E>) -> Self
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let no_answer = |cause, effect, code: &str| Self {
            operation,
            code: code.to_owned(),
            message: one_line(&chain(error)),
            cause,
            effect,
        };
        match error {
            SdkError::ServiceError(answer) => Self::answered(operation, answer.err(), answer.raw().status().as_u16()),
            SdkError::ConstructionFailure(_) => no_answer(Cause::Refused, Effect::NotApplied, "Client"),
            SdkError::DispatchFailure(failure) if failure.is_user() => {
                no_answer(Cause::Refused, Effect::NotApplied, "Client")
            }
            _ => no_answer(Cause::Unreachable, Effect::Unknown, "Transport"),
        }
    }

    /// Classifies an answer that is an error.
    fn answered(operation: &'static str, error: &(impl Error + ProvideErrorMetadata), status: u16) -> Self {
        let code = error.code().map_or_else(|| format!("Http{status}"), ToOwned::to_owned);
        let (cause, effect) = judge(&code, status);
        let message = error.message().map_or_else(|| format!("status {status}"), one_line);
        Self { operation, code, message, cause, effect }
    }

    /// An answer that the service's model doesn't foresee: nobody knows what it means.
    pub(crate) fn unknown(operation: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self {
            operation,
            code: code.to_owned(),
            message: message.into(),
            cause: Cause::Refused,
            effect: Effect::Unknown,
        }
    }
}

/// Whether a code says that a call was throttled.
pub(crate) fn is_throttling(code: &str) -> bool {
    THROTTLED.contains(&code)
}

fn judge(code: &str, status: u16) -> (Cause, Effect) {
    if is_throttling(code) || status == 429 {
        (Cause::Throttled, Effect::Unknown)
    } else if status >= 500 || PASSING.contains(&code) {
        (Cause::Unreachable, Effect::Unknown)
    } else {
        (Cause::Refused, Effect::NotApplied)
    }
}

/// The messages of an error and its sources; the SDK's own one says only "dispatch failure".
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_request_proves_that_nothing_happened() {
        for (code, status, cause, effect) in [
            ("ThrottlingException", 400, Cause::Throttled, Effect::Unknown),
            ("SlowDown", 503, Cause::Throttled, Effect::Unknown),
            ("Whatever", 429, Cause::Throttled, Effect::Unknown),
            ("ProvisionedThroughputExceededException", 400, Cause::Throttled, Effect::Unknown),
            ("InternalServerError", 500, Cause::Unreachable, Effect::Unknown),
            ("ServiceUnavailable", 503, Cause::Unreachable, Effect::Unknown),
            ("RequestTimeout", 400, Cause::Unreachable, Effect::Unknown),
            ("TransactionInProgressException", 400, Cause::Unreachable, Effect::Unknown),
            ("AccessDeniedException", 400, Cause::Refused, Effect::NotApplied),
            ("ResourceNotFoundException", 404, Cause::Refused, Effect::NotApplied),
            ("ValidationException", 400, Cause::Refused, Effect::NotApplied),
        ] {
            assert_eq!(judge(code, status), (cause, effect), "{code} {status}");
        }
    }

    #[test]
    fn words_of_several_lines_become_one() {
        assert_eq!(one_line("ERROR: a\n  Detail: b\t c"), "ERROR: a Detail: b c");
    }
}
