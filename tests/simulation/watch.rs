//! What must hold after every single step, not only in the end.

use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{Checkpoint, LedgerItem, MAX_QUARANTINES, Quarantine, Rejection, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::BilledAs;
use tollgate_domain::time::UtcMillis;

use super::stage::{Followed, SPACING_MS};
use crate::memory::State;

/// What was seen of an item, of all that must not change at will.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    status: Status,
    stamps: (UtcMillis, UtcMillis, PeriodMonth),
    checkpoint: Option<Checkpoint>,
    rejection: Option<Rejection>,
    quarantines: (u64, Option<UtcMillis>),
}

impl Seen {
    fn of(item: &LedgerItem) -> Self {
        let Quarantine { count, last_at, .. } = item.quarantine;
        Self {
            status: item.status,
            stamps: (item.created_at, item.row_inserted_at, item.period_month),
            checkpoint: item.checkpoint,
            rejection: item.rejection,
            quarantines: (count, last_at),
        }
    }
}

/// The last look at every followed event.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    seen: Vec<Option<Seen>>,
}

impl Watch {
    /// A first look.
    pub(super) fn new(followed: &[Followed], state: &State) -> Self {
        Self { seen: followed.iter().map(|one| state.ledger.get(&one.key).map(Seen::of)).collect() }
    }

    /// Looks again, and tells what must not have happened.
    pub(super) fn look(&mut self, followed: &[Followed], state: &State) -> Result<(), String> {
        for (one, seen) in followed.iter().zip(&mut self.seen) {
            let now = state.ledger.get(&one.key).map(Seen::of);
            if now == *seen {
                continue;
            }
            let told = |what: String| format!("{}: {what}", one.key);
            let Some(now) = now else { return Err(told("the ledger forgot it".to_owned())) };
            if let Some(before) = seen.as_ref() {
                compare(before, &now).map_err(told)?;
            }
            check_new(seen.as_ref(), &now, one, state).map_err(told)?;
            *seen = Some(now);
        }
        self.check_meters(state)?;
        check_last_row(followed, state)
    }

    /// The transaction moves meter and checkpoint together: they agree at every moment.
    fn check_meters(&self, state: &State) -> Result<(), String> {
        let free = |seen: &Seen| seen.checkpoint.is_some_and(|checkpoint| checkpoint.billed_as == BilledAs::Free);
        let charged = self.seen.iter().flatten().filter(|seen| free(seen)).count() as u64;
        let mut counted = 0;
        for ((_, month), count) in &state.meters {
            let of_month =
                self.seen.iter().flatten().filter(|seen| free(seen) && seen.stamps.2 == *month).count() as u64;
            if of_month != *count {
                return Err(breach(
                    Invariant::MeterEqualsCheckpoints,
                    &format!("{month}: {count}, checkpoints {of_month}"),
                ));
            }
            counted += count;
        }
        if counted == charged {
            return Ok(());
        }
        Err(breach(Invariant::MeterEqualsCheckpoints, &format!("all months: {counted}, checkpoints {charged}")))
    }
}

fn breach(invariant: Invariant, detail: &str) -> String {
    format!("{}: {detail}", invariant.id())
}

/// What stood must stand.
fn compare(before: &Seen, now: &Seen) -> Result<(), String> {
    if before.stamps != now.stamps {
        return Err(format!("stamp-changed: {:?} became {:?}", before.stamps, now.stamps));
    }
    if before.checkpoint.is_some() && before.checkpoint != now.checkpoint {
        return Err(format!("stamp-changed: {:?} became {:?}", before.checkpoint, now.checkpoint));
    }
    // Each of these differs from what it was, or the two looks would be equal.
    if before.status.is_terminal() {
        return Err(breach(Invariant::TerminalIsFinal, &format!("{before:?} became {now:?}")));
    }
    let ((count, last_at), (count_now, last_at_now)) = (before.quarantines, now.quarantines);
    if (count, last_at) != (count_now, last_at_now) {
        let spacing = i64::try_from(SPACING_MS).unwrap_or(i64::MAX);
        let apart = last_at.zip(last_at_now).is_none_or(|(last_at, now)| now.ms_since(last_at) >= spacing);
        if count_now != count + 1 || !apart {
            return Err(format!("quarantine-miscounted: {count} at {last_at:?} became {count_now} at {last_at_now:?}"));
        }
    }
    Ok(())
}

/// What is new must be justified as it is written.
fn check_new(before: Option<&Seen>, now: &Seen, one: &Followed, state: &State) -> Result<(), String> {
    let meter = || state.meters.get(&(one.key.space.clone(), now.stamps.2)).copied().unwrap_or_default();
    let was_charged = before.is_some_and(|before| before.checkpoint.is_some());
    if let (Some(checkpoint), false) = (now.checkpoint, was_charged)
        && checkpoint.limit.is_some_and(|limit| meter() > limit.get())
    {
        return Err(breach(Invariant::ConsumedBelowLimit, &format!("{checkpoint:?}, and the meter is {}", meter())));
    }
    if now.checkpoint.is_some() && (now.rejection.is_some() || now.status == Status::Rejected) {
        return Err(breach(Invariant::NeverChargedAndRejected, &format!("{now:?}")));
    }
    if let Some(Rejection { limit_seen: Some(limit), count_seen, .. }) = now.rejection
        && count_seen.is_none_or(|count| count < limit.get() || count > meter())
    {
        return Err(breach(Invariant::RejectedAtLimit, &format!("{:?}, and the meter is {}", now.rejection, meter())));
    }
    if now.status == Status::Uninsertable && now.quarantines.0 < MAX_QUARANTINES {
        return Err(format!("given-up-early: {now:?}"));
    }
    if now.status == Status::Inserted {
        let is_complete = now.checkpoint.is_some()
            && state.objects.contains_key(&one.object)
            && state.events.iter().any(|row| row.event_id == one.key.id.as_str())
            && state.events_billing.iter().any(|row| row.event_id == one.key.id.as_str());
        if !is_complete {
            return Err(breach(Invariant::InsertedIsComplete, &format!("{now:?}")));
        }
    }
    Ok(())
}

/// Rows are only ever added, so the last one tells.
fn check_last_row(followed: &[Followed], state: &State) -> Result<(), String> {
    let Some(row) = state.events.last() else { return Ok(()) };
    let of = followed.iter().find(|one| one.key.id.as_str() == row.event_id);
    match of {
        Some(one) if !state.objects.contains_key(&one.object) => {
            Err(breach(Invariant::RowImpliesArchive, &format!("{}: a row without an archive object", one.key)))
        }
        _ => Ok(()),
    }
}
