//! A clock that stays within one month.

use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::Clock;
use tollgate_domain::time::UtcMillis;

/// Another clock, held within one month: its own time while inside, else the month's first or last instant.
///
/// For runs that compare counts per month and must not change their mind at midnight on the 1st. Never for a front
/// door that others can reach: it decides which month pays, and from when on a revoked key is refused.
#[derive(Debug, Clone)]
pub struct PinnedMonth<C> {
    inner: C,
    month: PeriodMonth,
}

impl<C: Clock> PinnedMonth<C> {
    /// `inner`, held within `month`.
    pub fn new(inner: C, month: PeriodMonth) -> Self {
        Self { inner, month }
    }
}

impl<C: Clock> Clock for PinnedMonth<C> {
    fn now(&self) -> UtcMillis {
        self.inner.now().clamp(self.month.start(), self.month.last_instant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(&'static str);

    impl Clock for At {
        fn now(&self) -> UtcMillis {
            UtcMillis::parse(self.0).unwrap()
        }
    }

    #[test]
    fn time_is_held_within_the_month() {
        for (now, held) in [
            ("2026-11-14T10:00:00.123Z", "2026-11-14T10:00:00.123Z"),
            ("2026-11-30T23:59:59.999Z", "2026-11-30T23:59:59.999Z"),
            ("2026-12-01T00:00:00.000Z", "2026-11-30T23:59:59.999Z"),
            ("2026-10-31T23:59:59.999Z", "2026-11-01T00:00:00.000Z"),
        ] {
            let clock = PinnedMonth::new(At(now), PeriodMonth::parse("2026-11").unwrap());
            assert_eq!(clock.now().to_string(), held, "{now}");
        }
    }
}
