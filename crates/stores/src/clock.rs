//! The operating system's time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_domain::ports::Clock;
use tollgate_domain::time::UtcMillis;

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UtcMillis {
        // A clock before 1970 or after 9998 is held at the nearest instant that has a month.
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        UtcMillis::EPOCH.saturating_add_ms(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}
