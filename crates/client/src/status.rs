//! Where a recorded event stands, and what became of it in the end.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, RejectedReason};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::event::UsageEvent;
use crate::outcome::{Outcome, Quota, ToldProblem};

/// How far an event has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// Nothing is known of it: never sent, or still in the queue.
    Unknown,
    /// Claimed; some step is missing.
    Inserting,
    /// Charged and stored.
    Inserted,
    /// Refused for ever.
    Rejected,
    /// Charged, but not stored: somebody has to look.
    Uninsertable,
}

/// What the ledger tells of one event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventStatus {
    /// The event's id.
    pub id: EventId,
    /// How far it has come.
    #[serde(rename = "status")]
    pub standing: Standing,
    /// Whether it comes no further by itself.
    pub terminal: bool,
    /// The submission that won the claim; absent as long as nothing is known.
    pub submission_id: Option<String>,
    /// The facts that won the claim; absent as long as nothing is known.
    pub fingerprint: Option<Fingerprint>,
    /// The month that pays.
    pub period_month: Option<PeriodMonth>,
    /// When it was claimed.
    #[serde(default, deserialize_with = "instant")]
    pub claimed_at: Option<UtcMillis>,
    /// When that last changed.
    #[serde(default, deserialize_with = "instant")]
    pub updated_at: Option<UtcMillis>,
    /// What it was billed as, once it was.
    #[serde(default, deserialize_with = "billed_as")]
    pub billed_as: Option<BilledAs>,
    /// When the bill was accepted.
    #[serde(default, deserialize_with = "instant")]
    pub billing_accepted_at: Option<UtcMillis>,
    /// Why it was rejected, if it was.
    pub rejection: Option<Rejection>,
    /// Other facts that were sent under the same id: each a mistake of its sender.
    #[serde(default)]
    pub conflicts_seen: u64,
}

/// What justified a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Rejection {
    /// Why.
    #[serde(deserialize_with = "rejected_reason")]
    pub reason: RejectedReason,
    /// The month's limit that was seen, in events; of a used-up limit only.
    pub limit: Option<u64>,
    /// The month's count that was seen, in events; of a used-up limit only.
    pub count: Option<u64>,
}

/// A space's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanName {
    /// Capped by a monthly limit.
    Free,
    /// Counted, and paid for.
    Plus,
    /// Not billed.
    Internal,
}

/// What a space has used of a month.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The API key's space.
    pub space: SpaceId,
    /// The month.
    pub month: PeriodMonth,
    /// The plan.
    pub plan: PlanName,
    /// Whether the plan takes events now; a Plus space's only.
    pub active: Option<bool>,
    /// Events used; absent where the service does not count them.
    pub used: Option<u64>,
    /// Events that the month may use; a free space's only.
    pub limit: Option<u64>,
    /// Events that are left; a free space's only.
    pub remaining: Option<u64>,
    /// Events that the price includes; a Plus space's only.
    pub included: Option<u64>,
    /// When the next month begins.
    #[serde(default, deserialize_with = "instant")]
    pub resets_at: Option<UtcMillis>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// The API key is missing, unknown, revoked, or may not read. Mend the configuration.
    #[error("the API key may not ask this ({code}): {detail}")]
    Unauthorized {
        /// The service's stable code.
        code: String,
        /// What to do about it.
        detail: String,
    },
    /// The service does not take such a question: a wrong endpoint or another version. Mend the program.
    #[error("the service answered {status} ({}): {detail}", code.as_deref().unwrap_or("no code"))]
    Refused {
        /// HTTP status.
        status: u16,
        /// The service's stable code, if it told one.
        code: Option<String>,
        /// What it said.
        detail: String,
    },
    /// No answer after every attempt of the policy. Ask again later.
    #[error("{reason}, after {attempts} attempt(s)")]
    Unavailable {
        /// What the last attempt met.
        reason: String,
        /// How long the service asked to wait.
        retry_after: Option<Duration>,
        /// Attempts made.
        attempts: u32,
    },
}

/// What became of an event that was recorded and waited for. Each variant is a decision; only
/// [`Recorded::Unavailable`] is worth recording again as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recorded {
    /// Charged and stored, by this very call.
    Inserted {
        /// What the ledger holds.
        status: Box<EventStatus>,
    },
    /// Charged and stored before, by another call with the same facts: a success, and charged once.
    Duplicate {
        /// The submission that won the claim.
        by: String,
        /// What the ledger holds.
        status: Box<EventStatus>,
    },
    /// Another event has this id and other facts. Never record it again: find out which of the two is true, and give
    /// each fact a key of its own.
    Conflict {
        /// What the ledger holds under the id; `None` when the other event is in the same batch, and neither was taken.
        existing: Option<Box<EventStatus>>,
        /// What the service says of two events in the same batch; empty otherwise.
        problems: Vec<ToldProblem>,
    },
    /// Refused for ever: the plan took no more events when it was this one's turn. It is not charged.
    Rejected {
        /// Why, with the limit and the count seen.
        rejection: Rejection,
        /// What the ledger holds.
        status: Box<EventStatus>,
    },
    /// Charged, but its row could not be stored: the service's operators are told; recording it again changes nothing.
    Uninsertable {
        /// What the ledger holds.
        status: Box<EventStatus>,
    },
    /// Not taken: mend it as the problems say.
    Invalid {
        /// Every problem of this event.
        problems: Vec<ToldProblem>,
    },
    /// Not taken: the plan takes no more events now. Keep the event and record it after the reset or an upgrade.
    QuotaExceeded {
        /// What is used up.
        quota: Quota,
    },
    /// The API key may not send, or, when `queued`, may not read: then the event is charged once, but what became of it
    /// is not told to this key.
    Unauthorized {
        /// The service's stable code.
        code: String,
        /// What to do about it.
        detail: String,
        /// Whether the event is durably queued.
        queued: bool,
    },
    /// The service does not take such a call or such a question: a wrong endpoint or another version. Mend the program.
    Refused {
        /// HTTP status.
        status: u16,
        /// The service's stable code, if it told one.
        code: Option<String>,
        /// What it said.
        detail: String,
        /// Whether the event is durably queued.
        queued: bool,
    },
    /// The time was over before the end was known. Keep the event and record the same one later.
    Unavailable {
        /// What the last attempt met, or that the event is not terminal yet.
        reason: String,
        /// Whether the event is known to be durably queued: then it will be charged once, and only the answer is missing.
        queued: bool,
        /// How long the service asked to wait.
        retry_after: Option<Duration>,
        /// Attempts at what failed last: at sending it, or at asking what became of it.
        attempts: u32,
    },
}

impl Recorded {
    /// What an outcome other than *queued* is for who waits; `Err` with the submission for a queued event.
    pub(crate) fn of(outcome: Outcome) -> Result<Self, String> {
        Ok(match outcome {
            Outcome::Queued { submission_id, .. } => return Err(submission_id),
            Outcome::Conflict { problems } => Self::Conflict { existing: None, problems },
            Outcome::QuotaExceeded { quota } => Self::QuotaExceeded { quota },
            Outcome::Invalid { problems } => Self::Invalid { problems },
            Outcome::Unauthorized { code, detail } => Self::Unauthorized { code, detail, queued: false },
            Outcome::Refused { status, code, detail } => Self::Refused { status, code, detail, queued: false },
            Outcome::Unavailable { reason, retry_after, attempts } => {
                Self::Unavailable { reason, queued: false, retry_after, attempts }
            }
            Outcome::HeldBack => {
                let reason = "another event of the call held it back".to_owned();
                Self::Unavailable { reason, queued: false, retry_after: None, attempts: 1 }
            }
        })
    }

    /// What a question's error is for the sender of a queued event.
    pub(crate) fn queued_but(error: LookError) -> Self {
        match error {
            LookError::Unauthorized { code, detail } => Self::Unauthorized { code, detail, queued: true },
            LookError::Refused { status, code, detail } => Self::Refused { status, code, detail, queued: true },
            LookError::Unavailable { reason, retry_after, attempts } => {
                Self::Unavailable { reason, queued: true, retry_after, attempts }
            }
        }
    }
}

/// What the ledger's word means for the sender of `event` under `submission`; `None` as long as the end is open.
///
/// Other facts under the id are a conflict, whether they have come to an end or not: it can only get older. A rejection
/// is one whoever won the claim: nobody was charged.
pub(crate) fn recorded_of(event: &UsageEvent, submission: &str, status: EventStatus) -> Option<Recorded> {
    let facts = status.fingerprint.as_ref()?;
    if *facts != event.fingerprint() {
        return Some(Recorded::Conflict { existing: Some(Box::new(status)), problems: Vec::new() });
    }
    match (status.standing, status.rejection, status.submission_id.clone()) {
        (Standing::Rejected, Some(rejection), _) => Some(Recorded::Rejected { rejection, status: Box::new(status) }),
        (Standing::Uninsertable, _, _) => Some(Recorded::Uninsertable { status: Box::new(status) }),
        (Standing::Inserted, _, Some(by)) if by == submission => Some(Recorded::Inserted { status: Box::new(status) }),
        (Standing::Inserted, _, Some(by)) => Some(Recorded::Duplicate { by, status: Box::new(status) }),
        _ => None,
    }
}

fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UtcMillis>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| UtcMillis::parse(&text).map_err(serde::de::Error::custom)).transpose()
}

fn billed_as<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BilledAs>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    let known = |word: String| BilledAs::from_stored(&word.to_ascii_uppercase());
    word.map(|word| known(word).ok_or_else(|| serde::de::Error::custom("is no plan"))).transpose()
}

fn rejected_reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RejectedReason, D::Error> {
    let word = String::deserialize(deserializer)?.to_ascii_uppercase();
    RejectedReason::from_stored(&word).ok_or_else(|| serde::de::Error::custom("is no reason"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn event() -> UsageEvent {
        let at = UtcMillis::parse("2026-08-18T09:15:00Z").unwrap();
        UsageEvent::builder("api_request", "cus_01", at).quantity(3).build().unwrap()
    }

    fn status(standing: &str, terminal: bool, rest: &str) -> EventStatus {
        let id = event().id();
        serde_json::from_str(&format!(r#"{{"id":"{id}","status":"{standing}","terminal":{terminal}{rest}}}"#)).unwrap()
    }

    #[test]
    fn the_ledger_s_word_is_read_whole() {
        let full = status(
            "rejected",
            true,
            &format!(
                r#","submissionId":"sub_1","fingerprint":"{}","periodMonth":"2026-11",
                "claimedAt":"2026-11-30T00:00:00.000Z","updatedAt":"2026-11-30T00:00:00.001Z","billedAs":"plus",
                "billingAcceptedAt":"2026-11-30T00:00:00.002Z","conflictsSeen":2,"new":"ignored",
                "rejection":{{"reason":"limit_exhausted","limit":10,"count":11}}"#,
                event().fingerprint()
            ),
        );
        assert_eq!(full.period_month, Some(PeriodMonth::parse("2026-11").unwrap()));
        assert_eq!(full.updated_at.unwrap().ms_since(full.claimed_at.unwrap()), 1);
        assert_eq!((full.billed_as, full.conflicts_seen), (Some(BilledAs::Plus), 2));
        let rejection = full.rejection.unwrap();
        assert_eq!(
            (rejection.reason, rejection.limit, rejection.count),
            (RejectedReason::LimitExhausted, Some(10), Some(11))
        );
        let bare = status("unknown", false, "");
        assert_eq!((bare.standing, bare.submission_id, bare.claimed_at), (Standing::Unknown, None, None));
        for bad in [r#"{"id":"uev_","status":"unknown","terminal":false}"#, r#"{"status":"parked"}"#, "[]"] {
            assert!(serde_json::from_str::<EventStatus>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_word_of_the_ledger_has_one_meaning_for_its_sender() {
        const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";
        let own = event().fingerprint().to_string();
        let rejection = r#","rejection":{"reason":"plus_inactive"}"#;
        for (standing, facts, by, rest, expected) in [
            ("inserting", own.as_str(), "sub_me", "", "open"),
            ("inserting", own.as_str(), "sub_other", "", "open"),
            ("inserting", OTHER, "sub_other", "", "conflict"),
            ("inserted", own.as_str(), "sub_me", "", "inserted"),
            ("inserted", own.as_str(), "sub_other", "", "duplicate"),
            ("inserted", OTHER, "sub_other", "", "conflict"),
            // The claim can hold other facts under the caller's own submission: two events of one batch.
            ("inserted", OTHER, "sub_me", "", "conflict"),
            ("rejected", own.as_str(), "sub_me", rejection, "rejected"),
            ("rejected", own.as_str(), "sub_other", rejection, "rejected"),
            ("rejected", OTHER, "sub_other", rejection, "conflict"),
            ("uninsertable", own.as_str(), "sub_other", "", "uninsertable"),
            // What tells too little decides nothing.
            ("rejected", own.as_str(), "sub_me", "", "open"),
        ] {
            let told = format!(r#","fingerprint":"{facts}","submissionId":"{by}"{rest}"#);
            let status = status(standing, standing != "inserting", &told);
            let word = match recorded_of(&event(), "sub_me", status) {
                None => "open",
                Some(Recorded::Inserted { .. }) => "inserted",
                Some(Recorded::Duplicate { by, .. }) if by == "sub_other" => "duplicate",
                Some(Recorded::Conflict { existing: Some(_), .. }) => "conflict",
                Some(Recorded::Rejected { .. }) => "rejected",
                Some(Recorded::Uninsertable { .. }) => "uninsertable",
                Some(other) => panic!("{other:?}"),
            };
            assert_eq!(word, expected, "{standing} {facts} {by}");
        }
        assert_eq!(recorded_of(&event(), "sub_me", status("unknown", false, "")), None);
        assert_eq!(recorded_of(&event(), "sub_me", status("inserted", true, "")), None);
    }

    /// A name for each variant, and all names. A variant that has none here does not compile.
    macro_rules! names {
        ($all:ident, $name:ident, $of:ident: $($variant:ident),+) => {
            const $all: &[&str] = &[$(stringify!($variant)),+];
            fn $name(of: &$of) -> &'static str {
                match of { $($of::$variant { .. } => stringify!($variant)),+ }
            }
        };
    }

    names!(OUTCOMES, outcome_name, Outcome: Queued, Conflict, QuotaExceeded, Invalid, HeldBack, Unauthorized, Refused,
        Unavailable);
    names!(ENDS, recorded_name, Recorded: Inserted, Duplicate, Conflict, Rejected, Uninsertable, Invalid, QuotaExceeded,
        Unauthorized, Refused, Unavailable);

    /// The rows of the page's table of outcomes: result, status, outcome, what is recorded, whether to send again.
    fn rows_of_the_page() -> Vec<[String; 5]> {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../front-door/API.md")).unwrap();
        let (_, table) = page.split_once("| result of the event |").unwrap();
        let cells = |row: &str| {
            let cells: Vec<String> = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            cells.try_into().unwrap()
        };
        table.lines().skip(2).take_while(|line| line.starts_with('|')).map(cells).collect()
    }

    fn word(cell: &str) -> &str {
        cell.split('`').nth(1).unwrap_or(cell)
    }

    #[test]
    fn the_page_s_table_has_every_outcome_and_says_of_each_what_the_code_does() {
        let (own, other, by) = (event().fingerprint().to_string(), "0".repeat(64), "sub_me");
        let known = |standing: &str, facts: &str, by: &str| {
            let rejection = r#","rejection":{"reason":"plus_inactive"}"#;
            let told = format!(r#","fingerprint":"{facts}","submissionId":"{by}"{rejection}"#);
            recorded_of(&event(), "sub_me", status(standing, standing != "inserting", &told))
        };
        let text = String::new;
        let outcome = |name: &str| match name {
            "Conflict" => Outcome::Conflict { problems: Vec::new() },
            "QuotaExceeded" => Outcome::QuotaExceeded { quota: Quota::default() },
            "Invalid" => Outcome::Invalid { problems: Vec::new() },
            "HeldBack" => Outcome::HeldBack,
            "Unauthorized" => Outcome::Unauthorized { code: text(), detail: text() },
            "Refused" => Outcome::Refused { status: 404, code: None, detail: text() },
            "Unavailable" => Outcome::Unavailable { reason: text(), retry_after: None, attempts: 1 },
            _ => Outcome::Queued { id: event().id(), submission_id: by.to_owned() },
        };
        let rows = rows_of_the_page();
        for [result, status, recorded_as, ends_as, again] in &rows {
            let outcome = outcome(word(recorded_as));
            assert_eq!(outcome_name(&outcome), word(recorded_as));
            let recorded = match (outcome, status.as_str()) {
                (Outcome::HeldBack, _) => None,
                (Outcome::Queued { .. }, "`inserted`, by your submission") => known("inserted", &own, by),
                (Outcome::Queued { .. }, "`inserted`, by another submission, with your facts") => {
                    known("inserted", &own, "sub_other")
                }
                (Outcome::Queued { .. }, "any that is known, with other facts") => known("inserting", &other, by),
                (Outcome::Queued { .. }, "`rejected`") => known("rejected", &own, by),
                (Outcome::Queued { .. }, "`uninsertable`") => known("uninsertable", &own, by),
                (Outcome::Queued { .. }, "`unknown` or `inserting`, when the time is over") => {
                    assert_eq!(known("inserting", &own, by), None);
                    let error = LookError::Unavailable { reason: text(), retry_after: None, attempts: 1 };
                    Some(Recorded::queued_but(error))
                }
                (Outcome::Queued { .. }, other) => panic!("{other}"),
                (outcome, _) => Some(Recorded::of(outcome).unwrap()),
            };
            assert_eq!(recorded.as_ref().map_or("none", recorded_name), word(ends_as), "{status}");
            let is_queued = matches!(recorded, Some(Recorded::Unavailable { queued: true, .. }));
            assert_eq!(is_queued, ends_as.contains("queued: true"));
            let is_to_be_sent_again = matches!(word(recorded_as), "Unavailable" | "HeldBack");
            assert_eq!(again.starts_with("yes"), is_to_be_sent_again, "{result}");
        }
        let column = |cell: usize| rows.iter().map(move |row| word(&row[cell])).collect::<BTreeSet<_>>();
        assert_eq!(column(2), OUTCOMES.iter().copied().collect());
        assert_eq!(column(3), ENDS.iter().copied().chain(["none"]).collect());
    }

    #[test]
    fn usage_is_read_for_every_plan() {
        let free: Usage = serde_json::from_str(
            r#"{"space":"acme","month":"2026-11","plan":"free","used":7,"limit":10,"remaining":3,"included":null,
                "resetsAt":"2026-12-01T00:00:00.000Z"}"#,
        )
        .unwrap();
        assert_eq!((free.used, free.limit, free.remaining, free.active), (Some(7), Some(10), Some(3), None));
        assert_eq!(free.resets_at, UtcMillis::parse("2026-12-01T00:00:00Z").ok());
        let plus: Usage =
            serde_json::from_str(r#"{"space":"acme","month":"2026-11","plan":"plus","active":false,"used":null}"#)
                .unwrap();
        assert_eq!((plus.plan, plus.active, plus.used, plus.resets_at), (PlanName::Plus, Some(false), None, None));
    }
}
