//! Receipts of commands: what a call with an `Idempotency-Key` was answered, kept for a day.
//!
//! A receipt guards the *command*: the same call is answered the same, another call under its key is refused. The
//! event's identity guards the *event*, for ever. Neither stands in for the other.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::identity::sha256_hex;
use crate::space::SpaceId;
use crate::time::UtcMillis;

/// For how long an answer is replayed, in milliseconds: 24 hours.
pub const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;
/// Characters of a key, without its quotes.
pub const MAX_KEY_CHARS: usize = 255;

/// What an `Idempotency-Key` header holds. Only its hash is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

/// The text is not an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an idempotency key: send 1 to {MAX_KEY_CHARS} printable ASCII characters in double quotes")]
pub struct NotAnIdempotencyKey;

impl IdempotencyKey {
    /// Reads the header's value: a structured-field string such as `"8e03978e"`, or the same characters bare where none
    /// of them needs quotes. Both spellings are one key.
    pub fn parse_header(value: &str) -> Result<Self, NotAnIdempotencyKey> {
        let value = value.trim_matches([' ', '\t']);
        let key = match value.strip_prefix('"') {
            Some(rest) => unquoted(rest.strip_suffix('"').ok_or(NotAnIdempotencyKey)?)?,
            None if value.bytes().all(is_bare) => value.to_owned(),
            None => return Err(NotAnIdempotencyKey),
        };
        if (1..=MAX_KEY_CHARS).contains(&key.len()) { Ok(Self(key)) } else { Err(NotAnIdempotencyKey) }
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey([a client's text])")
    }
}

/// Letters, digits and the marks that UUIDs, base 64 and paths are made of.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/=".contains(&byte)
}

/// What stands between the quotes, with `\"` and `\\` resolved.
fn unquoted(text: &str) -> Result<String, NotAnIdempotencyKey> {
    let mut key = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => key.push(chars.next().filter(|next| matches!(next, '"' | '\\')).ok_or(NotAnIdempotencyKey)?),
            '"' => return Err(NotAnIdempotencyKey),
            ' '..='~' => key.push(char),
            _ => return Err(NotAnIdempotencyKey),
        }
    }
    Ok(key)
}

/// Which receipt: `{space}#{SHA-256 of the idempotency key}`. Spaces have keys of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptKey(String);

impl ReceiptKey {
    /// The receipt of `key` in `space`.
    pub fn of(space: &SpaceId, key: &IdempotencyKey) -> Self {
        Self(format!("{space}#{}", sha256_hex(&key.0)))
    }

    /// The receipt's partition key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key as the table stores it; trusted, since nothing is derived from it but equality.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// SHA-256 of everything that makes a request what it is, in hex: equal for a retry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestHash(String);

impl RequestHash {
    /// The hash of a request's parts. Each is hashed behind its length, so that no two lists of parts join alike.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Self(hex::encode(hash.finalize()))
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

/// Who runs a command: a token that no other run has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(String);

impl Owner {
    /// The owner with this token, of which the caller sees to it that it is unique.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// HTTP status.
    pub status: u16,
    /// The headers that belong to the answer, by lower-case name; those of a single exchange are not among them.
    pub headers: BTreeMap<String, String>,
    /// The body's bytes.
    pub body: Vec<u8>,
}

/// How far a command came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Somebody runs it, or died running it.
    Running {
        /// Until then it is the owner's; afterwards anybody may take the same request over.
        lease_until: UtcMillis,
    },
    /// It was answered.
    Done(StoredAnswer),
}

/// A receipt as the table holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandReceipt {
    /// Whose command.
    pub key: ReceiptKey,
    /// Which request.
    pub request: RequestHash,
    /// Who runs it, or ran it last.
    pub owner: Owner,
    /// When it was begun.
    pub created_at: UtcMillis,
    /// From this second since 1970 on it is as if it were not there; the table deletes it some time later.
    pub expires_at_s: i64,
    /// How far it came.
    pub progress: Progress,
}

/// What beginning a command writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReceipt {
    /// Whose command.
    pub key: ReceiptKey,
    /// Which request.
    pub request: RequestHash,
    /// Who is to run it.
    pub owner: Owner,
    /// Now.
    pub now: UtcMillis,
    /// Until when it is the owner's alone.
    pub lease_until: UtcMillis,
}

impl NewReceipt {
    /// The receipt right after the command was begun.
    pub fn into_receipt(self) -> CommandReceipt {
        CommandReceipt {
            key: self.key,
            request: self.request,
            owner: self.owner,
            created_at: self.now,
            expires_at_s: expiry_s(self.now),
            progress: Progress::Running { lease_until: self.lease_until },
        }
    }

    /// Whether this may take the place of what stands: nothing, what has expired and is not deleted yet, or the same
    /// request of an owner whose lease is over. The store's condition says the same.
    pub fn may_replace(&self, standing: Option<&CommandReceipt>) -> bool {
        standing.is_none_or(|standing| {
            let lease_is_over =
                matches!(standing.progress, Progress::Running { lease_until } if lease_until <= self.now);
            standing.expires_at_s <= second_of(self.now) || (lease_is_over && standing.request == self.request)
        })
    }
}

/// The second since 1970 in which `instant` lies.
pub fn second_of(instant: UtcMillis) -> i64 {
    instant.get().div_euclid(1_000)
}

/// The second since 1970 in which a receipt that is written `now` expires.
pub fn expiry_s(now: UtcMillis) -> i64 {
    // A second more, so that rounding down never takes one away.
    second_of(now.saturating_add_ms(KEPT_MS)).saturating_add(1)
}

/// What to do with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is the caller's to run.
    Run,
    /// It was answered: say the same again.
    Replay(StoredAnswer),
    /// The key stands for another request.
    Reused,
    /// Somebody runs it.
    InProgress {
        /// Milliseconds that are left of the lease; 0 when it is over by now.
        ms_left: i64,
    },
}

/// What to do with a command, given the receipt that stood in its way, if one did.
pub fn begin(standing: Option<&CommandReceipt>, new: &NewReceipt) -> Begun {
    let Some(standing) = standing else { return Begun::Run };
    match &standing.progress {
        _ if standing.request != new.request => Begun::Reused,
        Progress::Done(answer) => Begun::Replay(answer.clone()),
        // The caller's own: it was written, and the answer that said so was lost.
        Progress::Running { .. } if standing.owner == new.owner => Begun::Run,
        Progress::Running { lease_until } => Begun::InProgress { ms_left: lease_until.ms_since(new.now).max(0) },
    }
}

/// Whether the same bytes would be answered with this status again for as long as a receipt is kept. Any other answer
/// depends on the moment (keys, plans, engines): its command is released, so that a retry runs.
pub const fn is_terminal(status: u16) -> bool {
    matches!(status, 202 | 400 | 413 | 415 | 422)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> UtcMillis {
        UtcMillis::new(1_790_000_000_000_i64.saturating_add(ms)).unwrap()
    }

    fn request(text: &str) -> RequestHash {
        RequestHash::of([text.as_bytes()])
    }

    fn new(owner: &str, what: &str, ms: i64) -> NewReceipt {
        let key = ReceiptKey::of(&SpaceId::parse("acme").unwrap(), &IdempotencyKey::parse_header("k").unwrap());
        let (owner, lease_until) = (Owner::new(owner), at(ms.saturating_add(30_000)));
        NewReceipt { key, request: request(what), owner, now: at(ms), lease_until }
    }

    fn done(mut receipt: CommandReceipt) -> CommandReceipt {
        receipt.progress = Progress::Done(StoredAnswer { status: 202, headers: BTreeMap::new(), body: b"{}".to_vec() });
        receipt
    }

    #[test]
    fn a_key_is_read_quoted_or_bare_and_nothing_else_is_one() {
        let read = |value: &str| IdempotencyKey::parse_header(value).map(|key| key.0);
        for (value, key) in [
            (r#""8e03978e-40d5""#, "8e03978e-40d5"),
            ("8e03978e-40d5", "8e03978e-40d5"),
            (" \"a b\"\t", "a b"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("Zm9v+/==", "Zm9v+/=="),
        ] {
            assert_eq!(read(value).as_deref(), Ok(key), "{value}");
        }
        assert!(read(&"x".repeat(255)).is_ok());
        assert!(read(&format!("\"{}\"", "x".repeat(255))).is_ok());
        let (long, long_quoted) = ("x".repeat(256), format!("\"{}\"", "x".repeat(256)));
        for bad in [
            "",
            " ",
            "\"",
            "\"\"",
            "\"a",
            "a\"",
            "\"a\"b\"",
            r#""a\b""#,
            r#""a\""#,
            "a b",
            "a,b",
            "\"a\";p",
            "\"\u{e9}\"",
            "\u{7f}",
            &long,
            &long_quoted,
        ] {
            assert_eq!(read(bad), Err(NotAnIdempotencyKey), "{bad}");
        }
    }

    #[test]
    fn receipts_of_two_spaces_or_keys_differ_and_hold_no_key() {
        let of = |space: &str, key: &str| {
            ReceiptKey::of(&SpaceId::parse(space).unwrap(), &IdempotencyKey::parse_header(key).unwrap())
        };
        assert_eq!(of("acme", "order-1"), of("acme", "\"order-1\""));
        assert_ne!(of("acme", "order-1"), of("acme", "order-2"));
        assert_ne!(of("acme", "order-1"), of("globex", "order-1"));
        assert!(!of("acme", "order-1").as_str().contains("order"));
        let text = format!("{:?}", IdempotencyKey::parse_header("order-1"));
        assert!(!text.contains("order-1"), "{text}");
    }

    #[test]
    fn texts_are_kept_as_they_are_and_an_answer_for_a_day() {
        assert_eq!(ReceiptKey::from_stored("acme#00").as_str(), "acme#00");
        assert_eq!(RequestHash::from_stored("0f").as_str(), "0f");
        assert_eq!(Owner::new("token").as_str(), "token");
        assert_eq!(KEPT_MS, 86_400_000);
        let key = IdempotencyKey::parse_header("order-1").unwrap();
        assert_eq!(format!("{key:?}"), "IdempotencyKey([a client's text])");
    }

    #[test]
    fn no_two_lists_of_parts_join_alike() {
        let of = |parts: &[&str]| RequestHash::of(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        for other in [&["ab", ""][..], &["", "ab"], &["a", "b", ""], &["b", "a"], &["ab"]] {
            assert_ne!(of(&["a", "b"]), of(other), "{other:?}");
        }
    }

    #[test]
    fn only_what_is_gone_or_abandoned_is_replaced() {
        let first = new("one", "r", 0);
        let running = first.clone().into_receipt();
        assert!(first.may_replace(None));
        assert!(!new("two", "r", 29_999).may_replace(Some(&running)));
        assert!(new("two", "r", 30_000).may_replace(Some(&running)), "the lease is over");
        assert!(!new("two", "other", 30_000).may_replace(Some(&running)), "abandoned, but by another request");
        let done = done(running);
        assert!(!new("two", "r", KEPT_MS).may_replace(Some(&done)), "an answer has no lease");
        for request in ["r", "other"] {
            assert!(new("two", request, KEPT_MS.saturating_add(1_000)).may_replace(Some(&done)), "it has expired");
        }
    }

    #[test]
    fn what_stands_decides_what_becomes_of_the_command() {
        let running = new("one", "r", 0).into_receipt();
        let done = done(running.clone());
        let Progress::Done(answer) = done.progress.clone() else { panic!() };
        for (standing, new, begun) in [
            (None, new("two", "r", 0), Begun::Run),
            (Some(&running), new("one", "r", 1), Begun::Run),
            (Some(&running), new("two", "r", 10_001), Begun::InProgress { ms_left: 19_999 }),
            (Some(&running), new("two", "r", 40_000), Begun::InProgress { ms_left: 0 }),
            (Some(&running), new("two", "other", 1), Begun::Reused),
            (Some(&running), new("two", "other", 40_000), Begun::Reused),
            (Some(&done), new("two", "r", 40_000), Begun::Replay(answer)),
            (Some(&done), new("two", "other", 1), Begun::Reused),
        ] {
            assert_eq!(begin(standing, &new), begun, "{new:?}");
        }
    }

    #[test]
    fn only_answers_that_the_same_bytes_get_again_are_kept() {
        let kept: Vec<u16> = (100..600).filter(|status| is_terminal(*status)).collect();
        assert_eq!(kept, [202, 400, 413, 415, 422]);
    }
}
