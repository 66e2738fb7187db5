//! The first step: accept the bill, or reject the event for ever.

use std::ops::ControlFlow::Continue;

use tollgate_domain::ledger::{Checkpoint, LedgerItem, Rejection, Status};
use tollgate_domain::plan::{BilledAs, Limit, Plan, RejectedReason};
use tollgate_domain::ports::{Billing, Clock, Conditional, Consumption, Freshness, Image, Ledger, PortError, Spaces};

use crate::pipeline::Pipeline;
use crate::ports::Ports;
use crate::verdict::{Flow, Outcome, acknowledge};

/// Result of accepting the bill, where it does not end the delivery.
pub(crate) enum Billed {
    /// The checkpoint stands: this one, by this attempt or by another.
    As(Checkpoint),
    /// The event moved on without us.
    Moved(Image),
}

/// What a cancelled transaction turned out to mean.
enum Cancelled {
    /// The item moved, or has its checkpoint: no more to do here.
    Settled(Billed),
    /// The month is full, by these numbers.
    Exhausted(Rejection),
    /// Contention or trouble: nothing is decided.
    Undecided,
}

impl<P: Ports> Pipeline<P> {
    /// Does what the space's plan asks. Plan and limit may come from a short memory in order to accept; before any
    /// rejection they are read again.
    pub(crate) async fn accept_billing(&self, item: &LedgerItem) -> Flow<Billed> {
        let mut freshness = Freshness::Cached;
        let mut attempt = 0;
        loop {
            match (self.plan(item, freshness).await?, freshness) {
                (Plan::Internal, _) => return self.stamp(item, BilledAs::Internal).await,
                (Plan::PlusActive, _) => return self.stamp(item, BilledAs::Plus).await,
                (Plan::PlusInactive, Freshness::Strong) => return self.reject(item, PLUS_INACTIVE).await,
                (Plan::PlusInactive, Freshness::Cached) => {}
                (Plan::Free(limit), _) => match self.consume(item, limit, &mut attempt).await? {
                    Cancelled::Settled(billed) => return Continue(billed),
                    Cancelled::Exhausted(rejection) => return self.reject(item, rejection).await,
                    Cancelled::Undecided => {}
                },
            }
            freshness = Freshness::Strong;
        }
    }

    async fn plan(&self, item: &LedgerItem, freshness: Freshness) -> Flow<Plan> {
        let space = &item.key.space;
        let record = self.persist(|| self.ports.spaces().read(space, freshness)).await?;
        Continue(self.policy.plan_of(space, record.as_ref()))
    }

    /// Stamps the checkpoint of an event that consumes nothing.
    async fn stamp(&self, item: &LedgerItem, billed_as: BilledAs) -> Flow<Billed> {
        let checkpoint = Checkpoint { accepted_at: self.ports.clock().now(), billed_as, limit: None };
        match self.persist(|| self.ports.billing().stamp(&item.key, &checkpoint)).await? {
            Conditional::Applied => Continue(Billed::As(checkpoint)),
            Conditional::Refused(image) => Continue(settled(image)),
        }
    }

    /// Rejects for ever, unless the event was charged or closed in the meantime.
    async fn reject(&self, item: &LedgerItem, rejection: Rejection) -> Flow<Billed> {
        let now = self.ports.clock().now();
        match self.persist(|| self.ports.billing().reject(&item.key, &rejection, now)).await? {
            Conditional::Applied => acknowledge(Outcome::Rejected(rejection.reason)),
            Conditional::Refused(image) => Continue(settled(image)),
        }
    }

    /// Tries the transaction once; what it cancelled for is read from durable state.
    async fn consume(&self, item: &LedgerItem, limit: Limit, attempt: &mut u32) -> Flow<Cancelled> {
        let now = self.ports.clock().now();
        let (ledger, count) = match self.ports.billing().consume(&item.key, item.period_month, limit, now).await {
            Ok(Consumption::Consumed) => {
                let checkpoint = Checkpoint { accepted_at: now, billed_as: BilledAs::Free, limit: Some(limit) };
                return Continue(Cancelled::Settled(Billed::As(checkpoint)));
            }
            Ok(Consumption::Cancelled { ledger, count }) => (ledger, count),
            // Unknown or refused: the same step again, its own conditions answer.
            Err(error) => {
                self.after_failure(attempt, error).await?;
                return Continue(Cancelled::Undecided);
            }
        };
        let cancelled = self.resolve_cancellation(item, ledger, count).await?;
        if let Cancelled::Undecided = cancelled {
            let contended = PortError::Contended("the transaction was cancelled and nothing is decided".to_owned());
            self.after_failure(attempt, contended).await?;
        }
        Continue(cancelled)
    }

    /// The rule of a cancelled transaction: durable state decides, not the error's shape, and a rejection needs both
    /// facts. An image that came with the cancellation is as fresh as a read.
    async fn resolve_cancellation(
        &self,
        item: &LedgerItem,
        ledger: Option<Image>,
        count: Option<u64>,
    ) -> Flow<Cancelled> {
        let image = match ledger {
            Some(image) => image,
            None => self.persist(|| self.ports.ledger().read(&item.key)).await?,
        };
        if !is_undecided(&image) {
            return Continue(Cancelled::Settled(settled(image)));
        }
        let Plan::Free(limit) = self.plan(item, Freshness::Strong).await? else {
            // The plan changed under the event: the new one decides.
            return Continue(Cancelled::Undecided);
        };
        let count = match count {
            Some(count) => count,
            None => self.persist(|| self.ports.billing().count(&item.key.space, item.period_month)).await?,
        };
        if count < limit.get() {
            return Continue(Cancelled::Undecided);
        }
        Continue(Cancelled::Exhausted(Rejection {
            reason: RejectedReason::LimitExhausted,
            limit_seen: Some(limit),
            count_seen: Some(count),
        }))
    }
}

const PLUS_INACTIVE: Rejection = Rejection { reason: RejectedReason::PlusInactive, limit_seen: None, count_seen: None };

/// Neither charged nor closed: what billing may still decide.
fn is_undecided(image: &Image) -> bool {
    matches!(image, Image::Item(item) if item.status == Status::Inserting && item.checkpoint.is_none())
}

/// What the image of a refused billing write means: a checkpoint on an open item is a bill that some attempt paid;
/// anything else is dispatched again.
fn settled(image: Image) -> Billed {
    match &image {
        Image::Item(item) if item.status == Status::Inserting => match item.checkpoint {
            Some(checkpoint) => Billed::As(checkpoint),
            None => Billed::Moved(image),
        },
        _ => Billed::Moved(image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::item;

    #[test]
    fn only_a_bill_on_an_open_item_lets_the_delivery_go_on_and_all_else_is_dispatched_again() {
        for status in Status::ALL {
            for is_charged in [false, true] {
                let goes_on = matches!(settled(item(*status, is_charged)), Billed::As(_));
                assert_eq!(goes_on, *status == Status::Inserting && is_charged, "{status:?} {is_charged}");
            }
        }
        for image in [Image::Absent, Image::Unreadable("of a later version".to_owned())] {
            assert!(matches!(settled(image), Billed::Moved(_)));
        }
    }
}
