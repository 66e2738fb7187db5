//! What the archive holds of an event, and under which key.

use crate::event::Event;
use crate::identity::{EventId, Fingerprint};
use crate::json;
use crate::ledger::{EventKey, LedgerItem};
use crate::period::PeriodMonth;
use crate::space::SpaceId;
use crate::time::UtcMillis;

/// An object to put: its key and its bytes, both pure functions of the event and of the ledger's stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveObject {
    /// Where: begins with the space, since one id may live in two spaces.
    pub key: String,
    /// What: canonical JSON.
    pub body: String,
}

/// Key of an event's payload.
pub fn event_key(key: &EventKey) -> String {
    format!("{}/events/{}/{}.json", key.space, key.id.shard(), key.id)
}

/// Key of another payload that came under the same id.
pub fn conflict_key(key: &EventKey, fingerprint: &Fingerprint) -> String {
    format!("{}/conflicts/{}/{fingerprint}.json", key.space, key.id)
}

impl ArchiveObject {
    /// The payload of a claimed event. Nothing of the message (acceptance, trace, spelling) enters it, so that any
    /// delivery of the same event writes the same bytes.
    pub fn of_event(event: &Event, item: &LedgerItem) -> Self {
        let EventKey { space, id } = &item.key;
        let body = format!(
            r#"{{"event":{},"eventId":"{id}","fingerprint":"{}","periodMonth":"{}","rowInsertedAtMs":{},"space":"{space}","version":1}}"#,
            event.canonical_json(),
            item.fingerprint,
            item.period_month,
            item.row_inserted_at.get(),
        );
        Self { key: event_key(&item.key), body }
    }

    /// The payload of a conflict, kept where a person can compare it with the first one.
    pub fn of_conflict(event: &Event, key: &EventKey) -> Self {
        let fingerprint = event.fingerprint();
        let EventKey { space, id } = key;
        let body = format!(
            r#"{{"event":{},"eventId":"{id}","fingerprint":"{fingerprint}","space":"{space}","version":1}}"#,
            event.canonical_json(),
        );
        Self { key: conflict_key(key, &fingerprint), body }
    }
}

/// An archived event, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedEvent {
    /// Whose.
    pub key: EventKey,
    /// The payload.
    pub event: Event,
    /// The month that pays.
    pub period_month: PeriodMonth,
    /// The claim's stamp.
    pub row_inserted_at: UtcMillis,
}

/// The object is not what [`ArchiveObject::of_event`] writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the archived object is damaged: {0}")]
pub struct DamagedObject(String);

impl ArchivedEvent {
    /// Reads an archived event and checks that it is the one its stamps say.
    pub fn decode(body: &[u8]) -> Result<Self, DamagedObject> {
        let damaged = |what: &str| DamagedObject(what.to_owned());
        let value = json::parse(body).map_err(|_| damaged("it is not JSON"))?;
        let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str).ok_or_else(|| damaged(name));
        if value.get("version").and_then(serde_json::Value::as_u64) != Some(1) {
            return Err(damaged("version"));
        }
        let row_inserted_at = value.get("rowInsertedAtMs").and_then(serde_json::Value::as_i64).and_then(UtcMillis::new);
        let row_inserted_at = row_inserted_at.ok_or_else(|| damaged("rowInsertedAtMs"))?;
        // The event was valid when it was accepted; the claim's stamp may lie before its occurrence by the allowed
        // skew, or long before if clocks were set: no bound applies any more.
        let event = Event::from_value(
            value.get("event").unwrap_or_default(),
            UtcMillis::parse("9998-12-31T23:59:59Z").map_err(|_| damaged("event"))?,
        )
        .map_err(|_| damaged("event"))?;
        let archived = Self {
            key: EventKey {
                space: SpaceId::parse(text("space")?).map_err(|_| damaged("space"))?,
                id: EventId::parse(text("eventId")?).map_err(|_| damaged("eventId"))?,
            },
            period_month: PeriodMonth::parse(text("periodMonth")?).map_err(|_| damaged("periodMonth"))?,
            row_inserted_at,
            event,
        };
        if archived.event.id() != archived.key.id || archived.event.fingerprint().as_str() != text("fingerprint")? {
            return Err(damaged("its event is another one than its stamps say"));
        }
        Ok(archived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::NewClaim;

    fn parts() -> (Event, LedgerItem) {
        let accepted = UtcMillis::parse("2026-11-30T00:00:00Z").unwrap();
        let value = json::parse(
            br#"{"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1,"properties":{"a":1.0}}"#,
        )
        .unwrap();
        let event = Event::from_value(&value, accepted).unwrap();
        let claim = NewClaim {
            key: EventKey { space: SpaceId::parse("acme").unwrap(), id: event.id() },
            fingerprint: event.fingerprint(),
            submission_id: "sub".to_owned(),
            period_month: PeriodMonth::of(accepted),
            now: accepted,
        };
        (event, claim.into_item())
    }

    #[test]
    fn the_object_is_canonical_and_reads_back() {
        let (event, item) = parts();
        let object = ArchiveObject::of_event(&event, &item);
        assert_eq!(json::canonical(&json::parse(object.body.as_bytes()).unwrap()), object.body);
        let back = ArchivedEvent::decode(object.body.as_bytes()).unwrap();
        assert_eq!(
            (back.key, back.event, back.row_inserted_at, back.period_month),
            (item.key.clone(), event, item.row_inserted_at, item.period_month)
        );
        assert_eq!(object.key, format!("acme/events/{}/{}.json", item.key.id.shard(), item.key.id));
    }

    #[test]
    fn nothing_of_the_message_enters_the_object() {
        let (event, item) = parts();
        let by_another = LedgerItem {
            submission_id: "other".to_owned(),
            updated_at: item.updated_at.saturating_add_ms(9),
            ..item.clone()
        };
        assert_eq!(ArchiveObject::of_event(&event, &item), ArchiveObject::of_event(&event, &by_another));
    }

    #[test]
    fn a_damaged_object_is_told_apart() {
        let (event, item) = parts();
        let body = ArchiveObject::of_event(&event, &item).body;
        for damaged in [
            body.replace("\"quantity\":1", "\"quantity\":2"),
            body.replace("acme", "ACME"),
            String::new(),
            body.replace("version\":1", "version\":2"),
            // Either stamp alone gives a swapped event away.
            body.replace(item.key.id.as_str(), &format!("uev_{}", "0".repeat(64))),
            body.replace(item.fingerprint.as_str(), &"0".repeat(64)),
        ] {
            assert!(ArchivedEvent::decode(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_conflict_is_kept_beside_the_space_s_events_under_its_own_fingerprint() {
        let (event, item) = parts();
        let object = ArchiveObject::of_conflict(&event, &item.key);
        assert_eq!(object.key, format!("acme/conflicts/{}/{}.json", item.key.id, event.fingerprint()));
        assert_eq!(json::canonical(&json::parse(object.body.as_bytes()).unwrap()), object.body);
    }
}
