//! Everything that a world stores, each fact with the one space whose it is.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_domain::envelope::Envelope;
use tollgate_domain::receipt::CommandReceipt;
use tollgate_tests::memory::State;

/// One stored fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fact {
    /// What of.
    pub(crate) kind: &'static str,
    /// Its name within the space.
    pub(crate) name: String,
    /// All of it.
    pub(crate) text: String,
}

impl Fact {
    /// Its name, if it is of this kind.
    pub(crate) fn name_within(&self, kind: &str) -> Option<String> {
        (self.kind == kind).then(|| self.name.clone())
    }
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.name, self.text)
    }
}

/// The facts of every space by its name; what belongs to nobody stands under the empty name.
///
/// Of rows, repeats fold as readers fold them.
pub(crate) fn facts_of(state: &State) -> BTreeMap<String, BTreeSet<Fact>> {
    let mut facts: BTreeMap<String, BTreeSet<Fact>> = BTreeMap::new();
    let mut add = |space: &str, kind, name: &str, text: String| {
        facts.entry(space.to_owned()).or_default().insert(Fact { kind, name: name.to_owned(), text });
    };
    for (key, item) in &state.ledger {
        let kind = if item.conflicts.is_empty() { "ledger" } else { "conflict" };
        add(key.space.as_str(), kind, key.id.as_str(), format!("{item:?}"));
    }
    for ((space, month), count) in &state.meters {
        add(space.as_str(), "meter", &month.to_string(), count.to_string());
    }
    for (space, record) in &state.spaces {
        add(space.as_str(), "plan", "", format!("{record:?}"));
    }
    for (hash, record) in &state.keys {
        add(record.space.as_str(), "key", hash.as_str(), format!("{record:?}"));
    }
    for (key, CommandReceipt { request, created_at, expires_at_s, progress, owner: _, key: _ }) in &state.receipts {
        // Whoever ran it drew a random token.
        let text = format!("{request:?} {created_at} {expires_at_s} {progress:?}");
        let (space, name) = key.as_str().split_once('#').unwrap_or_default();
        add(space, "receipt", name, text);
    }
    for (key, bytes) in &state.objects {
        let (space, name) = key.split_once('/').unwrap_or_default();
        add(space, "object", name, String::from_utf8_lossy(bytes).into_owned());
    }
    for row in &state.events {
        add(&row.space, "row", &row.event_id, format!("{row:?}"));
    }
    for row in &state.events_billing {
        add(&row.space, "billing row", &row.event_id, format!("{row:?}"));
    }
    let mut queued: BTreeMap<String, usize> = BTreeMap::new();
    let letters = state.queue.dead_letters.iter().map(|letter| ("dead letter", &letter.body));
    for (kind, body) in state.queue.messages.iter().map(|message| ("message", &message.body)).chain(letters) {
        let space = Envelope::decode(body).map(|envelope| envelope.space.to_string()).unwrap_or_default();
        let number = queued.entry(space.clone()).or_default();
        *number += 1;
        add(&space, kind, &number.to_string(), body.clone());
    }
    facts
}
