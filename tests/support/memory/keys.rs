//! The keys table's twin.

use tollgate_domain::key::{KeyHash, KeyRecord};
use tollgate_domain::ports::{Keys, PortResult};

use super::{Effect, World};

/// Port `Keys` over a [`World`].
#[derive(Clone)]
pub struct MemoryKeys(pub(super) World);

impl Keys for MemoryKeys {
    async fn find(&self, hash: &KeyHash) -> PortResult<Option<KeyRecord>> {
        self.0.effect(Effect::FindKey, |state| Ok(state.keys.get(hash).cloned())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_domain::key::{ApiKey, KEY_BYTES, Scope};
    use tollgate_domain::space::SpaceId;

    #[tokio::test]
    async fn a_key_is_found_by_its_hash_revoked_or_not() {
        let (world, hash) = (World::new(), ApiKey::from_random([1; KEY_BYTES]).hash());
        let record = KeyRecord {
            space: SpaceId::parse("acme").unwrap(),
            scopes: [Scope::Ingest].into(),
            created_at: world.with(|state| state.now),
            revoked_at: Some(world.with(|state| state.now)),
            label: "ci".to_owned(),
        };
        assert_eq!(world.keys().find(&hash).await, Ok(None));
        world.with(|state| state.keys.insert(hash.clone(), record.clone()));
        assert_eq!(world.keys().find(&hash).await, Ok(Some(record)));
    }
}
