//! Who is asking: an API key, and through it one space. Fails closed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use tokio::time::Instant;
use tollgate_domain::key::{KeyHash, KeyRecord, Scope};
use tollgate_domain::ports::{Clock, Keys};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::answer::{ErrorKind, Refusal};
use crate::config::AuthConfig;
use crate::headers;
use crate::ports::{FrontDoorPorts, in_time};

/// Whose request it is, and what it may do.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) space: SpaceId,
    pub(crate) key: KeyHash,
    scopes: BTreeSet<Scope>,
}

impl Caller {
    /// Refuses a caller without `scope`.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), Refusal> {
        let may = self.scopes.iter().any(|had| had.covers(scope));
        if may { Ok(()) } else { Err(Refusal::of_scope(scope)) }
    }
}

/// Keys that were found lately. Unknown ones are not kept: nobody can fill the memory with guesses.
pub(crate) struct KeyCache {
    config: AuthConfig,
    entries: Mutex<HashMap<KeyHash, Entry>>,
}

struct Entry {
    record: KeyRecord,
    found_at: Instant,
    ask_again_at: Instant,
}

enum Cached {
    /// Young enough, or somebody else is asking already.
    Use(KeyRecord),
    /// Ask; while the table gives no answer, this one still holds.
    Stale(KeyRecord),
    Absent,
}

impl KeyCache {
    pub(crate) fn new(config: AuthConfig) -> Self {
        Self { config, entries: Mutex::default() }
    }

    fn look(&self, hash: &KeyHash, now: Instant) -> Cached {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get_mut(hash) else { return Cached::Absent };
        if now.duration_since(entry.found_at) >= self.config.cache_ttl + self.config.outage_grace {
            entries.remove(hash);
            return Cached::Absent;
        }
        if now < entry.ask_again_at {
            return Cached::Use(entry.record.clone());
        }
        // One request asks, the others go on with what is known meanwhile.
        entry.ask_again_at = now + self.config.lookup_timeout;
        Cached::Stale(entry.record.clone())
    }

    fn keep(&self, hash: KeyHash, record: KeyRecord, now: Instant) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.config.max_cached_keys && !entries.contains_key(&hash) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.found_at).map(|(hash, _)| hash.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        entries.insert(hash, Entry { record, found_at: now, ask_again_at: now + self.config.cache_ttl });
    }

    fn forget(&self, hash: &KeyHash) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }

    /// Whether a use of the key at `now` is to be noted: at most one in a spacing, as far as this process knows. What
    /// could not be noted is due again once the table was asked about the key.
    pub(crate) fn is_use_due(&self, hash: &KeyHash, now: UtcMillis) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get_mut(hash) else { return false };
        let noted = entry.record.last_used_at.replace(now);
        let is_due = noted.is_none_or(|noted| now.ms_since(noted) >= self.use_spacing_ms());
        if !is_due {
            entry.record.last_used_at = noted;
        }
        is_due
    }

    fn use_spacing_ms(&self) -> i64 {
        i64::try_from(self.config.use_spacing.as_millis()).unwrap_or(i64::MAX)
    }

    fn pause(&self, hash: &KeyHash, now: Instant) {
        if let Some(entry) = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get_mut(hash) {
            entry.ask_again_at = now + self.config.outage_pause;
        }
    }
}

/// The caller of a request, from its API key and from nothing else.
///
/// 401 for a key that is missing, malformed, unknown or revoked; 503 while an uncached key cannot be looked up.
pub(crate) async fn authenticate<P: FrontDoorPorts>(
    ports: &P,
    cache: &KeyCache,
    request: &HeaderMap,
) -> Result<Caller, Refusal> {
    let hash = headers::api_key(request)?.hash();
    let record = match cache.look(&hash, Instant::now()) {
        Cached::Use(record) => record,
        Cached::Stale(record) => find(ports, cache, &hash, Some(record)).await?,
        Cached::Absent => find(ports, cache, &hash, None).await?,
    };
    if record.revoked_at.is_some_and(|revoked_at| revoked_at <= ports.clock().now()) {
        return Err(Refusal::new(ErrorKind::RevokedKey));
    }
    Ok(Caller { space: record.space, key: hash, scopes: record.scopes })
}

/// Notes that a key was used. Best effort: nobody waits for it, and a failure is made up for by a later use.
pub(crate) async fn note_use<P: FrontDoorPorts>(ports: &P, cache: &KeyCache, hash: &KeyHash, now: UtcMillis) {
    let noting = ports.keys().touch(hash, cache.use_spacing_ms(), now);
    if let Err(error) = in_time(cache.config.lookup_timeout, noting).await {
        tracing::warn!(error, "a key's use could not be noted");
    }
}

async fn find<P: FrontDoorPorts>(
    ports: &P,
    cache: &KeyCache,
    hash: &KeyHash,
    stale: Option<KeyRecord>,
) -> Result<KeyRecord, Refusal> {
    let error = match in_time(cache.config.lookup_timeout, ports.keys().find(hash)).await {
        Ok(Some(record)) => {
            cache.keep(hash.clone(), record.clone(), Instant::now());
            return Ok(record);
        }
        Ok(None) => {
            cache.forget(hash);
            return Err(Refusal::new(ErrorKind::UnknownKey));
        }
        Err(error) => error,
    };
    if let Some(record) = stale {
        tracing::warn!(space = %record.space, error, "keys table gives no answer: a cached key goes on");
        cache.pause(hash, Instant::now());
        return Ok(record);
    }
    tracing::error!(error, "keys table gives no answer: an uncached key is told 503");
    Err(Refusal::new(ErrorKind::AuthenticationUnavailable))
}
