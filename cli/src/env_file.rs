//! `--env-file`: the command starts itself again with what the file says.
//!
//! So there is one environment, for AWS's SDK too, and it is never changed while threads run.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::exit::{Failure, Outcome};

/// Set for the second start.
const READ: &str = "TIDEMARK_ENV_FILE_IS_READ";

/// Whether this is the second start.
pub(crate) fn is_read() -> bool {
    env::var_os(READ).is_some()
}

/// Starts again; comes back only where that fails.
pub(crate) fn start_again(path: &Path) -> Result<Outcome, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("can't read the environment file {}: {error}", path.display())))?;
    let variables = parse(&text)
        .map_err(|line| Failure::Usage(format!("{}:{line}: not NAME=VALUE; write one a line", path.display())))?;
    let program = env::current_exe().map_err(|error| Failure::Refused(format!("can't start again: {error}")))?;
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let error = Command::new(program).args(arguments).envs(variables).env(READ, "1").exec();
    Err(Failure::Refused(format!("can't start again: {error}")))
}

/// The variables; the error is the line that is none. `export`, blank lines and comments are allowed, quotes are taken off.
fn parse(text: &str) -> Result<Vec<(&str, &str)>, usize> {
    let mut variables = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=').ok_or(index + 1)?;
        let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !valid {
            return Err(index + 1);
        }
        let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        variables.push((name, quoted.unwrap_or(value)));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_shells_write_them() {
        let text = "# local cloud\nexport AWS_REGION=us-east-1\n\nA=\"b c\"\nURL=http://x/?a=b\n";
        assert_eq!(parse(text), Ok(vec![("AWS_REGION", "us-east-1"), ("A", "b c"), ("URL", "http://x/?a=b")]));
        assert_eq!(parse("A=1\nno\n"), Err(2));
        assert_eq!(parse("a b=1"), Err(1));
    }
}
