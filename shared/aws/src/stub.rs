//! A server for tests: it answers as it was told, one answer after the other, and remembers what it was asked.
//!
//! What the services do when they are throttled, broken or odd can't be had from an emulator; here it is played.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// One answer.
pub(crate) type Answer = (u16, Value);

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The operation, from `x-amz-target`; for S3 the method.
    pub(crate) operation: String,
    /// The path and query.
    pub(crate) path: String,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body; null where it isn't JSON.
    pub(crate) body: Value,
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    asked: Vec<Asked>,
}

/// A running server; it ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct Stub {
    script: Arc<Mutex<Script>>,
    /// The configuration of clients that talk to it, with the SDK's usual three attempts.
    pub(crate) sdk: SdkConfig,
}

/// An error answer of a JSON protocol.
pub(crate) fn refusal(status: u16, code: &str, message: &str) -> Answer {
    (status, json!({"__type": code, "message": message}))
}

impl Stub {
    /// A server that gives these answers, then fails the test that asks for more.
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start(answers, 0).await
    }

    /// The same, but the first connection is closed without an answer, as one that froze with its function is.
    pub(crate) async fn answering_after_a_broken_connection(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start(answers, 1).await
    }

    async fn start(answers: impl IntoIterator<Item = Answer>, broken_connections: usize) -> Self {
        let script = Arc::new(Mutex::new(Script { answers: answers.into_iter().collect(), asked: Vec::new() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        tokio::spawn(async move {
            for _ in 0..broken_connections {
                drop(listener.accept().await.unwrap());
            }
            axum::serve(listener, router).await.unwrap();
        });
        // Short back-offs: what is tested is what is repeated, not how long that takes.
        let retry = RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1));
        let sdk = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .endpoint_url(format!("http://{address}"))
            .credentials_provider(aws_sdk_s3::config::Credentials::new("a", "s", None, None, "test"))
            .retry_config(retry)
            .load()
            .await;
        Self { script, sdk }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.lock().unwrap().asked.clone()
    }

    /// The operations it was asked for so far.
    pub(crate) fn operations(&self) -> Vec<String> {
        self.asked().into_iter().map(|a| a.operation).collect()
    }

    /// Whether all answers were asked for.
    pub(crate) fn is_done(&self) -> bool {
        self.script.lock().unwrap().answers.is_empty()
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let target = request.headers().get("x-amz-target").and_then(|t| t.to_str().ok());
    let target = target.and_then(|t| t.rsplit('.').next()).map(ToOwned::to_owned);
    let operation = target.unwrap_or_else(|| request.method().to_string());
    let path = request.uri().to_string();
    let headers = request.headers().clone();
    let body = to_bytes(request.into_body(), 1 << 26).await.unwrap();
    let mut script = script.lock().unwrap();
    script.asked.push(Asked { operation, path, headers, body: serde_json::from_slice(&body).unwrap_or_default() });
    let unforeseen = || refusal(400, "TestAskedForMore", "the stub has no answer left");
    let (status, body) = script.answers.pop_front().unwrap_or_else(unforeseen);
    let body = match body {
        Value::String(text) => text,
        json => json.to_string(),
    };
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}
