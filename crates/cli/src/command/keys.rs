//! `tollgate keys`.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::json;
use tollgate_domain::key::{ApiKey, KEY_BYTES, KeyRecord, Scope};
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::keys::DynamoKeys;

use crate::args::KeysCommand;
use crate::command::{Ended, send};
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
        KeysCommand::Revoke => {
            let revoked = keys.revoke(&send::key_of_environment()?.hash(), SystemClock.now()).await?;
            line(if revoked { "revoked (front doors see it within their key cache's time)" } else { "no such key" });
            Ok(if revoked { Ended::Well } else { Ended::NotWell })
        }
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
    };
    keys.create(&key.hash(), &record).await?;
    Ok(key)
}
