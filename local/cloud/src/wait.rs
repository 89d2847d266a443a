//! Waiting for something to become true: no fixed sleeps, always a deadline, and the last reason in the message.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Asks `probe` again and again, with growing pauses, until it gives a value; `what` names it in the error.
///
/// `Ok(None)` means not yet. An `Err` also means not yet, and the last one is told when `patience` is over: a server that
/// is still starting refuses connections.
pub async fn wait_until<T, F, Fut>(what: &str, patience: Duration, mut probe: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        let last = match probe().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if Instant::now() + pause > deadline {
            let late = format!("waited {} s in vain for {what}", patience.as_secs());
            return Err(last.map_or_else(|| anyhow!("{late}"), |error| error.context(late.clone())));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn gives_the_value_once_it_is_there() {
        let mut asked = 0;
        let seen = wait_until("the third time", Duration::from_secs(5), || {
            asked += 1;
            let answer = (asked == 3).then_some(asked);
            async move { Ok(answer) }
        });
        assert_eq!(seen.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn tells_the_last_reason_when_patience_is_over() {
        let never = wait_until::<(), _, _>("rain", Duration::from_millis(20), || async { Err(anyhow!("dry")) });
        let told = format!("{:#}", never.await.unwrap_err());
        assert!(told.contains("rain") && told.contains("dry"), "{told}");
    }
}
