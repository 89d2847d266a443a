//! A worker of our own: the rebuild binary as it is, with one invocation, which a Lambda runtime API of ours gives it.
//!
//! AWS and the emulator end a function at its time-out, and so before its lease is over. What outlives its lease is a worker
//! whose host stood still, or whose clock is wrong. This host is such a one: it tells a deadline and doesn't enforce it.

use std::env;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tidemark_kit::{LocalCloud, Partition, World};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::plan::now;

/// What an invocation is told it may take: as much as an ordinary one's.
pub(crate) const TIME: Duration = Duration::from_secs(10);
const REQUEST: &str = "00000000-0000-4000-8000-000000000001";

/// A worker and its host. Dropping it ends both.
pub(crate) struct Worker {
    _process: Child,
    answers: mpsc::UnboundedReceiver<Result<Value, String>>,
}

/// The one invocation.
#[derive(Clone)]
struct Invocation {
    event: Arc<Value>,
    given: Arc<AtomicBool>,
    answers: mpsc::UnboundedSender<Result<Value, String>>,
}

/// Keeps rebuild as it was deployed: whatever else is built meanwhile takes its place in the workspace.
pub(crate) fn keep_binary(cloud: &LocalCloud) -> Result<()> {
    fs::copy(cloud.binary("rebuild")?, binary(cloud)).context("cannot keep rebuild's binary").map(drop)
}

fn binary(cloud: &LocalCloud) -> PathBuf {
    cloud.logs().join("rebuild")
}

impl Worker {
    /// Starts one on a message that asks for a look at a partition.
    pub(crate) async fn start(world: &World, day: &Partition, lease_margin: Duration) -> Result<Self> {
        let body = json!({ "version": 1, "dataset": day.dataset.name(), "partition": day.name(), "generation": 1 });
        let record = json!({ "messageId": REQUEST, "body": body.to_string(), "receiptHandle": "of no message" });
        let (sender, answers) = mpsc::unbounded_channel();
        let invocation =
            Invocation { event: Arc::new(json!({ "Records": [record] })), given: Arc::default(), answers: sender };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let api = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{request}/response", post(answered))
            .route("/2018-06-01/runtime/invocation/{request}/error", post(failed))
            .route("/2018-06-01/runtime/init/error", post(failed))
            .with_state(invocation);
        tokio::spawn(async move { axum::serve(listener, api).await });
        let log = world.cloud.logs().join(format!("worker-{}.log", world.stack.name()));
        let log = File::options().create(true).append(true).open(&log)?;
        let process = Command::new(binary(world.cloud))
            .env_clear()
            .env("PATH", env::var("PATH").unwrap_or_default())
            .envs(world.environment()?)
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "a-worker-of-our-own")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("TIDEMARK_SETTLE_SECONDS", "0")
            .env("TIDEMARK_ALERT_TOPIC_ARN", world.stack.output("AlertTopicArn")?)
            .env("TIDEMARK_LEASE_MARGIN_SECONDS", lease_margin.as_secs().to_string())
            .env("TIDEMARK_FAILPOINTS", world.cloud.failpoints())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // It ends with the functions, also where we are ended while it is stopped.
            .process_group(world.stack.process_group().try_into()?)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a worker")?;
        Ok(Self { _process: process, answers })
    }

    /// What it answered, once it has; an error where the invocation failed.
    pub(crate) fn answer(&mut self) -> Result<Option<Value>> {
        match self.answers.try_recv() {
            Ok(answer) => answer.map(Some).map_err(|error| anyhow::anyhow!("the worker failed: {error}")),
            Err(_) => Ok(None),
        }
    }
}

async fn next(State(invocation): State<Invocation>) -> Response {
    if invocation.given.swap(true, Ordering::SeqCst) {
        // There is no other.
        return std::future::pending().await;
    }
    let deadline = (now() + TIME).as_millis().to_string();
    let headers = [("Lambda-Runtime-Aws-Request-Id", REQUEST.to_owned()), ("Lambda-Runtime-Deadline-Ms", deadline)];
    (headers, axum::Json(invocation.event.as_ref().clone())).into_response()
}

async fn answered(State(invocation): State<Invocation>, body: String) -> StatusCode {
    let answer = serde_json::from_str(&body).map_err(|error| format!("it answered {body}: {error}"));
    // Whoever waited may be gone.
    let _ = invocation.answers.send(answer);
    StatusCode::ACCEPTED
}

async fn failed(State(invocation): State<Invocation>, body: String) -> StatusCode {
    let _ = invocation.answers.send(Err(body));
    StatusCode::ACCEPTED
}
