//! How long an engine has been unwell, and what follows: less receiving, longer rests.
//!
//! A long outage must not wear messages out: the queue counts receives, and after many of them it would take a good
//! message for a bad one. So a message rests for as long as the outage has lasted already, which doubles from one try to
//! the next, and while nothing is settled at all, receiving slows down to a probe. Only an event that was inserted has
//! asked every engine: it alone ends the outage. A rejection or a repeat says nothing of ClickHouse, but shows that
//! receiving is worth its while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The longest rest of a message: its share of what an outage adds before the end of it is noticed.
const LONGEST_REST: Duration = Duration::from_mins(15);
/// Trouble that comes longer than this after the last is another outage: well above a rest and its delivery's delay.
const ANOTHER_OUTAGE: Duration = Duration::from_mins(30);
/// The shortest and the longest pause before a receive.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The outage that lasts, if one does; shared by the tasks of one worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outage(Arc<Mutex<Option<Lasting>>>);

#[derive(Debug, Clone, Copy)]
struct Lasting {
    since: Instant,
    latest: Instant,
    /// Nothing was settled since the latest trouble.
    is_silent: bool,
}

impl Outage {
    /// A delivery was given back for an engine's sake; tells how long the outage has lasted.
    pub(crate) fn go_on(&self) -> Duration {
        let now = Instant::now();
        let mut lasting = self.lasting();
        let since = lasting.filter(|before| now - before.latest <= ANOTHER_OUTAGE).map_or(now, |before| before.since);
        *lasting = Some(Lasting { since, latest: now, is_silent: true });
        now - since
    }

    /// A delivery was acknowledged, `inserted` or otherwise.
    pub(crate) fn settled(&self, inserted: bool) {
        let mut lasting = self.lasting();
        *lasting = lasting.filter(|_| !inserted).map(|before| Lasting { is_silent: false, ..before });
    }

    /// How long to wait before the next receive; `None` when deliveries are settled.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let lasting = self.lasting().filter(|lasting| lasting.is_silent)?;
        Some((lasting.since.elapsed() / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    fn lasting(&self) -> MutexGuard<'_, Option<Lasting>> {
        // Nothing can panic while the lock is held; the state is good whoever wrote it.
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
            // A queue delivers a little after the rest.
            tokio::time::sleep(Duration::from_millis(rest_ms(5_000, outage.go_on()) + 700)).await;
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
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(outage.pause(), Some(LONGEST_PAUSE));
        outage.settled(true);
        assert_eq!(outage.pause(), None);
        assert_eq!(outage.go_on(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn rejections_and_repeats_do_not_end_an_outage_of_clickhouse() {
        let outage = Outage::default();
        outage.go_on();
        tokio::time::sleep(Duration::from_mins(1)).await;
        outage.settled(false);
        assert_eq!(outage.pause(), None, "what can be settled is received");
        assert_eq!(outage.go_on(), Duration::from_mins(1), "what cannot rests ever longer");
        tokio::time::sleep(ANOTHER_OUTAGE + Duration::from_secs(1)).await;
        assert_eq!(outage.go_on(), Duration::ZERO, "trouble long after is another outage");
    }
}
