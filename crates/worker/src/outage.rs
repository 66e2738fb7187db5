//! How long an engine has been unwell, and what follows: less receiving, longer rests.
//!
//! A long outage must not wear messages out: the queue counts receives, and after many of them it would take a good
//! message for a bad one. So a message rests for as long as the outage has lasted already, which doubles from one try to
//! the next, and receiving slows down to a probe. The first delivery that is settled ends the outage.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The longest rest of a message: its share of what an outage adds before the end of it is noticed.
const LONGEST_REST: Duration = Duration::from_mins(15);
/// The shortest and the longest pause before a receive.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Since when nothing was settled for an engine's sake; shared by the tasks of one worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outage(Arc<Mutex<Option<Instant>>>);

impl Outage {
    /// A delivery was given back for an engine's sake; tells how long the outage has lasted.
    pub(crate) fn go_on(&self) -> Duration {
        self.since().get_or_insert_with(Instant::now).elapsed()
    }

    /// A delivery was settled.
    pub(crate) fn end(&self) {
        *self.since() = None;
    }

    /// How long to wait before the next receive; `None` when all is well.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let lasted = (*self.since())?.elapsed();
        Some((lasted / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing can panic while the lock is held; the instant is good whoever wrote it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a message rests when it would otherwise rest for `rest_ms`.
pub(crate) fn rest_ms(rest_ms: u64, outage: Duration) -> u64 {
    let lasted_ms = u64::try_from(outage.min(LONGEST_REST).as_millis()).unwrap_or(u64::MAX);
    rest_ms.max(lasted_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_six_hour_outage_receives_a_message_some_thirty_times_and_not_thousands() {
        let (outage, started) = (Outage::default(), Instant::now());
        let mut receives = 0;
        while started.elapsed() < Duration::from_hours(6) {
            receives += 1;
            tokio::time::sleep(Duration::from_millis(rest_ms(5_000, outage.go_on()))).await;
        }
        assert!((20..=40).contains(&receives), "{receives}");
    }

    #[tokio::test(start_paused = true)]
    async fn receiving_slows_down_to_a_probe_and_is_itself_again_at_once() {
        let outage = Outage::default();
        assert_eq!(outage.pause(), None);
        assert_eq!(outage.go_on(), Duration::ZERO);
        assert_eq!(outage.pause(), Some(SHORTEST_PAUSE));
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(outage.go_on(), Duration::from_secs(40), "it began with the first, not with the last");
        assert_eq!(outage.pause(), Some(Duration::from_secs(10)));
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(outage.pause(), Some(LONGEST_PAUSE));
        outage.end();
        assert_eq!(outage.pause(), None);
    }
}
