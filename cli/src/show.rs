//! `tidemark show DATASET PARTITION`

pub(crate) mod words;

use std::fmt::Write as _;

use serde_json::json;

use crate::arguments::Show;
use crate::cloud::Cloud;
use crate::console::{self, BAD, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};

/// Tells how a partition stands, what its last committed batch was, and what happens next.
pub(crate) async fn run(arguments: &Show) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let seen = cloud.look(&arguments.dataset, &arguments.partition).await?;
    let now = cloud.ports.clock.now();
    let story = words::story(&seen.head, &seen.definition, seen.item.as_ref(), cloud.config.settle, now);
    if arguments.json {
        console::print_json(&json!({
            "dataset": seen.id.dataset,
            "partition": seen.id.partition,
            "state": story.state.name(),
            "next": story.next,
            "digest": seen.item.as_ref().and_then(crate::accept::shown_digest),
            "head": seen.head,
            "item": seen.item,
        }))?;
        return Ok(Outcome::Done);
    }
    let colour = match story.state {
        words::State::Clean => GOOD,
        words::State::Parked => BAD,
        words::State::Unknown => NAME,
        words::State::Building | words::State::Held | words::State::Dirty => WARN,
    };
    let mut text = format!("{NAME}{}{PLAIN}: {colour}{}{PLAIN}\n", seen.id, story.state.name());
    for (label, told) in &story.lines {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {label:<11}{told}");
    }
    let _ = writeln!(text, "  {:<11}{}", "next", story.next);
    console::print(&text)?;
    Ok(Outcome::Done)
}
