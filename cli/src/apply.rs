//! `tidemark apply FILE`

mod report;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;

use tidemark_domain::definition::Checks;
use tidemark_domain::id::DatasetName;
use tidemark_engine::apply::{ApplyError, Done, Plan, Wish, carry_out, survey};

use crate::arguments::Apply;
use crate::cloud::{self, Cloud, unavailable};
use crate::console::{self, GOOD, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::file;

/// Shows what the file changes; with `--yes` it is done.
pub(crate) async fn run(arguments: &Apply) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let checks = Checks {
        control_bucket: cloud.config.control_bucket.clone(),
        database: cloud.config.redshift.as_ref().map(|redshift| redshift.database.clone()),
    };
    let definitions = file::definitions(&arguments.file, &checks)?;
    let take_over = take_over(arguments)?;
    let by = cloud::operator();
    let wish = Wish {
        definitions: &definitions,
        stack: &cloud.config.stack,
        take_over: &take_over,
        mark: !arguments.no_mark,
        control_bucket: cloud.config.control_bucket.as_deref().unwrap_or_default(),
        by: &by,
    };
    let plan = survey(&cloud.ports, wish).await.map_err(failure)?;
    let will = arguments.yes && plan.problems.is_empty();
    if !arguments.json {
        console::print(&report::plan(&plan))?;
    }
    let done = if will && !plan.is_empty() {
        carry_out(&cloud.ports, wish, &plan).await.map_err(failure)?
    } else {
        Done::default()
    };
    if arguments.json {
        console::print_json(&report::json(&plan, will, done))?;
    }
    conclude(arguments, &plan, will, done)
}

fn take_over(arguments: &Apply) -> Result<BTreeSet<DatasetName>, Failure> {
    let names = arguments.take_over.iter().map(|name| DatasetName::new(name.as_str()));
    names.collect::<Result<_, _>>().map_err(|error| Failure::Usage(error.to_string()))
}

fn conclude(arguments: &Apply, plan: &Plan, will: bool, done: Done) -> Result<Outcome, Failure> {
    if !plan.problems.is_empty() {
        let problems = file::count(plan.problems.len(), "problem");
        return Err(Failure::Refused(format!("{problems}, so nothing was changed")));
    }
    let file = arguments.file.display();
    let told = if plan.is_empty() {
        format!("{GOOD}nothing to do{PLAIN}: everything stands as {file} says\n")
    } else if will {
        report::done(done)
    } else if arguments.dry_run || std::io::stdout().is_terminal() {
        format!("nothing was changed; do it with `tidemark apply {file} --yes`\n")
    } else {
        return Err(Failure::Refused(
            "nothing was changed; write --yes to do it, or --dry-run to only look".to_owned(),
        ));
    };
    if !arguments.json {
        console::print(&told)?;
    }
    Ok(Outcome::Done)
}

fn failure(error: ApplyError) -> Failure {
    match error {
        ApplyError::Raced | ApplyError::Stored { .. } | ApplyError::Sql(_) => Failure::Refused(error.to_string()),
        other => unavailable(other),
    }
}
