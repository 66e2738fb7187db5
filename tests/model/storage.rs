//! The second step: archive, then insert; and what becomes of a row that ClickHouse refuses.

use tollgate_domain::ledger::Status;
use tollgate_domain::plan::BilledAs;

use super::action::How;
use super::mutant::Mutant;
use super::sighting::Sighting;
use super::state::{Item, Step};
use super::store::{Answer, Change};
use super::turn::Turn;

impl Turn<'_> {
    /// Does the next effect of storing.
    pub(super) fn put_away(&mut self, how: How) {
        match self.held().step {
            Step::Archive => self.archive(how),
            Step::Insert => self.insert(how),
            Step::RecordQuarantine => self.record_quarantine(how),
            Step::MarkUninsertable => self.mark_uninsertable(how),
            _ => {}
        }
    }

    fn archive(&mut self, how: How) {
        let (event, object) = (self.event(), self.object());
        match self.state.archive[event] {
            None => self.state.archive[event] = Some(object),
            Some(there) if there == object => self.seen.note(Sighting::ArchivedAlready),
            Some(_) => return self.halt(),
        }
        let is_last = self.lacks(Mutant::InsertBeforeArchive);
        self.go_unless_lost(how, if is_last { Step::MarkInserted } else { Step::Insert });
    }

    fn insert(&mut self, how: How) {
        let (event, object) = (self.event(), self.object());
        if self.state.is_poison[event] {
            return self.go(Step::RecordQuarantine);
        }
        if !self.state.twins[event].is_empty() {
            self.seen.note(Sighting::InsertAgain);
        }
        if self.item().is_some_and(|item| item.status == Status::Uninsertable) {
            self.seen.note(Sighting::LateInsert);
        }
        let billed_as = self.held().checkpoint.unwrap_or(BilledAs::Internal);
        self.state.rows[event].insert(object, billed_as);
        match how {
            // The base row is durable all the same, and the error is one of those that count against the row.
            How::ViewThrows => {
                self.seen.note(Sighting::HalfInsert);
                return self.go(Step::RecordQuarantine);
            }
            // ClickHouse died between the two: no answer, the same step again.
            How::DiesBetween => return self.seen.note(Sighting::HalfInsert),
            _ => self.state.twins[event].insert(object, billed_as),
        }
        let is_first = self.lacks(Mutant::InsertBeforeArchive);
        self.go_unless_lost(how, if is_first { Step::Archive } else { Step::MarkInserted });
    }

    fn record_quarantine(&mut self, how: How) {
        if self.state.is_breaker_open && !self.lacks(Mutant::QuarantineUnderBreaker) {
            return self.hand_back(Sighting::VerdictBreaker);
        }
        let seen = self.held().quarantines;
        let answer = self.write(Change::RecordQuarantine(seen));
        if how == How::AnswerLost {
            return;
        }
        let count = match answer {
            Answer::Applied => seen + 1,
            // Too soon after the last one, or somebody counted first: the stored count decides.
            Answer::Refused(Some(Item { status: Status::Inserting, checkpoint: Some(_), quarantines, .. })) => {
                let is_moved = quarantines != seen;
                self.seen.note(if is_moved { Sighting::QuarantineCounted } else { Sighting::QuarantineTooSoon });
                quarantines
            }
            Answer::Refused(image) => {
                self.seen.note(Sighting::QuarantineClosed);
                return self.observe_again(image);
            }
        };
        if Self::is_last(count) {
            self.go(Step::MarkUninsertable);
        } else {
            self.hand_back(Sighting::VerdictQuarantined);
        }
    }

    fn mark_uninsertable(&mut self, how: How) {
        let answer = self.write(Change::MarkUninsertable);
        match answer {
            _ if how == How::AnswerLost => {}
            Answer::Applied => self.finish(Sighting::VerdictUninsertable),
            Answer::Refused(image) => {
                let is_open = image.is_some_and(|item| item.status == Status::Inserting);
                self.seen.note(if is_open { Sighting::UninsertableTooEarly } else { Sighting::UninsertableClosed });
                self.observe_again(image);
            }
        }
    }
}
