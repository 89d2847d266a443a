//! `tidemark pause DATASET` and `tidemark resume DATASET`.

use clap::Args;
use serde_json::json;
use tidemark_domain::dataset::Mode;
use tidemark_engine::ports::Written;

use crate::cloud::{self, Cloud, unavailable};
use crate::console::{self, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;

#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// The dataset
    pub(crate) dataset: String,
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The dataset
    pub(crate) dataset: String,
    /// Tell what would be resumed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Marks gather, nothing is rebuilt; what runs in Redshift is followed to its end.
pub(crate) async fn pause(arguments: &Pause) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let known = cloud.dataset(&arguments.dataset).await?;
    known.not_retired()?;
    let (by, ports) = (cloud::operator(), &cloud.ports);
    let update = known.head.pause(&known.dataset, &by, arguments.reason.as_deref(), ports.clock.now());
    let written = ports.state.write(&[update], &ports.clock.id().to_string()).await.map_err(unavailable)?;
    if matches!(written, Written::Refused(_)) {
        return Err(Failure::Refused(format!("{} was retired meanwhile", known.dataset)));
    }
    let was = known.head.mode;
    if arguments.json {
        console::print_json(&json!({ "dataset": known.dataset, "mode": "paused", "was": was }))?;
        return Ok(Outcome::Done);
    }
    let before = match was {
        Mode::Paused => ", as it was before",
        Mode::Halted => "; it was halted, which is no longer probed",
        Mode::Active | Mode::Retired => "",
    };
    console::print(&format!(
        "{GOOD}paused{PLAIN}: {NAME}{}{PLAIN}{before}; marks gather, and what runs in Redshift is followed to its end; \
         `tidemark resume {}` goes on\n",
        known.dataset, known.dataset
    ))?;
    Ok(Outcome::Done)
}

/// Goes on with what was paused, or halted for a repair.
pub(crate) async fn resume(arguments: &Resume) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let known = cloud.dataset(&arguments.dataset).await?;
    known.not_retired()?;
    let (head, dataset) = (&known.head, &known.dataset);
    let was = match head.mode {
        Mode::Halted => format!("halted by {} since {:.0}", head.by, head.since),
        Mode::Paused => format!("paused by {} since {:.0}", head.by, head.since),
        Mode::Active | Mode::Retired => {
            let waits = cloud.engine.gathered(dataset).await.map_err(unavailable)?;
            if arguments.json {
                console::print_json(
                    &json!({ "dataset": dataset, "mode": "active", "was": "active", "gathered": waits }),
                )?;
            } else {
                console::print(&format!("{GOOD}nothing to do{PLAIN}: {NAME}{dataset}{PLAIN} is active\n"))?;
            }
            return Ok(Outcome::Done);
        }
    };
    let (gathered, woken) = if arguments.dry_run {
        (cloud.engine.gathered(dataset).await.map_err(unavailable)?, 0)
    } else {
        let resumed = cloud.engine.go_on(dataset, head, &cloud::operator()).await.map_err(unavailable)?;
        let resumed = resumed.ok_or_else(|| Failure::Refused(format!("somebody else changed {dataset} meanwhile")))?;
        (resumed.gathered, resumed.woken)
    };
    if arguments.json {
        console::print_json(&json!({
            "dataset": dataset, "mode": if arguments.dry_run { head.mode } else { Mode::Active }, "was": head.mode,
            "why": head.why, "since": head.since.as_millisecond(), "by": head.by, "gathered": gathered, "woken": woken,
        }))?;
        return Ok(Outcome::Done);
    }
    let why = head.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let waiting = count(gathered, "partition");
    let text = if arguments.dry_run {
        format!("{WARN}would resume{PLAIN}: {NAME}{dataset}{PLAIN}, {was}{why}; {waiting} gathered\n")
    } else {
        let rest = match gathered - woken {
            0 => String::new(),
            rest => format!(", sweep the other {rest}, a few each minute"),
        };
        format!("{GOOD}resumed{PLAIN}: {NAME}{dataset}{PLAIN}, {was}{why}; {waiting} gathered, {woken} woken{rest}\n")
    };
    console::print(&text)?;
    Ok(Outcome::Done)
}
