//! How often a key may ask this process: a bucket a key, filled at a steady rate.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::time::Instant;
use tollgate_domain::key::KeyHash;

use crate::answer::{ErrorKind, Refusal};
use crate::config::RateConfig;

/// How often buckets that are full again are dropped: a full bucket is the same as none.
const SWEEP: Duration = Duration::from_mins(1);

/// The runtime's clock, which tests can move.
#[derive(Debug, Clone, Copy)]
struct Uptime(Instant);

impl Clock for Uptime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

type Buckets = RateLimiter<KeyHash, HashMapStateStore<KeyHash>, Uptime, NoOpMiddleware<Duration>>;

/// The buckets. Only keys that were found have one, so that nobody can fill the memory with guesses.
pub(crate) struct RateLimits {
    /// Absent when there is no limit.
    buckets: Option<Buckets>,
    clock: Uptime,
    swept_at: Mutex<Instant>,
}

impl RateLimits {
    pub(crate) fn new(config: &RateConfig) -> Self {
        let clock = Uptime(Instant::now());
        let buckets = NonZeroU32::new(config.per_second).map(|per_second| {
            let burst = NonZeroU32::new(config.burst).unwrap_or(per_second);
            RateLimiter::hashmap_with_clock(Quota::per_second(per_second).allow_burst(burst), clock)
        });
        Self { buckets, clock, swept_at: Mutex::new(Instant::now()) }
    }

    /// Takes one from the key's bucket; 429 with the time to wait when it is empty.
    pub(crate) fn pass(&self, key: &KeyHash) -> Result<(), Refusal> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        self.sweep();
        buckets.check_key(key).map_err(|empty| {
            let wait = empty.wait_time_from(self.clock.now());
            Refusal::new(ErrorKind::RateLimited).retry_after(wait)
        })
    }

    fn sweep(&self) {
        let mut swept_at = self.swept_at.lock().unwrap_or_else(PoisonError::into_inner);
        if swept_at.elapsed() >= SWEEP
            && let Some(buckets) = &self.buckets
        {
            *swept_at = Instant::now();
            buckets.retain_recent();
            buckets.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_domain::key::ApiKey;

    use super::*;

    fn key(byte: u8) -> KeyHash {
        ApiKey::from_random([byte; 32]).hash()
    }

    #[tokio::test(start_paused = true)]
    async fn buckets_that_are_full_again_are_dropped() {
        let limits = RateLimits::new(&RateConfig { per_second: 1, burst: 2 });
        for byte in 0..100 {
            limits.pass(&key(byte)).unwrap();
        }
        let buckets = || limits.buckets.as_ref().map_or(0, RateLimiter::len);
        assert_eq!(buckets(), 100);
        tokio::time::advance(SWEEP).await;
        limits.pass(&key(200)).unwrap();
        assert_eq!(buckets(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nothing_is_counted() {
        let limits = RateLimits::new(&RateConfig { per_second: 0, burst: 1 });
        for _ in 0..10 {
            limits.pass(&key(1)).unwrap();
        }
        assert!(limits.buckets.is_none());
    }
}
