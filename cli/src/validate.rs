//! `tidemark validate FILE`

use serde_json::json;
use tidemark_domain::definition::Checks;

use crate::arguments::Validate;
use crate::console::{self, GOOD, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::file;

/// Tells every problem of the file at once; says how many datasets it has where there is none.
pub(crate) fn run(arguments: &Validate) -> Result<Outcome, Failure> {
    let path = &arguments.file;
    let read = file::read(path, &Checks::default())?;
    if arguments.json {
        let problems: Vec<_> = read.as_ref().err().into_iter().flatten().collect();
        let told = problems.iter().map(|problem| {
            json!({
                "line": problem.line, "column": problem.column, "dataset": problem.dataset,
                "what": problem.what, "remedy": problem.remedy,
            })
        });
        console::print_json(&json!({
            "file": path.display().to_string(), "valid": read.is_ok(), "problems": told.collect::<Vec<_>>(),
        }))?;
        return Ok(if read.is_ok() { Outcome::Done } else { Outcome::Problems });
    }
    match read {
        Ok(definitions) => {
            let datasets = file::count(definitions.len(), "dataset");
            console::print(&format!("{GOOD}valid{PLAIN}: {datasets} in {}\n", path.display()))?;
            Ok(Outcome::Done)
        }
        Err(problems) => {
            console::print(&file::problem_lines(path, &problems))?;
            Err(Failure::Refused(format!("{} in {}", file::count(problems.len(), "problem"), path.display())))
        }
    }
}
