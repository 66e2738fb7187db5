//! `tollgate keys`.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use serde_json::json;
use tollgate_domain::key::{ApiKey, KEY_BYTES, KeyRecord, ListedKey, Scope};
use tollgate_domain::ports::{Clock, Keys};
use tollgate_domain::space::SpaceId;
use tollgate_front_door::keys::KeyEntry;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::keys::DynamoKeys;

use crate::args::{DurationMs, KeysCommand, WhichKey};
use crate::command::{Ended, send, unfinished};
use crate::output::{self, line, note};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, command: KeysCommand) -> anyhow::Result<Ended> {
    let keys = settings.connect().await?.keys;
    match command {
        KeysCommand::Create { space, scopes, label, json } => {
            let scopes = BTreeSet::from_iter(scopes);
            let key = create(&keys, &space, scopes.clone(), &label).await?;
            if json {
                let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
                output::json(&json!({"space": space, "key": key.expose(), "scopes": scopes, "label": label}))?;
            } else {
                line(key.expose());
                note("Shown once: only its hash is stored.");
            }
            Ok(Ended::Well)
        }
        KeysCommand::List { space, json } => list(&keys, &space, json).await,
        KeysCommand::Rotate { key, overlap, json } => rotate(&keys, &key, overlap, json).await,
        KeysCommand::Revoke(key) => {
            let revoked = match find(&keys, &key).await? {
                Some(found) => keys.revoke(&found.hash, SystemClock.now()).await?,
                None => false,
            };
            line(if revoked { "revoked (front doors see it within their key cache's time)" } else { NO_SUCH_KEY });
            Ok(if revoked { Ended::Well } else { Ended::NotWell })
        }
    }
}

const NO_SUCH_KEY: &str = "no such key";

/// The key that is meant, if there is one.
async fn find(keys: &DynamoKeys, which: &WhichKey) -> anyhow::Result<Option<ListedKey>> {
    let (Some(space), Some(id)) = (&which.space, &which.id) else {
        let hash = send::key_of_environment()?.hash();
        return Ok(keys.find(&hash).await?.map(|record| ListedKey { hash, record }));
    };
    let mut named: Vec<ListedKey> = keys.list(space).await?.into_iter().filter(|key| key.hash.id() == *id).collect();
    if named.len() > 1 {
        bail!("{} keys of {space} have this id: name the key itself, by TOLLGATE_API_KEY", named.len());
    }
    Ok(named.pop())
}

async fn list(keys: &DynamoKeys, space: &SpaceId, as_json: bool) -> anyhow::Result<Ended> {
    let listed = keys.list(space).await?;
    if as_json {
        let entries: Vec<KeyEntry> = listed.into_iter().map(KeyEntry::from).collect();
        output::json(&json!({"space": space, "keys": entries}))?;
        return Ok(Ended::Well);
    }
    let told = |instant: Option<String>| instant.unwrap_or_else(|| "–".to_owned());
    let row = |key: KeyEntry| {
        let scopes = key.scopes.join(" ");
        vec![key.key_id, key.label, scopes, key.created_at, told(key.last_used_at), told(key.revoked_at)]
    };
    let rows = listed.into_iter().map(KeyEntry::from).map(row);
    line(output::table(&["key id", "label", "scopes", "made", "last used", "refused from"], rows));
    Ok(Ended::Well)
}

/// Makes the new key first: whatever breaks in between, there is a key that works.
async fn rotate(keys: &DynamoKeys, which: &WhichKey, overlap: DurationMs, as_json: bool) -> anyhow::Result<Ended> {
    let Some(ListedKey { hash, record }) = find(keys, which).await? else {
        line(NO_SUCH_KEY);
        return Ok(Ended::NotWell);
    };
    if let Some(revoked_at) = record.revoked_at {
        // A second new key would be one that nobody asked for.
        line(format!(
            "not rotated: this key is refused from {revoked_at} on (make another with `tollgate keys create`)"
        ));
        return Ok(Ended::NotWell);
    }
    let key = create(keys, &record.space, record.scopes, &record.label).await?;
    let revoked_at = SystemClock.now().saturating_add_ms(overlap.0);
    // The new key is shown before anything else can fail: nobody could show it later.
    let fate = keys.revoke(&hash, revoked_at).await;
    let is_revoked = matches!(fate, Ok(true));
    let (old, new) = (hash.id(), key.hash().id());
    if as_json {
        let revoked_at = is_revoked.then(|| revoked_at.to_string());
        output::json(&json!({
            "space": record.space, "key": key.expose(), "keyId": new.as_str(), "oldKeyId": old.as_str(),
            "oldRevokedAt": revoked_at,
        }))?;
    } else {
        line(key.expose());
        note("Shown once: only its hash is stored.");
        if is_revoked {
            note(format!(
                "The old key, {}, is refused from {revoked_at} on (front doors see it within their key cache's time).",
                old.as_str()
            ));
        }
    }
    match fate {
        Ok(true) => Ok(Ended::Well),
        Ok(false) => Err(unfinished(format!("the old key, {}, is gone: the new one stands alone", old.as_str()))),
        Err(error) => Err(unfinished(format!(
            "the new key works, and the old one is not known to be refused ({error}): run `tollgate keys revoke` on {} when you have changed over",
            old.as_str()
        ))),
    }
}

/// Makes and stores a key.
pub(crate) async fn create(
    keys: &DynamoKeys,
    space: &SpaceId,
    scopes: BTreeSet<Scope>,
    label: &str,
) -> anyhow::Result<ApiKey> {
    let mut random = [0; KEY_BYTES];
    getrandom::fill(&mut random).context("the operating system gives no random bytes")?;
    let key = ApiKey::from_random(random);
    let record = KeyRecord {
        space: space.clone(),
        scopes,
        created_at: SystemClock.now(),
        revoked_at: None,
        label: label.to_owned(),
        last_used_at: None,
    };
    keys.create(&key.hash(), &record).await?;
    Ok(key)
}
