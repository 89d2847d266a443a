//! COPY: reads objects from S3, checks every value, streams the rows into PostgreSQL, and writes down what it loaded.

mod avro;
mod columnar;
mod decode;
mod json;
mod moment;
mod orc;
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
use futures::{SinkExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::CopyInSink;

use self::columnar::Source;
use self::json::Members;
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
    let members = match &command.json_paths {
        None => Members::by_name(command.format),
        Some(url) => Members::by_path(&source::whole(&means.s3, url).await?, target.columns.len())?,
    };
    let files = source::files(&means.s3, command, query_id).await?;
    let mut load = Load {
        means,
        command,
        query_id,
        target,
        members,
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
    members: Members,
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
        let (s3, columnar, query_id) = (self.means.s3.clone(), self.command.format.is_columnar(), self.query_id);
        let open = move |file: File| {
            let s3 = s3.clone();
            async move { source::open(&s3, &file, columnar, query_id).await.map(|object| (file, object)) }
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
        let length = object.content_length().unwrap_or(0);
        let etag = object.e_tag().unwrap_or_default().trim_matches('"').to_owned();
        let modified = object.last_modified().and_then(|at| Timestamp::from_second(at.secs()).ok());
        let lines = if self.command.format.is_columnar() {
            self.columnar(file, object, sink).await?
        } else {
            self.text(file, object, sink).await?
        };
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

    /// A file of lines, objects or records; the number of them.
    async fn text(&mut self, file: &File, object: GetObjectOutput, sink: &mut Sink) -> Result<u64, Failure> {
        let broken = |error: String| Failure::new(format!("S3ServiceException:{error}, file {}", file.url()));
        let mut records = Records::of(self.command);
        let (mut found, mut buffer) = (Vec::new(), Vec::with_capacity(CHUNK * 2));
        let (mut headers, mut lines) = (self.command.ignore_header, 0);
        let mut body = object.body;
        let mut last = false;
        while !last {
            let chunk = body.try_next().await.map_err(|error| broken(error.to_string()))?;
            last = chunk.is_none();
            records.push(&chunk.unwrap_or_default(), last, self.command, &mut found).map_err(broken)?;
            for record in found.drain(..) {
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
        if matches!(self.command.format, Format::Json { .. } | Format::Avro { .. }) {
            return self.members.row(&fields[0], &self.target, self.command, buffer);
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

    /// A Parquet or ORC file, by way of a temporary file: its footer is at its end. The number of rows.
    async fn columnar(&mut self, file: &File, object: GetObjectOutput, sink: &mut Sink) -> Result<u64, Failure> {
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
            let source = |format| Source { format, url: &url, target: &target, command: &command, query_id };
            let emit = |rows| send.blocking_send(rows).is_ok();
            match command.format {
                Format::Orc => orc::read(copy, source("ORC"), emit),
                _ => parquet::read(copy, source("Parquet"), emit),
            }
        });
        while let Some(rows) = receive.recv().await {
            sink.send(Bytes::from(rows)).await.map_err(|error| self.failed(&error))?;
        }
        // The readers panic at some damage.
        let rows = reading.await.unwrap_or_else(|panic| Err(columnar::damaged(&file.url(), panic, query_id)))?;
        self.rows += rows;
        Ok(rows)
    }
}

/// What cuts a file's bytes into records.
enum Records {
    Delimited(Delimited),
    Objects(Objects),
    /// To be decoded whole, then cut by the other.
    Whole(Vec<u8>, Box<Self>),
    Avro(Vec<u8>),
}

impl Records {
    fn of(command: &CopyCommand) -> Self {
        let cut = match command.format {
            Format::Csv { delimiter, quote } => Self::Delimited(Delimited::new(delimiter, Some(quote))),
            Format::Delimited { delimiter } => Self::Delimited(Delimited::new(delimiter, None)),
            Format::Avro { .. } => return Self::Avro(Vec::new()),
            Format::Json { .. } | Format::Parquet | Format::Orc => Self::Objects(Objects::default()),
        };
        Self::Whole(Vec::new(), Box::new(cut))
    }

    /// Takes more bytes; records that are whole are added to `out`.
    fn push(&mut self, bytes: &[u8], last: bool, command: &CopyCommand, out: &mut Vec<Record>) -> Result<(), String> {
        match self {
            Self::Delimited(cutter) => cutter.push(bytes, out),
            Self::Objects(cutter) => cutter.push(bytes, out),
            Self::Whole(whole, cut) => {
                whole.extend(bytes);
                if last {
                    let plain = decode::decompress(&std::mem::take(whole), command.compression)?;
                    return cut.push(&decode::characters(plain, command.encoding), true, command, out);
                }
            }
            Self::Avro(whole) => {
                whole.extend(bytes);
                if last {
                    let records = avro::records(whole).map_err(|error| format!("Invalid AVRO file: {error}"))?;
                    out.extend((1..).zip(records).map(|(line, text)| Record { line, fields: Ok(vec![text]) }));
                }
            }
        }
        match self {
            Self::Delimited(cutter) if last => cutter.finish(out),
            Self::Objects(cutter) if last => cutter.finish(out),
            _ => {}
        }
        Ok(())
    }
}
