//! What the real stores hold of some spaces, for the auditor.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;
use tollgate_domain::identity::EventId;
use tollgate_domain::ledger::{EventKey, LedgerItem};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::{Archive, Image, Ledger};
use tollgate_domain::space::SpaceId;

use super::{Engines, Queues};
use crate::snapshot::Snapshot;

/// Reads that run side by side.
const CONCURRENCY: usize = 16;
/// Neither `FINAL` nor `DISTINCT`: the auditor wants every copy, so that one which differs in anything shows.
const ROWS: &str = "SELECT space, event_id, fingerprint, meter, subject, source, quantity, occurred_at_ms, \
     row_inserted_at_ms, period_month, billed_as FROM events WHERE space IN ?";
const TWINS: &str = "SELECT space, event_id, quantity, row_inserted_at_ms, period_month, billed_as \
     FROM events_billing WHERE space IN ?";

type Attributes = std::collections::HashMap<String, AttributeValue>;

/// Everything that the stores and the dead-letter queue hold of these spaces, whoever put it there.
pub async fn snapshot(engines: &Engines, queues: &Queues, spaces: &BTreeSet<SpaceId>) -> anyhow::Result<Snapshot> {
    Ok(Snapshot {
        ledger: ledger(engines, spaces).await.context("the ledger")?,
        meters: meters(engines, spaces).await.context("the meters")?,
        objects: objects(engines, spaces).await.context("the archive")?,
        events: rows(engines, ROWS, spaces).await.context("events")?,
        events_billing: rows(engines, TWINS, spaces).await.context("events_billing")?,
        dead_letters: queues.dead_letters().await.context("the dead letters")?,
    })
}

/// One scan for all spaces: 256 queries a space are too many for an emulator.
async fn scan(engines: &Engines, table: &str, attributes: &str) -> anyhow::Result<Vec<Attributes>> {
    let scan = engines.dynamo.scan().table_name(table).consistent_read(true).projection_expression(attributes);
    Ok(scan.into_paginator().items().send().try_collect().await?)
}

fn text<'a>(item: &'a Attributes, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

async fn ledger(engines: &Engines, spaces: &BTreeSet<SpaceId>) -> anyhow::Result<BTreeMap<EventKey, LedgerItem>> {
    let mut keys = Vec::new();
    for item in scan(engines, &engines.config.names.ledger_table, "pk, sk").await? {
        let space = text(&item, "pk").and_then(|pk| SpaceId::parse(pk.split_once('#')?.0).ok());
        let id = text(&item, "sk").and_then(|sk| EventId::parse(sk).ok());
        let (Some(space), Some(id)) = (space, id) else { bail!("an item without a readable key") };
        if spaces.contains(&space) {
            keys.push(EventKey { space, id });
        }
    }
    let items = stream::iter(keys).map(|key| async move {
        match engines.stores.ledger.read(&key).await? {
            Image::Item(item) => Ok((key, *item)),
            Image::Absent => bail!("{key} is gone"),
            Image::Unreadable(why) => bail!("{key}: {why}"),
        }
    });
    items.buffer_unordered(CONCURRENCY).try_collect().await
}

async fn meters(
    engines: &Engines,
    spaces: &BTreeSet<SpaceId>,
) -> anyhow::Result<BTreeMap<(SpaceId, PeriodMonth), u64>> {
    let mut meters = BTreeMap::new();
    for item in scan(engines, &engines.config.names.meter_table, "pk, sk, eventCount").await? {
        let space = text(&item, "pk").and_then(|pk| SpaceId::parse(pk).ok());
        let month = text(&item, "sk").and_then(|sk| PeriodMonth::parse(sk).ok());
        let count = item.get("eventCount").and_then(|count| count.as_n().ok()?.parse().ok());
        let (Some(space), Some(month), Some(count)) = (space, month, count) else { bail!("an unreadable counter") };
        if spaces.contains(&space) {
            meters.insert((space, month), count);
        }
    }
    Ok(meters)
}

async fn objects(engines: &Engines, spaces: &BTreeSet<SpaceId>) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let archive = &engines.stores.archive;
    let listed = stream::iter(spaces).map(|space| async move { archive.list(&format!("{space}/")).await });
    let keys: Vec<Vec<String>> = listed.buffer_unordered(CONCURRENCY).try_collect().await?;
    let bodies = stream::iter(keys.into_iter().flatten()).map(|key| async move {
        let body = archive.get(&key).await?.with_context(|| format!("{key} is gone"))?;
        anyhow::Ok((key, body))
    });
    bodies.buffer_unordered(CONCURRENCY).try_collect().await
}

async fn rows<T: DeserializeOwned>(
    engines: &Engines,
    query: &str,
    spaces: &BTreeSet<SpaceId>,
) -> anyhow::Result<Vec<T>> {
    let names: Vec<&str> = spaces.iter().map(SpaceId::as_str).collect();
    let query = engines.stores.rows.client().query(query).bind(names);
    // 64-bit integers unquoted, which is not the engine's default.
    let mut text = query.with_setting("output_format_json_quote_64bit_integers", "0").fetch_bytes("JSONEachRow")?;
    let text = text.collect().await?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}
