//! `cargo model`: explores the protocol as it ships, then with each of its rules weakened; ends in one line.

use clap::Parser;
use tidemark_model::explore::Explored;
use tidemark_model::runs::{DEFAULT, LARGE, MUTATIONS, SHORT};

/// Checks the protocol against its invariants, on the functions that ship.
#[derive(Parser)]
#[command(
    name = "cargo model",
    version,
    after_help = "Exits 1 when an invariant is broken, a situation is never reached or a mutation isn't caught."
)]
struct Arguments {
    /// The larger runs as well, which take much longer.
    #[arg(long)]
    large: bool,
    /// The short runs of the tests only.
    #[arg(long, conflicts_with = "large")]
    short: bool,
    /// Only what has this in its name.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let wanted = |name: &str| name.contains(&arguments.only);
    let (mut states, mut violations, mut short_of) = (0, 0, 0);
    let runs = match (arguments.short, arguments.large) {
        (true, _) => vec![SHORT],
        (_, false) => vec![DEFAULT],
        (_, true) => vec![DEFAULT, LARGE],
    };
    let mut never: Option<Vec<&str>> = None;
    for run in runs.into_iter().flatten().filter(|run| wanted(run.name)) {
        let explored = run.explore(2);
        println!("{}: {} distinct states, {:.0} s", run.name, explored.states, explored.took.as_secs_f32());
        states += explored.states;
        violations += explored.violations.len();
        tell(&explored);
        for never in &explored.never {
            println!("  not reached here: {never}");
        }
        let in_none = |situation: &&str| explored.never.contains(situation);
        never = Some(never.map_or(explored.never.clone(), |never| never.into_iter().filter(in_none).collect()));
    }
    // A part of the runs needn't reach everything.
    let never = never.filter(|_| !arguments.short && arguments.only.is_empty()).unwrap_or_default();
    for situation in &never {
        println!("never reached: {situation}");
    }
    let (mut caught_in_all, mut all) = (0, 0);
    for mutation in MUTATIONS.iter().filter(|mutation| wanted(mutation.name)) {
        let (explored, caught) = mutation.explore();
        let steps = explored.violations.first().map_or(0, |violation| violation.moves.len());
        let by = caught
            .map_or_else(|| format!("not caught ({})", mutation.why), |by| format!("caught in {steps} steps by {by}"));
        println!("{}: {by}; {} distinct states, {:.0} s", mutation.name, explored.states, explored.took.as_secs_f32());
        if !mutation.as_expected(caught) {
            println!("  not as expected: {:?}", mutation.caught_by);
            tell(&explored);
            short_of += 1;
        }
        all += usize::from(!mutation.caught_by.is_empty());
        caught_in_all += usize::from(!mutation.caught_by.is_empty() && caught.is_some());
    }
    println!("{states} distinct states, {violations} violations, {caught_in_all} of {all} mutations caught");
    if violations + short_of + never.len() > 0 {
        std::process::ExitCode::FAILURE
    } else {
        std::process::ExitCode::SUCCESS
    }
}

fn tell(explored: &Explored) {
    for violation in &explored.violations {
        println!("  broken: {} after {} steps", violation.property, violation.moves.len());
        for (index, action) in violation.moves.iter().enumerate() {
            println!("  {:>3} {action:?}", index + 1);
        }
        println!("  {:?}", violation.state);
    }
}
