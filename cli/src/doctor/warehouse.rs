//! The doctor's look at Redshift: that it answers, what `init` made, and of each dataset table, rights, owner and COPY.

use tidemark_domain::apply::column_problems;
use tidemark_domain::dataset::Mode;
use tidemark_domain::definition::TableName;
use tidemark_domain::doctor::Finding;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::sql::{doctor as rights, install, survey};
use tidemark_engine::init::{InitError, version};
use tidemark_engine::run::{RunError, ask};

use crate::cloud::{Cloud, Known};
use crate::moment;

const UNREACHABLE: &str = "see that the warehouse runs, that its name, database and user are right, and that the caller may use the \
                           Redshift Data API";
const APPLY: &str = "apply the file of datasets again: `tidemark apply`";

/// Looks at Redshift, then at what each dataset needs of it; the latter only where our schemas stand.
pub(super) async fn examine(cloud: &Cloud, known: &[Known], add: &mut impl FnMut(&'static str, &str, Finding)) {
    let database = cloud.config.redshift.as_ref().map(|redshift| redshift.database.clone()).unwrap_or_default();
    let finding = redshift(cloud).await;
    let stands = !finding.has_failed();
    add("redshift", &database, finding);
    for known in known {
        let name = known.dataset.as_str();
        if stands {
            of_dataset(cloud, known, add).await;
        }
        if known.head.mode == Mode::Halted {
            let why = known.head.why.as_deref().unwrap_or("no reason is stored");
            let remedy = format!("mend what it names, then `tidemark resume {name}`; it is probed every 15 minutes");
            add("dataset", name, Finding::failed(format!("it is halted: {why}"), remedy));
        }
    }
}

/// That Redshift answers, and that what `init` makes stands there.
async fn redshift(cloud: &Cloud) -> Finding {
    let missing = match missing_schemas(cloud).await {
        Ok(missing) => missing,
        Err(why) => return Finding::failed(why, UNREACHABLE),
    };
    if !missing.is_empty() {
        return Finding::failed(
            format!("there is no schema {}", missing.join(" and ")),
            "run `tidemark init`, then `tidemark apply` with the file of datasets",
        );
    }
    let wanted = u64::from(install::VERSION);
    match version(&cloud.ports).await {
        Ok(Some(found)) if found == wanted => Finding::ok(format!("it answers; schema tidemark is of version {found}")),
        Ok(Some(found)) => Finding::failed(
            format!("schema tidemark is of version {found}; this release wants {wanted}"),
            if found < wanted { "run `tidemark init`" } else { "use the newer release" },
        ),
        Ok(None) => Finding::failed("schema tidemark has no table version", "run `tidemark init`"),
        Err(InitError::Run(RunError::Failed { message, .. })) => Finding::failed(
            message,
            "grant the user that the Data API runs as what infra/redshift/grants.sql names, or run as the one who made it",
        ),
        Err(error) => Finding::failed(error.to_string(), UNREACHABLE),
    }
}

async fn missing_schemas(cloud: &Cloud) -> Result<Vec<&'static str>, String> {
    let rows = ask(&cloud.ports, &rights::schemas().map_err(told)?).await.map_err(told)?;
    rights::read_schemas(&rows).map_err(told)
}

async fn of_dataset(cloud: &Cloud, known: &Known, add: &mut impl FnMut(&'static str, &str, Finding)) {
    let (target, name) = (&known.definition.target, known.dataset.as_str());
    let (finding, is_fenced) = match columns(cloud, known).await {
        Ok(found) => found,
        Err(why) => (cannot_ask(why), false),
    };
    let stands = !finding.has_failed();
    add("target", name, finding);
    if !stands {
        return;
    }
    if is_fenced {
        add("grants", name, grants(cloud, target).await.unwrap_or_else(cannot_ask));
        add("guard row", name, guard_row(cloud, known).await.unwrap_or_else(cannot_ask));
    } else {
        add("guard row", name, Finding::failed(format!("{target} has no fence table"), APPLY));
    }
    add("copy role", name, copies(cloud, known).await);
}

fn cannot_ask(why: String) -> Finding {
    Finding::unknown(why, "see the rights of the user that the Data API runs as: infra/redshift/grants.sql")
}

/// The target's columns against the definition; and whether it has a fence table.
async fn columns(cloud: &Cloud, known: &Known) -> Result<(Finding, bool), String> {
    let target = &known.definition.target;
    let asked = survey::columns(&[target]).map_err(told)?;
    let tables = survey::read_columns(&ask(&cloud.ports, &asked).await.map_err(told)?).map_err(told)?;
    // What apply says of it has its remedy in it.
    let problems = column_problems(&known.definition, tables.get(target).map(Vec::as_slice));
    let finding = if problems.is_empty() {
        Finding::ok(format!("{target} has the columns"))
    } else {
        Finding::failed(problems.join("; "), "mend that, then `tidemark resume` where the dataset was halted for it")
    };
    Ok((finding, tables.contains_key(&survey::fence_table(target))))
}

async fn guard_row(cloud: &Cloud, known: &Known) -> Result<Finding, String> {
    let (target, name) = (&known.definition.target, known.dataset.as_str());
    let asked = survey::guards(&[target]).map_err(told)?;
    let guards = survey::read_guards(&ask(&cloud.ports, &asked).await.map_err(told)?).map_err(told)?;
    let stack = cloud.config.stack.as_str();
    Ok(match guards.get(&target.to_string()) {
        None => Finding::failed(format!("{target} has no guard row"), APPLY),
        Some(guard) if guard.stack != stack || guard.dataset != name => Finding::failed(
            format!("{target} belongs to dataset {} of stack {}", guard.dataset, guard.stack),
            format!("give it another target, or take this one: `tidemark apply --take-over {name}`"),
        ),
        Some(guard) if guard.epoch != known.head.epoch => {
            Finding::failed(format!("its epoch is {}, the dataset's {}", guard.epoch.0, known.head.epoch.0), APPLY)
        }
        Some(guard) => Finding::ok(format!("ours, epoch {}", guard.epoch.0)),
    })
}

async fn grants(cloud: &Cloud, target: &TableName) -> Result<Finding, String> {
    let rows = ask(&cloud.ports, &rights::rights(target).map_err(told)?).await.map_err(told)?;
    let missing = rights::read_rights(&rows).map_err(told)?;
    let Some(first) = missing.first() else { return Ok(Finding::ok("all that a rebuild needs")) };
    let lacks: Vec<String> =
        missing.iter().map(|missing| format!("{} on {}", missing.privilege, missing.object)).collect();
    let grants: Vec<&str> = missing.iter().map(|missing| missing.grant.as_str()).collect();
    Ok(Finding::failed(format!("user {} lacks {}", first.user, lacks.join(", ")), grants.join("; ")))
}

/// The role of COPY is shown by a COPY: by the newest that landed, or by one that was rehearsed.
async fn copies(cloud: &Cloud, known: &Known) -> Finding {
    let name = known.dataset.as_str();
    let why = known.head.why.as_deref().unwrap_or_default();
    if known.head.mode == Mode::Halted
        && ["role", "s3serviceexception", "access denied"].iter().any(|word| why.to_lowercase().contains(word))
    {
        return Finding::failed(
            why.to_owned(),
            "attach the role to the warehouse, and let it list and get the data bucket and get manifest/* of the control \
             bucket (kms:Decrypt where they are encrypted): docs/deploy.md, The role of COPY",
        );
    }
    let page = cloud.ports.state.partitions(&known.dataset, None, 1_000).await.unwrap_or_default();
    let items = page.iter().filter_map(|(_, item)| PartitionItem::from_item(item).ok());
    match items.filter_map(|item| item.last).map(|last| last.committed_at).max() {
        Some(at) => Finding::ok(format!("a COPY of it landed at {}", moment::when(at, cloud.ports.clock.now()))),
        None => Finding::unknown(
            "no COPY of it has landed yet",
            format!("`tidemark replay {name} <partition> --rehearse` makes one, and touches nothing"),
        ),
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
