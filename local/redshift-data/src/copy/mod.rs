//! COPY: reads objects from S3, checks every value, streams the rows into PostgreSQL, and writes down what it loaded.

mod moment;
mod parquet;
mod record;
pub(crate) mod source;
mod system_rows;
mod target;
mod value;

use std::io::Write as _;
use std::pin::Pin;
use std::time::{Duration, Instant};

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::{SinkExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::CopyInSink;

use self::record::{Delimited, Objects, Record};
use self::source::File;
use self::target::Target;
use self::value::{Problem, code};
use crate::dialect::copy::{CopyCommand, Format};
use crate::failure::Failure;
use crate::session::{Journal, Session};

/// Bytes that go to PostgreSQL at once.
const CHUNK: usize = 64 * 1024;
/// Objects asked for before it is their turn: a partition may have very many small ones.
const OPENED_AHEAD: usize = 8;
/// Error rows written down of one COPY at most.
const ERRORS_KEPT: usize = 10_000;

/// An error of the layer that reads columnar files.
fn spectrum(code: i32, context: &str, query_id: i64) -> Failure {
    Failure::new("Spectrum Scan Error").with_detail(source::block("Spectrum Scan Error", code, context, query_id))
}

/// What a COPY works with.
#[derive(Debug)]
pub(crate) struct Means<'a> {
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) journal: &'a Journal,
    pub(crate) session: &'a Session,
    pub(crate) takes_at_least: Duration,
}

/// Runs a COPY in the session's transaction. The number of rows is what `pg_last_copy_count()` then says.
pub(crate) async fn load(means: Means<'_>, command: &CopyCommand, query_id: i64) -> Result<(), Failure> {
    let began = Instant::now();
    let target = Target::of(means.session, command, query_id).await?;
    let files = source::files(&means.s3, command, query_id).await?;
    let mut load = Load {
        means,
        command,
        query_id,
        target,
        started: Timestamp::now(),
        rows: 0,
        errors: 0,
        error_rows: Vec::new(),
        file_rows: Vec::new(),
        bytes: 0,
    };
    let mut outcome = load.all(&files).await;
    let rest = load.means.takes_at_least.saturating_sub(began.elapsed());
    if outcome.is_ok() && !rest.is_zero() {
        // In the database, so that a cancel, a time-out and a broken connection meet it there.
        let sleep = format!("SELECT pg_sleep({})", rest.as_secs_f64());
        outcome = load.means.session.execute(&sleep).await.map(drop).map_err(|error| load.failed(&error));
    }
    load.write_down(files.len(), outcome.is_ok()).await?;
    outcome
}

struct Load<'a> {
    means: Means<'a>,
    command: &'a CopyCommand,
    query_id: i64,
    target: Target,
    started: Timestamp,
    rows: u64,
    errors: u64,
    error_rows: Vec<Value>,
    file_rows: Vec<Value>,
    bytes: i64,
}

type Sink = Pin<Box<CopyInSink<Bytes>>>;

impl Load<'_> {
    fn failed(&self, error: &tokio_postgres::Error) -> Failure {
        Failure::from_postgres(error, self.query_id, self.means.session.pid, self.target.oid)
    }

    async fn all(&mut self, files: &[File]) -> Result<(), Failure> {
        let sql = format!("COPY {} ({}) FROM STDIN", self.command.table, self.target.column_list());
        let sink = self.means.session.client.copy_in::<_, Bytes>(&sql).await.map_err(|error| self.failed(&error))?;
        let mut sink: Sink = Box::pin(sink);
        let (s3, parquet, query_id) = (self.means.s3.clone(), self.command.format == Format::Parquet, self.query_id);
        let open = move |file: File| {
            let s3 = s3.clone();
            async move { source::open(&s3, &file, parquet, query_id).await.map(|object| (file, object)) }
        };
        let mut opened = futures::stream::iter(files.to_vec()).map(open).buffered(OPENED_AHEAD);
        while let Some(found) = opened.next().await {
            if let (file, Some(object)) = found? {
                self.file(&file, object, &mut sink).await?;
            }
        }
        if self.file_rows.is_empty() {
            return Err(Failure::new("None of the manifest's files exists"));
        }
        sink.as_mut().finish().await.map_err(|error| self.failed(&error))?;
        Ok(())
    }

    async fn file(&mut self, file: &File, object: GetObjectOutput, sink: &mut Sink) -> Result<(), Failure> {
        let started = Timestamp::now();
        let parquet = self.command.format == Format::Parquet;
        let length = object.content_length().unwrap_or(0);
        let etag = object.e_tag().unwrap_or_default().trim_matches('"').to_owned();
        let modified = object.last_modified().and_then(|at| Timestamp::from_second(at.secs()).ok());
        let lines =
            if parquet { self.parquet(file, object, sink).await? } else { self.text(file, object, sink).await? };
        self.bytes += length;
        self.file_rows.push(json!({
            "query_id": self.query_id,
            "file_name": file.url(),
            "bytes_scanned": length,
            "lines_scanned": lines,
            "record_time": Timestamp::now(),
            "start_time": started,
            "end_time": Timestamp::now(),
            "file_etag": etag,
            "file_last_modified": modified,
        }));
        Ok(())
    }

    /// A file of lines or objects; the number of them.
    async fn text(&mut self, file: &File, object: GetObjectOutput, sink: &mut Sink) -> Result<u64, Failure> {
        let mut cutter = Cutter::of(self.command.format);
        let mut unzip = self.command.gzip.then(|| MultiGzDecoder::new(Vec::new()));
        let (mut records, mut buffer) = (Vec::new(), Vec::with_capacity(CHUNK * 2));
        let (mut headers, mut lines) = (self.command.ignore_header, 0);
        let mut body = object.body;
        let broken = |error: String| Failure::new(format!("S3ServiceException:{error}, file {}", file.url()));
        let mut last = false;
        while !last {
            let chunk = body.try_next().await.map_err(|error| broken(error.to_string()))?;
            last = chunk.is_none();
            let chunk = chunk.unwrap_or_default();
            match &mut unzip {
                None => cutter.push(&chunk, &mut records),
                Some(unzip) => {
                    let unzipped =
                        unzip.write_all(&chunk).and_then(|()| if last { unzip.try_finish() } else { unzip.flush() });
                    unzipped.map_err(|error| broken(format!("the file isn't gzip: {error}")))?;
                    cutter.push(&std::mem::take(unzip.get_mut()), &mut records);
                }
            }
            if last {
                cutter.finish(&mut records);
            }
            for record in records.drain(..) {
                if headers > 0 {
                    headers -= 1;
                    continue;
                }
                lines += 1;
                self.record(file, record, &mut buffer)?;
                if buffer.len() > CHUNK {
                    let full = std::mem::replace(&mut buffer, Vec::with_capacity(CHUNK * 2));
                    sink.send(Bytes::from(full)).await.map_err(|error| self.failed(&error))?;
                }
            }
        }
        sink.send(Bytes::from(buffer)).await.map_err(|error| self.failed(&error))?;
        Ok(lines)
    }

    /// One line: its row, or its error; an error too many ends the COPY.
    fn record(&mut self, file: &File, record: Record, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        let blank = matches!(record.fields.as_deref(), Ok([only]) if only.is_empty());
        if blank && self.command.ignore_blank_lines {
            return Ok(());
        }
        let start = buffer.len();
        let line = record.line;
        match self.row(record, buffer) {
            Ok(()) => {
                buffer.push(b'\n');
                self.rows += 1;
                Ok(())
            }
            Err((column, problem)) => {
                buffer.truncate(start);
                self.reject(file, line, column, &problem)
            }
        }
    }

    fn row(&self, record: Record, buffer: &mut Vec<u8>) -> Result<(), (Option<usize>, Problem)> {
        let fields = record.fields.map_err(|problem| (None, problem))?;
        if let Format::Json { ignore_case } = self.command.format {
            return self.object(&fields[0], ignore_case, buffer);
        }
        let (found, wanted) = (fields.len(), self.target.columns.len());
        if found > wanted {
            return Err((None, Problem::new(code::EXTRA_COLUMNS, "Extra column(s) found")));
        }
        if found < wanted && !self.command.fill_record {
            return Err((Some(found), Problem::new(code::DELIMITER, "Delimiter not found")));
        }
        for (index, column) in self.target.columns.iter().enumerate() {
            if index > 0 {
                buffer.push(b'\t');
            }
            let at = |problem| (Some(index), problem);
            let value = match fields.get(index) {
                Some(raw) => value::from_text(raw, column.kind, self.command).map_err(at)?,
                None => None,
            };
            if value.is_none() {
                column.null().map_err(at)?;
            }
            value::encode(buffer, value.as_deref());
        }
        Ok(())
    }

    /// A JSON object: its members by the columns' names.
    fn object(&self, text: &[u8], ignore_case: bool, buffer: &mut Vec<u8>) -> Result<(), (Option<usize>, Problem)> {
        type Members<'a> = std::collections::HashMap<String, &'a serde_json::value::RawValue>;
        let invalid = |text: String| (None, Problem::new(code::INVALID_LINE, text));
        let mut members: Members =
            serde_json::from_slice(text).map_err(|error| invalid(format!("Invalid JSON: {error}")))?;
        if ignore_case {
            members = members.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        }
        for (index, column) in self.target.columns.iter().enumerate() {
            if index > 0 {
                buffer.push(b'\t');
            }
            let at = |problem| (Some(index), problem);
            let raw = members.get(&column.name).map(|raw| raw.get());
            let value = match raw {
                None => column.default.clone(),
                Some("null") => None,
                Some(raw) if column.kind == value::Kind::Super => Some(raw.to_owned()),
                Some(raw) => {
                    // A string's own text; all else as it is written.
                    let text = if raw.starts_with('"') {
                        serde_json::from_str(raw).map_err(|error| invalid(format!("Invalid JSON: {error}")))?
                    } else {
                        raw.to_owned()
                    };
                    value::from_text(text.as_bytes(), column.kind, self.command)
                        .map_err(at)?
                        .map(std::borrow::Cow::into_owned)
                }
            };
            if value.is_none() {
                column.null().map_err(at)?;
            }
            value::encode(buffer, value.as_deref());
        }
        Ok(())
    }

    fn reject(&mut self, file: &File, line: u64, column: Option<usize>, problem: &Problem) -> Result<(), Failure> {
        self.errors += 1;
        let column = column.and_then(|index| self.target.columns.get(index));
        if self.error_rows.len() < ERRORS_KEPT {
            self.error_rows.push(json!({
                "query_id": self.query_id,
                "session_id": self.means.session.pid,
                "table_id": self.target.oid,
                "start_time": self.started,
                "file_name": file.url(),
                "line_number": line,
                "column_name": column.map_or("", |column| column.name.as_str()),
                "column_type": column.map_or("", |column| column.kind.name()),
                "column_length": column.map_or_else(String::new, |column| column.kind.length()),
                "position": 0,
                "error_code": problem.code,
                "error_message": problem.message,
            }));
        }
        if self.errors < self.command.max_error.max(1) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "Load into table '{}' failed.  Check 'sys_load_error_detail' system table for details.",
            self.target.name
        )))
    }

    /// A Parquet file, by way of a temporary file: its footer is at its end. The number of rows.
    async fn parquet(&mut self, file: &File, object: GetObjectOutput, sink: &mut Sink) -> Result<u64, Failure> {
        let local = |error: std::io::Error| Failure::new(format!("a temporary file for {}: {error}", file.url()));
        let mut copy = tempfile::tempfile().map_err(local)?;
        let mut body = object.body;
        while let Some(chunk) = body
            .try_next()
            .await
            .map_err(|error| Failure::new(format!("S3ServiceException:{error}, file {}", file.url())))?
        {
            copy.write_all(&chunk).map_err(local)?;
        }
        let (send, mut receive) = tokio::sync::mpsc::channel::<Vec<u8>>(4);
        let (url, target, command, query_id) = (file.url(), self.target.clone(), self.command.clone(), self.query_id);
        let reading = tokio::task::spawn_blocking(move || {
            parquet::read(copy, &url, &target, &command, query_id, |rows| send.blocking_send(rows).is_ok())
        });
        while let Some(rows) = receive.recv().await {
            sink.send(Bytes::from(rows)).await.map_err(|error| self.failed(&error))?;
        }
        let rows =
            reading.await.map_err(|error| Failure::new(format!("reading {} stopped: {error}", file.url())))??;
        self.rows += rows;
        Ok(rows)
    }
}

/// What cuts a file's bytes into records.
enum Cutter {
    Delimited(Delimited),
    Objects(Objects),
}

impl Cutter {
    fn of(format: Format) -> Self {
        match format {
            Format::Csv { delimiter, quote } => Self::Delimited(Delimited::new(delimiter, Some(quote))),
            Format::Delimited { delimiter } => Self::Delimited(Delimited::new(delimiter, None)),
            Format::Json { .. } | Format::Parquet => Self::Objects(Objects::default()),
        }
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<Record>) {
        match self {
            Self::Delimited(cutter) => cutter.push(bytes, out),
            Self::Objects(cutter) => cutter.push(bytes, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Record>) {
        match self {
            Self::Delimited(cutter) => cutter.finish(out),
            Self::Objects(cutter) => cutter.finish(out),
        }
    }
}
