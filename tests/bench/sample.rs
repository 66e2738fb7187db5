//! Durations of many calls, and their percentiles.

use std::time::Duration;

/// Durations of calls of one kind.
#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The duration within which `permille` of 1,000 calls ended (nearest rank), in microseconds; 0 without calls.
    pub(crate) fn percentile_us(&self, permille: usize) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * permille).div_ceil(1_000).saturating_sub(1);
        sorted.get(rank).map_or(0, |took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut sample = Sample::default();
        assert_eq!(sample.percentile_us(500), 0);
        (1..=100).rev().for_each(|us| sample.add(Duration::from_micros(us)));
        let told = [1, 500, 990, 999, 1_000].map(|permille| sample.percentile_us(permille));
        assert_eq!(told, [1, 50, 99, 100, 100]);
    }
}
