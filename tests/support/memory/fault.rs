//! Faults: what can go wrong with an effect, and who decides that it does.

use std::ops::RangeInclusive;

use tollgate_domain::ports::PortError;

use super::{Call, Effect};

/// What goes wrong with one call of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the caller is told this error.
    NotApplied(PortError),
    /// It happens, and the caller is told that no answer came.
    AppliedAnswerLost,
    /// Nothing happens because of somebody else: a consume is cancelled without images, any other call is contended.
    Contended,
    /// The caller dies before it happens: the future never resolves, dropping it is the crash.
    KilledBefore,
    /// It happens, and the caller dies before it learns: the future never resolves, dropping it is the crash.
    KilledAfter,
    /// Half of it happens. Of rows: the base rows without their twins, and the answer is lost. Of deletions and
    /// extensions: the first half of the batch, and the rest comes back as not proven.
    Partly,
    /// The probe does not see the row yet.
    ProbeLags,
}

impl Fault {
    /// Whether an effect can fail in this way.
    pub fn fits(&self, effect: Effect) -> bool {
        match self {
            Self::Partly => matches!(effect, Effect::InsertRows | Effect::Delete | Effect::SetVisibility),
            Self::ProbeLags => effect == Effect::ProbeRow,
            _ => true,
        }
    }
}

/// Decides what goes wrong; asked once for each call, right before it happens.
pub trait FaultPlan: Send {
    /// The fault of this call, if it has one.
    fn fault(&mut self, call: &Call) -> Option<Fault>;
}

impl<F: FnMut(&Call) -> Option<Fault> + Send> FaultPlan for F {
    fn fault(&mut self, call: &Call) -> Option<Fault> {
        self(call)
    }
}

/// Nothing goes wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl FaultPlan for NoFaults {
    fn fault(&mut self, _: &Call) -> Option<Fault> {
        None
    }
}

/// Faults by effect and by the number of its call, counted from 1 since the script was installed.
#[derive(Debug, Clone, Default)]
pub struct Script {
    lines: Vec<(Effect, RangeInclusive<u64>, Fault)>,
    calls: std::collections::BTreeMap<Effect, u64>,
}

impl Script {
    /// A script without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the calls of `effect` with these numbers a fault. Of two lines for one call the first one holds.
    ///
    /// # Panics
    /// When the effect cannot fail in this way: such a line would never test anything.
    #[must_use]
    pub fn on(mut self, effect: Effect, calls: RangeInclusive<u64>, fault: Fault) -> Self {
        assert!(fault.fits(effect), "{effect} cannot fail as {fault:?}");
        self.lines.push((effect, calls, fault));
        self
    }
}

impl FaultPlan for Script {
    fn fault(&mut self, call: &Call) -> Option<Fault> {
        let number = self.calls.entry(call.effect).or_default();
        *number += 1;
        let line = self.lines.iter().find(|(effect, calls, _)| *effect == call.effect && calls.contains(number));
        line.map(|(_, _, fault)| fault.clone())
    }
}
