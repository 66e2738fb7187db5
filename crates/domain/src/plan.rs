//! Plans and limits: what accepting an event's bill means for a space.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::space::SpaceId;

/// Events that a free space may consume in a month; at least 1.
///
/// A limit of 0 would let the first event of a month past `attribute_not_exists(eventCount)`, so it is unspeakable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limit(NonZeroU64);

impl Limit {
    /// What the free plan of the price list gives, in events a month: the configuration's default.
    pub const FREE_PLAN: Self = Self(match NonZeroU64::new(1_000) {
        Some(events) => events,
        None => NonZeroU64::MIN,
    });

    /// The limit of `events` a month; `None` for 0.
    pub fn new(events: u64) -> Option<Self> {
        NonZeroU64::new(events).map(Self)
    }

    /// Events a month.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the spaces table may say of a space's plan. It cannot say `internal`: only the worker's configuration can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subscription {
    /// Capped by a monthly limit, never charged beyond it.
    Free,
    /// Paid and in good standing: counted later from `events_billing`.
    PlusActive,
    /// Paid plan that lapsed: every event is rejected.
    PlusInactive,
}

/// A space's entry in the spaces table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceRecord {
    /// The plan.
    pub subscription: Subscription,
    /// A limit of the space's own; absent, the configured default holds. Only a free space is limited.
    pub monthly_limit: Option<Limit>,
}

/// The plan that decides what accepting an event's bill does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Stamp, consume nothing: the canary.
    Internal,
    /// Stamp; counted later.
    PlusActive,
    /// Reject.
    PlusInactive,
    /// Consume and stamp, in one transaction.
    Free(Limit),
}

/// What the deployment says about plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPolicy {
    /// Spaces that exercise the live pipeline and are never billed.
    pub internal_spaces: BTreeSet<SpaceId>,
    /// Limit of a free space that has none of its own.
    pub default_free_limit: Limit,
}

impl PlanPolicy {
    /// The plan of `space`, given its entry; a space without an entry is free.
    pub fn plan_of(&self, space: &SpaceId, record: Option<&SpaceRecord>) -> Plan {
        if self.internal_spaces.contains(space) {
            return Plan::Internal;
        }
        match record.map(|record| record.subscription) {
            Some(Subscription::PlusActive) => Plan::PlusActive,
            Some(Subscription::PlusInactive) => Plan::PlusInactive,
            Some(Subscription::Free) | None => {
                Plan::Free(record.and_then(|record| record.monthly_limit).unwrap_or(self.default_free_limit))
            }
        }
    }
}

/// What an accepted event was billed as: written with the checkpoint, once, and read by everybody afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum BilledAs {
    /// Consumed one event of the month's free quota.
    Free,
    /// Counted by the Plus report.
    Plus,
    /// Not billed.
    Internal,
}

/// Why an event was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RejectedReason {
    /// The month's free quota was used up.
    LimitExhausted,
    /// The space's Plus plan was inactive.
    PlusInactive,
}

/// Texts that the ledger and the rows store.
macro_rules! stored_as {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $name {
            /// Every value, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stored text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the stored text; `None` for one that this version does not know.
            pub fn from_stored(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use stored_as;

stored_as!(BilledAs { Free = "FREE", Plus = "PLUS", Internal = "INTERNAL" });
stored_as!(RejectedReason { LimitExhausted = "LIMIT_EXHAUSTED", PlusInactive = "PLUS_INACTIVE" });
stored_as!(Subscription { Free = "free", PlusActive = "plus_active", PlusInactive = "plus_inactive" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_spaces_are_free_and_only_configuration_makes_one_internal() {
        let (space, canary) = (SpaceId::parse("acme").unwrap(), SpaceId::parse("canary").unwrap());
        let (default, own) = (Limit::new(1000).unwrap(), Limit::new(5).unwrap());
        let policy = PlanPolicy { internal_spaces: [canary.clone()].into(), default_free_limit: default };
        let record = |subscription, monthly_limit| SpaceRecord { subscription, monthly_limit };
        for (record, plan) in [
            (None, Plan::Free(default)),
            (Some(record(Subscription::Free, None)), Plan::Free(default)),
            (Some(record(Subscription::Free, Some(own))), Plan::Free(own)),
            (Some(record(Subscription::PlusActive, Some(own))), Plan::PlusActive),
            (Some(record(Subscription::PlusInactive, None)), Plan::PlusInactive),
        ] {
            assert_eq!(policy.plan_of(&space, record.as_ref()), plan);
            assert_eq!(policy.plan_of(&canary, record.as_ref()), Plan::Internal);
        }
    }

    #[test]
    fn a_limit_is_at_least_one() {
        assert_eq!(Limit::new(0), None);
        let limit = Limit::new(1_234).unwrap();
        assert_eq!((limit.get(), limit.to_string()), (1_234, "1234".to_owned()));
        assert_eq!(Limit::FREE_PLAN.get(), 1_000);
    }

    #[test]
    fn stored_texts_are_read_back_and_others_are_unknown() {
        for reason in RejectedReason::ALL {
            assert_eq!(RejectedReason::from_stored(reason.as_str()), Some(*reason));
        }
        assert_eq!(BilledAs::from_stored("free"), None);
        assert_eq!(Subscription::from_stored("internal"), None);
    }
}
