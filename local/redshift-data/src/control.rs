//! Faults on request, for tests and the demo: `POST /_local/<what>` with a JSON body, `GET /_local/calls`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::operations::Api;
use crate::statements::{Request, Status};
use crate::wire::ApiError;

/// What is asked of the stand-in beyond its ordinary work.
#[derive(Debug, Default)]
pub(crate) struct Control {
    asked: Mutex<Asked>,
}

/// An account's access key; none: everybody's.
type Whose = Option<String>;

#[derive(Debug, Default)]
struct Asked {
    copy_delay: BTreeMap<Whose, Duration>,
    role_detached: BTreeMap<Whose, bool>,
    faults: Vec<Fault>,
    down_until: BTreeMap<Whose, Instant>,
    calls: BTreeMap<String, u64>,
    breaks: Vec<BreakAt>,
    /// How many connections of an account were broken where it was asked for.
    broken: BTreeMap<String, u64>,
}

/// Errors to answer instead of, or after, an operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    operation: String,
    code: String,
    #[serde(default)]
    account: Whose,
    #[serde(default)]
    message: Option<String>,
    #[serde(default = "once")]
    times: u32,
    /// The operation is done all the same; only its answer is lost.
    #[serde(default)]
    pub(crate) after_effect: bool,
}

/// Where the connection of the account's next submission of this name breaks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct BreakAt {
    account: String,
    /// The last part of the submission's name.
    name: String,
    /// After so many of its statements: 0 is before the first, all of them before COMMIT, one more in COMMIT's answer.
    after: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    account: String,
}

fn once() -> u32 {
    1
}

impl Fault {
    pub(crate) fn error(&self) -> ApiError {
        let message = self.message.clone().unwrap_or_else(|| format!("{} by request of a test", self.code));
        ApiError::coded(self.code.clone(), message)
    }
}

impl Control {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long each COPY of the account takes at least.
    pub(crate) fn copy_delay(&self, account: &str) -> Duration {
        of(&self.asked().copy_delay, account).unwrap_or_default()
    }

    /// Whether the warehouse has lost the role that the account's COPY assumes.
    pub(crate) fn role_is_detached(&self, account: &str) -> bool {
        of(&self.asked().role_detached, account).unwrap_or_default()
    }

    /// Counts a call; the fault it shall meet, if one is due.
    pub(crate) fn called(&self, account: &str, operation: &str) -> Option<Fault> {
        let mut asked = self.asked();
        *asked.calls.entry(operation.to_owned()).or_default() += 1;
        let fault = asked.faults.iter_mut().find(|fault| {
            fault.operation == operation && fault.times > 0 && fault.account.as_deref().is_none_or(|own| own == account)
        })?;
        fault.times -= 1;
        let fault = fault.clone();
        asked.faults.retain(|fault| fault.times > 0);
        Some(fault)
    }

    /// Whether the connection breaks now, after so many statements of the submission; asked for once, it breaks once.
    pub(crate) fn breaks(&self, request: &Request, after: usize) -> bool {
        let mut asked = self.asked();
        let meant = |at: &BreakAt| {
            at.account == request.account && at.after == after && last_part(request) == Some(at.name.as_str())
        };
        let Some(at) = asked.breaks.iter().position(meant) else { return false };
        asked.breaks.remove(at);
        *asked.broken.entry(request.account.clone()).or_default() += 1;
        true
    }

    /// Whether every call of the account is answered 503 now.
    pub(crate) fn is_down(&self, account: &str) -> bool {
        of(&self.asked().down_until, account).is_some_and(|until| Instant::now() < until)
    }
}

fn last_part(request: &Request) -> Option<&str> {
    request.name.as_deref()?.rsplit('/').next()
}

/// What was asked for this account, else for everybody.
fn of<T: Copy>(asked: &BTreeMap<Whose, T>, account: &str) -> Option<T> {
    asked.get(&Some(account.to_owned())).or_else(|| asked.get(&None)).copied()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seconds {
    seconds: f64,
    #[serde(default)]
    account: Whose,
}

impl Seconds {
    fn duration(&self) -> Result<Duration, String> {
        Duration::try_from_secs_f64(self.seconds).map_err(|error| format!("seconds = {}: {error}", self.seconds))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CopyRole {
    attached: bool,
    #[serde(default)]
    account: Whose,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance_seconds: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Break {
    statement_like: String,
}

/// `GET /_local/calls`.
pub(crate) async fn calls(State(api): State<Arc<Api>>) -> Response {
    let calls = api.engine.control.asked().calls.clone();
    Json(json!(calls)).into_response()
}

/// `POST /_local/<what>`.
pub(crate) async fn post(State(api): State<Arc<Api>>, Path(what): Path<String>, body: String) -> Response {
    match apply(&api, &what, &body).await {
        Ok(answer) => Json(answer).into_response(),
        Err(problem) => (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    }
}

async fn apply(api: &Api, what: &str, body: &str) -> Result<Value, String> {
    let control = &api.engine.control;
    match what {
        "copy_delay" => {
            let asked: Seconds = read(body)?;
            let least = asked.duration()?;
            control.asked().copy_delay.insert(asked.account, least);
        }
        "copy_role" => {
            let asked: CopyRole = read(body)?;
            control.asked().role_detached.insert(asked.account, !asked.attached);
        }
        "down" => {
            let asked: Seconds = read(body)?;
            let until = Instant::now() + asked.duration()?;
            control.asked().down_until.insert(asked.account, until);
        }
        "faults" => control.asked().faults.push(read(body)?),
        "reset" => *control.asked() = Asked::default(),
        "clock" => api.statements.clock.advance(read::<Advance>(body)?.advance_seconds),
        "break_at" => {
            let asked: BreakAt = read(body)?;
            control.asked().breaks.retain(|at| at.account != asked.account);
            control.asked().breaks.push(asked);
        }
        "broken" => {
            let account = read::<Account>(body)?.account;
            return Ok(json!({ "broken": control.asked().broken.get(&account).copied().unwrap_or_default() }));
        }
        "submissions" => return Ok(submissions(api, &read::<Account>(body)?.account)),
        "break_connection" => return break_connection(api, &read::<Break>(body)?.statement_like).await,
        other => return Err(format!("no control named {other:?}")),
    }
    Ok(json!({}))
}

/// The submissions of an account by the last part of their names: the most statements one of them had.
fn submissions(api: &Api, account: &str) -> Value {
    let mut most: BTreeMap<String, usize> = BTreeMap::new();
    for submission in api.statements.list().iter().filter(|submission| submission.request.account == account) {
        if let Some(name) = last_part(&submission.request) {
            let known = most.entry(name.to_owned()).or_default();
            *known = submission.request.sqls.len().max(*known);
        }
    }
    json!(most)
}

fn read<T: serde::de::DeserializeOwned>(body: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| format!("the body isn't what this control takes: {error}"))
}

/// Ends the backends that run a statement whose text contains this; how many there were.
async fn break_connection(api: &Api, part_of_text: &str) -> Result<Value, String> {
    let wanted = part_of_text.trim_matches('%').to_ascii_lowercase();
    let mut broken = 0;
    for submission in api.statements.list() {
        let progress = submission.progress();
        let runs = submission
            .request
            .sqls
            .iter()
            .zip(&progress.parts)
            .any(|(sql, part)| part.status == Status::Started && sql.to_ascii_lowercase().contains(&wanted));
        if runs && progress.pid != 0 {
            let failed = |failure: crate::failure::Failure| failure.to_string();
            let database = api.engine.databases.get(&submission.request.database).await.map_err(failed)?;
            let end = "SELECT pg_terminate_backend($1)";
            database.journal.query(end, &[&progress.pid]).await.map_err(failed)?;
            broken += 1;
        }
    }
    Ok(json!({ "broken": broken }))
}
