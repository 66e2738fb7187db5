//! The second step: archive, then insert. Never the other way round: an archived payload without a row is
//! recoverable, a row without a payload is a permanent lie.

use std::ops::ControlFlow::Continue;

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{LedgerItem, MAX_QUARANTINES, Status};
use tollgate_domain::ports::{Archive, Clock, Conditional, Image, InsertError, Ledger, Put, Rows};
use tollgate_domain::row::Row;

use crate::pipeline::{Pipeline, Work};
use crate::ports::Ports;
use crate::verdict::{Flow, HandBack, Outcome, acknowledge, halt, hand_back};

/// Result of storing, where it does not end the delivery.
pub(crate) enum Storing {
    /// Payload and row are durable.
    Stored,
    /// The event moved on without us.
    Moved(Image),
}

impl<P: Ports> Pipeline<P> {
    /// Puts the payload, then the row.
    pub(crate) async fn archive_and_insert(&self, work: &Work, item: &LedgerItem) -> Flow<Storing> {
        let Some(checkpoint) = item.checkpoint else {
            return halt("storing was entered without a checkpoint", Some(Invariant::InsertedIsComplete));
        };
        let object = ArchiveObject::of_event(&work.event, item);
        if self.persist(|| self.ports.archive().put(&object)).await? == Put::Different {
            return halt("other bytes are archived under the same fingerprint", Some(Invariant::RowImpliesArchive));
        }
        let row = Row::new(&work.event, item, checkpoint.billed_as);
        let mut attempt = 0;
        loop {
            match self.ports.rows().insert(std::slice::from_ref(&row)).await {
                Ok(()) => return Continue(Storing::Stored),
                Err(InsertError::Port(error)) => self.after_failure(&mut attempt, error).await?,
                Err(InsertError::Poison { code, message }) => return self.quarantine(item, code, &message).await,
            }
        }
    }

    /// Counts one refusal of this row by ClickHouse; after the last one the row is given up.
    async fn quarantine(&self, item: &LedgerItem, code: u32, message: &str) -> Flow<Storing> {
        let (key, seen) = (&item.key, item.quarantine.count);
        let spacing_ms = i64::try_from(self.quarantine_spacing_ms).unwrap_or(i64::MAX);
        tracing::warn!(space = %key.space, event_id = %key.id, code, quarantines = seen, "ClickHouse refuses a row");
        let recorded = self
            .persist(|| self.ports.ledger().record_quarantine(key, seen, spacing_ms, message, self.ports.clock().now()))
            .await?;
        let count = match counted(recorded, seen) {
            Ok(count) => count,
            Err(image) => return Continue(Storing::Moved(image)),
        };
        if count < MAX_QUARANTINES {
            return hand_back(HandBack::Quarantined { after_ms: self.quarantine_spacing_ms });
        }
        match self.persist(|| self.ports.ledger().mark_uninsertable(key, self.ports.clock().now())).await? {
            Conditional::Applied => {
                tracing::error!(space = %key.space, event_id = %key.id, code, "a row is given up: fix the drift, then re-drive");
                acknowledge(Outcome::Uninsertable)
            }
            Conditional::Refused(image) => Continue(Storing::Moved(image)),
        }
    }
}

/// Quarantines of the event after one more was recorded or refused; the image of an event that moved on instead.
fn counted(recorded: Conditional, seen: u64) -> Result<u64, Image> {
    match recorded {
        Conditional::Applied => Ok(seen.saturating_add(1)),
        // Too soon after the last one, or somebody counted first: the stored count decides.
        Conditional::Refused(Image::Item(now)) if now.status == Status::Inserting && now.checkpoint.is_some() => {
            Ok(now.quarantine.count)
        }
        Conditional::Refused(image) => Err(image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::item;

    #[test]
    fn only_an_open_charged_event_has_a_count_and_all_else_is_dispatched_again() {
        assert_eq!(counted(Conditional::Applied, 1), Ok(2));
        for status in Status::ALL {
            for is_charged in [false, true] {
                let image = item(*status, is_charged);
                let is_open = *status == Status::Inserting && is_charged;
                let expected = if is_open { Ok(0) } else { Err(image.clone()) };
                assert_eq!(counted(Conditional::Refused(image), 7), expected, "{status:?} {is_charged}");
            }
        }
        assert_eq!(counted(Conditional::Refused(Image::Absent), 7), Err(Image::Absent));
    }
}
