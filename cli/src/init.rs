//! `tidemark init`

use serde_json::json;
use tidemark_domain::sql::install::VERSION;
use tidemark_engine::init::{InitError, Installed, init};

use crate::arguments::Init;
use crate::cloud::{Cloud, unavailable};
use crate::console::{self, GOOD, PLAIN};
use crate::exit::{Failure, Outcome};

/// Makes Tidemark's schemas, tables and procedures, and says what was there before.
pub(crate) async fn run(arguments: &Init) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let installed = init(&cloud.ports).await.map_err(|error| match error {
        InitError::Newer { .. } => Failure::Refused(error.to_string()),
        other => unavailable(other),
    })?;
    let database = cloud.config.redshift.map(|redshift| redshift.database).unwrap_or_default();
    if arguments.json {
        let (did, from) = match installed {
            Installed::Made => ("made", None),
            Installed::Upgraded { from } => ("upgraded", Some(from)),
            Installed::Again => ("unchanged", None),
        };
        console::print_json(&json!({ "database": database, "version": VERSION, "did": did, "from": from }))?;
        return Ok(Outcome::Done);
    }
    let did = match installed {
        Installed::Made => "made".to_owned(),
        Installed::Upgraded { from } => format!("brought from version {from}"),
        Installed::Again => "found, nothing changed".to_owned(),
    };
    let told = format!("{GOOD}ready{PLAIN}: schema tidemark, version {VERSION}, in database {database}: {did}\n");
    console::print(&told)?;
    Ok(Outcome::Done)
}
