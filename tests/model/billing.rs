//! The first step: accept the bill, or reject the event for ever.

use tollgate_domain::ledger::Status;
use tollgate_domain::plan::{BilledAs, RejectedReason};

use super::action::How;
use super::breach::Breach;
use super::mutant::Mutant;
use super::sighting::Sighting;
use super::state::{Item, LimitRead, Rejection, Step};
use super::store::{Answer, Change, Consumption, Store};
use super::turn::Turn;
use super::world::Tier;

const AGAIN: Step = Step::ReadPlan { strong: true };

impl Turn<'_> {
    /// Does the next effect of accepting the bill.
    pub(super) fn bill(&mut self, how: How) {
        match self.held().step {
            Step::ReadPlan { strong } => self.read_plan(strong, how),
            Step::Consume(read) => self.consume(read, how),
            Step::ReadLedger { count, sent } => self.read_ledger(count, sent),
            Step::ReadLimit { count } => self.read_limit(count),
            Step::ReadCount { limit } => {
                let count = self.count();
                self.decide(LimitRead { limit, is_stale: false }, count);
            }
            Step::Stamp(billed_as) => {
                let answer = self.write(Change::Stamp(billed_as));
                if how != How::AnswerLost {
                    self.after_stamp(billed_as, answer);
                }
            }
            Step::Reject { rejection, is_stale } => self.reject(rejection, is_stale, how),
            _ => {}
        }
    }

    /// The space's plan: now, or what a cache remembers of the time before the last change.
    fn plan(&self, how: How) -> Tier {
        let changes = self.state.plan_changes + u8::from(how == How::CacheIsOld);
        self.world.plans[usize::from(changes % 2)]
    }

    fn read_plan(&mut self, strong: bool, how: How) {
        let is_stale = self.plan(how) != self.plan(How::Clean);
        let step = match self.plan(how) {
            Tier::Internal => Step::Stamp(BilledAs::Internal),
            Tier::PlusActive => Step::Stamp(BilledAs::Plus),
            Tier::PlusInactive if strong || self.lacks(Mutant::CachedPlanRejects) => {
                let rejection = Rejection { reason: RejectedReason::PlusInactive, limit_seen: 0, count_seen: 0 };
                Step::Reject { rejection, is_stale }
            }
            Tier::PlusInactive => {
                if is_stale {
                    self.seen.note(Sighting::CacheForgiven);
                }
                AGAIN
            }
            Tier::Free(limit) => Step::Consume(LimitRead { limit, is_stale }),
        };
        self.go(step);
    }

    /// The month that pays: the item's, never the message's and never today's.
    fn month(&self) -> u8 {
        let of_item = self.item().map_or(0, |item| item.month);
        if self.lacks(Mutant::MonthOfNow) { u8::from(self.state.is_next_month) } else { of_item }
    }

    fn count(&self) -> u8 {
        let month = self.month();
        self.state.meter[usize::from(month)]
    }

    fn consume(&mut self, read: LimitRead, how: How) {
        let (event, month) = (self.message().event, self.month());
        let answer = if how == How::Contended {
            Consumption::Cancelled { ledger: None, count: None }
        } else {
            Store { state: self.state, mutant: self.mutant }.consume(event, month, read)
        };
        match answer {
            // No answer: the plan is read again and the same step asked, its own conditions answer.
            _ if how == How::AnswerLost => self.go(AGAIN),
            Consumption::Consumed => {
                if self.message().month != month {
                    self.seen.note(Sighting::RetryPaidOldMonth);
                }
                self.billed(BilledAs::Free);
            }
            Consumption::Cancelled { ledger: Some(image), .. } => {
                let is_rejected = image.status == Status::Rejected;
                self.seen.note(if is_rejected { Sighting::ConsumeRejected } else { Sighting::ConsumePaid });
                self.settle(Some(image));
            }
            Consumption::Cancelled { ledger: None, count } => {
                if count.is_some() {
                    self.seen.note(Sighting::ConsumeAtLimit);
                }
                self.go(Step::ReadLedger { count, sent: read });
            }
        }
    }

    /// The rule of a cancelled transaction, first fact: whether the event is still open and unbilled.
    fn read_ledger(&mut self, count: Option<u8>, sent: LimitRead) {
        let image = self.item();
        if image.is_none_or(|item| item.status != Status::Inserting || item.checkpoint.is_some()) {
            return self.settle(image);
        }
        if self.lacks(Mutant::CancelledMeansExhausted) {
            let count = self.count();
            return self.go(exhausted(sent, count));
        }
        match count {
            Some(count) if self.lacks(Mutant::CachedLimitRejects) => self.decide(sent, count),
            _ => self.go(Step::ReadLimit { count }),
        }
    }

    /// Second fact: the limit, with strong consistency, and the count.
    fn read_limit(&mut self, count: Option<u8>) {
        match (self.plan(How::Clean), count) {
            (Tier::Free(limit), Some(count)) => {
                if count < limit {
                    self.seen.note(Sighting::LimitRaised);
                }
                self.decide(LimitRead { limit, is_stale: false }, count);
            }
            (Tier::Free(limit), None) => self.go(Step::ReadCount { limit }),
            // The plan changed under the event: the new one decides.
            _ => {
                self.seen.note(Sighting::PlanChanged);
                self.go(AGAIN);
            }
        }
    }

    fn decide(&mut self, read: LimitRead, count: u8) {
        if count >= read.limit {
            return self.go(exhausted(read, count));
        }
        self.seen.note(Sighting::ConsumeContended);
        self.go(AGAIN);
    }

    fn after_stamp(&mut self, billed_as: BilledAs, answer: Answer) {
        match answer {
            Answer::Applied => self.billed(billed_as),
            Answer::Refused(image) => {
                let is_rejected = image.is_some_and(|item| item.status == Status::Rejected);
                self.seen.note(if is_rejected { Sighting::StampRejected } else { Sighting::StampPaid });
                self.settle(image);
            }
        }
    }

    fn reject(&mut self, rejection: Rejection, is_stale: bool, how: How) {
        let has_room = rejection.reason == RejectedReason::LimitExhausted && self.count() < rejection.limit_seen;
        match self.write(Change::Reject(rejection)) {
            Answer::Applied => {
                if has_room || is_stale {
                    self.state.breaches.note(Breach::RejectedOnOldFacts);
                }
                if how != How::AnswerLost {
                    self.finish(match rejection.reason {
                        RejectedReason::LimitExhausted => Sighting::VerdictLimitExhausted,
                        RejectedReason::PlusInactive => Sighting::VerdictPlusInactive,
                    });
                }
            }
            Answer::Refused(_) if how == How::AnswerLost => {}
            Answer::Refused(image) => {
                let is_rejected = image.is_some_and(|item| item.status == Status::Rejected);
                self.seen.note(if is_rejected { Sighting::RejectRejected } else { Sighting::RejectPaid });
                self.settle(image);
            }
        }
    }

    /// A checkpoint on an open item is a bill that some attempt paid; anything else is dispatched again.
    fn settle(&mut self, image: Option<Item>) {
        match image {
            Some(Item { status: Status::Inserting, checkpoint: Some(billed_as), .. }) => self.billed(billed_as),
            _ => self.observe_again(image),
        }
    }
}

fn exhausted(read: LimitRead, count: u8) -> Step {
    let rejection = Rejection { reason: RejectedReason::LimitExhausted, limit_seen: read.limit, count_seen: count };
    Step::Reject { rejection, is_stale: read.is_stale }
}
