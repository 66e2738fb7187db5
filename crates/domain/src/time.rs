//! Instants as whole milliseconds of UTC.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An instant in whole milliseconds since 1970-01-01T00:00:00Z; negative before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UtcMillis(i64);

/// Last representable instant: 9998-12-31T23:59:59.999Z (the calendar library stops within the year 9999).
const MAX_MS: i64 = 253_370_764_799_999;
/// First representable instant: 0000-01-01T00:00:00.000Z.
const MIN_MS: i64 = -62_167_219_200_000;

/// Why a text is not an instant that we take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeProblem {
    /// Not of the form `2026-11-30T12:34:56.789Z`.
    #[error("is not an ISO 8601 instant with a time and a zone")]
    Form,
    /// More than three decimals of a second: refused rather than rounded, since the key hashes milliseconds.
    #[error("has more than three decimals of a second")]
    TooFine,
    /// Of the right form, but no such day or time exists, or it lies outside the years 0000 to 9998.
    #[error("names a day or a time that does not exist")]
    NoSuchInstant,
}

impl UtcMillis {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// The instant `ms` milliseconds after the epoch; `None` outside the years 0000 to 9998.
    pub fn new(ms: i64) -> Option<Self> {
        (MIN_MS..=MAX_MS).contains(&ms).then_some(Self(ms))
    }

    /// Milliseconds since the epoch.
    pub fn get(self) -> i64 {
        self.0
    }

    /// The instant `ms` milliseconds later, held at the ends of the range.
    #[must_use]
    pub fn saturating_add_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms).clamp(MIN_MS, MAX_MS))
    }

    /// Milliseconds from `earlier` to `self`; negative if `earlier` is the later one.
    pub fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.d[d[d]]](Z|±HH:MM)`, nothing looser: the key must not depend on a parser's taste.
    pub fn parse(text: &str) -> Result<Self, TimeProblem> {
        check_form(text)?;
        let instant: jiff::Timestamp = text.parse().map_err(|_| TimeProblem::NoSuchInstant)?;
        Self::new(instant.as_millisecond()).ok_or(TimeProblem::NoSuchInstant)
    }
}

/// The form, before the calendar: jiff takes several spellings more than one canonical form can afford.
fn check_form(text: &str) -> Result<(), TimeProblem> {
    const SECONDS: &[u8; 19] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let fits = |pattern: &[u8], part: &[u8]| {
        pattern.len() == part.len()
            && pattern.iter().zip(part).all(|(p, b)| if *p == b'd' { b.is_ascii_digit() } else { p == b })
    };
    let (head, rest) = bytes.split_at_checked(SECONDS.len()).ok_or(TimeProblem::Form)?;
    if !fits(SECONDS, head) {
        return Err(TimeProblem::Form);
    }
    let (decimals, zone) = match rest.strip_prefix(b".") {
        None => (0, rest),
        Some(fraction) => {
            let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return Err(TimeProblem::Form);
            }
            (digits, fraction.get(digits..).unwrap_or_default())
        }
    };
    if !(zone == b"Z" || fits(b"+dd:dd", zone) || fits(b"-dd:dd", zone)) {
        return Err(TimeProblem::Form);
    }
    if decimals > 3 {
        return Err(TimeProblem::TooFine);
    }
    // A leap second has no instant of its own in UTC milliseconds: folding it into the next one would give two facts one key.
    let second_is_sixty = head.ends_with(b":60");
    let offset_is_real = zone == b"Z" || zone.get(1..3).is_some_and(|hours| hours <= b"23".as_slice());
    if second_is_sixty || !offset_is_real { Err(TimeProblem::NoSuchInstant) } else { Ok(()) }
}

impl fmt::Display for UtcMillis {
    /// ISO 8601 in UTC with exactly three decimals and `Z`: the form that the identity hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{instant:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_utc_and_printed_with_three_decimals() {
        for (text, printed) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
            ("2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.100Z"),
            ("2026-01-01T01:00:00.123+01:00", "2026-01-01T00:00:00.123Z"),
            ("2026-01-01T00:00:00.123-05:30", "2026-01-01T05:30:00.123Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
            ("9998-12-31T23:59:59.999Z", "9998-12-31T23:59:59.999Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"),
            ("2026-01-01T00:00:00-00:00", "2026-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(UtcMillis::parse(text).unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn time_between_two_instants_has_a_sign() {
        let (early, late) = (UtcMillis::new(-2_000).unwrap(), UtcMillis::new(5_000).unwrap());
        assert_eq!((late.ms_since(early), early.ms_since(late), early.ms_since(early)), (7_000, -7_000, 0));
        assert_eq!(early.saturating_add_ms(7_000), late);
    }

    #[test]
    fn other_spellings_and_days_that_do_not_exist_are_refused() {
        use TimeProblem::{Form, NoSuchInstant, TooFine};
        for (text, problem) in [
            ("", Form),
            ("2026-01-01", Form),
            ("2026-01-01T00:00:00", Form),
            ("2026-01-01 00:00:00Z", Form),
            ("2026-01-01t00:00:00z", Form),
            ("2026-01-01T00:00:00.Z", Form),
            ("2026-01-01T00:00:00,5Z", Form),
            ("2026-01-01T00:00:00+0100", Form),
            ("2026-01-01T00:00:00Z[UTC]", Form),
            ("+02026-01-01T00:00:00Z", Form),
            ("２026-01-01T00:00:00Z", Form),
            ("2026-01-01T00:00:00.1234Z", TooFine),
            ("2026-02-30T00:00:00Z", NoSuchInstant),
            ("2025-02-29T00:00:00Z", NoSuchInstant),
            ("2026-13-01T00:00:00Z", NoSuchInstant),
            ("2026-01-01T24:00:00Z", NoSuchInstant),
            ("2026-01-01T00:60:00Z", NoSuchInstant),
            ("2016-12-31T23:59:60Z", NoSuchInstant),
            ("2026-01-01T00:00:00+24:00", NoSuchInstant),
            ("2026-01-01T00:00:00+00:60", NoSuchInstant),
            ("0000-01-01T00:00:00+01:00", NoSuchInstant),
            ("9998-12-31T23:59:59-01:00", NoSuchInstant),
        ] {
            assert_eq!(UtcMillis::parse(text), Err(problem), "{text}");
        }
    }
}
