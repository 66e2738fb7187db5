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
    /// The key's public name: enough of the hash to tell a space's keys apart, nothing of the key.
    pub fn id(&self) -> KeyId {
        KeyId(self.0.chars().take(KEY_ID_DIGITS).collect())
    }

    /// The hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash as the table stores it; trusted, since nothing is derived from it but equality.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Hex digits of a key's public name.
const KEY_ID_DIGITS: usize = 16;

/// A key's public name: the first 16 hex digits of its hash. Names a key within its space, opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

/// The text is not a key's public name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a key id: expected {KEY_ID_DIGITS} lower-case hex digits, as the list of keys shows them")]
pub struct NotAKeyId;

impl KeyId {
    /// Reads a key's public name.
    pub fn parse(text: &str) -> Result<Self, NotAKeyId> {
        let fits = text.len() == KEY_ID_DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAKeyId) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for KeyId {
    type Err = NotAKeyId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Send events.
    Ingest,
    /// Read where events stand and what was used.
    Read,
    /// See the space's keys, and everything that the others may.
    Admin,
}

stored_as!(Scope { Ingest = "ingest", Read = "read", Admin = "admin" });

impl Scope {
    /// Whether a key with this scope may do what `asked` names.
    pub fn covers(self, asked: Self) -> bool {
        self == asked || self == Self::Admin
    }
}

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
    /// When it was last used, to the hour or so; absent for a key that never was.
    pub last_used_at: Option<UtcMillis>,
}

/// A key as a space's list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// What the keys table knows it by.
    pub hash: KeyHash,
    /// What the table says of it.
    pub record: KeyRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_covers_everything_and_the_others_themselves() {
        let covered =
            |scope: Scope| Scope::ALL.iter().copied().filter(|asked| scope.covers(*asked)).collect::<Vec<_>>();
        assert_eq!(covered(Scope::Ingest), [Scope::Ingest]);
        assert_eq!(covered(Scope::Read), [Scope::Read]);
        assert_eq!(covered(Scope::Admin), Scope::ALL);
    }

    #[test]
    fn a_key_s_name_is_the_head_of_its_hash() {
        let hash = ApiKey::from_random([1; KEY_BYTES]).hash();
        assert_eq!(hash.id().as_str(), &hash.as_str()[..16]);
        assert_eq!(KeyId::parse(hash.id().as_str()), Ok(hash.id()));
        for bad in ["", "abc", &hash.as_str()[..17], "ABCDEF0123456789", "g123456789abcdef"] {
            assert_eq!(KeyId::parse(bad), Err(NotAKeyId), "{bad}");
        }
    }

    #[test]
    fn a_key_has_one_form_and_never_prints_itself() {
        let key = ApiKey::from_random([0xab; KEY_BYTES]);
        assert_eq!(ApiKey::parse(key.expose()).unwrap(), key);
        assert_eq!(format!("{key:?}"), "ApiKey([redacted])");
        assert_eq!(key.hash().as_str().len(), 64);
        for bad in ["", KEY_PREFIX, "tollgate_sk_xyz", &key.expose().to_uppercase(), &format!("{}0", key.expose())] {
            assert!(ApiKey::parse(bad).is_err(), "{bad}");
        }
    }
}
