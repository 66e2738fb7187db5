//! The key means the event: ids and fingerprints of the scheme `usg1`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use crate::event::Event;

/// U+001F, the unit separator: stands in no joined field, which makes the join injective.
const US: &str = "\u{1f}";
const PREFIX: &str = "uev_";
const HEX_DIGITS: usize = 64;

/// An event's id: `uev_` and the 64 lower-case hex digits of a SHA-256. Unique within a space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct EventId(String);

/// SHA-256 of an event's own facts, in 64 lower-case hex digits: equal for a retry, different for a conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

/// The text is not what its type asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not {0}")]
pub struct Malformed(&'static str);

impl EventId {
    pub(crate) fn of(event: &Event) -> Self {
        let material = match event.idempotency_key() {
            Some(key) => ["usg1", "explicit", event.meter(), event.subject(), key].join(US),
            None => derived_material(event),
        };
        Self(format!("{PREFIX}{}", sha256_hex(&material)))
    }

    /// Reads an id.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        match text.strip_prefix(PREFIX) {
            Some(digits) if is_sha256_hex(digits) => Ok(Self(text.to_owned())),
            _ => Err(Malformed("an event id: uev_ and 64 lower-case hex digits")),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first two hex digits: spread one busy space over 256 partitions' worth of keys.
    pub fn shard(&self) -> &str {
        self.0.get(PREFIX.len()..PREFIX.len().saturating_add(2)).unwrap_or_default()
    }
}

impl Fingerprint {
    /// The derived material of the event and its idempotency key, whichever form made its id. An absent key joins as
    /// the empty text, which no present key can be.
    pub(crate) fn of(event: &Event) -> Self {
        Self(sha256_hex(&[derived_material(event).as_str(), event.idempotency_key().unwrap_or_default()].join(US)))
    }

    /// Reads a fingerprint.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if is_sha256_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Malformed("a fingerprint: 64 lower-case hex digits"))
        }
    }

    /// The fingerprint as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn derived_material(event: &Event) -> String {
    [
        "usg1",
        "derived",
        event.meter(),
        event.subject(),
        &event.occurred_at().to_string(),
        &event.quantity().to_string(),
        event.source().unwrap_or_default(),
        event.properties().unwrap_or("null"),
    ]
    .join(US)
}

/// Lower-case hex of the SHA-256 of `text`'s UTF-8 bytes.
pub fn sha256_hex(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn is_sha256_hex(text: &str) -> bool {
    text.len() == HEX_DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

macro_rules! text_type {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

text_type!(EventId);
text_type!(Fingerprint);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json, time::UtcMillis};

    fn event(text: &str) -> Event {
        Event::from_value(&json::parse(text.as_bytes()).unwrap(), UtcMillis::parse("2026-11-30T00:00:00Z").unwrap())
            .unwrap()
    }

    const DERIVED: &str =
        r#"{"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T09:15:00Z","quantity":3}"#;
    const FULL: &str = r#"{"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T11:15:00.000+02:00","quantity":3,
        "source":"gateway","properties":{"region":"eu","model":"m"}}"#;
    const EXPLICIT: &str = r#"{"meter":"api_request","subject":"cus_01","occurredAt":"2026-08-18T09:15:00Z","quantity":3,"idempotencyKey":"req_9"}"#;

    #[test]
    fn the_published_vectors_hold() {
        let rest = r#""occurredAt":"2026-01-01T00:00:00.000Z","quantity":1"#;
        for (text, id) in [
            (
                format!(r#"{{"meter":"api_request","subject":"cus_1","idempotencyKey":"req_1",{rest}}}"#),
                "b235f5e8f2da9cff771d8da74032c5f6a033d143a98622dc75fc17990e7abbae",
            ),
            (
                format!(r#"{{"meter":"api_request","subject":"cus_1",{rest}}}"#),
                "86090f05dddadd43e82f5df76d0e44fed1b8cdd7c19bb352c8e4623b211bd1e1",
            ),
            (DERIVED.to_owned(), "5c8ec3ea62721af70f0521af0552578f89da8d295f45829ec6ab33fa38317745"),
            (FULL.to_owned(), "129387c9f2479ce9870ab6269a4917523071b432857c93c57834ab392a3f1d95"),
            (EXPLICIT.to_owned(), "f90ad0ebe9d0da7f1c31d03452422228b1acebd217c64a7280f432c085c14fa5"),
            (
                EXPLICIT.replace("api_request", "tokens_out"),
                "a390c83652ffa29c44aee102c5c5dbc9969b3e42eadded998315f3a3823626d3",
            ),
        ] {
            assert_eq!(event(&text).id().as_str(), format!("uev_{id}"), "{text}");
        }
    }

    #[test]
    fn the_fingerprint_vectors_hold() {
        // Ours: the derived material, U+001F, the idempotency key or nothing; computed with sha256sum.
        assert_eq!(
            event(DERIVED).fingerprint().as_str(),
            "6f073f32dc04137647c6575286161bd161efb0fe70ca26372aaced307d791631"
        );
        assert_eq!(
            event(EXPLICIT).fingerprint().as_str(),
            "503d4346361952b9cbcbd5b2312fd0f95af13a05c29e906a41500871fe385ad4"
        );
    }

    #[test]
    fn an_explicit_id_ignores_the_other_facts_and_the_fingerprint_does_not() {
        let (first, second) = (event(EXPLICIT), event(&EXPLICIT.replace(":3,", ":4,")));
        assert_eq!(first.id(), second.id());
        assert_ne!(first.fingerprint(), second.fingerprint());
    }

    #[test]
    fn ids_and_fingerprints_have_one_spelling() {
        let id = event(DERIVED).id();
        assert_eq!(EventId::parse(id.as_str()).as_ref(), Ok(&id));
        assert_eq!(id.shard(), "5c");
        for bad in ["", "uev_", "5c8ec3", &id.as_str().to_uppercase(), &format!("{id}0"), &id.as_str()[..67]] {
            assert!(EventId::parse(bad).is_err(), "{bad}");
            assert!(Fingerprint::parse(bad).is_err(), "{bad}");
        }
    }
}
