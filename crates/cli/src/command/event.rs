//! `tollgate event`: the durable facts of one event, side by side.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_domain::archive::{ArchivedEvent, event_key};
use tollgate_domain::ledger::{Attention, EventKey, LedgerItem};
use tollgate_domain::ports::{Archive, Image, Ledger, Rows};
use tollgate_domain::row::Row;
use tollgate_domain::scenario::{Facts, LedgerFact, RowFact, Scenario, scenario_for};
use tollgate_stores::connect::Stores;

use crate::command::Ended;
use crate::output::{self, line};
use crate::settings::Settings;

/// What is known of an event.
struct Known {
    ledger: Image,
    archived: Option<Vec<u8>>,
    rows: Vec<Row>,
    in_both_tables: bool,
}

/// How often a waiting command looks.
const LOOK: Duration = Duration::from_millis(250);

pub(crate) async fn run(settings: &Settings, key: EventKey, wait: Duration, as_json: bool) -> anyhow::Result<Ended> {
    let stores = settings.connect().await?;
    let deadline = Instant::now() + wait;
    while !is_terminal(&stores.ledger.read(&key).await?) && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
    let known = look_up(&stores, &key).await?;
    let scenario = known.scenario();
    let facts = known.to_json(&key, scenario);
    if as_json {
        output::json(&facts)?;
    } else {
        line(serde_json::to_string_pretty(&facts)?);
        line(match scenario {
            Some(scenario) => {
                format!("A redelivery now is scenario {}, {}: {}.", scenario.number, scenario.name, scenario.entry)
            }
            None => "The ledger has no such event: a delivery now is scenario 1, first delivery.".to_owned(),
        });
    }
    Ok(if known.ledger == Image::Absent { Ended::NotWell } else { Ended::Well })
}

fn is_terminal(image: &Image) -> bool {
    matches!(image, Image::Item(item) if item.status.is_terminal())
}

async fn look_up(stores: &Stores, key: &EventKey) -> anyhow::Result<Known> {
    let object = event_key(key);
    let (ledger, archived, rows, in_both_tables) = tokio::try_join!(
        stores.ledger.read(key),
        stores.archive.get(&object),
        stores.rows.find(key),
        stores.rows.is_present(key),
    )?;
    Ok(Known { ledger, archived, rows, in_both_tables })
}

impl Known {
    /// What a redelivery would be; `None` where there is no item to lose a claim to.
    fn scenario(&self) -> Option<&'static Scenario> {
        let row = if self.in_both_tables { RowFact::Present } else { RowFact::Absent };
        match &self.ledger {
            Image::Item(item) => Some(scenario_for(Facts::found(item, row))),
            Image::Absent => None,
            Image::Unreadable(_) => {
                let facts = Facts { ledger: LedgerFact::Unreadable, checkpoint: false, row: RowFact::NotAsked };
                Some(scenario_for(facts))
            }
        }
    }

    fn to_json(&self, key: &EventKey, scenario: Option<&Scenario>) -> Value {
        let archive = match &self.archived {
            None => Value::Null,
            Some(body) => match ArchivedEvent::decode(body) {
                Ok(_) => serde_json::from_slice(body).unwrap_or(Value::Null),
                Err(damaged) => json!({"damaged": damaged.to_string()}),
            },
        };
        let ledger = match &self.ledger {
            Image::Item(item) => ledger_json(item),
            Image::Absent => Value::Null,
            Image::Unreadable(why) => json!({"unreadable": why}),
        };
        json!({
            "space": key.space,
            "id": key.id,
            "ledger": ledger,
            "archive": archive,
            "rows": self.rows,
            "rowInBothTables": self.in_both_tables,
            "scenario": scenario.map(|s| json!({"number": s.number, "name": s.name, "enterAt": s.entry.to_string()})),
        })
    }
}

fn ledger_json(item: &LedgerItem) -> Value {
    let checkpoint = item.checkpoint.map(|checkpoint| {
        json!({
            "billingAcceptedAt": checkpoint.accepted_at.to_string(),
            "billedAs": checkpoint.billed_as.as_str(),
            "limit": checkpoint.limit,
        })
    });
    let rejection = item.rejection.map(|rejection| {
        json!({
            "reason": rejection.reason.as_str(),
            "limitSeen": rejection.limit_seen,
            "countSeen": rejection.count_seen,
        })
    });
    json!({
        "status": item.status.as_str(),
        "createdAt": item.created_at.to_string(),
        "updatedAt": item.updated_at.to_string(),
        "rowInsertedAt": item.row_inserted_at.to_string(),
        "periodMonth": item.period_month,
        "fingerprint": item.fingerprint,
        "submissionId": item.submission_id,
        "checkpoint": checkpoint,
        "rejection": rejection,
        "quarantines": item.quarantine.count,
        "lastQuarantineError": item.quarantine.last_error,
        "conflicts": item.conflicts,
        "attention": item.attention.map(Attention::as_str),
    })
}
