//! A headless Chromium, spoken to by its `DevTools` protocol over two pipes: JSON messages, each ended by a zero byte.
//!
//! It is the one of `$CHROMIUM`, else the first in `PATH` under one of its names.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// A browser on a busy machine may take long to start.
const PATIENCE: Duration = Duration::from_mins(2);
/// It speaks to nobody of its own accord.
const SWITCHES: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
];

/// A browser with one page.
pub(super) struct Chromium {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    number: u64,
    /// What the page and the browser said beside answers.
    pub(super) events: Vec<Value>,
    _profile: TempDir,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|p| p.is_file());
    found.expect("no Chromium in PATH; on Debian: apt-get install chromium; elsewhere set CHROMIUM to its program")
}

impl Chromium {
    /// Starts it, with an empty page.
    pub(super) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // It reads from 3 and writes to 4, which the shell makes of our pipes.
        let mut process = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#])
            .arg(program())
            .args(SWITCHES)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, from) = channel();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let _ = tell.send(serde_json::from_slice(&message).unwrap());
                message.clear();
            }
        });
        let to = process.stdin.take().unwrap();
        let mut it = Self { process, to, from, session: None, number: 0, events: Vec::new(), _profile: profile };
        let target = it.ask("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let session = it.ask("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        it.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            it.ask(&format!("{domain}.enable"), &json!({}));
        }
        it
    }

    /// Asks and waits for the answer; what comes in between is kept.
    pub(super) fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let told = self.next(method);
            if told["id"] == self.number {
                assert_eq!(told["error"], Value::Null, "{method}");
                return told["result"].clone();
            }
            self.events.push(told);
        }
    }

    fn next(&mut self, waiting_for: &str) -> Value {
        self.from
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("Chromium doesn't answer {waiting_for}: {error}"))
    }

    /// Opens a file and waits until it is loaded.
    pub(super) fn open(&mut self, file: &std::path::Path) {
        self.ask("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next("Page.loadEventFired");
            self.events.push(event);
        }
    }

    /// The value of an expression of the page.
    pub(super) fn value(&mut self, expression: &str) -> Value {
        let told = self.ask("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert_eq!(told["exceptionDetails"], Value::Null, "{expression}");
        told["result"]["value"].clone()
    }

    /// Moves the mouse to the middle of an element, scrolled to; clicks there if asked to.
    pub(super) fn point(&mut self, selector: &str, click: bool) {
        let at = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ));
        let kinds: &[&str] = if click { &["mouseMoved", "mousePressed", "mouseReleased"] } else { &["mouseMoved"] };
        for kind in kinds {
            let button = if *kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": button, "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", &event);
        }
    }

    /// Everything that went wrong, and everything that was asked of somebody else.
    pub(super) fn complaints(&self) -> Vec<&Value> {
        let of_page = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => {
                event["params"]["type"] == "error" || event["params"]["type"] == "warning"
            }
            Some("Network.requestWillBeSent") => {
                !event["params"]["request"]["url"].as_str().is_some_and(|url| url.starts_with("file:"))
            }
            _ => false,
        };
        self.events.iter().filter(of_page).collect()
    }
}
