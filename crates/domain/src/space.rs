//! Spaces: the tenants who are billed.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// A space's name: 1 to 64 of `a-z`, `0-9`, `-` and `_`, starting with a letter or a digit.
///
/// The charset keeps the separators of ledger keys (`#`) and archive keys (`/`), and the leading `_` of Tollgate's own
/// prefixes, out of every space's reach.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SpaceId(String);

/// The text is not a space's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a space's name: use 1 to 64 of a-z, 0-9, - and _, starting with a letter or a digit")]
pub struct NotASpaceId;

impl SpaceId {
    /// Reads a space's name.
    pub fn parse(text: &str) -> Result<Self, NotASpaceId> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let fits = (1..=64).contains(&bytes.len())
            && bytes.first().is_some_and(|b| plain(*b))
            && bytes.iter().all(|b| plain(*b) || matches!(b, b'-' | b'_'));
        if fits { Ok(Self(text.to_owned())) } else { Err(NotASpaceId) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for SpaceId {
    type Err = NotASpaceId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'de> Deserialize<'de> for SpaceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "acme", "0-9_z", &"x".repeat(64)] {
            assert_eq!(SpaceId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "A", "_own", "-a", "a#b", "a/b", "a b", "é", "a\u{0}", &"x".repeat(65)] {
            assert_eq!(SpaceId::parse(bad), Err(NotASpaceId), "{bad}");
        }
    }
}
