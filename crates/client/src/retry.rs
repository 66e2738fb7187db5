//! How long to wait before the same bytes are sent again.

use std::time::Duration;

/// The longest wish of the service that is honoured: a wrong one must not silence a client for ever.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// How an unavailable service is asked again: full jitter, bounded in attempts and in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts of one call, the first included; 1 never retries. Default 8.
    pub max_attempts: u32,
    /// Time for all attempts of one call together, waiting included. Default 60 s.
    pub max_elapsed: Duration,
    /// Upper end of the first wait; each further one doubles. Default 100 ms.
    pub base: Duration,
    /// Upper end of any wait that the service did not ask for. Default 10 s.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 8,
            max_elapsed: Duration::from_mins(1),
            base: Duration::from_millis(100),
            cap: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// The same waits without an end: for who stops by other means.
    pub(crate) fn endless(&self) -> Self {
        Self { max_attempts: u32::MAX, max_elapsed: Duration::MAX, ..self.clone() }
    }

    /// The same policy, over after `limit` at the latest.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self { max_elapsed: self.max_elapsed.min(limit), ..self.clone() }
    }

    /// The wait after `attempt` attempts have failed, or `None` when it is time to give up.
    ///
    /// `chance` picks a point of the jitter, 0 its lower and `u32::MAX` its upper end. The service's `Retry-After` is a
    /// lower bound of the wait, held to an hour; one that ends after the time is over is a reason to give up at once.
    pub(crate) fn wait_after(
        &self,
        attempt: u32,
        elapsed: Duration,
        retry_after: Option<Duration>,
        chance: u32,
    ) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let doublings = attempt.saturating_sub(1).min(31);
        let upper = self.base.saturating_mul(1 << doublings).min(self.cap);
        let jitter = upper.mul_f64(f64::from(chance) / f64::from(u32::MAX));
        let wait = jitter.saturating_add(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
        (elapsed.saturating_add(wait) < self.max_elapsed).then_some(wait)
    }
}

/// A random point of the jitter; the middle, should the operating system have no randomness to give.
pub(crate) fn chance() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn waits_double_up_to_the_cap_and_then_end() {
        let policy = RetryPolicy { max_attempts: 9, base: MS(100), cap: MS(1_000), max_elapsed: MS(60_000) };
        let upper: Vec<_> = (1..=9).map(|attempt| policy.wait_after(attempt, MS(0), None, u32::MAX)).collect();
        let expected = [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000].map(|ms| Some(MS(ms)));
        assert_eq!(upper.get(..8).unwrap(), expected);
        assert_eq!(upper[8], None);
        assert_eq!(policy.wait_after(1, MS(0), None, 0), Some(MS(0)));
    }

    #[test]
    fn the_service_s_wish_is_a_lower_bound_and_the_time_an_upper_one() {
        let policy = RetryPolicy { max_elapsed: MS(5_000), ..RetryPolicy::default() };
        assert_eq!(policy.wait_after(1, MS(0), Some(MS(2_000)), 0), Some(MS(2_000)));
        assert_eq!(policy.wait_after(1, MS(0), Some(MS(2_000)), u32::MAX), Some(MS(2_100)));
        assert_eq!(policy.wait_after(1, MS(3_000), Some(MS(2_000)), 0), None);
        assert_eq!(policy.wait_after(1, MS(5_000), None, 0), None);
        assert_eq!(policy.wait_after(u32::MAX, MS(0), None, 0), None);
        let (mad, hour) = (Some(Duration::MAX), Duration::from_hours(1));
        assert_eq!(policy.endless().wait_after(1_000, Duration::from_hours(99), mad, 0), Some(hour));
        assert_eq!(policy.within(MS(1_000)).wait_after(1, MS(0), Some(MS(1_000)), 0), None);
    }
}
