//! Synthetic traffic: the same seed sends the same events.

use serde_json::{Value, json};
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::ledger::{EventKey, LedgerItem, NewClaim};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::BilledAs;
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::memory::State;

/// Random numbers that depend on the seed and on nothing else, in any version of any library: `SplitMix64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 when that is 0. Biased by less than `bound` in 2^64, which no test can see.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.number()) * (bound as u128);
        usize::try_from(wide >> 64).unwrap_or_default()
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// What to send.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Decides everything that is not said below.
    pub seed: u64,
    /// Who sends; each event is of one of them, at random.
    pub spaces: Vec<SpaceId>,
    /// Distinct events, over all spaces.
    pub distinct: usize,
    /// How many of 100 events are sent twice.
    pub duplicates_percent: usize,
    /// How many of 100 events are followed by another payload under the same id.
    pub conflicts_percent: usize,
    /// When the front door accepts them.
    pub accepted_at: UtcMillis,
}

impl Traffic {
    /// The deliveries in the order in which they are sent: shuffled, so that a conflict can come first.
    pub fn envelopes(&self) -> Vec<Envelope> {
        let mut random = Random::new(self.seed);
        let mut envelopes = Vec::new();
        for number in 0..self.distinct {
            let Some(space) = self.spaces.get(random.below(self.spaces.len())) else { break };
            let conflicts = random.percent(self.conflicts_percent);
            // Only an explicit id can be met by another payload; the rest is mixed.
            let is_explicit = conflicts || random.percent(50);
            let event = self.event(number, is_explicit, &mut random);
            let doubled = random.percent(self.duplicates_percent);
            let other = conflicts.then(|| self.event(number, true, &mut random));
            for event in [Some(event.clone()), doubled.then_some(event), other].into_iter().flatten() {
                envelopes.push(Envelope {
                    space: space.clone(),
                    event,
                    accepted_at: self.accepted_at,
                    submission_id: format!("sub_{:016x}", random.number()),
                    trace_parent: None,
                });
            }
        }
        random.shuffle(&mut envelopes);
        envelopes
    }

    /// Event `number`. Its instant alone makes it distinct, its quantity makes another payload of it.
    fn event(&self, number: usize, is_explicit: bool, random: &mut Random) -> Event {
        let pick = |random: &mut Random, of: &[&str]| of.get(random.below(of.len())).copied().unwrap_or("x").to_owned();
        let ago_ms = i64::try_from(number).unwrap_or(i64::MAX).saturating_add(1);
        let mut value = json!({
            "meter": "api_request",
            "subject": format!("customer-{}", number % 17),
            "occurredAt": self.accepted_at.saturating_add_ms(-ago_ms).to_string(),
            "quantity": 1 + (random.number() >> 16),
            "properties": {"region": pick(random, &["eu", "us", "ap"]), "ratio": 0.25, "note": pick(random, &["ü", "\"", ""])},
        });
        if let (true, Value::Object(fields)) = (is_explicit, &mut value) {
            fields.insert("idempotencyKey".to_owned(), json!(format!("work-{}-{number}", self.seed)));
        }
        Event::from_value(&value, self.accepted_at).unwrap_or_else(|problems| unreachable!("{problems:?}"))
    }
}

/// One event in each of its forms, for tests that need any.
#[derive(Debug, Clone)]
pub struct Example {
    /// The message.
    pub envelope: Envelope,
    /// The claim that it makes.
    pub claim: NewClaim,
    /// The item right after that claim.
    pub item: LedgerItem,
    /// Its row, billed as FREE.
    pub row: Row,
}

impl Example {
    /// The message's event in each of its forms, claimed when it was accepted.
    pub fn of(envelope: Envelope) -> Self {
        let claim = NewClaim {
            key: EventKey { space: envelope.space.clone(), id: envelope.event.id() },
            fingerprint: envelope.event.fingerprint(),
            submission_id: envelope.submission_id.clone(),
            period_month: PeriodMonth::of(envelope.accepted_at),
            now: envelope.accepted_at,
        };
        let item = claim.clone().into_item();
        let row = Row::new(&envelope.event, &item, BilledAs::Free);
        Self { envelope, claim, item, row }
    }
}

/// Two distinct events of the space `acme`, accepted when a new world begins.
pub fn examples() -> [Example; 2] {
    let acme = SpaceId::parse("acme").unwrap_or_else(|_| unreachable!("a plain name"));
    let traffic = Traffic {
        seed: 1,
        spaces: vec![acme],
        distinct: 2,
        duplicates_percent: 0,
        conflicts_percent: 0,
        accepted_at: State::default().now,
    };
    let envelopes: Result<[Envelope; 2], _> = traffic.envelopes().try_into();
    envelopes.unwrap_or_else(|_| unreachable!("two were asked for")).map(Example::of)
}

/// One event of the space `acme`, accepted when a new world begins.
pub fn example() -> Example {
    let [first, _] = examples();
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sent::{Sent, by_key};
    use std::collections::BTreeSet;

    fn traffic(seed: u64) -> Traffic {
        Traffic {
            seed,
            spaces: ["a", "b", "c"].map(|name| SpaceId::parse(name).unwrap()).to_vec(),
            distinct: 500,
            duplicates_percent: 20,
            conflicts_percent: 10,
            accepted_at: State::default().now,
        }
    }

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let first = [random.number(), random.number(), random.number()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_same_seed_sends_the_same_and_another_does_not() {
        assert_eq!(traffic(1).envelopes(), traffic(1).envelopes());
        assert_ne!(traffic(1).envelopes(), traffic(2).envelopes());
    }

    #[test]
    fn it_is_as_it_was_asked_for() {
        let sent: Vec<Sent> = traffic(3).envelopes().iter().map(Sent::from).collect();
        let keyed = by_key(&sent);
        assert_eq!(keyed.len(), 500);
        let payloads = |of: &Vec<&Sent>| of.iter().map(|sent| sent.event.fingerprint()).collect::<BTreeSet<_>>().len();
        let doubled = keyed.values().filter(|of| of.len() > payloads(of)).count();
        let conflicting = keyed.values().filter(|of| payloads(of) == 2).count();
        assert!((60..140).contains(&doubled), "{doubled} of some 100");
        assert!((25..75).contains(&conflicting), "{conflicting} of some 50");
        assert_eq!(keyed.keys().map(|key| &key.space).collect::<BTreeSet<_>>().len(), 3);
    }
}
