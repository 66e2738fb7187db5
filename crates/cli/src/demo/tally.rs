//! What the engines hold, counted from the outside.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use tollgate_domain::identity::EventId;
use tollgate_domain::ledger::Status;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::{Clock, Image};
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::connect::Stores;

use crate::demo::traffic::Source;
use crate::expected::SpaceCounts;
use crate::input::lines;

/// Counts every space of the input: lines and ids from the input, all else from the engines.
pub(crate) async fn count(
    stores: &Stores,
    source: &Source,
    month: PeriodMonth,
) -> anyhow::Result<BTreeMap<SpaceId, SpaceCounts>> {
    let mut counts = BTreeMap::new();
    let ids = ids_by_space(source)?;
    for space in source.spaces() {
        let (lines, ids) = ids.get(&space).cloned().unwrap_or_default();
        let mut counted = SpaceCounts { lines, distinct: ids.len() as u64, ..SpaceCounts::default() };
        let mut inserted = BTreeSet::new();
        for image in stores.ledger.list_space(&space).await? {
            let Image::Item(item) = image else { bail!("{space}: the ledger holds an item that cannot be read") };
            if !ids.contains(&item.key.id) {
                bail!("{space}: the ledger holds events of another input; begin anew: tollgate down --wipe");
            }
            counted.rejected += u64::from(item.status == Status::Rejected);
            counted.conflicting_ids += u64::from(!item.conflicts.is_empty());
            if let (Status::Inserted, Some(checkpoint)) = (item.status, item.checkpoint) {
                inserted.insert((item.key.id.as_str().to_owned(), checkpoint.billed_as.as_str().to_owned()));
            }
        }
        counted.inserted = inserted.len() as u64;
        // Over all months: a charge in another one would be a charge all the same.
        counted.meter = stores.billing.counts(&space).await?.values().sum();
        let archived = archived_ids(stores, &space).await?;
        let rows = stores.rows.of_month(&space, month).await?;
        let everywhere = stores.rows.count(&space).await?;
        counted.archived = archived.len() as u64;
        counted.rows = everywhere.events;
        counted.billing_rows = everywhere.billing;
        let known: BTreeSet<&str> = inserted.iter().map(|(id, _)| id.as_str()).collect();
        let strays = [
            archived.iter().filter(|id| !known.contains(id.as_str())).count(),
            rows.events.symmetric_difference(&inserted).count(),
            rows.billing.symmetric_difference(&inserted).count(),
        ];
        counted.strays = strays.iter().sum::<usize>() as u64;
        counts.insert(space, counted);
    }
    Ok(counts)
}

/// Ids of the events whose payload is archived, from the objects' names.
async fn archived_ids(stores: &Stores, space: &SpaceId) -> anyhow::Result<BTreeSet<String>> {
    let keys = stores.archive.list(&format!("{space}/events/")).await?;
    let id = |key: String| key.rsplit('/').next().and_then(|name| name.strip_suffix(".json")).map(str::to_owned);
    Ok(keys.into_iter().filter_map(id).collect())
}

fn ids_by_space(source: &Source) -> anyhow::Result<BTreeMap<SpaceId, (u64, BTreeSet<EventId>)>> {
    let mut by_space: BTreeMap<SpaceId, (u64, BTreeSet<EventId>)> = BTreeMap::new();
    for line in lines(&source.input, SystemClock.now())? {
        if let Ok(line) = line?
            && let Some(space) = line.space
        {
            let (lines, ids) = by_space.entry(space).or_default();
            *lines += 1;
            ids.insert(line.id);
        }
    }
    Ok(by_space)
}
