//! Bytes of text files, as they come, cut into records: fields between delimiters, or JSON objects.

use super::value::{Problem, code};

/// The most bytes one record may have.
const RECORD_LIMIT: usize = 4 * 1024 * 1024;

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The line it begins on, 1 is the first.
    pub(crate) line: u64,
    /// Its fields, or why it can't be read. Of JSON the only field is the object's text.
    pub(crate) fields: Result<Vec<Vec<u8>>, Problem>,
}

/// Cuts delimited text.
#[derive(Debug)]
pub(crate) struct Delimited {
    delimiter: u8,
    /// None: nothing is quoted.
    quote: Option<u8>,
    state: State,
    line: u64,
    started: u64,
    size: usize,
    fields: Vec<Vec<u8>>,
    field: Vec<u8>,
    problem: Option<Problem>,
    any: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    QuoteInQuoted,
}

impl Delimited {
    pub(crate) fn new(delimiter: u8, quote: Option<u8>) -> Self {
        Self {
            delimiter,
            quote,
            state: State::FieldStart,
            line: 1,
            started: 1,
            size: 0,
            fields: Vec::new(),
            field: Vec::new(),
            problem: None,
            any: false,
        }
    }

    /// Takes more bytes; records that are whole are added to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<Record>) {
        for &byte in bytes {
            self.byte(byte, out);
        }
    }

    /// The file's end: the last line may lack its line feed.
    pub(crate) fn finish(&mut self, out: &mut Vec<Record>) {
        if self.state == State::Quoted {
            self.problem.get_or_insert_with(bad_quotes);
        }
        if self.any {
            self.end_record(out);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<Record>) {
        self.any = true;
        self.size += 1;
        if self.size > RECORD_LIMIT {
            self.problem.get_or_insert_with(|| Problem::new(code::INVALID_LINE, "Input line is too long"));
            self.field.clear();
        }
        if byte == b'\n' {
            self.line += 1;
            if self.state != State::Quoted {
                if self.state != State::QuoteInQuoted && self.field.last() == Some(&b'\r') {
                    self.field.pop();
                }
                return self.end_record(out);
            }
        }
        if byte == 0 {
            self.problem.get_or_insert_with(|| {
                Problem::new(code::INVALID_LINE, "Missing newline: Unexpected character 0x00 found")
            });
        }
        match self.state {
            State::Quoted if Some(byte) == self.quote => self.state = State::QuoteInQuoted,
            State::Quoted => self.field.push(byte),
            State::QuoteInQuoted if Some(byte) == self.quote => {
                self.field.push(byte);
                self.state = State::Quoted;
            }
            State::FieldStart if Some(byte) == self.quote => self.state = State::Quoted,
            _ if byte == self.delimiter => {
                self.fields.push(std::mem::take(&mut self.field));
                self.state = State::FieldStart;
            }
            State::QuoteInQuoted if byte == b'\r' => {}
            State::QuoteInQuoted => {
                self.problem.get_or_insert_with(bad_quotes);
            }
            State::FieldStart | State::Plain => {
                self.field.push(byte);
                self.state = State::Plain;
            }
        }
    }

    fn end_record(&mut self, out: &mut Vec<Record>) {
        self.fields.push(std::mem::take(&mut self.field));
        let fields = std::mem::take(&mut self.fields);
        out.push(Record { line: self.started, fields: self.problem.take().map_or(Ok(fields), Err) });
        self.state = State::FieldStart;
        self.started = self.line;
        self.size = 0;
        self.any = false;
    }
}

fn bad_quotes() -> Problem {
    Problem::new(code::INVALID_LINE, "Invalid quote formatting for CSV")
}

/// Cuts a run of JSON objects.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    depth: usize,
    in_string: bool,
    escaped: bool,
    lines: u64,
    started: u64,
    object: Vec<u8>,
}

impl Objects {
    /// Takes more bytes; objects that are whole are added to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<Record>) {
        for &byte in bytes {
            if byte == b'\n' {
                self.lines += 1;
            }
            if self.depth == 0 {
                match byte {
                    b'{' => self.started = self.lines + 1,
                    b' ' | b'\t' | b'\r' | b'\n' => continue,
                    other => {
                        let text =
                            format!("Invalid JSON: unexpected character '{}' outside an object", char::from(other));
                        let fields = Err(Problem::new(code::INVALID_LINE, text));
                        // One complaint per run of such characters.
                        if out.last().is_none_or(|last| last.fields != fields || last.line != self.lines + 1) {
                            out.push(Record { line: self.lines + 1, fields });
                        }
                        continue;
                    }
                }
            }
            self.object.push(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        out.push(self.whole());
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn finish(&mut self, out: &mut Vec<Record>) {
        if self.depth > 0 {
            let problem = Problem::new(code::INVALID_LINE, "Invalid JSON: the file ends inside an object");
            out.push(Record { line: self.started, fields: Err(problem) });
        }
    }

    fn whole(&mut self) -> Record {
        let object = std::mem::take(&mut self.object);
        let fields = if object.len() > RECORD_LIMIT {
            Err(Problem::new(code::INVALID_LINE, "JSON object is larger than 4 MB"))
        } else {
            Ok(vec![object])
        };
        Record { line: self.started, fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the chunks, the records are the same.
    fn csv(text: &str, chunk: usize) -> Vec<(u64, Result<Vec<String>, i32>)> {
        let mut cutter = Delimited::new(b',', Some(b'"'));
        let mut out = Vec::new();
        for part in text.as_bytes().chunks(chunk) {
            cutter.push(part, &mut out);
        }
        cutter.finish(&mut out);
        out.into_iter()
            .map(|record| {
                let fields = record
                    .fields
                    .map(|fields| fields.into_iter().map(|field| String::from_utf8(field).unwrap()).collect())
                    .map_err(|problem| problem.code);
                (record.line, fields)
            })
            .collect()
    }

    #[test]
    fn quotes_line_feeds_and_the_last_line() {
        for chunk in [1, 3, 1_000] {
            let ok = |fields: &[&str]| Ok(fields.iter().map(|field| (*field).to_owned()).collect());
            assert_eq!(
                csv("a,\"b \"\"c\"\"\nd\",\r\n,x\n\n\"q\"z,1\nlast", chunk),
                [
                    (1, ok(&["a", "b \"c\"\nd", ""])),
                    (3, ok(&["", "x"])),
                    (4, ok(&[""])),
                    (5, Err(code::INVALID_LINE)),
                    (6, ok(&["last"])),
                ]
            );
        }
    }

    #[test]
    fn objects_end_where_they_end() {
        let mut cutter = Objects::default();
        let mut out = Vec::new();
        for part in b"{\"a\": \"}\\\"\", \"b\": [{}]}\n\n{\"c\":1} {\"d\":\n".chunks(2) {
            cutter.push(part, &mut out);
        }
        cutter.finish(&mut out);
        assert_eq!(
            out.iter().map(|record| (record.line, record.fields.is_ok())).collect::<Vec<_>>(),
            [(1, true), (3, true), (3, false)]
        );
    }
}
