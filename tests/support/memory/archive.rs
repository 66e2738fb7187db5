//! The archive's twin.

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::ports::{Archive, PortResult, Put};

use super::{Effect, World};

/// Port `Archive` over a [`World`].
#[derive(Clone)]
pub struct MemoryArchive(pub(super) World);

impl Archive for MemoryArchive {
    async fn put(&self, object: &ArchiveObject) -> PortResult<Put> {
        self.0
            .effect(Effect::PutObject, |state| {
                Ok(match state.objects.get(&object.key) {
                    Some(there) if there == object.body.as_bytes() => Put::Same,
                    Some(_) => Put::Different,
                    None => {
                        state.objects.insert(object.key.clone(), object.body.clone().into_bytes());
                        Put::Stored
                    }
                })
            })
            .await
    }

    async fn get(&self, key: &str) -> PortResult<Option<Vec<u8>>> {
        self.0.effect(Effect::GetObject, |state| Ok(state.objects.get(key).cloned())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_put_stays() {
        let (world, key) = (World::new(), "acme/events/00/x.json".to_owned());
        let object = |body: &str| ArchiveObject { key: key.clone(), body: body.to_owned() };
        assert_eq!(world.archive().get(&key).await, Ok(None));
        assert_eq!(world.archive().put(&object("a")).await, Ok(Put::Stored));
        assert_eq!(world.archive().put(&object("a")).await, Ok(Put::Same));
        assert_eq!(world.archive().put(&object("b")).await, Ok(Put::Different));
        assert_eq!(world.archive().get(&key).await, Ok(Some(b"a".to_vec())));
    }
}
