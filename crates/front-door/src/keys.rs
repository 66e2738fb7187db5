//! `GET /v1/keys`: the space's keys, without their secrets.

use http::Uri;
use serde::Serialize;
use tollgate_domain::key::{ListedKey, Scope};
use tollgate_domain::ports::Keys;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;
use utoipa::ToSchema;

use crate::answer::{ErrorKind, Refusal};
use crate::config::ReadsConfig;
use crate::ports::{FrontDoorPorts, in_time};
use crate::query::Query;
use crate::schema;

/// A space's keys, oldest first; one that was made seconds ago may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct KeyList {
    /// Whose.
    #[schema(value_type = schema::SpaceName)]
    pub space: SpaceId,
    /// The keys, revoked ones too.
    pub keys: Vec<KeyEntry>,
}

/// What is told of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyEntry {
    /// The first 16 hex digits of the key's hash: names it, opens nothing.
    #[schema(value_type = schema::KeyId)]
    pub key_id: String,
    /// Its owner's name for it.
    pub label: String,
    /// What it may do.
    #[schema(value_type = schema::Scopes)]
    pub scopes: Vec<&'static str>,
    /// When it was made.
    #[schema(value_type = schema::Instant)]
    pub created_at: String,
    /// When it was last used, to the hour or so.
    #[schema(required, value_type = Option<schema::Instant>)]
    pub last_used_at: Option<String>,
    /// From when on it is refused; may lie in the future.
    #[schema(required, value_type = Option<schema::Instant>)]
    pub revoked_at: Option<String>,
}

impl From<ListedKey> for KeyEntry {
    fn from(key: ListedKey) -> Self {
        let ListedKey { hash, record } = key;
        let told = |instant: Option<UtcMillis>| instant.map(|instant| instant.to_string());
        Self {
            key_id: hash.id().as_str().to_owned(),
            label: record.label,
            scopes: record.scopes.iter().copied().map(Scope::as_str).collect(),
            created_at: record.created_at.to_string(),
            last_used_at: told(record.last_used_at),
            revoked_at: told(record.revoked_at),
        }
    }
}

/// The keys of the caller's space; 503 when the table gives no answer.
pub(crate) async fn list_keys<P: FrontDoorPorts>(
    ports: &P,
    config: &ReadsConfig,
    space: SpaceId,
    uri: &Uri,
) -> Result<KeyList, Refusal> {
    Query::of(uri).finish()?;
    match in_time(config.timeout, ports.keys().list(&space)).await {
        Ok(keys) => Ok(KeyList { space, keys: keys.into_iter().map(KeyEntry::from).collect() }),
        Err(error) => {
            tracing::error!(%space, error, "the keys cannot be listed");
            Err(Refusal::new(ErrorKind::KeysUnavailable))
        }
    }
}
