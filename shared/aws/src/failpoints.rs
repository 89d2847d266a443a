//! Failpoints: a process that ends itself, or stands still, right before or right after an effect a test has named.
//!
//! Only in a test build (feature `failpoints`): the ports are wrapped where they are made, so what ships holds no call of it.
//! Every effect goes through a port, so an effect is a port's call, and its name is made here, from what the call says:
//! [`NAMES`] lists them all. What a process does at which effect stands in the folder `$TIDEMARK_FAILPOINTS/<stack>`:
//!
//! - `plan`: a line per failpoint, `<before|after> <kill|stop|pass> <effect>`. Only the first line is armed, for whichever
//!   process meets it first, and is gone then: `pass` does nothing but let the next line become the first.
//! - `fired`: a line per failpoint that fired, `<milliseconds since 1970> <process> <before|after> <action> <effect>`.
//! - `trace`: where this file is there, the name of each effect is added to it, in the order in which they are met.

mod names;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use tidemark_domain::cursor::CURSORS;
use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::job::JOBS;
use tidemark_domain::update::{Change, Condition, Item, Key, Update};
use tidemark_engine::Ports;
use tidemark_engine::ports::{
    Alert, Announcer, DueEntry, Event, Execution, Index, ObjectError, Objects, Outgoing, Page, PartUpload,
    PartitionQueue, QueueError, StateError, StateStore, StatementResult, Submission, Warehouse, WarehouseError,
    Written,
};

pub use names::NAMES;

/// The folder of plans, in the environment of a test build.
pub const FOLDER: &str = "TIDEMARK_FAILPOINTS";

/// What changes the world, by its name in plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<'a> {
    /// A write of the state table that is known by the protocol: `mark`, `take`, `confirm` and so on.
    Write(&'static str),
    /// A RECORD of a batch: `record <phase>`, or `record <phase> statement` where it holds a statement.
    Record(&'a str, bool),
    /// A statement: `submit <last part of its name>`, such as `submit stage`.
    Submit(&'a str),
    /// An object of the control bucket: `put manifest`, `put lines` of a job, `put booked …` of what book loads, else
    /// `put <its name up to the first dash or dot>`.
    Put(&'a str),
    /// Any other call, by its own name: `send`, `hide`, `give back`, `dead letter`, `publish`, `alert`, `cancel`.
    Call(&'static str),
}

impl fmt::Display for Effect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(name) | Self::Call(name) => f.write_str(name),
            Self::Record(phase, false) => write!(f, "record {phase}"),
            Self::Record(phase, true) => write!(f, "record {phase} statement"),
            Self::Submit(what) => write!(f, "submit {what}"),
            Self::Put(key) => {
                let name = key.rsplit('/').next().unwrap_or(key);
                let name = name.split(['-', '.']).next().unwrap_or(name);
                match key.split('/').next() {
                    Some("manifest") if key.starts_with("manifest/book/") => write!(f, "put booked {name}"),
                    Some("manifest") => f.write_str("put manifest"),
                    Some("jobs") => f.write_str("put lines"),
                    _ => write!(f, "put {name}"),
                }
            }
        }
    }
}

impl<'a> Effect<'a> {
    /// Which write of the protocol it is, told by what it changes.
    fn of_updates(updates: &'a [Update]) -> Self {
        let Some(first) = updates.first() else { return Self::Write("nothing") };
        let sets = |name: &str| first.changes.iter().any(|change| matches!(change, Change::Set(n, _) if *n == name));
        let adds = |name: &str| first.changes.iter().any(|change| matches!(change, Change::Add(n, _) if *n == name));
        if first.key.sk == "LOCK" {
            return Self::Write("release");
        }
        if !first.key.sk.starts_with("PARTITION#") {
            return Self::Write(match (first.key.pk.as_str(), first.key.sk.split('#').next()) {
                (_, Some("BATCH")) => "story",
                (CURSORS, Some("ALERT")) if adds("more") => "count alert",
                (CURSORS, Some("ALERT")) if sets("since") => "open alerts",
                (CURSORS, Some("ALERT")) => "told alerts",
                (CURSORS, _) => match first.key.sk.split('#').nth(1) {
                    Some("look") => "look cursor",
                    Some("book") => "book cursor",
                    Some("tidy") => "tidy cursor",
                    Some("staging") => "staging cursor",
                    _ => "cursor",
                },
                (JOBS, _) if sets("made_at") => "make job",
                (JOBS, _) => "job",
                _ if sets("mode") && sets("why") => "halt",
                _ if sets("mode") => "resume",
                _ if sets("probe_at") => "probe",
                _ if sets("watermark") || first.changes.contains(&Change::Remove("watermark")) => "watermark",
                _ => "dataset",
            });
        }
        if adds("marked") {
            if sets("unresolved") {
                return Self::Write("heal");
            }
            let replayed = first
                .conditions
                .iter()
                .any(|c| matches!(c, Condition::Equals("marked", _) | Condition::Absent("marked")));
            return Self::Write(if replayed { "replay" } else { "mark" });
        }
        let again = first.conditions.iter().any(|c| matches!(c, Condition::Greater("marked", _)));
        let batch = first.changes.iter().find_map(|change| match change {
            Change::Set("batch", batch) => Some(batch),
            _ => None,
        });
        match batch {
            _ if sets("built") && again => Self::Write("confirm again"),
            _ if sets("built") => Self::Write("confirm"),
            _ if sets("parked") => Self::Write("park"),
            _ if sets("not_before") => Self::Write("hold"),
            _ if sets("forced") => Self::Write("restored"),
            Some(_) if sets("fence") => Self::Write("take"),
            Some(_) if updates.len() > 1 => Self::Write("hand off"),
            Some(batch) => Self::Record(
                batch.get("phase").and_then(Value::as_str).unwrap_or_default(),
                batch.get("statement").is_some_and(|statement| !statement.is_null()),
            ),
            None if sets("due_at") && first.conditions.len() == 1 => Self::Write("wake"),
            None if sets("due_at") => Self::Write("put off"),
            None => Self::Write("leave"),
        }
    }
}

/// `ports`, with what the plans in `folder` do to the effects of `stack`.
pub fn armed(ports: Ports, folder: &Path, stack: &str) -> Ports {
    let points = Points { folder: Arc::from(folder.join(stack)) };
    let Ports { state, objects, warehouse, queue, announcer, clock } = ports;
    Ports {
        state: Arc::new(Pointed { port: state, points: points.clone() }),
        objects: Arc::new(Pointed { port: objects, points: points.clone() }),
        warehouse: Arc::new(Pointed { port: warehouse, points: points.clone() }),
        queue: Arc::new(Pointed { port: queue, points: points.clone() }),
        announcer: Arc::new(Pointed { port: announcer, points }),
        clock,
    }
}

/// The plan of a stack.
#[derive(Debug, Clone)]
struct Points {
    folder: Arc<Path>,
}

/// A port whose effects may be failpoints.
struct Pointed<P: ?Sized> {
    port: Arc<P>,
    points: Points,
}

impl Points {
    async fn around<T>(&self, effect: Effect<'_>, call: impl Future<Output = T> + Send) -> T {
        let name = effect.to_string();
        self.trace(&name);
        self.meet("before", &name);
        let answer = call.await;
        self.meet("after", &name);
        answer
    }

    fn trace(&self, name: &str) {
        if let Ok(mut trace) = OpenOptions::new().append(true).open(self.folder.join("trace")) {
            // A test that misses a line fails by itself.
            let _ = writeln!(trace, "{name}");
        }
    }

    /// Does what the first line of the plan says, if it is about this.
    fn meet(&self, moment: &str, name: &str) {
        let plan = self.folder.join("plan");
        let line_is_ours = |text: &str| {
            let mut words = text.lines().next()?.splitn(3, ' ');
            let (at, action, effect) = (words.next()?, words.next()?.to_owned(), words.next()?);
            (at == moment && effect == name).then_some(action)
        };
        let Ok(read) = fs::read_to_string(&plan) else { return };
        if line_is_ours(&read).is_none() {
            return;
        }
        // Of several processes one can rename it.
        let claimed = self.folder.join(format!("claimed-{}", std::process::id()));
        if fs::rename(&plan, &claimed).is_err() {
            return;
        }
        let text = fs::read_to_string(&claimed).unwrap_or_default();
        let action = line_is_ours(&text);
        let rest = if action.is_some() { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        if rest.trim().is_empty() || fs::write(&claimed, rest).and_then(|()| fs::rename(&claimed, &plan)).is_err() {
            let _ = fs::remove_file(&claimed);
        }
        if let Some(action) = action {
            self.fire(moment, &action, name);
        }
    }

    fn fire(&self, moment: &str, action: &str, name: &str) {
        let pid = std::process::id();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        if let Ok(mut fired) = OpenOptions::new().append(true).create(true).open(self.folder.join("fired")) {
            let _ = writeln!(fired, "{now} {pid} {moment} {action} {name}");
        }
        let signal = match action {
            "kill" => "-KILL",
            "stop" => "-STOP",
            _ => return,
        };
        // As from outside: nothing is unwound, flushed or said. It returns only where the process was stopped and continued.
        let _ = Command::new("kill").args([signal, &pid.to_string()]).status();
    }
}

#[async_trait]
impl StateStore for Pointed<dyn StateStore> {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        self.port.read(keys).await
    }

    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        self.points.around(Effect::of_updates(updates), self.port.write(updates, token)).await
    }

    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError> {
        self.port.query(index, dataset, within, limit).await
    }

    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError> {
        self.port.partitions(dataset, after, limit).await
    }

    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError> {
        self.port.items(pk, prefix, after, limit).await
    }
}

#[async_trait]
impl Objects for Pointed<dyn Objects> {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: bool,
        start_after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError> {
        self.port.list(bucket, prefix, delimiter, start_after, next).await
    }

    async fn read_tail(&self, bucket: &str, key: &str, etag: &str, length: u64) -> Result<Bytes, ObjectError> {
        self.port.read_tail(bucket, key, etag, length).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, ObjectError> {
        self.port.get(bucket, key).await
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.points.around(Effect::Put(key), self.port.put(bucket, key, bytes)).await
    }

    async fn upload(&self, bucket: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError> {
        let upload = self.port.upload(bucket, key).await?;
        Ok(Box::new(PointedUpload { upload, key: key.to_owned(), points: self.points.clone() }))
    }
}

/// Only the end of an upload is an effect: nothing is there before it.
struct PointedUpload {
    upload: Box<dyn PartUpload>,
    key: String,
    points: Points,
}

#[async_trait]
impl PartUpload for PointedUpload {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.upload.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<(), ObjectError> {
        self.points.around(Effect::Put(&self.key), self.upload.finish()).await
    }
}

#[async_trait]
impl PartitionQueue for Pointed<dyn PartitionQueue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<Vec<(usize, String)>, QueueError> {
        self.points.around(Effect::Call("send"), self.port.send(messages)).await
    }

    async fn give_back(&self, receipt: &str, after: Duration) -> Result<(), QueueError> {
        // A take hides its message until its lease is over; whoever leaves gives it back for soon.
        let name = if after.is_zero() { "give back" } else { "hide" };
        self.points.around(Effect::Call(name), self.port.give_back(receipt, after)).await
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> Result<(), QueueError> {
        self.points.around(Effect::Call("dead letter"), self.port.dead_letter(body, reason)).await
    }
}

#[async_trait]
impl Announcer for Pointed<dyn Announcer> {
    async fn publish(&self, event: Event) -> Result<(), String> {
        self.points.around(Effect::Call("publish"), self.port.publish(event)).await
    }

    async fn alert(&self, alert: Alert) -> Result<(), String> {
        self.points.around(Effect::Call("alert"), self.port.alert(alert)).await
    }
}

#[async_trait]
impl Warehouse for Pointed<dyn Warehouse> {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        let what = submission.name.rsplit('/').next().unwrap_or(submission.name);
        self.points.around(Effect::Submit(what), self.port.submit(submission)).await
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        self.port.describe(id, wait_seconds).await
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        self.port.result(id).await
    }

    async fn cancel(&self, id: &str) -> Result<(), WarehouseError> {
        self.points.around(Effect::Call("cancel"), self.port.cancel(id)).await
    }
}

/// The folder of plans, where it is set.
pub(crate) fn folder() -> Option<PathBuf> {
    crate::config::environment(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}
