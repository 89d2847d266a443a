//! Plays the producers side by side: each writes as the job or service of its name does, and looks itself at what came of it.

use anyhow::Result;
use futures::future::join_all;
use tidemark_kit::Producer;

use crate::report::{Outcome, Report};
use crate::stage;

/// Plays all of them and tells what came of each. Those that do something to a whole bucket or stack have one to themselves.
pub(crate) async fn play(producers: &[Producer], report: &mut Report) -> Result<()> {
    let (alone, together): (Vec<Producer>, Vec<Producer>) =
        producers.iter().partition(|producer| producer.needs_own_world());
    let mut groups: Vec<Vec<Producer>> = alone.into_iter().map(|producer| vec![producer]).collect();
    groups.extend((!together.is_empty()).then_some(together));
    for played in join_all(groups.into_iter().map(group)).await {
        for (producer, outcome) in played? {
            report.add_producer(producer.name(), outcome);
        }
    }
    Ok(())
}

async fn group(producers: Vec<Producer>) -> Result<Vec<(Producer, Outcome)>> {
    let definitions = producers.iter().map(|producer| producer.definition()).collect();
    let targets = producers.iter().map(|producer| producer.create_target()).collect();
    let world = stage::deploy(definitions, targets).await?;
    let play = async |producer: Producer| match producer.play(&world).await {
        Ok(()) => (producer, Outcome::Right),
        Err(error) => (producer, Outcome::Wrong(format!("{error:#}"))),
    };
    Ok(join_all(producers.into_iter().map(play)).await)
}
