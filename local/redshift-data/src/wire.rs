//! AWS JSON 1.1: one address, the operation in a header, errors with their code in header and body.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::operations::{self, Api};

const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// An error as an SDK reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    code: String,
    message: String,
    /// The modelled member that goes with the code, such as `ResourceId`.
    member: Option<(&'static str, String)>,
}

impl ApiError {
    pub(crate) fn coded(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), member: None }
    }

    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::coded("ValidationException", message)
    }

    pub(crate) fn not_found(message: &str, id: &str) -> Self {
        Self { member: Some(("ResourceId", id.to_owned())), ..Self::coded("ResourceNotFoundException", message) }
    }

    fn status(&self) -> StatusCode {
        match self.code.as_str() {
            "InternalServerException"
            | "ExecuteStatementException"
            | "BatchExecuteStatementException"
            | "DatabaseConnectionException"
            | "InternalFailure" => StatusCode::INTERNAL_SERVER_ERROR,
            "ServiceUnavailableException" | "ServiceUnavailable" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({ "__type": self.code, "Message": self.message });
        if let Some((name, value)) = &self.member {
            body[*name] = json!(value);
        }
        let headers = [(header::CONTENT_TYPE.as_str(), CONTENT_TYPE), ("x-amzn-errortype", self.code.as_str())];
        (self.status(), headers, body.to_string()).into_response()
    }
}

/// A moment as the wire has it: seconds since 1970 with their fraction.
pub(crate) fn epoch(at: Timestamp) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this millennium fit a double exactly")]
    let seconds = at.as_millisecond() as f64 / 1_000.0;
    json!(seconds)
}

/// `POST /`.
pub(crate) async fn dispatch(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    match answer(&api, &headers, &body).await {
        Ok(value) => (StatusCode::OK, [(header::CONTENT_TYPE, CONTENT_TYPE)], value.to_string()).into_response(),
        Err(error) => error.into_response(),
    }
}

/// Who calls, by the signature's `Credential=<access key>/…`. The signature itself is not checked.
fn access_key(headers: &HeaderMap) -> &str {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split_once("Credential="))
        .and_then(|(_, rest)| rest.split('/').next())
        .unwrap_or("test")
}

async fn answer(api: &Arc<Api>, headers: &HeaderMap, body: &[u8]) -> Result<Value, ApiError> {
    let control = &api.engine.control;
    let account = access_key(headers);
    if control.is_down(account) {
        return Err(ApiError::coded("ServiceUnavailableException", "The service is down by request of a test."));
    }
    let target = headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(operation) = target.strip_prefix("RedshiftData.") else {
        return Err(ApiError::coded("UnknownOperationException", format!("unknown target {target:?}")));
    };
    let request: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::coded("SerializationException", format!("the body isn't JSON: {error}")))?;
    let fault = control.called(account, operation);
    if let Some(fault) = fault.as_ref().filter(|fault| !fault.after_effect) {
        return Err(fault.error());
    }
    let answer = operations::call(api, account, operation, request).await;
    match fault {
        Some(fault) => Err(fault.error()),
        None => answer,
    }
}
