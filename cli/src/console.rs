//! Standard output and error: colours where a terminal shows them and nobody declined them (`NO_COLOR`, `TERM=dumb`).

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Reset, Style};
use serde_json::Value;

/// Wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// To be looked at.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// Good.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// A name or heading.
pub(crate) const NAME: Style = Style::new().bold();
/// Of less weight.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Ends any of them.
pub(crate) const PLAIN: Reset = Reset;

/// The columns of the terminal that standard output is; 80 where it is none.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| usize::from(width.0))
}

/// Prints a result.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints a result as JSON, for programs.
pub(crate) fn print_json(value: &Value) -> io::Result<()> {
    print(&format!("{value:#}\n"))
}

/// Tells people something beside the result. Nothing can be done where that fails.
pub(crate) fn tell(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes());
}
