//! One schedule: actors that are polled by hand, one step at a time, each step as the choice says.
//!
//! An actor is one delivery in process: the future of the worker's own pipeline, then what its loop does with the
//! verdict. Nothing moves but by a choice, so the same choices are the same schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use tollgate_domain::ledger::Status;
use tollgate_domain::scenario::{Facts, LedgerFact, RowFact};
use tollgate_worker::verdict::{DeadLetter, Verdict};

use super::budget::{Budget, Kind};
use super::case::Move;
use super::choice::{Act, Choice};
use super::lie::Lie;
use super::reached::Reached;
use super::stage::{Delivering, Stage};
use super::watch::Watch;
use crate::memory::{Call, Effect, World};
use crate::snapshot;

/// What an actor does next.
pub(super) enum Phase {
    /// Its message waits to be received.
    Waiting,
    /// It announced this effect.
    Running(Effect),
    /// Its delivery is done; the message is to be deleted.
    Deleting,
    /// No worker can finish it; the message is to be sent to the dead-letter queue, for this reason.
    Sending(String),
    /// Nothing more: deleted, handed back, or dead.
    Done,
}

/// One delivery in process.
pub(super) struct Actor {
    pub(super) message: u8,
    pub(super) event: u8,
    pub(super) phase: Phase,
    /// Nothing has happened yet.
    pub(super) is_fresh: bool,
    delivering: Option<Delivering>,
    /// An effect that fails like this until the worker gives up.
    lasting: Option<(Effect, Act)>,
    /// Whether the last image of its item showed the checkpoint.
    saw_checkpoint: bool,
}

/// A schedule under way.
pub(super) struct Run<'a> {
    pub(super) stage: &'a Stage,
    pub(super) world: World,
    pub(super) actors: Vec<Actor>,
    /// Messages that can be received again, one bit each.
    pub(super) visible: u32,
    pub(super) moves_left: Vec<Move>,
    pub(super) budget: Budget,
    pub(super) watch: Watch,
    pub(super) reached: Reached,
    /// What becomes of the next effect, for the fault plan to read.
    act: Arc<AtomicU8>,
}

impl<'a> Run<'a> {
    /// The beginning: every message waits. Without a move of the clock it makes no difference when a worker receives,
    /// since all that it does before its first effect is to read the clock: then all have received.
    pub(super) fn start(stage: &'a Stage, budget: Budget) -> Result<Self, String> {
        let world = stage.world();
        let act = Arc::new(AtomicU8::new(0));
        let told = Arc::clone(&act);
        world.install(move |_: &Call| {
            let (act, _) = Act::ALL.get(usize::from(told.swap(0, Ordering::Relaxed)))?;
            act.fault()
        });
        world.set_stepping(true);
        let actors =
            stage.messages.iter().zip(0..).map(|(message, number)| Actor::new(number, message.event)).collect();
        let mut run = Self {
            stage,
            watch: world.with(|state| Watch::new(&stage.followed, state)),
            world,
            actors,
            visible: 0,
            moves_left: stage.case.moves.clone(),
            budget,
            reached: Reached::default(),
            act,
        };
        if !run.moves_left.iter().any(|one| matches!(one, Move::MonthEnd | Move::SpacingPasses)) {
            for who in 0..run.actors.len() {
                run.receive(who)?;
            }
        }
        Ok(run)
    }

    /// Makes a choice; the error says what must not have happened.
    pub(super) fn step(&mut self, choice: Choice) -> Result<(), String> {
        match choice {
            Choice::Actor(who, Act::Receive) => self.receive(usize::from(who)),
            Choice::Actor(who, act) => self.act(usize::from(who), act),
            Choice::Again(message) => self.again(message),
            Choice::Move(letter) => self.make_move(letter),
        }
    }

    fn make_move(&mut self, letter: char) -> Result<(), String> {
        let place = self.moves_left.iter().position(|one| one.letter() == letter);
        let one =
            place.map(|place| self.moves_left.remove(place)).ok_or_else(|| format!("no move {letter} is left"))?;
        self.world.with(|state| self.stage.make(one, state));
        Ok(())
    }

    fn again(&mut self, message: u8) -> Result<(), String> {
        let known = self.stage.messages.get(usize::from(message)).filter(|_| self.visible & (1 << message) != 0);
        let event = known.ok_or_else(|| format!("message {message} is not visible"))?.event;
        self.visible &= !(1 << message);
        self.budget.spend(Kind::Again);
        self.actors.push(Actor::new(message, event));
        self.receive(self.actors.len() - 1)
    }

    fn receive(&mut self, who: usize) -> Result<(), String> {
        let actor = self.actors.get_mut(who).filter(|actor| matches!(actor.phase, Phase::Waiting));
        let actor = actor.ok_or_else(|| format!("actor {who} is not waiting"))?;
        let message = self.stage.messages.get(usize::from(actor.message)).ok_or("no such message")?;
        actor.delivering = Some(self.stage.deliver(&self.world, self.stage.lie(), &message.text));
        self.run_on(who)
    }

    fn act(&mut self, who: usize, act: Act) -> Result<(), String> {
        if let Some(kind) = kind_of(act) {
            self.budget.spend(kind);
        }
        let actor = self.actors.get_mut(who).ok_or_else(|| format!("there is no actor {who}"))?;
        actor.is_fresh = false;
        match &actor.phase {
            Phase::Running(effect) => {
                let effect = *effect;
                if act.lasts() {
                    actor.lasting = Some((effect, act));
                }
                self.note_facts(who, effect, act);
                self.tell(act);
                if act.ends_the_worker() {
                    self.die(who, act);
                } else {
                    self.run_on(who)?;
                }
                if effect.is_write() && act.touches_the_world() {
                    return self.world.with(|state| self.watch.look(&self.stage.followed, state));
                }
                Ok(())
            }
            Phase::Deleting => {
                self.finish(who, act == Act::Apply);
                Ok(())
            }
            Phase::Sending(reason) => {
                let reason = reason.clone();
                self.send_dead_letter(who, act, reason);
                Ok(())
            }
            Phase::Waiting | Phase::Done => Err(format!("actor {who} has nothing to do")),
        }
    }

    fn tell(&self, act: Act) {
        let place = Act::ALL.iter().position(|(known, _)| *known == act).unwrap_or_default();
        self.act.store(u8::try_from(place).unwrap_or_default(), Ordering::Relaxed);
    }

    /// The announced effect happens or not, as told; then the worker runs to its next announcement or to its verdict.
    fn run_on(&mut self, who: usize) -> Result<(), String> {
        loop {
            let actor = self.actors.get_mut(who).ok_or("no such actor")?;
            let delivering = actor.delivering.as_mut().ok_or("the actor is gone")?;
            match delivering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(verdict) => {
                    actor.delivering = None;
                    self.settle(who, verdict);
                    return Ok(());
                }
                Poll::Pending => {
                    let call = self.world.announced().ok_or("a future waits for something that is no effect")?;
                    actor.phase = Phase::Running(call.effect);
                    match actor.lasting {
                        Some((effect, act)) if effect == call.effect => self.tell(act),
                        _ => return Ok(()),
                    }
                }
            }
        }
    }

    /// A crash is a dropped future.
    fn die(&mut self, who: usize, act: Act) {
        if act == Act::Stop {
            self.reached.word("stopping");
        }
        if let Some(actor) = self.actors.get_mut(who) {
            if let Some(delivering) = actor.delivering.as_mut() {
                // An effect that still happens does so in this poll, and never answers.
                let _ = delivering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            actor.delivering = None;
        }
        self.finish(who, false);
    }

    /// What the worker's loop does with a verdict. Handing back is no step of its own: when the message is received
    /// again is the scheduler's choice anyway.
    fn settle(&mut self, who: usize, verdict: Verdict) {
        self.reached.verdict(&verdict);
        let next = match verdict {
            Verdict::Acknowledge(_) => Phase::Deleting,
            Verdict::DeadLetter(DeadLetter { reason, .. }) => Phase::Sending(reason),
            Verdict::HandBack(_) => {
                return self.finish(who, self.stage.mutation.lie == Lie::HandedBackMeansDone);
            }
        };
        if let Some(actor) = self.actors.get_mut(who) {
            actor.phase = next;
        }
    }

    fn send_dead_letter(&mut self, who: usize, act: Act, reason: String) {
        let Some(actor) = self.actors.get_mut(who) else { return };
        if act.touches_the_world() {
            let body = self.stage.messages.get(usize::from(actor.message)).map(|message| message.text.to_string());
            let letter = snapshot::DeadLetter { body: body.unwrap_or_default(), reason };
            self.world.with(|state| state.queue.dead_letters.push(letter));
        }
        // Sent first, deleted second.
        actor.phase = Phase::Deleting;
        if act != Act::Apply {
            self.finish(who, false);
        }
    }

    fn finish(&mut self, who: usize, is_deleted: bool) {
        if let Some(actor) = self.actors.get_mut(who) {
            actor.phase = Phase::Done;
            if !is_deleted {
                self.visible |= 1 << actor.message;
            }
        }
    }

    /// The facts that this effect will answer with, for the count of what was reached.
    fn note_facts(&mut self, who: usize, effect: Effect, act: Act) {
        if !matches!(act, Act::Apply | Act::Lag) {
            return;
        }
        let Some(actor) = self.actors.get_mut(who) else { return };
        let Some(followed) = self.stage.followed.get(usize::from(actor.event)) else { return };
        let fingerprint = self.stage.messages.get(usize::from(actor.message)).and_then(|one| one.fingerprint.as_ref());
        let reached = &mut self.reached;
        self.world.with(|state| {
            let item = state.ledger.get(&followed.key);
            if effect == Effect::ProbeRow {
                let same = |event_id: &str| event_id == followed.key.id.as_str();
                let stored = state.events.iter().any(|row| same(&row.event_id))
                    && state.events_billing.iter().any(|row| same(&row.event_id));
                let row = if stored && act != Act::Lag { RowFact::Present } else { RowFact::Absent };
                let ledger = LedgerFact::Found(Status::Inserting);
                return reached.facts(Facts { ledger, checkpoint: actor.saw_checkpoint, row });
            }
            if effect == Effect::Claim {
                match item {
                    None => reached.facts(Facts::JUST_CLAIMED),
                    Some(_) if state.unreadable.contains_key(&followed.key) => reached.lost_claim(None),
                    Some(item) if Some(&item.fingerprint) == fingerprint => reached.lost_claim(Some(item)),
                    Some(_) => {}
                }
            }
            actor.saw_checkpoint = item.is_some_and(|item| item.checkpoint.is_some());
        });
    }
}

impl Actor {
    fn new(message: u8, event: u8) -> Self {
        Self {
            message,
            event,
            phase: Phase::Waiting,
            is_fresh: true,
            delivering: None,
            lasting: None,
            saw_checkpoint: false,
        }
    }
}

/// The kind of fault that an act is, if it is one.
pub(super) fn kind_of(act: Act) -> Option<Kind> {
    Some(match act {
        Act::Receive | Act::Apply => return None,
        Act::NotApplied | Act::AnswerLost | Act::Half => Kind::Lost,
        Act::Throttle | Act::Contend => Kind::Refuse,
        Act::KillBefore | Act::KillAfter | Act::Stop => Kind::Kill,
        Act::Lag => Kind::Lag,
        Act::Outage | Act::Silence | Act::Crowd | Act::Break => Kind::Outage,
    })
}
