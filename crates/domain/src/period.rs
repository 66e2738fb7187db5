//! Billing periods: calendar months of UTC.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::time::UtcMillis;

/// A calendar month of UTC, written `2026-11`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeriodMonth {
    year: i16,
    month: i8,
}

/// The text is not a month.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a month: write it as 2026-11")]
pub struct NotAMonth;

impl PeriodMonth {
    /// The month that holds `instant`.
    pub fn of(instant: UtcMillis) -> Self {
        // UtcMillis is within the years 0000 to 9998 by construction, which jiff holds; the default is never taken.
        let day =
            jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::from_millisecond(instant.get()).unwrap_or_default());
        Self { year: day.year(), month: day.month() }
    }

    /// Reads `2026-11`.
    pub fn parse(text: &str) -> Result<Self, NotAMonth> {
        let (year, month) = text.split_once('-').ok_or(NotAMonth)?;
        let digits = |part: &str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(year, 4) || !digits(month, 2) {
            return Err(NotAMonth);
        }
        let (year, month) = (year.parse().map_err(|_| NotAMonth)?, month.parse().map_err(|_| NotAMonth)?);
        if (1..=12).contains(&month) && year <= 9998 { Ok(Self { year, month }) } else { Err(NotAMonth) }
    }

    /// The month after this one; December 9998 is its own successor, since no instant lies behind it.
    #[must_use]
    pub fn next(self) -> Self {
        match (self.year, self.month) {
            (9998, 12) => self,
            (year, 12) => Self { year: year.saturating_add(1), month: 1 },
            (year, month) => Self { year, month: month.saturating_add(1) },
        }
    }

    /// First instant of the month.
    pub fn start(self) -> UtcMillis {
        let text = format!("{self}-01T00:00:00Z");
        // A parsed or computed month always has a first day; the fallback is never taken.
        UtcMillis::parse(&text).unwrap_or(UtcMillis::EPOCH)
    }

    /// Last instant of the month, one millisecond before the next one begins.
    pub fn last_instant(self) -> UtcMillis {
        if self.next() == self {
            return self.start().saturating_add_ms(i64::MAX);
        }
        self.next().start().saturating_add_ms(-1)
    }
}

impl fmt::Display for PeriodMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl std::str::FromStr for PeriodMonth {
    type Err = NotAMonth;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for PeriodMonth {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PeriodMonth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UtcMillis {
        UtcMillis::parse(text).unwrap()
    }

    #[test]
    fn the_month_turns_at_midnight_of_utc() {
        assert_eq!(PeriodMonth::of(at("2026-11-30T23:59:59.999Z")).to_string(), "2026-11");
        assert_eq!(PeriodMonth::of(at("2026-12-01T00:00:00.000Z")).to_string(), "2026-12");
        assert_eq!(PeriodMonth::of(at("2026-12-01T00:30:00+01:00")).to_string(), "2026-11");
    }

    #[test]
    fn a_month_knows_its_neighbour_and_its_ends() {
        let december = PeriodMonth::parse("2026-12").unwrap();
        assert_eq!(december.next().to_string(), "2027-01");
        assert_eq!(december.start(), at("2026-12-01T00:00:00Z"));
        assert_eq!(december.last_instant(), at("2026-12-31T23:59:59.999Z"));
        let last = PeriodMonth::parse("9998-12").unwrap();
        assert_eq!(last.next(), last);
        assert_eq!(last.last_instant(), at("9998-12-31T23:59:59.999Z"));
    }

    #[test]
    fn only_the_one_spelling_is_a_month() {
        for bad in ["", "2026", "2026-1", "2026-13", "2026-00", "26-01", "2026-11-01", "+026-11", "2026/11"] {
            assert_eq!(PeriodMonth::parse(bad), Err(NotAMonth), "{bad}");
        }
    }
}
