//! API keys: found, listed, used, revoked.

use tollgate_domain::key::{ApiKey, KeyHash, KeyRecord, ListedKey, Scope};
use tollgate_domain::ports::Keys;
use tollgate_domain::space::SpaceId;

use crate::bench::{Bench, at};
use crate::live::Live;

const HOUR_MS: i64 = 3_600_000;

/// A key of the suite's space that nobody else has, made `ms` after instant 0.
async fn key(on: &impl Bench, number: u8, ms: i64) -> ListedKey {
    let hash = KeyHash::from_stored(&format!("{}-{number}", on.space()));
    let record = KeyRecord {
        space: on.space().clone(),
        scopes: [Scope::Ingest, Scope::Read].into(),
        created_at: at(ms),
        revoked_at: None,
        label: format!("key {number}"),
        last_used_at: None,
    };
    on.add_key(&hash, &record).await;
    ListedKey { hash, record }
}

pub(crate) async fn a_space_lists_its_own_keys_oldest_first(on: &impl Bench) {
    let (second, first) = (key(on, 1, 2).await, key(on, 2, 1).await);
    assert_eq!(on.keys().list(on.space()).await, Ok(vec![first.clone(), second]));
    assert_eq!(on.keys().find(&first.hash).await, Ok(Some(first.record)));
    let nobody = SpaceId::parse(&format!("{}-x", on.space())).unwrap();
    assert_eq!(on.keys().list(&nobody).await, Ok(vec![]));
}

pub(crate) async fn a_use_is_noted_once_in_a_spacing(on: &impl Bench) {
    let key = key(on, 1, 0).await;
    for (ms, noted, last) in [
        (10, true, 10),
        (11, false, 10),
        (HOUR_MS + 9, false, 10),
        (HOUR_MS + 10, true, HOUR_MS + 10),
        // A process whose clock is behind moves nothing back.
        (20, false, HOUR_MS + 10),
    ] {
        assert_eq!(on.keys().touch(&key.hash, HOUR_MS, at(ms)).await, Ok(noted), "{ms}");
        let found = on.keys().find(&key.hash).await.unwrap().unwrap();
        assert_eq!(found, KeyRecord { last_used_at: Some(at(last)), ..key.record.clone() });
    }
}

pub(crate) async fn a_use_of_a_key_that_is_gone_makes_no_entry(on: &impl Bench) {
    let hash = ApiKey::from_random([9; 32]).hash();
    let hash = KeyHash::from_stored(&format!("{}-{}", on.space(), hash.as_str()));
    assert_eq!(on.keys().touch(&hash, HOUR_MS, at(0)).await, Ok(false));
    assert_eq!(on.keys().find(&hash).await, Ok(None));
}

/// Revoking is no port's: a command does it, on the real table alone.
pub(crate) async fn of_two_revocations_the_earlier_one_holds_and_a_key_that_is_gone_has_none(on: &Live) {
    let (key, keys) = (key(on, 1, 0).await, on.keys());
    let revoked_at = async || keys.find(&key.hash).await.unwrap().unwrap().revoked_at;
    for (at_ms, holds_ms) in [(50, 50), (70, 50), (50, 50), (20, 20), (50, 20)] {
        assert_eq!(keys.revoke(&key.hash, at(at_ms)).await, Ok(true), "{at_ms}");
        assert_eq!(revoked_at().await, Some(at(holds_ms)), "{at_ms}");
    }
    let gone = KeyHash::from_stored(&format!("{}-gone", on.space()));
    assert_eq!(keys.revoke(&gone, at(0)).await, Ok(false));
    assert_eq!(keys.find(&gone).await, Ok(None));
}
