//! `tidemark sql FILE [DATASET] PARTITION`: each statement that a rebuild would run, without asking anybody.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidemark_domain::definition::{Checks, Definition};
use tidemark_domain::id::{BatchId, Digest, Epoch, Fence, Generation, PartitionName, StackName};
use tidemark_domain::partition_value::Partition;
use tidemark_domain::sql::rebuild::{CopyRole, CopySource, Listed, Request, Verified};
use tidemark_domain::sql::{Batch, SqlError, lookup, rebuild};
use tidemark_domain::verify::SourceCounts;

use crate::arguments::Sql;
use crate::console::{self, FAINT, NAME, PLAIN};
use crate::exit::{Failure, Outcome};
use crate::file;

/// Stands for the id that a batch has from its birth.
const BATCH: &str = "00000000-0000-7000-8000-000000000000";
/// Stands for COPY's query id.
const QUERY_ID: i64 = 1;

const HEADER: &str = "\
-- What a batch is born with or finds out stands here as an example: its id 00000000-0000-7000-8000-000000000000, fence,
-- generation and epoch 1, digest 0…0, the manifest's key, the role, the numbers of objects, bytes and rows.
-- Each transaction is one call of the Data API, submitted whole under a client token.
";

/// Prints the statements, phase by phase.
pub(crate) fn run(arguments: &Sql) -> Result<Outcome, Failure> {
    let definitions = file::definitions(&arguments.file, &Checks::default())?;
    let (definition, partition) = choose(&definitions, &arguments.of)?;
    let steps = steps(definition, &partition).map_err(|error| Failure::Refused(error.to_string()))?;
    if arguments.json {
        console::print_json(&document(definition, &partition, &steps))?;
    } else {
        console::print(&script(definition, &partition, &steps))?;
    }
    Ok(Outcome::Done)
}

fn choose<'d>(definitions: &'d [Definition], of: &[String]) -> Result<(&'d Definition, Partition), Failure> {
    let names = || definitions.iter().map(|definition| definition.name.as_str()).collect::<Vec<_>>().join(", ");
    let (definition, name) = match (of, definitions) {
        ([name], [only]) => (only, name),
        ([name], _) => {
            let told = format!("which dataset's {name:?} is not said; write one of {} before it", names());
            return Err(Failure::Usage(told));
        }
        ([dataset, name, ..], _) => {
            let found = definitions.iter().find(|definition| definition.name.as_str() == dataset);
            let unknown = || Failure::Refused(format!("no dataset {dataset:?} in the file; it has {}", names()));
            (found.ok_or_else(unknown)?, name)
        }
        ([], _) => return Err(Failure::Usage("no partition is given".to_owned())),
    };
    let name = PartitionName::new(name.as_str()).map_err(|error| Failure::Refused(error.to_string()))?;
    let partition = definition.partition(&name).map_err(|error| Failure::Refused(error.to_string()))?;
    Ok((definition, partition))
}

/// The phase, what it is for, and what is sent.
type Step = (&'static str, &'static str, Batch);

fn steps(definition: &Definition, partition: &Partition) -> Result<Vec<Step>, SqlError> {
    let hash = definition.hash();
    // Both are valid by their letters.
    let (Ok(stack), Ok(batch)) = (StackName::new("STACK"), BATCH.parse()) else {
        return Ok(Vec::new());
    };
    let digest = Digest::stored("0".repeat(64));
    let request = Request {
        definition,
        definition_hash: &hash,
        partition,
        stack: &stack,
        batch: BatchId(batch),
        fence: Fence(1),
        generation: Generation(1),
        epoch: Epoch(1),
        statement_timeout: definition.load_window,
        last: None,
        accept_foreign_rows: false,
        listed: Some(&digest),
    };
    let source =
        CopySource { manifest_url: "s3://CONTROL-BUCKET/MANIFEST".to_owned(), role: CopyRole::Default, region: None };
    let listed = Listed {
        digest: digest.clone(),
        inventory_key: "INVENTORY".to_owned(),
        source: SourceCounts { objects: 1, bytes: 1, rows: Some(1) },
    };
    let verified = Verified {
        staged_rows: 1,
        rejected_rows: 0,
        duplicate_rows: 0,
        staged_at: Timestamp::UNIX_EPOCH,
        ..Verified::default()
    };
    Ok(vec![
        ("fencing", "only after a batch whose swap may still land: shuts it out", rebuild::fence(&request)?),
        ("fencing", "then looks which batch landed last", lookup::look(&request)?),
        ("staging", "fills the staging table and counts", rebuild::stage(&request, Some(&source))?.batch),
        ("staging", "only where it was filled before: counts it again", lookup::recount(&request)?),
        ("staging", "only then: which files were loaded", lookup::loaded_files(&request, QUERY_ID)?),
        ("staging", "only if COPY refused rows: which", lookup::load_errors(&request, QUERY_ID)?),
        ("swapping", "replaces the partition's rows", rebuild::swap(&request, &listed, &verified)?.batch),
        ("swapping", "only if that didn't end well: whether it landed", lookup::ledger_row(&request)?),
        ("swapping", "only if it waited in vain: for whom", lookup::blockers(&request, 0)?),
        ("swapping", "at last", lookup::drop_staging(&request)?),
    ])
}

fn document(definition: &Definition, partition: &Partition, steps: &[Step]) -> Value {
    let transaction =
        |(phase, what, batch): &Step| json!({ "phase": phase, "what": what, "statements": batch.statements() });
    json!({
        "dataset": definition.name,
        "partition": partition.name,
        "definition": definition.hash(),
        "transactions": steps.iter().map(transaction).collect::<Vec<_>>(),
    })
}

fn script(definition: &Definition, partition: &Partition, steps: &[Step]) -> String {
    let (name, hash) = (&definition.name, definition.hash());
    let mut text = format!("{FAINT}-- {} of {name}, definition {hash}\n{HEADER}{PLAIN}", partition.name);
    for (phase, what, batch) in steps {
        write_batch(&mut text, phase, what, batch);
    }
    text
}

fn write_batch(text: &mut String, phase: &str, what: &str, batch: &Batch) {
    let statements = file::count(batch.statements().len(), "statement");
    // Writing to a String can't fail.
    let _ = writeln!(text, "\n{NAME}-- {phase}: {what} (one transaction, {statements}){PLAIN}");
    for sql in batch.statements() {
        let _ = writeln!(text, "{sql};");
    }
}
