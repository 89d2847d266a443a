//! A clock that stands until it is moved; ids and jitter follow from a seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::{Builder, Uuid};

use super::{lock, yield_once};
use crate::ports::Clock;

/// A clock that a test moves by hand. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: Timestamp,
    chance: u64,
    ids: u32,
}

impl ManualClock {
    /// A clock that stands at `now`. The same seed gives the same ids and jitter.
    pub fn new(now: Timestamp, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { now, chance: seed, ids: 0 })))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let mut state = lock(&self.0);
        state.now = state.now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }

    /// Moves it forward to `then`, never back.
    pub fn advance_to(&self, then: Timestamp) {
        let mut state = lock(&self.0);
        state.now = state.now.max(then);
    }
}

impl State {
    /// The next number of `SplitMix64`.
    fn draw(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        lock(&self.0).now
    }

    fn id(&self) -> Uuid {
        let mut state = lock(&self.0);
        state.ids += 1;
        let mut tail = [0; 10];
        tail[..4].copy_from_slice(&state.ids.to_be_bytes());
        tail[4..].copy_from_slice(&state.draw().to_be_bytes()[..6]);
        let millis = u64::try_from(state.now.as_millisecond()).unwrap_or(0);
        Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
    }

    fn jitter(&self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let drawn = lock(&self.0).draw();
        Duration::from_nanos(if nanos == 0 { 0 } else { drawn % nanos })
    }

    /// Moves the clock at once, then lets others run.
    async fn sleep(&self, duration: Duration) {
        self.advance(duration);
        yield_once().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids_and_no_id_twice() {
        let draw = |seed| {
            let clock = ManualClock::new(Timestamp::UNIX_EPOCH, seed);
            (0..100).map(|_| clock.id()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let ids = draw(7);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert!(ids.is_sorted() && ids.iter().collect::<std::collections::BTreeSet<_>>().len() == 100);
    }

    #[tokio::test]
    async fn sleeping_moves_the_clock() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH, 1);
        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(clock.now().as_second(), 5);
        assert!(clock.jitter(Duration::from_secs(1)) < Duration::from_secs(1));
        assert_eq!(clock.jitter(Duration::ZERO), Duration::ZERO);
    }
}
