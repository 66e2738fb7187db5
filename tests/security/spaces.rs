//! Three spaces, with names that begin alike, plans that differ, and keys of every kind.

use tollgate_domain::key::{ApiKey, KEY_BYTES, KeyRecord, Scope};
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_domain::space::SpaceId;
use tollgate_tests::memory::State;

/// A space as every world has it.
pub(crate) struct Space {
    pub(crate) name: &'static str,
    subscription: Subscription,
    limit: u64,
}

/// Small limits, so that a few events fill a month.
pub(crate) const SPACES: [Space; 3] = [
    Space { name: "acme", subscription: Subscription::Free, limit: 1 },
    Space { name: "acme-eu", subscription: Subscription::PlusActive, limit: 1 },
    Space { name: "acme-eu-1", subscription: Subscription::Free, limit: 2 },
];

/// What stands in every payload and nowhere else.
pub(crate) const PAYLOAD: &str = "payload-";
/// What begins every idempotency key of an event, every one of a command, and every subject.
pub(crate) const OTHER_TEXTS: [&str; 3] = ["job-", "retry-", "customer-of-"];

/// Scopes of a space's keys, in their order; the last one is revoked.
const SCOPES: [&[Scope]; KEYS] =
    [&[Scope::Admin], &[Scope::Ingest, Scope::Read], &[Scope::Ingest], &[Scope::Read], &[Scope::Admin]];
pub(crate) const KEYS: usize = 5;

/// Key `number` of `space`.
pub(crate) fn key(space: usize, number: usize) -> ApiKey {
    let byte = u8::try_from(space * KEYS + number + 1).unwrap();
    ApiKey::from_random([byte; KEY_BYTES])
}

/// Every key of every space.
pub(crate) fn keys() -> impl Iterator<Item = ApiKey> {
    (0..SPACES.len()).flat_map(|space| (0..KEYS).map(move |number| key(space, number)))
}

fn label(space: usize, number: usize) -> String {
    format!("label {number} of {}.", SPACES[space].name)
}

/// The submission id that only `space` sends.
pub(crate) fn submission_id(space: usize) -> String {
    format!("sub_of_{}_", SPACES[space].name)
}

/// What no log line may hold.
pub(crate) fn secrets() -> impl Iterator<Item = String> {
    let texts = OTHER_TEXTS.into_iter().chain([PAYLOAD]).map(str::to_owned);
    keys().map(|key| key.expose().to_owned()).chain(texts)
}

/// What is of `space` alone, and that no answer to anybody else may hold.
pub(crate) fn marks(space: usize) -> impl Iterator<Item = String> {
    let keys = (0..KEYS).flat_map(move |number| {
        let key = key(space, number);
        [key.expose().to_owned(), key.hash().id().as_str().to_owned(), label(space, number)]
    });
    keys.chain([format!("{}\"", submission_id(space))])
}

/// Gives a world the space, its plan and its keys.
pub(crate) fn add(space: usize, state: &mut State) {
    let Space { name, subscription, limit } = SPACES[space];
    let name = SpaceId::parse(name).unwrap();
    let record = SpaceRecord { subscription, monthly_limit: Limit::new(limit) };
    state.spaces.insert(name.clone(), record);
    for (number, scopes) in SCOPES.iter().enumerate() {
        let record = KeyRecord {
            space: name.clone(),
            scopes: scopes.iter().copied().collect(),
            created_at: state.now.saturating_add_ms(-1_000),
            revoked_at: (number == KEYS - 1).then_some(state.now),
            label: label(space, number),
            last_used_at: None,
        };
        state.keys.insert(key(space, number).hash(), record);
    }
}
