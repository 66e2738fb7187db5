//! What the engines hold, counted from the outside.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use tollgate_domain::identity::EventId;
use tollgate_domain::ledger::Status;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::{Billing, Clock, Image};
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
        for image in stores.ledger.list_space(&space).await? {
            let Image::Item(item) = image else { bail!("{space}: the ledger holds an item that cannot be read") };
            if !ids.contains(&item.key.id) {
                bail!("{space}: the ledger holds events of another input; begin anew: tollgate down --wipe");
            }
            counted.inserted += u64::from(item.status == Status::Inserted);
            counted.rejected += u64::from(item.status == Status::Rejected);
            counted.conflicting_ids += u64::from(!item.conflicts.is_empty());
        }
        counted.meter = stores.billing.count(&space, month).await?;
        counted.archived = stores.archive.list(&format!("{space}/events/")).await?.len() as u64;
        let rows = stores.rows.count(&space).await?;
        // Money is counted from the twin: a row counts when both have it.
        counted.rows = rows.events.min(rows.billing);
        counts.insert(space, counted);
    }
    Ok(counts)
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
