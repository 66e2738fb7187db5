//! What became of an event, as what its sender should do.

use std::time::Duration;

use serde::Deserialize;
use tollgate_domain::identity::EventId;
use tollgate_domain::problem::Problem;

/// What became of one event. Each variant is a decision; only [`Outcome::Unavailable`] is worth sending again as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Durably queued: it will be charged once. Forget it; sending it again is harmless.
    Queued {
        /// The event's id.
        id: EventId,
        /// The submission that carried it.
        submission_id: String,
    },
    /// Another event has this id and other facts. Never retry: find out which of the two is true, and give each fact a
    /// key of its own. Neither of the two was queued.
    Conflict {
        /// What the service says of the two.
        problems: Vec<ToldProblem>,
    },
    /// The space's plan takes no more events now. Keep the event, and send it after the reset or an upgrade.
    QuotaExceeded {
        /// What is used up.
        quota: Quota,
    },
    /// The event cannot be taken. Mend it as the problems say.
    Invalid {
        /// Every problem of this event; none where the answer had no room to tell them.
        problems: Vec<ToldProblem>,
    },
    /// No problem of this event was told, but another one of its call was refused, and a call is taken whole or not at
    /// all. Send it again without that one.
    ///
    /// Where an answer has no room for every problem of its call, the client asks on until each event's are told, so
    /// nothing is wrong with this one; unless the service tells no more of them, and then the next call's answer does.
    HeldBack,
    /// The API key is missing, unknown, revoked, or may not send events. Mend the configuration, then send it again.
    Unauthorized {
        /// The service's stable code.
        code: String,
        /// What to do about it.
        detail: String,
    },
    /// The service does not take such a call at all: a wrong endpoint, or a version of one side that the other does not
    /// know. Mend the program.
    Refused {
        /// HTTP status.
        status: u16,
        /// The service's stable code, if it told one.
        code: Option<String>,
        /// What it said.
        detail: String,
    },
    /// Not known to be queued, after every attempt of the policy: it may be, or not. Keep the event and send the same
    /// one later; if it was queued after all, it is charged once all the same.
    Unavailable {
        /// What the last attempt met.
        reason: String,
        /// How long the service asked to wait.
        retry_after: Option<Duration>,
        /// Attempts made.
        attempts: u32,
    },
}

/// One problem of one event, as the service told it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ToldProblem {
    /// Stable kind of problem.
    pub code: String,
    /// Path of the field; empty for the whole event.
    #[serde(default)]
    pub field: String,
    /// What is wrong.
    #[serde(default)]
    pub problem: String,
    /// What to send instead.
    #[serde(default)]
    pub mend: String,
    /// Position in the call, which is not the batch's.
    #[serde(default)]
    index: Option<usize>,
}

impl ToldProblem {
    /// Whether it is of two events of one call.
    pub(crate) fn is_contradiction(&self) -> bool {
        self.code == "same_id_other_payload"
    }
}

impl From<Problem> for ToldProblem {
    fn from(problem: Problem) -> Self {
        let Problem { code, index, field, problem, mend } = problem;
        Self { code: code.to_owned(), field, problem, mend, index }
    }
}

/// Why a plan takes no more events now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Quota {
    /// `free` or `plus`; empty where the service did not tell.
    pub plan: String,
    /// Events a month; absent for an inactive plan.
    pub limit: Option<u64>,
    /// Events that the month has consumed; absent for an inactive plan.
    pub used: Option<u64>,
    /// When the next month begins, ISO 8601 in UTC; absent for an inactive plan.
    pub resets_at: Option<String>,
}

/// What an answer means for the events of its call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every event's outcome stands.
    Final(Vec<Outcome>),
    /// The call is refused, by an answer without room for every problem: what it tells stands, and of an event without
    /// a word nothing is known.
    Untold(Vec<Option<Outcome>>),
    /// The same bytes again, after a wait. If there is no other attempt, these events are known to be queued.
    Again { reason: String, queued: Vec<(usize, Outcome)> },
}

/// A body of the service: a 202, or a problem document.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Answer {
    code: Option<String>,
    detail: Option<String>,
    problems: Vec<ToldProblem>,
    #[serde(rename = "problemsOmitted")]
    problems_omitted: u64,
    results: Vec<EventAnswer>,
    #[serde(flatten)]
    quota: Quota,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventAnswer {
    index: usize,
    /// Absent for an event that is none.
    id: Option<EventId>,
    submission_id: String,
    status: String,
}

/// What an answer means for each event of its call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EachVerdict {
    /// One a place of the call: its outcome, or nothing where it is to be sent again; at once when there is no
    /// `reason` to wait.
    Each { outcomes: Vec<Option<Outcome>>, reason: Option<String> },
    /// The call as a whole is refused; `divisible` when one of its events may be to blame for all.
    Whole { outcome: Outcome, divisible: bool },
}

/// Reads the answer of a call of `events` events that is taken whole. An event without an outcome is sent again, where
/// there is a reason to wait; where there is none, its problems are still to be told.
pub(crate) fn whole_verdict_of(status: u16, body: &[u8], events: usize) -> EachVerdict {
    match verdict_of(status, body, events) {
        Verdict::Final(outcomes) => {
            EachVerdict::Each { outcomes: outcomes.into_iter().map(Some).collect(), reason: None }
        }
        Verdict::Untold(outcomes) => EachVerdict::Each { outcomes, reason: None },
        Verdict::Again { reason, queued } => {
            let mut outcomes = vec![None; events];
            for (index, outcome) in queued {
                outcomes.get_mut(index).into_iter().for_each(|place| *place = Some(outcome.clone()));
            }
            EachVerdict::Each { outcomes, reason: Some(reason) }
        }
    }
}

/// Reads the answer of a call of `events` events that was sent with `partial=true`.
pub(crate) fn partial_verdict_of(status: u16, body: &[u8], events: usize) -> EachVerdict {
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    if matches!(status, 202 | 400 | 402 | 422 | 503) && !answer.results.is_empty() {
        return each_of(status, &answer, events);
    }
    match verdict_of(status, body, events) {
        Verdict::Again { reason, .. } => EachVerdict::Each { outcomes: vec![None; events], reason: Some(reason) },
        Verdict::Untold(outcomes) => EachVerdict::Each { outcomes, reason: None },
        Verdict::Final(outcomes) => match outcomes.first() {
            Some(refused @ Outcome::Refused { .. }) => {
                EachVerdict::Whole { outcome: refused.clone(), divisible: matches!(status, 400 | 413 | 422) }
            }
            Some(refused @ (Outcome::Unauthorized { .. } | Outcome::QuotaExceeded { .. })) => {
                EachVerdict::Whole { outcome: refused.clone(), divisible: false }
            }
            // A service that takes all or nothing after all: those that another event held back go again without it.
            _ => EachVerdict::Each {
                outcomes: outcomes.into_iter().map(|o| Some(o).filter(|o| *o != Outcome::HeldBack)).collect(),
                reason: None,
            },
        },
    }
}

/// Results event by event. What an answer does not tell of an event is unknown, and so is a word that this version does
/// not know: such an event is sent again.
fn each_of(status: u16, answer: &Answer, events: usize) -> EachVerdict {
    let mut outcomes = vec![None; events];
    for result in &answer.results {
        if let Some(place) = outcomes.get_mut(result.index) {
            *place = outcome_of(result, answer);
        }
    }
    let unknown = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    let reason = (unknown > 0).then(|| format!("the service answered {status}, without {unknown} of {events} events"));
    EachVerdict::Each { outcomes, reason }
}

fn outcome_of(result: &EventAnswer, answer: &Answer) -> Option<Outcome> {
    let problems = || {
        let of_event = |problem: &&ToldProblem| problem.index == Some(result.index);
        answer.problems.iter().filter(of_event).cloned().collect()
    };
    match result.status.as_str() {
        "queued" => queued_event(result),
        "invalid" => Some(Outcome::Invalid { problems: problems() }),
        "conflict" => Some(Outcome::Conflict { problems: problems() }),
        "quota_exceeded" => Some(Outcome::QuotaExceeded { quota: answer.quota.clone() }),
        _ => None,
    }
}

fn queued_event(result: &EventAnswer) -> Option<Outcome> {
    let id = result.id.clone().filter(|_| result.status == "queued")?;
    Some(Outcome::Queued { id, submission_id: result.submission_id.clone() })
}

/// Reads the answer of a call of `events` events.
pub(crate) fn verdict_of(status: u16, body: &[u8], events: usize) -> Verdict {
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    let every = |outcome: Outcome| Verdict::Final(vec![outcome; events]);
    match status {
        202 => all_queued(&answer, events),
        400 | 422 if answer.problems.iter().any(|problem| problem.index.is_some_and(|index| index < events)) => {
            let told: Vec<_> = (0..events).map(|index| refused_event(&answer.problems, index)).collect();
            if answer.problems_omitted > 0 && told.contains(&None) {
                return Verdict::Untold(told);
            }
            Verdict::Final(told.into_iter().map(|outcome| outcome.unwrap_or(Outcome::HeldBack)).collect())
        }
        401 | 403 => every(Outcome::Unauthorized {
            code: answer.code.unwrap_or_default(),
            detail: answer.detail.unwrap_or_default(),
        }),
        402 => every(Outcome::QuotaExceeded { quota: answer.quota }),
        408 | 429 | 500..=599 => {
            let code = answer.code.unwrap_or_else(|| "no code".to_owned());
            let detail = answer.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
            let reason = format!("the service answered {status} ({code}){detail}");
            Verdict::Again { reason, queued: queued(&answer.results) }
        }
        _ => every(Outcome::Refused { status, code: answer.code, detail: answer.detail.unwrap_or_default() }),
    }
}

/// A 202 that does not name every event as queued is no proof of anything, so it counts as no answer.
fn all_queued(answer: &Answer, events: usize) -> Verdict {
    let queued = queued(&answer.results);
    let complete = queued.len() == events && queued.iter().enumerate().all(|(place, (index, _))| place == *index);
    if complete {
        Verdict::Final(queued.into_iter().map(|(_, outcome)| outcome).collect())
    } else {
        Verdict::Again { reason: "the service answered 202 without a result for every event".to_owned(), queued }
    }
}

fn queued(results: &[EventAnswer]) -> Vec<(usize, Outcome)> {
    results.iter().filter_map(|result| Some((result.index, queued_event(result)?))).collect()
}

/// `None`: no problem of this event is told.
fn refused_event(problems: &[ToldProblem], index: usize) -> Option<Outcome> {
    let problems: Vec<_> = problems.iter().filter(|problem| problem.index == Some(index)).cloned().collect();
    match problems.as_slice() {
        [] => None,
        some if some.iter().all(ToldProblem::is_contradiction) => Some(Outcome::Conflict { problems }),
        _ => Some(Outcome::Invalid { problems }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn final_of(status: u16, body: &str, events: usize) -> Vec<Outcome> {
        match verdict_of(status, body.as_bytes(), events) {
            Verdict::Final(outcomes) => outcomes,
            Verdict::Again { reason, .. } => panic!("{reason}"),
            Verdict::Untold(outcomes) => panic!("{outcomes:?}"),
        }
    }

    #[test]
    fn problems_go_to_their_events_and_the_others_are_held_back() {
        let outcomes = final_of(
            400,
            r#"{"code":"invalid_events","problems":[
                {"code":"missing_field","index":1,"field":"meter","problem":"is missing","mend":"send it"},
                {"code":"same_id_other_payload","index":2,"field":"idempotencyKey","problem":"p","mend":"m"}]}"#,
            3,
        );
        assert_eq!(outcomes[0], Outcome::HeldBack);
        assert!(matches!(&outcomes[1], Outcome::Invalid { problems } if problems[0].field == "meter"));
        assert!(matches!(&outcomes[2], Outcome::Conflict { .. }));
    }

    #[test]
    fn an_event_whose_problems_may_be_left_out_is_not_said_to_be_held_back() {
        let told = |omitted: u64| {
            format!(
                r#"{{"code":"invalid_events","problemsOmitted":{omitted},"problems":[{{"code":"missing_field","index":0}}]}}"#
            )
        };
        assert!(matches!(final_of(400, &told(0), 2).as_slice(), [Outcome::Invalid { .. }, Outcome::HeldBack]));
        let verdict = verdict_of(400, told(1).as_bytes(), 2);
        assert!(matches!(&verdict, Verdict::Untold(each) if matches!(each.as_slice(), [Some(_), None])), "{verdict:?}");
        // Every event has a problem: which others it has is no question of its outcome.
        assert!(matches!(final_of(400, &told(7), 1).as_slice(), [Outcome::Invalid { .. }]));
        assert_eq!(words(400, &told(1), 2), ("invalid again".to_owned(), false));
        // Results tell of each event, whether there was room for its problems or not.
        let rows = told(1).replace(
            "\"problems\":",
            r#""results":[{"index":0,"submissionId":"s","status":"invalid"},{"index":1,"submissionId":"s","status":"invalid"}],"problems":"#,
        );
        assert_eq!(words(400, &rows, 2), ("invalid invalid".to_owned(), false));
    }

    #[test]
    fn refusals_are_told_apart() {
        let quota =
            r#"{"code":"quota_exceeded","plan":"free","limit":10,"used":11,"resetsAt":"2026-12-01T00:00:00.000Z"}"#;
        assert!(matches!(
            final_of(402, quota, 1).as_slice(),
            [Outcome::QuotaExceeded { quota }] if quota.limit == Some(10) && quota.used == Some(11) && quota.resets_at.is_some()
        ));
        assert!(matches!(final_of(401, r#"{"code":"unknown_key"}"#, 1).as_slice(), [Outcome::Unauthorized { .. }]));
        for status in [301, 404, 405, 413, 415, 418] {
            assert!(matches!(
                final_of(status, "<html>", 2).as_slice(),
                [Outcome::Refused { .. }, Outcome::Refused { .. }]
            ));
        }
    }

    const ID: &str = "uev_b235f5e8f2da9cff771d8da74032c5f6a033d143a98622dc75fc17990e7abbae";

    /// What becomes of each event of a partial call, in one word each, and whether there is a wait.
    fn words(status: u16, body: &str, events: usize) -> (String, bool) {
        let word = |outcome: &Option<Outcome>| match outcome {
            None => "again",
            Some(Outcome::Queued { .. }) => "queued",
            Some(Outcome::Invalid { .. }) => "invalid",
            Some(Outcome::Conflict { .. }) => "conflict",
            Some(Outcome::QuotaExceeded { .. }) => "quota",
            Some(_) => "other",
        };
        match partial_verdict_of(status, body.as_bytes(), events) {
            EachVerdict::Each { outcomes, reason } => {
                (outcomes.iter().map(word).collect::<Vec<_>>().join(" "), reason.is_some())
            }
            EachVerdict::Whole { outcome, divisible } => (format!("{}!{divisible}", word(&Some(outcome))), false),
        }
    }

    #[test]
    fn a_partial_call_has_an_outcome_an_event() {
        let row = |index: usize, status: &str| {
            let id = if status == "invalid" { String::new() } else { format!(r#""id":"{ID}","#) };
            format!(r#"{{"index":{index},{id}"submissionId":"sub_1","status":"{status}"}}"#)
        };
        let rows = |statuses: &[&str]| {
            let rows: Vec<_> = statuses.iter().enumerate().map(|(index, status)| row(index, status)).collect();
            format!(
                r#"{{"plan":"free","limit":1,"problems":[{{"code":"missing_field","index":1}}],"results":[{}]}}"#,
                rows.join(",")
            )
        };
        let mixed = rows(&["queued", "invalid", "conflict", "quota_exceeded"]);
        let problem = |index| format!(r#"{{"code":"missing_field","index":{index}}}"#);
        let cases: [(u16, String, &str, bool); 14] = [
            (202, mixed.clone(), "queued invalid conflict quota", false),
            (503, rows(&["queued", "invalid", "unavailable", "conflict"]), "queued invalid again conflict", true),
            (402, rows(&["quota_exceeded"; 4]), "quota quota quota quota", false),
            (422, rows(&["conflict"; 4]), "conflict conflict conflict conflict", false),
            (400, rows(&["invalid"; 4]), "invalid invalid invalid invalid", false),
            // Less than the whole is no proof of the rest; neither is a word of another version.
            (202, rows(&["queued", "invalid", "queued"]), "queued invalid queued again", true),
            (202, rows(&["queued", "queued", "parked", "queued"]), "queued queued again queued", true),
            (202, "<html>".to_owned(), "again again again again", true),
            (500, mixed, "again again again again", true),
            // A service that knows no partial calls.
            (400, format!(r#"{{"problems":[{}]}}"#, problem(2)), "again again invalid again", false),
            (
                400,
                format!(r#"{{"problems":[{}]}}"#, [0, 1, 2, 3].map(problem).join(",")),
                "invalid invalid invalid invalid",
                false,
            ),
            (413, r#"{"code":"body_too_large"}"#.to_owned(), "other!true", false),
            (404, String::new(), "other!false", false),
            (402, r#"{"code":"plan_inactive"}"#.to_owned(), "quota!false", false),
        ];
        for (status, body, expected, waits) in cases {
            assert_eq!(words(status, &body, 4), (expected.to_owned(), waits), "{status} {body}");
        }
        assert_eq!(words(401, "", 2), ("other!false".to_owned(), false));
        // A problem that names no event of the call is the call's own.
        assert_eq!(words(400, &format!(r#"{{"problems":[{}]}}"#, problem(9)), 2), ("other!true".to_owned(), false));
    }

    #[test]
    fn what_proves_nothing_is_sent_again() {
        let one = r#"{"results":[{"index":0,"id":"uev_b235f5e8f2da9cff771d8da74032c5f6a033d143a98622dc75fc17990e7abbae","submissionId":"sub_1","status":"queued"}]}"#;
        assert!(matches!(final_of(202, one, 1).as_slice(), [Outcome::Queued { .. }]));
        for (status, body, events, known) in [
            (202, one, 2, 1),
            (202, "", 1, 0),
            (202, "<html>", 1, 0),
            (503, one, 2, 1),
            (429, "", 1, 0),
            (500, "", 1, 0),
        ] {
            let verdict = verdict_of(status, body.as_bytes(), events);
            assert!(matches!(verdict, Verdict::Again { queued, .. } if queued.len() == known), "{status} {body}");
        }
    }
}
