//! How often, and after how long, a call is made again that the SDK doesn't repeat by itself.

use std::time::Duration;

use uuid::Uuid;

/// How often a call is made in all. Five waits of the pattern below are about a second and a half together.
pub(crate) const ATTEMPTS: u32 = 6;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(800);

/// Waits before attempt `attempt` (the first is 0 and doesn't wait): a random time below a doubling bound.
pub(crate) async fn pause(attempt: u32) {
    if attempt > 0 {
        tokio::time::sleep(jitter(bound(attempt))).await;
    }
}

fn bound(attempt: u32) -> Duration {
    FIRST.saturating_mul(1 << (attempt - 1).min(10)).min(LONGEST)
}

/// A random duration below `bound`.
pub(crate) fn jitter(bound: Duration) -> Duration {
    // The random bits of a UUIDv4: chance enough for spreading calls, without another crate.
    let (bits, _) = Uuid::new_v4().as_u64_pair();
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(bits.rotate_right(16).checked_rem(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_the_longest() {
        let bounds: Vec<_> = (1..ATTEMPTS).map(|n| bound(n).as_millis()).collect();
        assert_eq!(bounds, [50, 100, 200, 400, 800]);
        assert_eq!(bound(1000), LONGEST);
    }

    #[test]
    fn jitter_stays_below_its_bound_and_varies() {
        let bound = Duration::from_millis(10);
        let seen: std::collections::BTreeSet<_> = (0..50).map(|_| jitter(bound)).collect();
        assert!(seen.iter().all(|d| *d < bound) && seen.len() > 10);
        assert_eq!(jitter(Duration::ZERO), Duration::ZERO);
    }
}
