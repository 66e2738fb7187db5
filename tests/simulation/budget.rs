//! How many faults of each kind one schedule may hold.

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A worker dies.
    Kill,
    /// An answer is lost, whether the effect happened or not.
    Lost,
    /// An effect is refused for the moment: throttled, contended, cancelled.
    Refuse,
    /// A probe lags.
    Lag,
    /// A store is away until the worker gives up.
    Outage,
    /// A message is received once more while others are in flight.
    Again,
}

/// Kinds, and the sum of the faults.
const COUNTS: usize = 7;
/// Place of the sum: redeliveries are no fault and do not count.
const TOTAL: usize = 6;

/// What is left of each kind, and of all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    left: [u8; COUNTS],
}

impl Budget {
    /// At most this many of each kind, and of all faults together.
    pub(super) const fn new(of_kind: [u8; 6], total: u8) -> Self {
        let [kill, lost, refuse, lag, outage, again] = of_kind;
        Self { left: [kill, lost, refuse, lag, outage, again, total] }
    }

    fn of(self, kind: usize) -> u8 {
        self.left.get(kind).copied().unwrap_or_default()
    }

    pub(super) fn allows(self, kind: Kind) -> bool {
        self.of(kind as usize) > 0 && (kind == Kind::Again || self.of(TOTAL) > 0)
    }

    /// Spends one; a replay may overdraw, since nothing depends on it there.
    pub(super) fn spend(&mut self, kind: Kind) {
        let is_fault = kind != Kind::Again;
        for place in [Some(kind as usize), is_fault.then_some(TOTAL)].into_iter().flatten() {
            if let Some(left) = self.left.get_mut(place) {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// The counts of which spending one takes the last, so that another can no longer be spent: while there are more,
    /// it makes no difference who spends first.
    pub(super) fn last_of(self, kind: Kind) -> impl Iterator<Item = usize> {
        let places = [Some(kind as usize), (kind != Kind::Again).then_some(TOTAL)];
        places.into_iter().flatten().filter(move |place| self.of(*place) == 1)
    }
}
