//! How long to wait before the same step is tried again, and how often.

use std::future::Future;
use std::time::Duration;

/// Tries of one step before the message is given back: some three seconds at the mean, well within the visibility.
pub const ATTEMPTS: u32 = 8;
const BASE_MS: u64 = 20;
const CAP_MS: u64 = 1_000;

/// Waiting between tries: a port, so that a simulation waits for nothing.
pub trait Patience: Send + Sync + 'static {
    /// Waits after the `attempt`-th failed try, counted from 0.
    fn pause(&self, attempt: u32) -> impl Future<Output = ()> + Send;
}

/// Full jitter: a wait drawn evenly from zero to an exponentially growing bound, so that those who collided once do
/// not collide again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff;

impl Patience for Backoff {
    async fn pause(&self, attempt: u32) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=bound_ms(attempt)))).await;
    }
}

fn bound_ms(attempt: u32) -> u64 {
    BASE_MS.saturating_mul(1_u64 << attempt.min(16)).min(CAP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_a_second() {
        let bounds: Vec<u64> = (0..ATTEMPTS).map(bound_ms).collect();
        assert_eq!(bounds, [20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        assert_eq!(bound_ms(u32::MAX), CAP_MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_takes_its_time_and_never_more_than_its_bound() {
        let (start, mut longest) = (tokio::time::Instant::now(), Duration::ZERO);
        for _ in 0..100 {
            let before = tokio::time::Instant::now();
            Backoff.pause(3).await;
            longest = longest.max(before.elapsed());
        }
        // A hundred draws of zero in a row would be chance of one in 160^100.
        assert!(start.elapsed() > Duration::ZERO);
        assert!(longest <= Duration::from_millis(bound_ms(3) + 1), "{longest:?}");
    }
}
