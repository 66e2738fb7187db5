//! The durable facts at one moment, wherever they were read: the auditor's second witness.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tollgate_domain::ledger::{EventKey, LedgerItem, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;

use crate::expected::SpaceCounts;
use crate::sent::{Sent, by_key};

/// One row of `events_billing`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BillingRow {
    /// Who is billed.
    pub space: String,
    /// Which event.
    pub event_id: String,
    /// How much.
    pub quantity: u64,
    /// The claim's stamp.
    pub row_inserted_at_ms: i64,
    /// The month that pays.
    pub period_month: String,
    /// `FREE`, `PLUS` or `INTERNAL`.
    pub billed_as: String,
}

impl BillingRow {
    /// The twin that the materialized view makes of a row.
    pub fn of(row: &Row) -> Self {
        Self {
            space: row.space.clone(),
            event_id: row.event_id.clone(),
            quantity: row.quantity,
            row_inserted_at_ms: row.row_inserted_at_ms,
            period_month: row.period_month.clone(),
            billed_as: row.billed_as.clone(),
        }
    }
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its text.
    pub body: String,
    /// Why.
    pub reason: String,
}

/// The durable facts at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// `event_ledger`.
    pub ledger: BTreeMap<EventKey, LedgerItem>,
    /// `free_usage`.
    pub meters: BTreeMap<(SpaceId, PeriodMonth), u64>,
    /// The archive: bytes by key.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// `events`, merged or not.
    pub events: Vec<Row>,
    /// `events_billing`, merged or not.
    pub events_billing: Vec<BillingRow>,
    /// The dead-letter queue.
    pub dead_letters: Vec<DeadLetter>,
}

impl Snapshot {
    /// Counts per space, of every space that sent something or that the facts know.
    pub fn counts(&self, sent: &[Sent]) -> BTreeMap<SpaceId, SpaceCounts> {
        let mut counts: BTreeMap<SpaceId, SpaceCounts> = BTreeMap::new();
        for (key, deliveries) in by_key(sent) {
            let space = counts.entry(key.space.clone()).or_default();
            space.distinct += 1;
            space.lines += deliveries.len() as u64;
        }
        for item in self.ledger.values() {
            let space = counts.entry(item.key.space.clone()).or_default();
            space.inserted += u64::from(item.status == Status::Inserted);
            space.rejected += u64::from(item.status == Status::Rejected);
            space.conflicting_ids += u64::from(!item.conflicts.is_empty());
        }
        for ((space, _), count) in &self.meters {
            counts.entry(space.clone()).or_default().meter += count;
        }
        for key in self.objects.keys() {
            if let Some((space, _)) = key.split_once("/events/")
                && let Ok(space) = SpaceId::parse(space)
            {
                counts.entry(space).or_default().archived += 1;
            }
        }
        let twins: BTreeSet<_> = self.events_billing.iter().map(|row| (&row.space, &row.event_id)).collect();
        for (space, _) in twins {
            if let Ok(space) = SpaceId::parse(space) {
                counts.entry(space).or_default().billing_rows += 1;
            }
        }
        let rows: BTreeSet<_> = self.events.iter().map(|row| (&row.space, &row.event_id)).collect();
        for (space, _) in rows {
            if let Ok(space) = SpaceId::parse(space) {
                counts.entry(space).or_default().rows += 1;
            }
        }
        counts
    }
}
