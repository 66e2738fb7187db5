//! One delivery, from its text to its verdict.
//!
//! Control flow lives here; [`crate::billing`] and [`crate::storage`] hold the steps that it calls. Every step can run
//! twice: what a previous attempt did is read from durable facts, never guessed.

use std::future::Future;
use std::ops::ControlFlow::Continue;

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{EventKey, LedgerItem, MAX_CONFLICTS_KEPT, NewClaim, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::PlanPolicy;
use tollgate_domain::ports::{Archive, Clock, Conditional, Image, Ledger, PortError, PortResult, Put, Rows};
use tollgate_domain::scenario::{Entry, Facts, LedgerFact, RowFact, Scenario, scenario_for};
use tracing::Instrument as _;

use crate::billing::Billed;
use crate::patience::{ATTEMPTS, Patience};
use crate::ports::Ports;
use crate::storage::Storing;
use crate::verdict::{DeadLetter, Flow, HandBack, Outcome, Verdict, acknowledge, halt, hand_back};

/// Dispatches of one delivery before it is given back: each one means that the facts moved in between, which two or
/// three others can do and a dozen cannot.
const MAX_DISPATCHES: u32 = 8;

/// The pipeline over its ports.
pub struct Pipeline<P> {
    pub(crate) ports: P,
    pub(crate) policy: PlanPolicy,
    /// Milliseconds between two quarantines of one event that both count.
    pub(crate) quarantine_spacing_ms: u64,
}

/// A delivery's event, with what is derived from it computed once.
pub(crate) struct Work {
    pub(crate) key: EventKey,
    pub(crate) event: Event,
    fingerprint: Fingerprint,
    period_month: PeriodMonth,
    submission_id: String,
}

impl Work {
    fn new(envelope: Envelope) -> Self {
        Self {
            key: envelope.key(),
            fingerprint: envelope.event.fingerprint(),
            // Never from now(): a redelivery after midnight on the 1st consumes the old month.
            period_month: PeriodMonth::of(envelope.accepted_at),
            event: envelope.event,
            submission_id: envelope.submission_id,
        }
    }
}

/// The durable facts of an event, and its item where there is a readable one.
struct Observed {
    facts: Facts,
    item: Option<LedgerItem>,
}

/// Where a run ended that did not end the delivery.
pub(crate) enum Step {
    /// The facts moved: dispatch again on this image.
    DispatchAgain(Image),
}

impl<P: Ports> Pipeline<P> {
    /// A pipeline over `ports`.
    pub fn new(ports: P, policy: PlanPolicy, quarantine_spacing_ms: u64) -> Self {
        Self { ports, policy, quarantine_spacing_ms }
    }

    /// Processes one delivery. Total: every text has a verdict.
    pub async fn process_delivery(&self, body: &str) -> Verdict {
        let envelope = match Envelope::decode(body) {
            Ok(envelope) => envelope,
            Err(problems) => {
                // Fields by their first name alone: what is inside of properties is payload.
                let field = |field: &str| field.split(['.', '[']).next().unwrap_or_default().to_owned();
                let told: Vec<String> =
                    problems.iter().take(8).map(|p| format!("{} {}", field(&p.field), p.code)).collect();
                let reason = format!("unparseable message: {}", told.join(", "));
                return Verdict::DeadLetter(DeadLetter { reason, broken: None });
            }
        };
        // Of the highest level: whichever lines are chosen, each tells which request its event came with.
        let span = tracing::error_span!("delivery", traceparent = envelope.trace_parent.as_deref());
        self.decide(Work::new(envelope)).instrument(span).await
    }

    async fn decide(&self, work: Work) -> Verdict {
        let mut scenario = None;
        let verdict = match self.dispatch(&work, &mut scenario).await {
            Flow::Break(verdict) => verdict,
            Continue(()) => Verdict::HandBack(HandBack::Unsettled),
        };
        log_decision(&work, scenario, &verdict);
        verdict
    }

    /// Observes, finds the scenario, runs from there; again while the facts move.
    async fn dispatch(&self, work: &Work, scenario: &mut Option<&'static Scenario>) -> Flow<()> {
        let mut observed = self.observe(work).await?;
        for _ in 0..MAX_DISPATCHES {
            let found = scenario_for(observed.facts);
            *scenario = Some(found);
            let Step::DispatchAgain(image) = self.run_from(found.entry, work, observed).await?;
            observed = self.observe_again(work, image).await?;
        }
        Continue(())
    }

    /// The facts of a first look: claim, and where the claim is lost, whatever won it.
    async fn observe(&self, work: &Work) -> Flow<Observed> {
        let claim = NewClaim {
            key: work.key.clone(),
            fingerprint: work.fingerprint.clone(),
            submission_id: work.submission_id.clone(),
            period_month: work.period_month,
            // Read once: stamps row and archive for ever.
            now: self.ports.clock().now(),
        };
        match self.persist(|| self.ports.ledger().claim(&claim)).await? {
            Conditional::Applied => Continue(Observed { facts: Facts::JUST_CLAIMED, item: Some(claim.into_item()) }),
            Conditional::Refused(image) => self.observe_again(work, image).await,
        }
    }

    /// The facts behind an image that a failed condition handed back.
    async fn observe_again(&self, work: &Work, image: Image) -> Flow<Observed> {
        let item = match image {
            Image::Item(item) => *item,
            Image::Absent => return Continue(Observed::without_item(LedgerFact::Absent)),
            Image::Unreadable(why) => {
                tracing::error!(space = %work.key.space, event_id = %work.key.id, why, "a ledger item cannot be read");
                return Continue(Observed::without_item(LedgerFact::Unreadable));
            }
        };
        // Before the table, in every status: another payload is not a retry.
        if item.fingerprint != work.fingerprint {
            return self.keep_conflict(work, &item).await;
        }
        let row = match item.status {
            Status::Inserting if self.persist(|| self.ports.rows().is_present(&work.key)).await? => RowFact::Present,
            Status::Inserting => RowFact::Absent,
            _ => RowFact::NotAsked,
        };
        Continue(Observed { facts: Facts::found(&item, row), item: Some(item) })
    }

    /// Falls through the steps from `entry` on: accept billing, archive and insert, mark inserted.
    async fn run_from(&self, entry: Entry, work: &Work, observed: Observed) -> Flow<Step> {
        let Some(mut item) = observed.item else {
            return halt(format!("no scenario fits: {:?}", observed.facts), None);
        };
        match entry {
            Entry::Acknowledge => return acknowledge(Outcome::Already(item.status)),
            Entry::Halt => return halt(format!("no scenario fits: {:?}", observed.facts), None),
            Entry::AcceptBilling | Entry::ArchiveAndInsert | Entry::MarkInserted => {}
        }
        if entry <= Entry::AcceptBilling {
            match self.accept_billing(&item).await? {
                Billed::As(checkpoint) => item.checkpoint = Some(checkpoint),
                Billed::Moved(image) => return Continue(Step::DispatchAgain(image)),
            }
        }
        if entry <= Entry::ArchiveAndInsert {
            match self.archive_and_insert(work, &item).await? {
                Storing::Stored => {}
                Storing::Moved(image) => return Continue(Step::DispatchAgain(image)),
            }
        }
        self.mark_inserted(&item.key).await
    }

    /// Closes a stored event. A refusal is looked at: somebody faster is fine, a row that nobody billed is not.
    async fn mark_inserted(&self, key: &EventKey) -> Flow<Step> {
        let marked = self.persist(|| self.ports.ledger().mark_inserted(key, self.ports.clock().now())).await?;
        let Conditional::Refused(image) = marked else {
            return acknowledge(Outcome::Inserted);
        };
        let (status, billed) = match &image {
            Image::Item(item) => (item.status, item.checkpoint.is_some()),
            Image::Absent | Image::Unreadable(_) => return Continue(Step::DispatchAgain(image)),
        };
        match (status, billed) {
            (Status::Inserted, _) => acknowledge(Outcome::Already(Status::Inserted)),
            (Status::Inserting, false) => {
                halt("a row is stored that nobody billed", Some(Invariant::InsertedIsComplete))
            }
            (Status::Rejected, _) => {
                halt("a row is stored of a rejected event", Some(Invariant::NeverChargedAndRejected))
            }
            (Status::Inserting, true) | (Status::Uninsertable, _) => Continue(Step::DispatchAgain(image)),
        }
    }

    /// Same id, other payload: keep it where a person can compare the two, count it, touch nothing else.
    async fn keep_conflict<T>(&self, work: &Work, first: &LedgerItem) -> Flow<T> {
        let object = ArchiveObject::of_conflict(&work.event, &work.key);
        if self.persist(|| self.ports.archive().put(&object)).await? == Put::Different {
            return halt("another payload is archived under this conflict's fingerprint", None);
        }
        let is_known = first.conflicts.contains(&work.fingerprint);
        if is_known || first.conflicts.len() < MAX_CONFLICTS_KEPT {
            let now = self.ports.clock().now();
            let recorded =
                self.persist(|| self.ports.ledger().record_conflict(&work.key, &work.fingerprint, now)).await?;
            if let Conditional::Refused(_) = recorded {
                return halt("the item that a conflict was found on is gone", None);
            }
        }
        tracing::error!(
            space = %work.key.space,
            event_id = %work.key.id,
            first = %first.fingerprint,
            second = %work.fingerprint,
            status = %first.status,
            "an id came with another payload: two pieces of work claim the same identity"
        );
        acknowledge(Outcome::Conflict)
    }

    /// Runs one step until it answers, within the budget. An unknown answer means the same step again: its own
    /// condition tells what the lost one did.
    pub(crate) async fn persist<T, F, Fut>(&self, step: F) -> Flow<T>
    where
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = PortResult<T>> + Send,
        T: Send,
    {
        let mut attempt = 0;
        loop {
            match step().await {
                Ok(answer) => return Continue(answer),
                Err(error) => self.after_failure(&mut attempt, error).await?,
            }
        }
    }

    /// Waits for the next try of a step, or ends the delivery when there is none.
    pub(crate) async fn after_failure(&self, attempt: &mut u32, error: PortError) -> Flow<()> {
        if let PortError::Broken(what) = error {
            return hand_back(HandBack::Broken(what));
        }
        let failed_before = *attempt;
        *attempt += 1;
        if *attempt >= ATTEMPTS {
            return hand_back(HandBack::Trouble(error));
        }
        self.ports.patience().pause(failed_before).await;
        Continue(())
    }
}

impl Observed {
    fn without_item(ledger: LedgerFact) -> Self {
        Self { facts: Facts { ledger, checkpoint: false, row: RowFact::NotAsked }, item: None }
    }
}

/// One line a decision. Texts of errors name operations and codes; no payload is in any field.
fn log_decision(work: &Work, scenario: Option<&Scenario>, verdict: &Verdict) {
    let (space, event_id) = (work.key.space.as_str(), work.key.id.as_str());
    let (number, name) = scenario.map_or((0, "not dispatched"), |scenario| (scenario.number, scenario.name));
    match verdict {
        Verdict::Acknowledge(outcome) => {
            tracing::info!(
                space,
                event_id,
                scenario = number,
                verdict = "acknowledge",
                outcome = outcome.as_str(),
                "{name}"
            );
        }
        Verdict::HandBack(why @ HandBack::Broken(what)) => {
            tracing::error!(
                space,
                event_id,
                scenario = number,
                verdict = "hand_back",
                outcome = why.as_str(),
                what,
                "{name}"
            );
        }
        Verdict::HandBack(why) => {
            let what = if let HandBack::Trouble(error) = why { error.to_string() } else { String::new() };
            tracing::warn!(
                space,
                event_id,
                scenario = number,
                verdict = "hand_back",
                outcome = why.as_str(),
                what,
                "{name}"
            );
        }
        Verdict::DeadLetter(DeadLetter { reason, broken }) => {
            let invariant = broken.map(Invariant::id);
            tracing::error!(space, event_id, scenario = number, verdict = "dead_letter", reason, invariant, "{name}");
        }
    }
}
