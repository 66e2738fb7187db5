//! One step of one worker: the pipeline of the protocol, an effect at a time.

use tollgate_domain::ledger::Status;
use tollgate_domain::plan::BilledAs;
use tollgate_domain::scenario::{Entry, Facts, LedgerFact, RowFact, scenario_for};

use super::action::How;
use super::breach::Breach;
use super::mutant::Mutant;
use super::sighting::{Sighting, Sightings};
use super::state::{Item, Object, State, Step, Worker};
use super::store::{Answer, Change, MAX, Store};
use super::world::{Message, World};

/// A worker's step in the making.
pub(super) struct Turn<'a> {
    /// The world's constants.
    pub(super) world: &'a World,
    /// What is taken away.
    pub(super) mutant: Option<Mutant>,
    /// The state, before and after.
    pub(super) state: &'a mut State,
    /// What is seen on the way.
    pub(super) seen: &'a mut Sightings,
    /// Whose step.
    pub(super) worker: usize,
}

impl Turn<'_> {
    /// Does the worker's next effect, as `how` says.
    pub(super) fn act(&mut self, how: How) {
        match self.held().step {
            Step::Idle => {}
            Step::Claim => self.claim(how),
            Step::Probe => self.probe(how),
            Step::ReadPlan { .. }
            | Step::Consume(_)
            | Step::ReadLedger { .. }
            | Step::ReadLimit { .. }
            | Step::ReadCount { .. }
            | Step::Stamp(_)
            | Step::Reject { .. } => self.bill(how),
            Step::Archive | Step::Insert | Step::RecordQuarantine | Step::MarkUninsertable => self.put_away(how),
            Step::MarkInserted => self.mark_inserted(how),
            Step::KeepConflict => {
                let event = self.event();
                self.state.is_conflict_kept[event] = true;
                self.go_unless_lost(how, Step::RecordConflict);
            }
            Step::RecordConflict => self.record_conflict(how),
            Step::Acknowledge => self.acknowledge(how),
        }
    }

    pub(super) fn lacks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// What the worker holds.
    pub(super) fn held(&self) -> &Worker {
        &self.state.workers[self.worker]
    }

    pub(super) fn hand(&mut self) -> &mut Worker {
        &mut self.state.workers[self.worker]
    }

    /// The message that the worker works on.
    pub(super) fn message(&self) -> Message {
        self.world.messages[usize::from(self.held().message)]
    }

    /// The event that it is about.
    pub(super) fn event(&self) -> usize {
        usize::from(self.message().event)
    }

    /// The event's ledger item, as it is now.
    pub(super) fn item(&self) -> Option<Item> {
        self.state.ledger[self.event()]
    }

    pub(super) fn go(&mut self, step: Step) {
        self.hand().step = step;
    }

    pub(super) fn go_unless_lost(&mut self, how: How, step: Step) {
        // No answer: the same step again, its own condition tells what the lost one did.
        if how != How::AnswerLost {
            self.go(step);
        }
    }

    pub(super) fn write(&mut self, change: Change) -> Answer {
        let event = self.message().event;
        Store { state: self.state, mutant: self.mutant }.write(event, change)
    }

    fn claim(&mut self, how: How) {
        let Message { payload, month, .. } = self.message();
        // A clock read by every delivery: only the claim's reading may ever reach row and archive.
        let stamp = u8::from(self.item().is_some());
        let answer = self.write(Change::Claim(Item::claimed(payload, month, stamp)));
        match answer {
            _ if how == How::AnswerLost => {}
            Answer::Applied => {
                self.hand().stamp = stamp;
                self.dispatch(Facts::JUST_CLAIMED);
            }
            Answer::Refused(image) => {
                if image.is_some_and(|item| item.status == Status::Inserting && item.payload == payload) {
                    self.seen.note(Sighting::ClaimLost);
                }
                self.observe_again(image);
            }
        }
    }

    /// Dispatches on an image that a failed condition handed back.
    pub(super) fn observe_again(&mut self, image: Option<Item>) {
        let Some(item) = image else {
            return self.dispatch(Facts { ledger: LedgerFact::Absent, ..Facts::JUST_CLAIMED });
        };
        if !item.is_readable {
            return self.dispatch(Facts { ledger: LedgerFact::Unreadable, ..Facts::JUST_CLAIMED });
        }
        // Before the table, in every status: another payload is not a retry.
        if item.payload != self.message().payload && !self.lacks(Mutant::FingerprintIgnored) {
            return self.go(Step::KeepConflict);
        }
        let stamp = if self.lacks(Mutant::StampOfNow) { 1 } else { item.stamp };
        let hand = self.hand();
        (hand.checkpoint, hand.quarantines, hand.stamp) = (item.checkpoint, item.quarantines, stamp);
        if item.status == Status::Inserting {
            self.go(Step::Probe);
        } else {
            let checkpoint = item.checkpoint.is_some();
            self.dispatch(Facts { ledger: LedgerFact::Found(item.status), checkpoint, row: RowFact::NotAsked });
        }
    }

    fn probe(&mut self, how: How) {
        let event = self.event();
        let has_twin = !self.state.twins[event].is_empty() || self.lacks(Mutant::ProbeOfOneTable);
        let is_present = !self.state.rows[event].is_empty() && has_twin && how != How::ProbeLags;
        let checkpoint = self.held().checkpoint.is_some();
        if is_present && !checkpoint && self.item().is_some_and(|item| item.checkpoint.is_some()) {
            self.seen.note(Sighting::RowBeforeCheckpoint);
        }
        let row = if is_present { RowFact::Present } else { RowFact::Absent };
        let checkpoint = checkpoint && !self.lacks(Mutant::CheckpointIgnored);
        self.dispatch(Facts { ledger: LedgerFact::Found(Status::Inserting), checkpoint, row });
    }

    /// Finds the scenario and enters the steps where it says.
    fn dispatch(&mut self, facts: Facts) {
        let scenario = scenario_for(facts);
        self.seen.note(Sighting::ALL[usize::from(scenario.number) - 1]);
        match scenario.entry {
            Entry::AcceptBilling => {
                if self.held().checkpoint.is_some() {
                    self.state.breaches.note(Breach::BilledAgain);
                }
                self.go(Step::ReadPlan { strong: false });
            }
            Entry::ArchiveAndInsert => self.store(),
            Entry::MarkInserted => self.go(Step::MarkInserted),
            Entry::Acknowledge => {
                self.finish(match facts.ledger {
                    LedgerFact::Found(Status::Rejected) => Sighting::VerdictAlreadyRejected,
                    LedgerFact::Found(Status::Uninsertable) => Sighting::VerdictAlreadyUninsertable,
                    _ => Sighting::VerdictAlreadyInserted,
                });
            }
            Entry::Halt => self.halt(),
        }
    }

    /// The checkpoint stands: enters storing.
    pub(super) fn billed(&mut self, billed_as: BilledAs) {
        self.hand().checkpoint = Some(billed_as);
        self.store();
    }

    fn store(&mut self) {
        let first = if self.lacks(Mutant::InsertBeforeArchive) { Step::Insert } else { Step::Archive };
        self.go(first);
    }

    fn mark_inserted(&mut self, how: How) {
        let answer = self.write(Change::MarkInserted);
        if how == How::AnswerLost {
            return;
        }
        let Answer::Refused(image) = answer else {
            return self.finish(Sighting::VerdictInserted);
        };
        match image.map(|item| (item.status, item.checkpoint.is_some())) {
            Some((Status::Inserted, _)) => {
                self.seen.note(Sighting::InsertedAlready);
                self.finish(Sighting::VerdictAlreadyInserted);
            }
            Some((Status::Inserting, false)) => {
                self.seen.note(Sighting::InsertedUnbilled);
                self.halt();
            }
            Some((Status::Rejected, _)) => self.halt(),
            Some((Status::Uninsertable, _)) => {
                self.seen.note(Sighting::InsertedUninsertable);
                self.observe_again(image);
            }
            _ => self.observe_again(image),
        }
    }

    fn record_conflict(&mut self, how: How) {
        if self.item().is_some_and(|item| item.conflicts > 0) {
            self.seen.note(Sighting::ConflictAgain);
        }
        self.write(Change::RecordConflict);
        if how != How::AnswerLost {
            self.finish(Sighting::VerdictConflict);
        }
    }

    /// Ends the delivery with an acknowledgement; what the worker had in memory is not asked any more.
    pub(super) fn finish(&mut self, verdict: Sighting) {
        self.seen.note(verdict);
        let message = self.held().message;
        *self.hand() = Worker { message, step: Step::Acknowledge, ..Worker::IDLE };
    }

    fn acknowledge(&mut self, how: How) {
        let (event, Message { payload, .. }) = (self.event(), self.message());
        let is_conflict = self.item().is_some_and(|item| item.payload != payload);
        let is_kept = self.state.is_conflict_kept[event] && self.item().is_some_and(|item| item.conflicts > 0);
        if is_conflict && !is_kept {
            self.state.breaches.note(Breach::ConflictForgotten);
        }
        let message = usize::from(self.held().message);
        // A delete that is lost costs a redelivery.
        self.state.waiting[message] += u8::from(how == How::AnswerLost);
        *self.hand() = Worker::IDLE;
    }

    /// Ends the delivery: the queue delivers it again.
    pub(super) fn hand_back(&mut self, verdict: Sighting) {
        self.seen.note(verdict);
        let message = usize::from(self.held().message);
        self.state.waiting[message] += 1;
        *self.hand() = Worker::IDLE;
    }

    /// Ends the delivery: the dead-letter queue, and an alarm.
    pub(super) fn halt(&mut self) {
        self.seen.note(Sighting::VerdictHalted);
        if !self.world.past.halts() {
            self.state.breaches.note(Breach::Halted);
        }
        let message = usize::from(self.held().message);
        self.state.is_dead[message] = true;
        *self.hand() = Worker::IDLE;
    }

    /// The archived object of this delivery, under the stamp that the worker holds.
    pub(super) fn object(&self) -> Object {
        Object { payload: self.message().payload, stamp: self.held().stamp }
    }

    /// Whether one more refusal reaches the last one.
    pub(super) fn is_last(count: u8) -> bool {
        count >= MAX
    }
}
