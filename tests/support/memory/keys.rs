//! The keys table's twin.

use tollgate_domain::key::{KeyHash, KeyRecord, ListedKey};
use tollgate_domain::ports::{Keys, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use super::{Effect, World};

/// Port `Keys` over a [`World`].
#[derive(Clone)]
pub struct MemoryKeys(pub(super) World);

impl Keys for MemoryKeys {
    async fn find(&self, hash: &KeyHash) -> PortResult<Option<KeyRecord>> {
        self.0.effect(Effect::FindKey, |state| Ok(state.keys.get(hash).cloned())).await
    }

    async fn list(&self, space: &SpaceId) -> PortResult<Vec<ListedKey>> {
        self.0
            .effect(Effect::ListKeys, |state| {
                let listed =
                    |(hash, record): (&KeyHash, &KeyRecord)| ListedKey { hash: hash.clone(), record: record.clone() };
                let mut keys: Vec<ListedKey> =
                    state.keys.iter().filter(|(_, record)| record.space == *space).map(listed).collect();
                keys.sort_by_key(|key| key.record.created_at);
                Ok(keys)
            })
            .await
    }

    async fn touch(&self, hash: &KeyHash, spacing_ms: i64, now: UtcMillis) -> PortResult<bool> {
        self.0
            .effect(Effect::TouchKey, |state| {
                let is_due =
                    |record: &&mut KeyRecord| record.last_used_at.is_none_or(|last| now.ms_since(last) >= spacing_ms);
                let Some(record) = state.keys.get_mut(hash).filter(is_due) else { return Ok(false) };
                record.last_used_at = Some(now);
                Ok(true)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_domain::key::{ApiKey, KEY_BYTES, Scope};

    #[tokio::test]
    async fn a_key_is_found_by_its_hash_revoked_or_not() {
        let (world, hash) = (World::new(), ApiKey::from_random([1; KEY_BYTES]).hash());
        let record = KeyRecord {
            space: SpaceId::parse("acme").unwrap(),
            scopes: [Scope::Ingest].into(),
            created_at: world.with(|state| state.now),
            revoked_at: Some(world.with(|state| state.now)),
            label: "ci".to_owned(),
            last_used_at: None,
        };
        assert_eq!(world.keys().find(&hash).await, Ok(None));
        world.with(|state| state.keys.insert(hash.clone(), record.clone()));
        assert_eq!(world.keys().find(&hash).await, Ok(Some(record)));
    }
}
