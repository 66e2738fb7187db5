//! Depth first through every choice, by running each schedule again from its beginning.
//!
//! Sleep sets (Godefroid) leave out schedules that differ only in the order of steps that touch nothing in common: a
//! choice that was explored at a place sleeps in the branches of its later siblings until a step wakes it that touches
//! what it touches. Every state that the left-out schedules reach is reached by one that is kept, and every kept one
//! is complete. What is enabled never depends on a step of somebody else that the footprints do not name: moves of
//! the environment stay possible after the last actor is done, and a redelivery is created by its own actor only.

use super::budget::Budget;
use super::choice::{Choice, Possible, path_of};
use super::finish::GoodEnds;
use super::possible::Offer;
use super::reached::Reached;
use super::scheduler::{Phase, Run};
use super::stage::Stage;

/// A place where something can be chosen.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// What is explored here, in this order.
    options: Vec<Possible>,
    /// Which one is being explored.
    at: usize,
    /// What would only repeat others.
    asleep: Vec<Possible>,
}

impl Place {
    fn current(&self) -> Option<&Possible> {
        self.options.get(self.at)
    }

    /// What sleeps behind the current option.
    fn asleep_behind(&self) -> impl Iterator<Item = &Possible> {
        let explored = self.options.iter().take(self.at);
        let stays = |one: &&Possible| self.current().is_none_or(|current| one.is_independent_of(current));
        self.asleep.iter().chain(explored).filter(stays)
    }

    /// Whether some actor can move no more without repeating others: all that it can do sleeps, and nobody is left who
    /// could wake it. No schedule that goes on from here can be completed.
    fn sleeps_for_ever(&self, run: &Run<'_>) -> bool {
        (0..).zip(&run.actors).any(|(who, actor)| {
            let is_its_own = |one: &&Possible| matches!(one.choice, Choice::Actor(of, _) if of == who);
            let sleeps = !matches!(actor.phase, Phase::Done) && !self.options.iter().any(|one| is_its_own(&one));
            sleeps && {
                let writable = run.writable_by_others(who);
                !self.asleep.iter().filter(is_its_own).any(|one| one.print.can_be_changed_by(writable))
            }
        })
    }
}

/// The places at which all schedules of one part of a case begin.
pub(super) type Beginning = Vec<Place>;

/// A schedule on which something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The case and the choices: what `replay` takes.
    pub path: String,
    /// What is wrong.
    pub findings: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  {}", self.path, self.findings.join("\n  "))
    }
}

/// What an exploration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) schedules: u64,
    /// Branches that were left out.
    pub(super) pruned: u64,
    /// Runs that were begun and turned out to repeat others.
    pub(super) repeated: u64,
    pub(super) deepest: usize,
    pub(super) ends: u64,
    pub(super) reached: Reached,
}

impl Tally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.pruned += other.pruned;
        self.repeated += other.repeated;
        self.deepest = self.deepest.max(other.deepest);
        self.ends += other.ends;
        self.reached.merge(other.reached);
    }
}

/// How one run ended.
enum Ended {
    Complete,
    Repeats,
    /// At the depth where the case is parted.
    Parted,
}

/// The exploration of one case, or of a part of it.
pub(super) struct Explorer<'a> {
    stage: &'a Stage,
    budget: Budget,
    places: Vec<Place>,
    /// Places in use; those behind are kept for their memory.
    depth: usize,
    /// Places that are given, and not explored.
    base: usize,
    part_at: usize,
    offer: Offer,
    /// Whether schedules are left out that only reorder others.
    reduces: bool,
    pub(super) good_ends: GoodEnds,
    pub(super) tally: Tally,
    scratch: Vec<Possible>,
}

impl<'a> Explorer<'a> {
    /// All of a case behind `part`.
    pub(super) fn new(stage: &'a Stage, budget: Budget, part: Beginning) -> Self {
        Self {
            stage,
            budget,
            depth: part.len(),
            base: part.len(),
            places: part,
            part_at: usize::MAX,
            offer: Offer::Distinct,
            reduces: true,
            good_ends: GoodEnds::default(),
            tally: Tally::default(),
            scratch: Vec::new(),
        }
    }

    /// All of a case, and nothing left out: what the reductions are measured by.
    #[cfg(test)]
    pub(super) fn naive(stage: &'a Stage, budget: Budget, offer: Offer, reduces: bool) -> Self {
        Self { offer, reduces, ..Self::new(stage, budget, Beginning::new()) }
    }

    /// The parts of a case: the ways to make its first `depth` choices. Shorter schedules are explored on the way.
    pub(super) fn parts(stage: &'a Stage, budget: Budget, depth: usize) -> Result<(Vec<Beginning>, Tally), Failure> {
        let mut explorer = Self { part_at: depth, ..Self::new(stage, budget, Beginning::new()) };
        let mut parts = Vec::new();
        loop {
            if let Ended::Parted = explorer.run()? {
                parts.push(explorer.places.iter().take(explorer.depth).cloned().collect());
            }
            if !explorer.turn() {
                explorer.tally.ends = explorer.good_ends.count();
                return Ok((parts, explorer.tally));
            }
        }
    }

    /// Explores until nothing is left, or until `more` says so after some number of schedules.
    pub(super) fn explore(&mut self, mut more: impl FnMut(&Tally) -> bool) -> Result<(), Failure> {
        loop {
            self.run()?;
            if !self.turn() || !more(&self.tally) {
                self.tally.ends = self.good_ends.count();
                return Ok(());
            }
        }
    }

    /// The next branch; false when all are done.
    fn turn(&mut self) -> bool {
        while self.depth > self.base {
            if let Some(place) = self.places.get_mut(self.depth - 1) {
                place.at += 1;
                if place.at < place.options.len() {
                    return true;
                }
            }
            self.depth -= 1;
        }
        false
    }

    /// One schedule: the places so far, then always the first option.
    fn run(&mut self) -> Result<Ended, Failure> {
        let mut run = Run::start(self.stage, self.budget).map_err(|what| self.failure(vec![what]))?;
        for place in 0..self.depth {
            let choice = self.places.get(place).and_then(Place::current).map(|possible| possible.choice);
            self.step(&mut run, choice)?;
        }
        let ended = loop {
            run.possible(self.offer, &mut self.scratch);
            if self.scratch.is_empty() {
                self.good_ends.finish(&mut run).map_err(|findings| self.failure(findings))?;
                self.tally.schedules += 1;
                break Ended::Complete;
            }
            if self.depth == self.part_at {
                break Ended::Parted;
            }
            if !self.descend(&run) {
                self.tally.repeated += 1;
                break Ended::Repeats;
            }
            let choice = self.places.get(self.depth - 1).and_then(Place::current).map(|possible| possible.choice);
            self.step(&mut run, choice)?;
        };
        self.tally.deepest = self.tally.deepest.max(self.depth);
        self.tally.reached.merge(run.reached);
        Ok(ended)
    }

    /// Makes a place of what is possible now; false when whatever follows would only repeat others.
    fn descend(&mut self, run: &Run<'_>) -> bool {
        if self.places.len() == self.depth {
            self.places.push(Place::default());
        }
        let (before, behind) = self.places.split_at_mut(self.depth);
        let Some(place) = behind.first_mut() else { return false };
        place.at = 0;
        place.asleep.clear();
        place.options.clear();
        let asleep = || before.last().into_iter().flat_map(Place::asleep_behind);
        for one in &self.scratch {
            let sleeps = self.reduces && asleep().any(|asleep| asleep.choice == one.choice);
            // As possible now: what it shares with others may have changed with what is left of the budgets.
            if sleeps { place.asleep.push(*one) } else { place.options.push(*one) }
        }
        self.tally.pruned += place.asleep.len() as u64;
        if place.options.is_empty() || place.sleeps_for_ever(run) {
            return false;
        }
        self.depth += 1;
        true
    }

    fn step(&self, run: &mut Run<'_>, choice: Option<Choice>) -> Result<(), Failure> {
        let choice = choice.ok_or_else(|| self.failure(vec!["a place without a choice".to_owned()]))?;
        run.step(choice).map_err(|what| self.failure(vec![what]))
    }

    fn failure(&self, findings: Vec<String>) -> Failure {
        let choices = self.places.iter().take(self.depth).filter_map(Place::current).map(|possible| possible.choice);
        Failure { path: format!("{}: {}", self.stage.case, path_of(choices)), findings }
    }
}
