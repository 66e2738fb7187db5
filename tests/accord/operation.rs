//! What can be asked of the ports, over facts few enough to collide.

use tollgate_domain::plan::{BilledAs, RejectedReason, Subscription};

use crate::traffic::Random;

/// Spaces, events of a space, payloads, months: few, so that sequences meet themselves.
const SPACES: usize = 2;
const EVENTS: usize = 3;
const PAYLOADS: usize = 3;
const MONTHS: usize = 2;

/// Which event: the place of its space, and its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Which {
    pub(super) space: usize,
    pub(super) event: usize,
}

/// One call of one port.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Claim { which: Which, payload: usize, month: usize, at: i64 },
    Read { which: Which },
    Consume { which: Which, month: usize, limit: u64, at: i64 },
    Stamp { which: Which, billed_as: BilledAs, at: i64 },
    Reject { which: Which, reason: RejectedReason, at: i64 },
    Count { space: usize, month: usize },
    RecordQuarantine { which: Which, seen: u64, spacing_ms: i64, at: i64 },
    MarkUninsertable { which: Which, at: i64 },
    MarkInserted { which: Which, at: i64 },
    RecordConflict { which: Which, payload: usize, at: i64 },
    SetSpace { space: usize, subscription: Subscription, limit: Option<u64> },
    ReadSpace { space: usize },
    PutObject { which: Which, payload: usize },
    GetObject { which: Which },
    InsertRow { which: Which, payload: usize },
    ProbeRow { which: Which },
}

impl Operation {
    /// Any operation, those of the ledger's life more often than others.
    pub(super) fn any(random: &mut Random) -> Self {
        let which = Which { space: random.below(SPACES), event: random.below(EVENTS) };
        let (payload, month) = (random.below(PAYLOADS), random.below(MONTHS));
        let at = i64::try_from(random.below(1_000)).unwrap_or_default();
        let small = |random: &mut Random, bound| random.below(bound) as u64;
        match random.below(20) {
            0 | 1 => Self::Claim { which, payload, month, at },
            2 => Self::Read { which },
            3..=5 => Self::Consume { which, month, limit: 1 + small(random, 3), at },
            6 => Self::Stamp { which, billed_as: pick(random, BilledAs::ALL), at },
            7 => Self::Reject { which, reason: pick(random, RejectedReason::ALL), at },
            8 => Self::Count { space: which.space, month },
            9..=11 => Self::RecordQuarantine {
                which,
                seen: small(random, 4),
                spacing_ms: i64::try_from(random.below(300)).unwrap_or_default(),
                at,
            },
            12 => Self::MarkUninsertable { which, at },
            13 => Self::MarkInserted { which, at },
            14 => Self::RecordConflict { which, payload, at },
            15 => {
                let limit = random.percent(50).then(|| 1 + small(random, 5));
                Self::SetSpace { space: which.space, subscription: pick(random, Subscription::ALL), limit }
            }
            16 => Self::ReadSpace { space: which.space },
            17 if random.percent(50) => Self::PutObject { which, payload },
            17 => Self::GetObject { which },
            18 => Self::InsertRow { which, payload },
            _ => Self::ProbeRow { which },
        }
    }
}

fn pick<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len())]
}
