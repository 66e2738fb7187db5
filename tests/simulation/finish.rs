//! How every schedule ends: faults stop, what is left is redelivered until the queue is empty, and the auditor looks.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate_worker::verdict::Verdict;

use super::case::{Part, Twist};
use super::lie::Lie;
use super::scheduler::{Phase, Run};
use super::stage::at_once;
use crate::auditor::{audit, audit_change};
use crate::memory::{NoFaults, State};
use crate::snapshot::{DeadLetter, Snapshot};

/// Clean deliveries of one message after which it should long have been settled: three quarantines and some.
const MAX_DELIVERIES: usize = 6;

/// The ends that were found to be good. What follows on an end depends on its facts and on nothing else, so equal
/// ends are redelivered and audited once.
#[derive(Default)]
pub(super) struct GoodEnds {
    hashes: HashSet<u64>,
}

impl GoodEnds {
    /// Redelivers and audits, unless this end is known to be good.
    pub(super) fn finish(&mut self, run: &mut Run<'_>) -> Result<(), Vec<String>> {
        let hash = run.world.with(|state| hash_of(state, run.visible));
        if !self.hashes.insert(hash) {
            return Ok(());
        }
        finish(run)
    }

    /// How many different ends there were.
    pub(super) fn count(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// The ends, by their hashes.
    #[cfg(test)]
    pub(super) fn hashes(&self) -> &HashSet<u64> {
        &self.hashes
    }
}

/// Everything that a redelivery or the auditor can see. Plans and poison depend on the moves that were made, which
/// are all of them in the end; which one came last shows in the spaces and in the poison.
fn hash_of(state: &State, visible: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    visible.hash(&mut hasher);
    state.now.hash(&mut hasher);
    state.ledger.hash(&mut hasher);
    state.meters.hash(&mut hasher);
    state.objects.hash(&mut hasher);
    state.events.hash(&mut hasher);
    for twin in &state.events_billing {
        (&twin.space, &twin.event_id, twin.quantity, twin.row_inserted_at_ms).hash(&mut hasher);
        (&twin.period_month, &twin.billed_as).hash(&mut hasher);
    }
    let spaces = state.spaces.values().map(Some).chain(state.remembered_spaces.values().map(Option::as_ref));
    for entry in spaces.flatten() {
        (entry.subscription.as_str(), entry.monthly_limit).hash(&mut hasher);
    }
    state.remembered_spaces.len().hash(&mut hasher);
    (&state.poison, state.view_throws, &state.unreadable).hash(&mut hasher);
    for DeadLetter { body, reason } in &state.queue.dead_letters {
        (body, reason).hash(&mut hasher);
    }
    hasher.finish()
}

/// Redelivers until nothing is left, and audits; then each message comes once more, as at least once allows, and
/// nothing may change. Not the other way round: a late double would mend what was acknowledged too early.
pub(super) fn finish(run: &mut Run<'_>) -> Result<(), Vec<String>> {
    run.world.set_stepping(false);
    run.world.install(NoFaults);
    // Whoever is still at it dies: only a path that was cut short has any.
    let unfinished = run.actors.iter().filter(|actor| !matches!(actor.phase, Phase::Done));
    let visible = unfinished.fold(run.visible, |bits, actor| bits | 1 << actor.message);
    let is_left = |message: &usize| visible & (1 << message) != 0;
    let mut queue: VecDeque<usize> = (0..run.stage.messages.len()).filter(is_left).collect();
    if run.stage.case.twist == Twist::Unreadable {
        // An operator mends the item and sends the dead letters again.
        let letters = run.world.with(|state| {
            state.unreadable.clear();
            std::mem::take(&mut state.queue.dead_letters)
        });
        let number_of =
            |letter: DeadLetter| run.stage.messages.iter().position(|message| *message.text == *letter.body);
        queue.extend(letters.into_iter().filter_map(number_of));
    }
    run.world.with(|state| state.view_throws = false);
    empty(run, queue)?;
    let settled = audited(run)?;
    empty(run, (0..run.stage.messages.len()).collect())?;
    let doubled = audited(run)?;
    let changes = audit_change(&settled, &doubled, &BTreeSet::new());
    if changes.is_empty() { Ok(()) } else { Err(changes.iter().map(ToString::to_string).collect()) }
}

/// Delivers what is in the queue until nothing is.
fn empty(run: &mut Run<'_>, mut queue: VecDeque<usize>) -> Result<(), Vec<String>> {
    let most = MAX_DELIVERIES * (queue.len() + 1);
    for _ in 0..most {
        let Some(message) = queue.pop_front() else { return Ok(()) };
        if let Some(rest_ms) = deliver(run, message).map_err(|what| vec![what])? {
            run.world.advance_ms(i64::try_from(rest_ms).unwrap_or(i64::MAX));
            queue.push_back(message);
        }
    }
    if queue.is_empty() {
        return Ok(());
    }
    Err(vec![format!("never-settles: {} messages are left after {most} clean deliveries", queue.len())])
}

/// The facts, when nothing is wrong with them.
fn audited(run: &Run<'_>) -> Result<Snapshot, Vec<String>> {
    let snapshot = run.world.snapshot();
    let mut findings: Vec<String> =
        audit(&run.stage.sent, &run.stage.plans, &snapshot).iter().map(ToString::to_string).collect();
    if run.stage.case.cast.contains(&Part::Garbage) && snapshot.dead_letters.is_empty() {
        findings.push("lost: what cannot be parsed is not in the dead-letter queue".to_owned());
    }
    if findings.is_empty() { Ok(snapshot) } else { Err(findings) }
}

/// One clean delivery; for a message that is handed back, how long it rests.
fn deliver(run: &mut Run<'_>, message: usize) -> Result<Option<u64>, String> {
    let Some(text) = run.stage.messages.get(message).map(|message| &message.text) else { return Ok(None) };
    let verdict = at_once(run.stage.deliver(&run.world, run.stage.mutation.lie, text));
    run.reached.verdict(&verdict);
    run.world.with(|state| run.watch.look(&run.stage.followed, state))?;
    Ok(match verdict {
        Verdict::Acknowledge(_) => None,
        Verdict::HandBack(_) if run.stage.mutation.lie == Lie::HandedBackMeansDone => None,
        Verdict::HandBack(why) => Some(why.rest_ms()),
        Verdict::DeadLetter(letter) => {
            let letter = DeadLetter { body: text.to_string(), reason: letter.reason };
            run.world.with(|state| state.queue.dead_letters.push(letter));
            None
        }
    })
}
