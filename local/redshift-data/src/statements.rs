//! The statements of the last 24 hours: what was asked, how far it is, and what it gave. Also the client tokens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use uuid::Uuid;

use crate::dialect::rewrite::Parameter;
use crate::failure::{Failure, NEVER_RAN};
use crate::results::ResultSet;

/// How long a statement and its result can be asked for.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// How long a client token stands for the statement it began.
const TOKEN_KEPT: SignedDuration = SignedDuration::from_hours(8);

/// `Status`, in the API's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Submitted,
    Picked,
    Started,
    Finished,
    Failed,
    Aborted,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Submitted => "SUBMITTED",
            Self::Picked => "PICKED",
            Self::Started => "STARTED",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Aborted => "ABORTED",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Aborted)
    }
}

/// What a caller asked for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The caller's access key: statements and tokens are its account's own.
    pub(crate) account: String,
    pub(crate) sqls: Vec<String>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) batch: bool,
    /// One transaction around all; else each statement commits by itself.
    pub(crate) transaction: bool,
    pub(crate) name: Option<String>,
    pub(crate) database: String,
    pub(crate) cluster: Option<String>,
    pub(crate) workgroup: Option<String>,
    pub(crate) db_user: Option<String>,
    pub(crate) secret: Option<String>,
}

/// One SQL text of a submission.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) status: Status,
    pub(crate) error: Option<String>,
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) duration: Duration,
    /// Returned or affected, -1 if it never ran.
    pub(crate) rows: i64,
    pub(crate) size: i64,
    pub(crate) query_id: i64,
    pub(crate) result: Option<Arc<ResultSet>>,
}

/// The changing side of a submission.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    pub(crate) status: Status,
    pub(crate) error: Option<String>,
    pub(crate) updated: Timestamp,
    pub(crate) pid: i32,
    pub(crate) parts: Vec<Part>,
}

/// One accepted call of `ExecuteStatement` or `BatchExecuteStatement`.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) id: Uuid,
    pub(crate) request: Request,
    pub(crate) created: Timestamp,
    progress: watch::Sender<Progress>,
    cancel: watch::Sender<bool>,
    clock: Arc<Clock>,
}

impl Submission {
    /// As it stands.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Waits until the submission, or the part of this index, has ended, at most this long; then how it stands.
    pub(crate) async fn wait(&self, part: Option<usize>, at_most: Duration) -> Progress {
        let mut watch = self.watch();
        let ended = |progress: &Progress| match part {
            Some(index) => progress.parts.get(index).is_none_or(|part| part.status.is_terminal()),
            None => progress.status.is_terminal(),
        };
        // A time-out is an answer too: the state as it is.
        let _ = tokio::time::timeout(at_most, watch.wait_for(ended)).await;
        self.progress()
    }

    /// Asks for an end; the state tells when it came.
    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    pub(crate) fn cancelled(&self) -> watch::Receiver<bool> {
        self.cancel.subscribe()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Changes the whole and stamps it.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Progress)) {
        let now = self.clock.now();
        self.progress.send_modify(|progress| {
            change(progress);
            progress.updated = now;
        });
    }

    /// Changes one part and stamps it.
    pub(crate) fn update_part(&self, index: usize, change: impl FnOnce(&mut Part)) {
        let now = self.clock.now();
        self.progress.send_modify(|progress| {
            if let Some(part) = progress.parts.get_mut(index) {
                change(part);
                part.updated = now;
            }
        });
    }

    /// The end: what never ran is aborted with the API's own text.
    pub(crate) fn end(&self, failure: Option<&Failure>) {
        self.update(|progress| {
            for part in progress.parts.iter_mut().filter(|part| !part.status.is_terminal()) {
                part.status = Status::Aborted;
                part.error = Some(NEVER_RAN.to_owned());
            }
            progress.status = match failure {
                None => Status::Finished,
                Some(failure) if failure.cancelled => Status::Aborted,
                Some(_) => Status::Failed,
            };
            progress.error = failure.map(ToString::to_string);
        });
    }
}

/// The time the API keeps its promises by; tests may move it forward.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead_seconds: AtomicI64,
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        now.checked_add(SignedDuration::from_secs(self.ahead_seconds.load(Ordering::Relaxed))).unwrap_or(now)
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.ahead_seconds.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// Account, operation, token.
type TokenKey = (String, &'static str, String);

/// What a client token is remembered by.
#[derive(Debug)]
struct Token {
    submission: Arc<Submission>,
    digest: String,
}

/// What a submit found out about its token.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// Accepted now: it shall be run.
    New(Arc<Submission>),
    /// The token's own statement, running or over.
    Replayed(Arc<Submission>),
    /// The token was used for another request.
    OtherRequest,
}

#[derive(Debug, Default)]
struct Kept {
    submissions: HashMap<Uuid, Arc<Submission>>,
    tokens: HashMap<TokenKey, Token>,
}

/// All statements.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    kept: Mutex<Kept>,
    pub(crate) clock: Arc<Clock>,
}

impl Statements {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        kept.submissions.retain(|_, submission| now.duration_since(submission.created) < KEPT);
        kept.tokens.retain(|_, token| now.duration_since(token.submission.created) < TOKEN_KEPT);
        kept
    }

    /// Takes a request in, unless its token did so before.
    pub(crate) fn accept(
        &self,
        operation: &'static str,
        token: Option<String>,
        digest: String,
        request: Request,
    ) -> Accepted {
        let mut kept = self.kept();
        let key = token.map(|token| (request.account.clone(), operation, token));
        if let Some(known) = key.as_ref().and_then(|key| kept.tokens.get(key)) {
            return if known.digest == digest {
                Accepted::Replayed(Arc::clone(&known.submission))
            } else {
                Accepted::OtherRequest
            };
        }
        let created = self.clock.now();
        let part = Part {
            status: Status::Submitted,
            error: None,
            created,
            updated: created,
            duration: Duration::ZERO,
            rows: -1,
            size: -1,
            query_id: if request.batch { 0 } else { -1 },
            result: None,
        };
        let parts = vec![part; request.sqls.len()];
        let progress = Progress { status: Status::Submitted, error: None, updated: created, pid: 0, parts };
        let submission = Arc::new(Submission {
            id: Uuid::new_v4(),
            request,
            created,
            progress: watch::channel(progress).0,
            cancel: watch::channel(false).0,
            clock: Arc::clone(&self.clock),
        });
        kept.submissions.insert(submission.id, Arc::clone(&submission));
        if let Some(key) = key {
            kept.tokens.insert(key, Token { submission: Arc::clone(&submission), digest });
        }
        Accepted::New(submission)
    }

    pub(crate) fn get(&self, id: &Uuid) -> Option<Arc<Submission>> {
        self.kept().submissions.get(id).cloned()
    }

    /// All, the newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Submission>> {
        let mut all: Vec<_> = self.kept().submissions.values().cloned().collect();
        all.sort_by_key(|submission| (std::cmp::Reverse(submission.created), submission.id));
        all
    }

    /// How many have not ended.
    pub(crate) fn active(&self) -> usize {
        self.kept().submissions.values().filter(|submission| !submission.progress().status.is_terminal()).count()
    }
}
