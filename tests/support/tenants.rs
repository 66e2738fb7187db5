//! Who sends: spaces of every plan, some of which send more than they may.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_domain::plan::{Limit, PlanPolicy, SpaceRecord, Subscription};
use tollgate_domain::space::SpaceId;

use crate::auditor::Plans;
use crate::live::Engines;

/// A plan with the share of its events that a space may send, in tenths; `None` for no entry in the table.
const PLANS: [Option<(Subscription, u64)>; 10] = [
    Some((Subscription::Free, 5)),
    Some((Subscription::PlusActive, 0)),
    Some((Subscription::Free, 100)),
    Some((Subscription::PlusInactive, 0)),
    None,
    Some((Subscription::Free, 8)),
    Some((Subscription::Free, 100)),
    None,
    Some((Subscription::Free, 1)),
    Some((Subscription::PlusActive, 0)),
];
/// Which of ten spaces without an entry is the canary's.
const INTERNAL: usize = 7;

/// The spaces of one run.
pub struct Tenants {
    /// Their names, new ones.
    pub spaces: Vec<SpaceId>,
    /// Their plans.
    pub plans: Plans,
}

impl Tenants {
    /// `count` new spaces, which will send some `events` together; their names begin with `prefix`.
    pub fn new(prefix: &str, count: usize, events: usize) -> anyhow::Result<Self> {
        let spaces = (0..count).map(|_| Engines::unique_space(prefix)).collect::<anyhow::Result<Vec<SpaceId>>>()?;
        let each = u64::try_from(events / count.max(1))?;
        let mut plans = Plans {
            policy: PlanPolicy { internal_spaces: BTreeSet::new(), default_free_limit: Limit::FREE_PLAN },
            records: BTreeMap::new(),
            changed: BTreeSet::new(),
        };
        for (space, number) in spaces.iter().zip((0..PLANS.len()).cycle()) {
            match PLANS.get(number).copied().flatten() {
                Some((subscription, tenths)) => {
                    let monthly_limit = Limit::new((each * tenths).div_ceil(10));
                    plans.records.insert(space.clone(), SpaceRecord { subscription, monthly_limit });
                }
                None if number == INTERNAL => {
                    plans.policy.internal_spaces.insert(space.clone());
                }
                None => {}
            }
        }
        Ok(Self { spaces, plans })
    }

    /// Writes the spaces' entries.
    pub async fn register(&self, engines: &Engines) -> anyhow::Result<()> {
        for (space, record) in &self.plans.records {
            engines.stores.spaces.set(space, record).await?;
        }
        Ok(())
    }
}
