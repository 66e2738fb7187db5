//! The ledger's twin.

use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{
    Attention, EventKey, LedgerItem, MAX_CONFLICTS_KEPT, MAX_QUARANTINES, NewClaim, Status, Write,
};
use tollgate_domain::ports::{Conditional, EventLookup, Image, Ledger, PortResult};
use tollgate_domain::time::UtcMillis;

use super::guard::{stands, status_after};
use super::{Call, Effect, Guard, State, World};

/// Port `Ledger` over a [`World`].
#[derive(Clone)]
pub struct MemoryLedger(pub(super) World);

impl State {
    pub(super) fn image(&self, key: &EventKey) -> Image {
        match (self.unreadable.get(key), self.ledger.get(key)) {
            (Some(why), _) => Image::Unreadable(why.clone()),
            (None, Some(item)) => Image::Item(Box::new(item.clone())),
            (None, None) => Image::Absent,
        }
    }

    /// One conditional update: the protocol's transition, `also` for what that does not know, then `change`.
    pub(super) fn write(
        &mut self,
        key: &EventKey,
        write: Write,
        also: impl FnOnce(&LedgerItem) -> bool,
        change: impl FnOnce(&mut LedgerItem),
    ) -> Conditional {
        let refused = Conditional::Refused(self.image(key));
        let forgotten = self.forgotten;
        let Some(item) = self.ledger.get_mut(key).filter(|_| !self.unreadable.contains_key(key)) else {
            return refused;
        };
        let Some(status) = status_after(forgotten, item, write) else {
            return refused;
        };
        if !also(item) {
            return refused;
        }
        change(item);
        let redriving = write == Write::Reopen || item.attention == Some(Attention::Redriving);
        item.status = status;
        item.attention = open_reason(item, redriving);
        Conditional::Applied
    }
}

/// The highest open reason, from the facts. That a re-drive runs is a fact that only the attribute itself holds.
fn open_reason(item: &LedgerItem, redriving: bool) -> Option<Attention> {
    match item.status {
        Status::Uninsertable => Some(Attention::Uninsertable),
        Status::Inserting if redriving => Some(Attention::Redriving),
        _ => (!item.conflicts.is_empty()).then_some(Attention::Conflict),
    }
}

impl Ledger for MemoryLedger {
    async fn claim(&self, claim: &NewClaim) -> PortResult<Conditional> {
        self.0
            .effect(Call::of(Effect::Claim, &claim.key), |state| {
                let forgets = !stands(state.forgotten, Guard::Whole(Write::Claim), Write::Claim);
                Ok(match state.image(&claim.key) {
                    image if forgets || image == Image::Absent => {
                        state.ledger.insert(claim.key.clone(), claim.clone().into_item());
                        Conditional::Applied
                    }
                    taken => Conditional::Refused(taken),
                })
            })
            .await
    }

    async fn read(&self, key: &EventKey) -> PortResult<Image> {
        self.0.effect(Call::of(Effect::ReadItem, key), |state| Ok(state.image(key))).await
    }

    async fn mark_inserted(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.0
            .effect(Call::of(Effect::MarkInserted, key), |state| {
                Ok(state.write(key, Write::MarkInserted, |_| true, |item| item.updated_at = now))
            })
            .await
    }

    async fn record_quarantine(
        &self,
        key: &EventKey,
        seen: u64,
        spacing_ms: i64,
        error: &str,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        // A first one has none to keep its distance from, also after a re-drive began to count anew.
        let still_seen_and_spaced = |item: &LedgerItem, forgotten: Option<Guard>| {
            let demands = |part| stands(forgotten, part, Write::RecordQuarantine);
            let last_at = item.quarantine.last_at.filter(|_| seen > 0 && demands(Guard::Spacing));
            let still_seen = item.quarantine.count == seen || !demands(Guard::SeenCount);
            still_seen && last_at.is_none_or(|last_at| now.ms_since(last_at) >= spacing_ms)
        };
        self.0
            .effect(Call::of(Effect::RecordQuarantine, key), |state| {
                let forgotten = state.forgotten;
                let also = |item: &LedgerItem| still_seen_and_spaced(item, forgotten);
                Ok(state.write(key, Write::RecordQuarantine, also, |item| {
                    item.quarantine.count = seen + 1;
                    item.quarantine.last_at = Some(now);
                    item.quarantine.last_error = Some(error.to_owned());
                    item.updated_at = now;
                }))
            })
            .await
    }

    async fn mark_uninsertable(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.0
            .effect(Call::of(Effect::MarkUninsertable, key), |state| {
                let demands = stands(state.forgotten, Guard::QuarantineCount, Write::MarkUninsertable);
                let often_enough = |item: &LedgerItem| !demands || item.quarantine.count >= MAX_QUARANTINES;
                Ok(state.write(key, Write::MarkUninsertable, often_enough, |item| item.updated_at = now))
            })
            .await
    }

    async fn record_conflict(
        &self,
        key: &EventKey,
        fingerprint: &Fingerprint,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        self.0
            .effect(Call::of(Effect::RecordConflict, key), |state| {
                Ok(state.write(
                    key,
                    Write::RecordConflict,
                    |_| true,
                    |item| {
                        item.updated_at = now;
                        if item.conflicts.len() < MAX_CONFLICTS_KEPT {
                            item.conflicts.insert(fingerprint.clone());
                        }
                    },
                ))
            })
            .await
    }
}

impl EventLookup for MemoryLedger {
    async fn read_many(&self, keys: &[EventKey]) -> PortResult<Vec<Image>> {
        self.0.effect(Effect::ReadItems, |state| Ok(keys.iter().map(|key| state.image(key)).collect())).await
    }
}

impl World {
    /// The re-drive's write, which no port has: an operator's command makes it.
    pub fn reopen(&self, key: &EventKey, now: UtcMillis) -> Conditional {
        self.with(|state| {
            state.write(
                key,
                Write::Reopen,
                |_| true,
                |item| {
                    item.quarantine.count = 0;
                    item.updated_at = now;
                },
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Example, example};
    use tollgate_domain::ledger::Checkpoint;
    use tollgate_domain::plan::BilledAs;

    const SPACING_MS: i64 = 60_000;

    /// A world with one claimed event, and the checkpoint on it if asked for.
    async fn claimed(checkpoint: bool) -> (World, Example) {
        let (world, example) = (World::new(), example());
        assert_eq!(world.ledger().claim(&example.claim).await, Ok(Conditional::Applied));
        if checkpoint {
            let stamp = Checkpoint { accepted_at: example.claim.now, billed_as: BilledAs::Plus, limit: None };
            world.with(|state| state.ledger.get_mut(&example.item.key).unwrap().checkpoint = Some(stamp));
        }
        (world, example)
    }

    fn item(world: &World, key: &EventKey) -> LedgerItem {
        world.with(|state| state.ledger[key].clone())
    }

    /// What a refusal hands back is the item as it stands.
    fn assert_refused(answer: &PortResult<Conditional>, world: &World, key: &EventKey) {
        assert_eq!(*answer, Ok(Conditional::Refused(world.with(|state| state.image(key)))));
    }

    #[tokio::test]
    async fn the_first_claim_wins_and_the_loser_sees_the_winner_s_item() {
        let (world, Example { claim, .. }) = claimed(false).await;
        let late = NewClaim { submission_id: "other".to_owned(), now: claim.now.saturating_add_ms(5), ..claim.clone() };
        let won = Image::Item(Box::new(claim.clone().into_item()));
        assert_eq!(world.ledger().claim(&late).await, Ok(Conditional::Refused(won.clone())));
        assert_eq!(world.ledger().read(&claim.key).await, Ok(won));
    }

    #[tokio::test]
    async fn what_is_not_there_is_absent_and_refuses_every_update() {
        let (world, Example { item, claim, .. }) = (World::new(), example());
        let (ledger, key, now) = (world.ledger(), &item.key, claim.now);
        assert_eq!(ledger.read(key).await, Ok(Image::Absent));
        assert_refused(&ledger.mark_inserted(key, now).await, &world, key);
        assert_refused(&ledger.record_quarantine(key, 0, 0, "", now).await, &world, key);
        assert_refused(&ledger.mark_uninsertable(key, now).await, &world, key);
        assert_refused(&ledger.record_conflict(key, &item.fingerprint, now).await, &world, key);
        assert_eq!(world.reopen(key, now), Conditional::Refused(Image::Absent));
        assert!(world.with(|state| state.ledger.is_empty()));
    }

    #[tokio::test]
    async fn an_unreadable_item_refuses_the_claim_and_every_update() {
        let (world, Example { claim, .. }) = claimed(true).await;
        world.with(|state| state.unreadable.insert(claim.key.clone(), "version 9".to_owned()));
        let unreadable = Conditional::Refused(Image::Unreadable("version 9".to_owned()));
        assert_eq!(world.ledger().claim(&claim).await, Ok(unreadable.clone()));
        assert_eq!(world.ledger().mark_inserted(&claim.key, claim.now).await, Ok(unreadable));
        assert_eq!(item(&world, &claim.key).status, Status::Inserting);
    }

    #[tokio::test]
    async fn mark_inserted_demands_the_stored_checkpoint_and_happens_once() {
        let (world, Example { claim, .. }) = claimed(false).await;
        assert_refused(&world.ledger().mark_inserted(&claim.key, claim.now).await, &world, &claim.key);
        let (world, Example { claim, .. }) = claimed(true).await;
        assert_eq!(world.ledger().mark_inserted(&claim.key, claim.now).await, Ok(Conditional::Applied));
        assert_eq!(item(&world, &claim.key).status, Status::Inserted);
        assert_refused(&world.ledger().mark_inserted(&claim.key, claim.now).await, &world, &claim.key);
    }

    #[tokio::test]
    async fn a_quarantine_is_counted_once_as_seen_spaced_and_after_billing_only() {
        let (world, Example { claim, .. }) = claimed(false).await;
        let (key, start) = (&claim.key, claim.now);
        assert_refused(&world.ledger().record_quarantine(key, 0, SPACING_MS, "27", start).await, &world, key);

        let (world, _) = claimed(true).await;
        let quarantine = |seen, at_ms| {
            let ledger = world.ledger();
            async move { ledger.record_quarantine(key, seen, SPACING_MS, "27", start.saturating_add_ms(at_ms)).await }
        };
        assert_refused(&quarantine(1, 0).await, &world, key);
        assert_eq!(quarantine(0, 0).await, Ok(Conditional::Applied));
        assert_refused(&quarantine(0, SPACING_MS * 2).await, &world, key);
        assert_refused(&quarantine(1, SPACING_MS - 1).await, &world, key);
        assert_eq!(quarantine(1, SPACING_MS).await, Ok(Conditional::Applied));
        let kept = item(&world, key).quarantine;
        assert_eq!((kept.count, kept.last_error.as_deref()), (2, Some("27")));
        assert_eq!(kept.last_at, Some(start.saturating_add_ms(SPACING_MS)));
    }

    #[tokio::test]
    async fn an_event_is_given_up_after_enough_quarantines_and_only_a_redrive_brings_it_back() {
        let (world, Example { claim, .. }) = claimed(true).await;
        let (ledger, key, now) = (world.ledger(), &claim.key, claim.now);
        for seen in 0..MAX_QUARANTINES {
            assert_refused(&ledger.mark_uninsertable(key, now).await, &world, key);
            assert_eq!(ledger.record_quarantine(key, seen, 0, "27", now).await, Ok(Conditional::Applied));
        }
        assert!(matches!(world.reopen(key, now), Conditional::Refused(_)));
        assert_eq!(ledger.mark_uninsertable(key, now).await, Ok(Conditional::Applied));
        assert_eq!(item(&world, key).attention, Some(Attention::Uninsertable));
        assert_refused(&ledger.mark_inserted(key, now).await, &world, key);

        assert_eq!(world.reopen(key, now), Conditional::Applied);
        let reopened = item(&world, key);
        assert_eq!((reopened.status, reopened.quarantine.count), (Status::Inserting, 0));
        assert_eq!(reopened.attention, Some(Attention::Redriving));
        assert!(reopened.checkpoint.is_some(), "a re-drive can never bill");
        assert!(matches!(world.reopen(key, now), Conditional::Refused(_)), "two operators");
        assert_refused(&ledger.mark_uninsertable(key, now).await, &world, key);
        let anew = ledger.record_quarantine(key, 0, SPACING_MS, "27", now).await;
        assert_eq!(anew, Ok(Conditional::Applied), "counted anew, without a spacing to the time before");
        assert_eq!(ledger.mark_inserted(key, now).await, Ok(Conditional::Applied));
        assert_eq!(item(&world, key).attention, None);
    }

    #[tokio::test]
    async fn conflicts_are_a_bounded_set_and_raise_attention_below_a_redrive() {
        let (world, Example { claim, .. }) = claimed(true).await;
        let (ledger, key) = (world.ledger(), &claim.key);
        let other = |n: usize| Fingerprint::parse(&format!("{n:064x}")).unwrap();
        for later_ms in [1, 2] {
            let now = claim.now.saturating_add_ms(later_ms);
            assert_eq!(ledger.record_conflict(key, &other(0), now).await, Ok(Conditional::Applied));
        }
        assert_eq!(item(&world, key).conflicts.len(), 1);
        assert_eq!(item(&world, key).updated_at, claim.now.saturating_add_ms(2), "a repeat is seen, and counted once");
        assert_eq!(item(&world, key).attention, Some(Attention::Conflict));
        for n in 1..=MAX_CONFLICTS_KEPT {
            assert_eq!(ledger.record_conflict(key, &other(n), claim.now).await, Ok(Conditional::Applied));
        }
        assert_eq!(item(&world, key).conflicts.len(), MAX_CONFLICTS_KEPT);
        world.with(|state| state.ledger.get_mut(key).unwrap().attention = Some(Attention::Redriving));
        ledger.record_conflict(key, &other(0), claim.now).await.unwrap();
        assert_eq!(item(&world, key).attention, Some(Attention::Redriving));
        ledger.mark_inserted(key, claim.now).await.unwrap();
        assert_eq!(item(&world, key).attention, Some(Attention::Conflict));
    }
}
