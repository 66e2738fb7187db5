//! The lean row that ClickHouse keeps of an event.

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::ledger::{EventKey, LedgerItem};
use crate::plan::BilledAs;

/// One row of `events`; the narrow twin in `events_billing` is made from it by a materialized view.
///
/// A pure function of the event and of the ledger's stamps, so that a replay is byte-identical.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Row {
    /// Who is billed.
    pub space: String,
    /// Which event.
    pub event_id: String,
    /// SHA-256 of the event's facts, in hex.
    pub fingerprint: String,
    /// What was counted.
    pub meter: String,
    /// For whom.
    pub subject: String,
    /// Where it was observed; empty when the event does not say.
    pub source: String,
    /// How much.
    pub quantity: u64,
    /// Milliseconds of UTC: when it happened.
    pub occurred_at_ms: i64,
    /// Milliseconds of UTC: the claim's stamp.
    pub row_inserted_at_ms: i64,
    /// The month that pays, such as `2026-11`.
    pub period_month: String,
    /// `FREE`, `PLUS` or `INTERNAL`.
    pub billed_as: String,
}

impl Row {
    /// The row of `event`, stamped by its ledger item.
    pub fn new(event: &Event, item: &LedgerItem, billed_as: BilledAs) -> Self {
        let EventKey { space, id } = &item.key;
        Self {
            space: space.as_str().to_owned(),
            event_id: id.as_str().to_owned(),
            fingerprint: item.fingerprint.as_str().to_owned(),
            meter: event.meter().to_owned(),
            subject: event.subject().to_owned(),
            source: event.source().unwrap_or_default().to_owned(),
            quantity: event.quantity(),
            occurred_at_ms: event.occurred_at().get(),
            row_inserted_at_ms: item.row_inserted_at.get(),
            period_month: item.period_month.to_string(),
            billed_as: billed_as.as_str().to_owned(),
        }
    }
}
