//! A point, tried: a function is killed or stopped there, or Redshift's connection breaks; what follows is only watched.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidemark_kit::state::Item;

use crate::lane::{Healing, Lane};
use crate::oracle::{Before, Seen};
use crate::plan::{Action, At, now};
use crate::play::Play;
use crate::points::{Point, Way};
use crate::report::Row;

/// Tries a point to its end; `None`: it was not met.
pub(crate) async fn of(lane: &Lane, point: &Point) -> Result<Option<Row>> {
    let (play, before) = lane.play(point.scenario).await?;
    let mut healing = Healing::default();
    match &point.way {
        Way::Kill(kills) => {
            if !kill(lane, &play, &before, kills, &mut healing).await? {
                lane.plan.disarm()?;
                return Ok(None);
            }
        }
        Way::Stop(at) => return zombie(lane, &play, point, at, &before).await,
        Way::Break { name, after } => break_at(lane, &play, name, *after, &mut healing).await?,
        Way::BreakCopy => break_copy(lane, &play, &mut healing).await?,
        Way::BreakSwap => break_swap(lane, &play, &mut healing).await?,
        Way::LoseAnswer => {
            lane.world.redshift_loses_answer("BatchExecuteStatement", "InternalServerException").await?;
            play.begin().await?;
            healing = Healing::of("the answer is lost".to_owned(), now());
        }
    }
    let view = lane.until_right(&play, &before, &mut healing).await?;
    let seconds = healing.seconds();
    let seen = Seen::of(&lane.world, &lane.day(), view, &before).await?;
    row(&play, point, &before, &seen, &healing, seconds).await.map(Some)
}

/// Kills as often as there are points; whether each was met.
async fn kill(lane: &Lane, play: &Play<'_>, before: &Before, kills: &[At], healing: &mut Healing) -> Result<bool> {
    let ahead = play.ahead();
    let armed = ahead.iter().map(|(at, action)| (at, *action)).chain(kills.iter().map(|at| (at, Action::Kill)));
    lane.plan.arm(&armed.collect::<Vec<_>>())?;
    play.begin().await?;
    for (index, at) in kills.iter().enumerate() {
        let (count, what) = (ahead.iter().len() + index + 1, format!("killed {at}"));
        let Some(fired) = lane.until_fired(play, before, count, &what).await? else { return Ok(false) };
        healing.failed_at = fired.at;
        if index == 0 {
            healing.found = state_of(&lane.item().await?);
            play.go_on().await?;
        }
    }
    Ok(true)
}

/// A worker that stands still longer than its lease, while another takes over, and then goes on.
async fn zombie(lane: &Lane, play: &Play<'_>, point: &Point, at: &At, before: &Before) -> Result<Option<Row>> {
    let Some(stopped) = play.stop_worker(at).await? else {
        lane.plan.disarm()?;
        return Ok(None);
    };
    let mut healing = Healing::of(state_of(&lane.item().await?), stopped.at);
    let lease = lane.world.lease(&lane.day()).await?.map(Duration::from_millis);
    let view = lane.until_right(play, before, &mut healing).await?;
    let seconds = healing.seconds();
    ensure!(lease.is_none_or(|lease| now() >= lease), "it was overtaken before its lease was over");
    let over = || async { Ok((now() > play.lease_over(&stopped)).then_some(())) };
    lane.until("a lease to be over", over).await?;
    play.go_on_with_worker()?;
    lane.until("the worker that stood still to end", || async { play.has_ended() }).await?;
    lane.until_quiet().await?;
    let after = lane.until_right(play, before, &mut healing).await?;
    ensure!(after.landed == view.landed, "something landed after the zombie went on: {:?}", after.landed);
    let seen = Seen::of(&lane.world, &lane.day(), after, before).await?;
    row(play, point, before, &seen, &healing, seconds).await.map(Some)
}

async fn break_at(lane: &Lane, play: &Play<'_>, name: &str, after: usize, healing: &mut Healing) -> Result<()> {
    let known = lane.world.broken().await?;
    lane.world.break_at(name, after).await?;
    play.begin().await?;
    let broken = || async {
        if lane.world.broken().await? > known {
            return Ok(Some(()));
        }
        play.meanwhile(&lane.item().await?).await?;
        lane.wake(play).await?;
        Ok(None)
    };
    lane.until(&format!("the connection to break in {name}"), broken).await?;
    *healing = Healing::of(state_of(&lane.item().await?), now());
    play.go_on().await
}

async fn break_copy(lane: &Lane, play: &Play<'_>, healing: &mut Healing) -> Result<()> {
    lane.world.slow_copy(6).await?;
    play.begin().await?;
    let loading = || async { Ok(Some(lane.item().await?).filter(Item::is_loading)) };
    let item = lane.until("a COPY to run", loading).await?;
    let batch = item.0["batch"]["id"].as_str().context("no batch is in progress")?;
    let broken = || async { Ok(Some(lane.world.break_connection(batch).await?).filter(|broken| *broken > 0)) };
    lane.until("its statement to run, and break", broken).await?;
    *healing = Healing::of(state_of(&item), now());
    lane.world.slow_copy(0).await
}

async fn break_swap(lane: &Lane, play: &Play<'_>, healing: &mut Healing) -> Result<()> {
    let blocker = lane.world.hold_swaps().await?;
    play.begin().await?;
    let swapping = || async { Ok(Some(lane.item().await?).filter(Item::is_swapping)) };
    let item = lane.until("a swap to run", swapping).await?;
    let broken = || async { Ok(Some(lane.world.break_waiting_statements().await?).filter(|broken| *broken > 0)) };
    lane.until("the swap to wait for its lock, and break", broken).await?;
    *healing = Healing::of(state_of(&item), now());
    Ok(blocker.batch_execute("COMMIT").await?)
}

/// Holds all that must hold, and tells what recovery did.
async fn row(
    play: &Play<'_>,
    point: &Point,
    before: &Before,
    seen: &Seen,
    healing: &Healing,
    seconds: f64,
) -> Result<Row> {
    seen.is_right(point.may_copy_again())?;
    play.judge().await?;
    let new = seen.view.landed.get(before.landed..).unwrap_or_default();
    let recovered = match new.last() {
        Some(last) => play.world.recovered_from(&play.day, &last.batch).await?,
        None => None,
    };
    if point.ends_before_swap() {
        ensure!(recovered.as_deref() == Some("before commit"), "no swap was sent, but it is told as {recovered:?}");
    }
    let takes = seen.view.item.number("fence") - before.fence;
    let same = new.len() == 1 && new[0].fence == before.fence + 1;
    let mut recovery = match (takes, same) {
        (0, _) if play.scenario.rounds().is_some() => "sweep's round was made once more".to_owned(),
        (0, _) => "nothing to do: no take".to_owned(),
        (1, _) => "nothing to continue: one take in all".to_owned(),
        (takes, true) => format!("continued: take {takes} ended the batch of the first"),
        (takes, false) => format!("{takes} takes, {} batch(es) landed", new.len()),
    };
    if healing.woken {
        recovery.push_str(", woken by sweep");
    }
    Ok(Row {
        scenario: point.scenario.name(),
        point: point.to_string(),
        found: recovered.unwrap_or_else(|| healing.found.clone()),
        recovery,
        seconds: Some(seconds),
        problem: None,
    })
}

/// What the item tells of a worker that is dead, in the words of the four states.
fn state_of(item: &Item) -> String {
    let state = match item.phase() {
        None if item.rests() => "at rest",
        None => "not taken",
        Some("fencing" | "listing") => "before staging",
        Some("staging") => "during staging",
        Some(_) => "before commit",
    };
    state.to_owned()
}
