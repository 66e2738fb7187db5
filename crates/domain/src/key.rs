//! API keys: the only thing that says which space a request speaks for.

use std::collections::BTreeSet;
use std::fmt;

use crate::identity::sha256_hex;
use crate::plan::stored_as;
use crate::space::SpaceId;
use crate::time::UtcMillis;

/// What every key begins with: secret scanners find it, and a person sees what leaked.
pub const KEY_PREFIX: &str = "tollgate_sk_";
/// Random bytes in a key: 256 bits.
pub const KEY_BYTES: usize = 32;

/// An API key as its holder has it. Shown once, stored nowhere; neither `Debug` nor `Display` tells it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// SHA-256 of a key, in hex: what the keys table is looked up by. A plain hash is enough for 256 random bits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(String);

/// The text does not have the form of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not an API key: expected {KEY_PREFIX} and 64 lower-case hex digits")]
pub struct NotAnApiKey;

impl ApiKey {
    /// The key made of `random` bytes of the operating system.
    pub fn from_random(random: [u8; KEY_BYTES]) -> Self {
        Self(format!("{KEY_PREFIX}{}", hex::encode(random)))
    }

    /// Reads a key.
    pub fn parse(text: &str) -> Result<Self, NotAnApiKey> {
        let digits = text.strip_prefix(KEY_PREFIX).ok_or(NotAnApiKey)?;
        let fits = digits.len() == KEY_BYTES.saturating_mul(2)
            && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAnApiKey) }
    }

    /// What the keys table knows it by.
    pub fn hash(&self) -> KeyHash {
        KeyHash(sha256_hex(&self.0))
    }

    /// The secret itself: for the one time that it is shown, and for the header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([redacted])")
    }
}

impl KeyHash {
    /// The hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash as the table stores it; trusted, since nothing is derived from it but equality.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Send events.
    Ingest,
    /// Read where events stand and what was used.
    Read,
    /// Manage the space's keys.
    Admin,
}

stored_as!(Scope { Ingest = "ingest", Read = "read", Admin = "admin" });

/// What the keys table says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Whose key.
    pub space: SpaceId,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// When it was made.
    pub created_at: UtcMillis,
    /// From when on it is refused.
    pub revoked_at: Option<UtcMillis>,
    /// Its owner's name for it.
    pub label: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_form_and_never_prints_itself() {
        let key = ApiKey::from_random([0xab; KEY_BYTES]);
        assert_eq!(ApiKey::parse(key.expose()).unwrap(), key);
        assert!(!format!("{key:?}").contains("abab"));
        assert_eq!(key.hash().as_str().len(), 64);
        for bad in ["", KEY_PREFIX, "tollgate_sk_xyz", &key.expose().to_uppercase(), &format!("{}0", key.expose())] {
            assert!(ApiKey::parse(bad).is_err(), "{bad}");
        }
    }
}
