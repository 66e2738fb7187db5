//! The spaces table's twin.

use tollgate_domain::plan::SpaceRecord;
use tollgate_domain::ports::{Freshness, PortResult, Spaces};
use tollgate_domain::space::SpaceId;

use super::{Effect, World};

/// Port `Spaces` over a [`World`].
#[derive(Clone)]
pub struct MemorySpaces(pub(super) World);

impl Spaces for MemorySpaces {
    async fn read(&self, space: &SpaceId, freshness: Freshness) -> PortResult<Option<SpaceRecord>> {
        self.0
            .effect(Effect::ReadSpace, |state| {
                Ok(match (freshness, state.remembered_spaces.get(space)) {
                    (Freshness::Cached, Some(remembered)) => *remembered,
                    _ => state.spaces.get(space).copied(),
                })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_domain::plan::Subscription;

    #[tokio::test]
    async fn only_a_cached_read_may_remember() {
        let (world, space) = (World::new(), SpaceId::parse("acme").unwrap());
        let record = |subscription| SpaceRecord { subscription, monthly_limit: None };
        let (now, before) = (record(Subscription::PlusActive), record(Subscription::PlusInactive));
        world.with(|state| state.spaces.insert(space.clone(), now));
        assert_eq!(world.spaces().read(&space, Freshness::Cached).await, Ok(Some(now)));
        world.with(|state| state.remembered_spaces.insert(space.clone(), Some(before)));
        assert_eq!(world.spaces().read(&space, Freshness::Cached).await, Ok(Some(before)));
        assert_eq!(world.spaces().read(&space, Freshness::Strong).await, Ok(Some(now)));
        world.with(|state| state.spaces.clear());
        assert_eq!(world.spaces().read(&space, Freshness::Strong).await, Ok(None));
    }
}
