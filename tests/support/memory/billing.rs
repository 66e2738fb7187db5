//! The twin of the writes that move money.

use tollgate_domain::ledger::{Checkpoint, EventKey, Rejection, Write};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit};
use tollgate_domain::ports::{Billing, Conditional, Consumption, Image, PortResult};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use super::guard::{stands, status_after};
use super::{Call, Effect, Guard, State, World};

/// Port `Billing` over a [`World`].
#[derive(Clone)]
pub struct MemoryBilling(pub(super) World);

impl State {
    fn stamp(&mut self, key: &EventKey, write: Write, checkpoint: Checkpoint) -> Conditional {
        self.write(
            key,
            write,
            |_| true,
            |item| {
                item.checkpoint = Some(checkpoint);
                item.updated_at = checkpoint.accepted_at;
            },
        )
    }

    /// The transaction: both conditions are checked, and each that fails hands back its own image.
    fn consume(&mut self, key: &EventKey, month: PeriodMonth, checkpoint: Checkpoint, limit: Limit) -> Consumption {
        let meter = (key.space.clone(), month);
        let capped = stands(self.forgotten, Guard::Limit, Write::Consume);
        // No counter yet is room enough whatever the limit: that is the condition's own first half.
        let full = self.meters.get(&meter).copied().filter(|count| capped && *count >= limit.get());
        let open =
            self.ledger.get(key).is_some_and(|item| status_after(self.forgotten, item, Write::Consume).is_some());
        let refused = !open || self.unreadable.contains_key(key);
        if full.is_some() || refused {
            // Where there is no item there is no image: its absence from the answer proves nothing.
            let image = refused.then(|| self.image(key)).filter(|image| *image != Image::Absent);
            return Consumption::Cancelled { ledger: image, count: full };
        }
        self.stamp(key, Write::Consume, checkpoint);
        *self.meters.entry(meter).or_default() += 1;
        Consumption::Consumed
    }
}

impl Billing for MemoryBilling {
    async fn consume(
        &self,
        key: &EventKey,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> PortResult<Consumption> {
        let checkpoint = Checkpoint { accepted_at: now, billed_as: BilledAs::Free, limit: Some(limit) };
        self.0
            .effect_or_contended(
                Call::of(Effect::Consume, key),
                // DynamoDB names no culprit and hands back no image when a transaction lost to another one.
                || Ok(Consumption::Cancelled { ledger: None, count: None }),
                |state, _| Ok(state.consume(key, month, checkpoint, limit)),
            )
            .await
    }

    async fn stamp(&self, key: &EventKey, checkpoint: &Checkpoint) -> PortResult<Conditional> {
        self.0.effect(Call::of(Effect::Stamp, key), |state| Ok(state.stamp(key, Write::Stamp, *checkpoint))).await
    }

    async fn reject(&self, key: &EventKey, rejection: &Rejection, now: UtcMillis) -> PortResult<Conditional> {
        self.0
            .effect(Call::of(Effect::Reject, key), |state| {
                Ok(state.write(
                    key,
                    Write::Reject,
                    |_| true,
                    |item| {
                        item.rejection = Some(*rejection);
                        item.updated_at = now;
                    },
                ))
            })
            .await
    }

    async fn count(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        self.0
            .effect(Effect::ReadCount, |state| {
                Ok(state.meters.get(&(space.clone(), month)).copied().unwrap_or_default())
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Example, example, examples};
    use tollgate_domain::ledger::{LedgerItem, Status};
    use tollgate_domain::plan::RejectedReason;
    use tollgate_domain::ports::{Image, Ledger};

    const REJECTION: Rejection = Rejection { reason: RejectedReason::PlusInactive, limit_seen: None, count_seen: None };

    fn limit(events: u64) -> Limit {
        Limit::new(events).unwrap()
    }

    async fn consume(world: &World, item: &LedgerItem, events: u64) -> Consumption {
        let answer = world.billing().consume(&item.key, item.period_month, limit(events), item.created_at).await;
        answer.unwrap()
    }

    fn image(world: &World, key: &EventKey) -> Image {
        world.with(|state| state.image(key))
    }

    async fn count(world: &World, item: &LedgerItem) -> u64 {
        world.billing().count(&item.key.space, item.period_month).await.unwrap()
    }

    #[tokio::test]
    async fn a_consumption_moves_counter_and_checkpoint_together_up_to_the_limit() {
        let world = World::new();
        let [first, second] = examples();
        for example in [&first, &second] {
            world.ledger().claim(&example.claim).await.unwrap();
        }
        assert_eq!(count(&world, &first.item).await, 0);
        assert_eq!(consume(&world, &first.item, 1).await, Consumption::Consumed);
        assert_eq!(count(&world, &first.item).await, 1);
        let stamped = world.with(|state| state.ledger[&first.item.key].clone());
        let checkpoint =
            Checkpoint { accepted_at: first.item.created_at, billed_as: BilledAs::Free, limit: Some(limit(1)) };
        assert_eq!((stamped.status, stamped.checkpoint), (Status::Inserting, Some(checkpoint)));

        let full = Consumption::Cancelled { ledger: None, count: Some(1) };
        assert_eq!(consume(&world, &second.item, 1).await, full);
        assert_eq!(image(&world, &second.item.key), Image::Item(Box::new(second.item.clone())), "neither moved");
        let both = Consumption::Cancelled { ledger: Some(image(&world, &first.item.key)), count: Some(1) };
        assert_eq!(consume(&world, &first.item, 1).await, both, "each failed half hands back its own image");
    }

    #[tokio::test]
    async fn nothing_is_consumed_twice_after_a_rejection_or_without_a_claim() {
        let (world, Example { item, claim, .. }) = (World::new(), example());
        let absent = Consumption::Cancelled { ledger: None, count: None };
        assert_eq!(consume(&world, &item, 9).await, absent);
        world.ledger().claim(&claim).await.unwrap();
        assert_eq!(consume(&world, &item, 9).await, Consumption::Consumed);
        let charged = Consumption::Cancelled { ledger: Some(image(&world, &item.key)), count: None };
        assert_eq!(consume(&world, &item, 9).await, charged);
        assert_eq!(count(&world, &item).await, 1);

        let world = World::new();
        world.ledger().claim(&claim).await.unwrap();
        world.billing().reject(&item.key, &REJECTION, claim.now).await.unwrap();
        let rejected = Consumption::Cancelled { ledger: Some(image(&world, &item.key)), count: None };
        assert_eq!(consume(&world, &item, 9).await, rejected);
        assert_eq!(count(&world, &item).await, 0);
    }

    #[tokio::test]
    async fn months_have_counters_of_their_own() {
        let (world, Example { item, claim, .. }) = (World::new(), example());
        world.with(|state| state.meters.insert((item.key.space.clone(), item.period_month), 1));
        world.ledger().claim(&claim).await.unwrap();
        let next = item.period_month.next();
        let answer = world.billing().consume(&item.key, next, limit(1), claim.now).await;
        assert_eq!(answer, Ok(Consumption::Consumed));
        assert_eq!(world.billing().count(&item.key.space, next).await, Ok(1));
    }

    #[tokio::test]
    async fn an_event_is_stamped_or_rejected_and_only_once() {
        let Example { item, claim, .. } = example();
        let checkpoint = Checkpoint { accepted_at: claim.now, billed_as: BilledAs::Internal, limit: None };
        for stamped in [true, false] {
            let world = World::new();
            world.ledger().claim(&claim).await.unwrap();
            let first = if stamped {
                world.billing().stamp(&item.key, &checkpoint).await
            } else {
                world.billing().reject(&item.key, &REJECTION, claim.now).await
            };
            assert_eq!(first, Ok(Conditional::Applied));
            let stands = image(&world, &item.key);
            let refused = Ok(Conditional::Refused(stands.clone()));
            assert_eq!(world.billing().stamp(&item.key, &checkpoint).await, refused);
            assert_eq!(world.billing().reject(&item.key, &REJECTION, claim.now).await, refused);
            assert_eq!(image(&world, &item.key), stands);
            let Image::Item(now) = stands else { unreachable!("it was claimed") };
            assert_eq!((now.checkpoint.is_some(), now.rejection.is_some()), (stamped, !stamped));
            assert_eq!(now.status == Status::Rejected, !stamped);
        }
    }
}
