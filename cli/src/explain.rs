//! `tidemark explain FILE s3://bucket/key`

use serde_json::{Value, json};
use tidemark_domain::definition::Checks;
use tidemark_domain::explain::{Reading, explain};
use tidemark_domain::route::{Catalog, Claim};

use crate::arguments::Explain;
use crate::console;
use crate::exit::{Failure, Outcome};
use crate::file;

/// Tells which dataset and partition the object is of, or why of none. Of none at all, in either reading, is a problem.
pub(crate) fn run(arguments: &Explain) -> Result<Outcome, Failure> {
    let catalog = Catalog::of(&file::definitions(&arguments.file, &Checks::default())?);
    let explanation = explain(&catalog, &arguments.object).map_err(|error| Failure::Usage(error.to_string()))?;
    let as_event = explanation.as_event.as_ref();
    if arguments.json {
        console::print_json(&json!({
            "bucket": explanation.bucket,
            "plain": reading(&explanation.plain),
            "as_event": as_event.map(|read| match read {
                Ok(read) => reading(read),
                Err(why) => json!({ "error": why }),
            }),
        }))?;
    } else {
        console::print(&explanation.to_string())?;
    }
    let readings = [Some(&explanation.plain), as_event.and_then(|read| read.as_ref().ok())];
    let of_a_partition = readings.into_iter().flatten().any(|read| matches!(read.claim, Claim::Partition(..)));
    Ok(if of_a_partition { Outcome::Done } else { Outcome::Problems })
}

fn reading(reading: &Reading) -> Value {
    let (partition, why) = match &reading.claim {
        Claim::Partition(id, _) => (Some(id.partition.as_str()), None),
        Claim::Unroutable(_, why) => (None, Some(why.to_string())),
        Claim::Hidden(_) => (None, Some(tidemark_domain::layout::Unroutable::Hidden.to_string())),
        Claim::Unclaimed => (None, Some("lies below no source".to_owned())),
    };
    json!({
        "key": reading.key,
        "dataset": reading.place.as_ref().map(|place| place.name.as_str()),
        "partition": partition,
        "reason": reading.claim.label(),
        "why": why,
    })
}
