//! The client: batches in, one outcome an event out.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, InvalidHeaderValue};
use http::uri::Scheme;
use http::{Method, Uri};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tollgate_domain::identity::EventId;
use tollgate_domain::key::ApiKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::problem::Problem;

use crate::call::{Call, MAX_CALL_BYTES, SubmissionId, body_of, calls_of};
use crate::event::UsageEvent;
use crate::outcome::{EachVerdict, Outcome, ToldProblem, Verdict, partial_verdict_of, verdict_of, whole_verdict_of};
use crate::retry::{RetryPolicy, chance};
use crate::status::{EventStatus, LookError, Recorded, Usage, recorded_of};
use crate::transport::{Ask, Endpoint, Reply, Transport};

const EVENTS_PATH: &str = "/v1/events";
const PARTIAL_EVENTS_PATH: &str = "/v1/events?partial=true";
const USAGE_PATH: &str = "/v1/usage";
/// Attempts of a call that fail in a row before it is divided.
const FAILURES_OF_A_SIZE: u32 = 3;
/// A call of so many events is not divided for failing.
const SMALL_CALL_EVENTS: usize = 50;
/// The longest wait of one question that the service takes, in seconds.
const MAX_WAIT_S: u64 = 20;
/// Seconds that it is first asked to wait for an event's end; each further question asks for twice as long.
const FIRST_WAIT_S: u64 = 2;
/// Kept of a wait's time for the answer to travel.
const TRAVEL_TIME: Duration = Duration::from_millis(500);
/// A question that was answered sooner did not wait, and the next one must not follow at its heels.
const WAITED: Duration = Duration::from_secs(1);
/// Pauses between questions that did not wait, jittered: first and longest.
const POLL: RetryPolicy = RetryPolicy {
    max_attempts: u32::MAX,
    max_elapsed: Duration::MAX,
    base: Duration::from_millis(50),
    cap: Duration::from_secs(1),
};

/// A client of one front door with one API key, and so of one space. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
    call_timeout: Duration,
    retry: RetryPolicy,
}

/// Why a client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Mend the endpoint.
    #[error("the endpoint is not of the form https://host[:port][/path]")]
    Endpoint,
    /// Use https, or say [`ClientBuilder::allow_plain_text`] where something else protects the way.
    #[error("the endpoint would carry the API key unencrypted to another machine: use https")]
    PlainText,
    /// Install root certificates on this machine.
    #[error("no root certificates to check the endpoint with: {0}")]
    RootCertificates(#[from] std::io::Error),
    /// Not reached with a key that [`ApiKey`] holds.
    #[error("the API key does not fit into a header")]
    Key(#[from] InvalidHeaderValue),
}

/// Settings of a client.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing before `build`"]
pub struct ClientBuilder {
    endpoint: String,
    key: ApiKey,
    call_timeout: Duration,
    connect_timeout: Duration,
    retry: RetryPolicy,
    allow_plain_text: bool,
}

impl ClientBuilder {
    /// Time for one attempt, from connecting to the answer's last byte. Default 10 s.
    pub fn call_timeout(self, call_timeout: Duration) -> Self {
        Self { call_timeout, ..self }
    }

    /// Time for a connection. Default 2 s.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// How an unavailable service is asked again.
    pub fn retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Lets the API key travel unencrypted to another machine: for a network that is protected otherwise. Loopback
    /// needs no leave.
    pub fn allow_plain_text(self) -> Self {
        Self { allow_plain_text: true, ..self }
    }

    /// The client; connects when it first sends.
    pub fn build(self) -> Result<Client, BuildError> {
        let endpoint: Uri = self.endpoint.trim_end_matches('/').parse().map_err(|_| BuildError::Endpoint)?;
        let parts = endpoint.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(BuildError::Endpoint);
        };
        let path = parts.path_and_query.as_ref().map_or("", |path| path.path().trim_end_matches('/'));
        let has_query = parts.path_and_query.as_ref().is_some_and(|path| path.query().is_some());
        if has_query || (scheme != Scheme::HTTP && scheme != Scheme::HTTPS) {
            return Err(BuildError::Endpoint);
        }
        if scheme == Scheme::HTTP && !self.allow_plain_text && !is_loopback(authority.host()) {
            return Err(BuildError::PlainText);
        }
        let endpoint = Endpoint { scheme, authority, prefix: path.to_owned() };
        endpoint.uri(EVENTS_PATH).ok_or(BuildError::Endpoint)?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", self.key.expose()))?;
        authorization.set_sensitive(true);
        let transport = Transport::new(endpoint, authorization, self.connect_timeout)?;
        Ok(Client { transport, call_timeout: self.call_timeout, retry: self.retry })
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Client {
    /// Starts a client of the front door at `endpoint`, such as `https://tollgate.example.com`.
    pub fn builder(endpoint: impl Into<String>, key: &ApiKey) -> ClientBuilder {
        ClientBuilder {
            endpoint: endpoint.into(),
            key: key.clone(),
            call_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            retry: RetryPolicy::default(),
            allow_plain_text: false,
        }
    }

    /// Sends one event, again and again while the service is unavailable, within the policy.
    pub async fn record(&self, event: &UsageEvent) -> Outcome {
        self.record_one(event, &self.retry).await
    }

    /// Sends events, in order, in calls of at most 500 events and 1 MiB, one call after the other; each call is
    /// taken whole or not at all. One outcome an event, in the same order.
    ///
    /// Only what is not known to be queued is sent again. A service that queues a part of a call has found no fault with
    /// it, so the rest may then go in smaller calls; should the attempts end first, that part alone is queued.
    ///
    /// The retry policy holds for each call by itself. For more than one call at a time, share clones of the client.
    pub async fn record_batch(&self, events: &[UsageEvent]) -> Vec<Outcome> {
        let texts: Vec<String> = events.iter().map(UsageEvent::to_json).collect();
        self.record_texts(&texts, Taking::Whole, &self.retry).await
    }

    /// Like [`Client::record_batch`], but each event stands for itself: a bad one holds no other back, so that no
    /// outcome is [`Outcome::HeldBack`]. Only the events without an outcome are sent again.
    pub async fn record_batch_partial(&self, events: &[UsageEvent]) -> Vec<Outcome> {
        let texts: Vec<String> = events.iter().map(UsageEvent::to_json).collect();
        self.record_texts(&texts, Taking::Each, &self.retry).await
    }

    /// Like [`Client::record_batch`], of events in Tollgate's JSON form that nobody has checked: the service tells what
    /// is wrong with them.
    pub async fn record_json_batch(&self, events: &[Value]) -> Vec<Outcome> {
        let texts: Vec<String> = events.iter().map(Value::to_string).collect();
        self.record_texts(&texts, Taking::Whole, &self.retry).await
    }

    /// Sends one event and waits until its end is known, `timeout` for all of it. The submission id is the same for
    /// every attempt, so that the ledger can tell this call's own retry from an event that was recorded before.
    ///
    /// The key needs the scopes `ingest` and `read`.
    pub async fn record_and_wait(&self, event: &UsageEvent, timeout: Duration) -> Recorded {
        let started = Instant::now();
        match Recorded::of(self.record_one(event, &self.retry.within(timeout)).await) {
            Ok(recorded) => recorded,
            Err(submission) => self.follow(event, &submission, started, timeout).await,
        }
    }

    /// Sends events as [`Client::record_batch_partial`] does and waits until the end of each is known, `timeout` for
    /// all of them. Equal events of one call are one event, inserted once, and each is told so.
    pub async fn record_and_wait_batch(&self, events: &[UsageEvent], timeout: Duration) -> Vec<Recorded> {
        let started = Instant::now();
        let texts: Vec<String> = events.iter().map(UsageEvent::to_json).collect();
        let outcomes = self.record_texts(&texts, Taking::Each, &self.retry.within(timeout)).await;
        let mut recorded = Vec::with_capacity(events.len());
        // One after the other: while the first is waited for, the others come to their ends as well.
        for (event, outcome) in events.iter().zip(outcomes) {
            recorded.push(match Recorded::of(outcome) {
                Ok(recorded) => recorded,
                Err(submission) => self.follow(event, &submission, started, timeout).await,
            });
        }
        recorded
    }

    /// Where an event stands. With a `wait`, in whole seconds up to 20, the service answers as soon as the event has
    /// come to its end, or at the end of the wait.
    pub async fn event_status(&self, id: &EventId, wait: Duration) -> Result<EventStatus, LookError> {
        let wait_s = wait.as_secs().min(MAX_WAIT_S);
        self.look(&status_ask(id, wait_s), Duration::from_secs(wait_s)).await
    }

    /// What the key's space has used of a month; of the current one unless told. The key needs the scope `read`.
    pub async fn usage(&self, month: Option<PeriodMonth>) -> Result<Usage, LookError> {
        let query = month.map(|month| format!("?month={month}")).unwrap_or_default();
        self.look(&Ask::get(format!("{USAGE_PATH}{query}")), Duration::ZERO).await
    }

    /// How this client asks an unavailable service again.
    pub(crate) fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    async fn record_one(&self, event: &UsageEvent, policy: &RetryPolicy) -> Outcome {
        let outcomes = self.record_texts(&[event.to_json()], Taking::Whole, policy).await;
        outcomes.into_iter().next().unwrap_or_else(|| unreachable!("one event has one outcome"))
    }

    async fn record_texts(&self, texts: &[String], taking: Taking, policy: &RetryPolicy) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; texts.len()];
        for call in calls_of(texts) {
            match call {
                Call::Events(events) => {
                    let (start, texts) = (events.start, texts.get(events).unwrap_or_default());
                    let settle = |place: usize, outcome| {
                        if let Some(slot) = outcomes.get_mut(start + place) {
                            *slot = Some(outcome);
                        }
                    };
                    self.call(texts, taking, policy, settle).await;
                }
                Call::TooLarge { index, bytes } => {
                    if let Some(slot) = outcomes.get_mut(index) {
                        *slot = Some(too_large(bytes));
                    }
                }
            }
        }
        let settled = |outcome: Option<Outcome>| outcome.unwrap_or_else(|| unreachable!("every event is settled"));
        outcomes.into_iter().map(settled).collect()
    }

    /// One call: `settle` is told the outcome of each place of `texts`, once, as soon as it stands. Only the others are
    /// sent again, each with the same bytes, under the same submission id.
    ///
    /// A call that fails again and again is divided, so that a slow service or a short time for an attempt ends some of
    /// it; one that is taken whole, only when the service has begun to take it. One whose events stand each for itself
    /// and that is refused as a whole for its bytes is divided until the one event to blame stands alone.
    pub(crate) async fn call(
        &self,
        texts: &[impl AsRef<str>],
        taking: Taking,
        policy: &RetryPolicy,
        mut settle: impl FnMut(usize, Outcome),
    ) {
        let (started, submission) = (Instant::now(), SubmissionId::new());
        let mut parts = vec![Part { witnesses: Vec::new(), places: (0..texts.len()).collect() }];
        let mut is_divisible = taking == Taking::Each;
        let (mut attempts, mut failures) = (0, 0);
        while let Some(part) = parts.pop() {
            if part.places.is_empty() {
                continue;
            }
            let sent: Vec<_> = part.sent().filter_map(|place| texts.get(place)).collect();
            let ask = events_ask(taking.path(), body_of(&sent), &submission);
            attempts += 1;
            let limit = self.call_timeout.min(policy.max_elapsed.saturating_sub(started.elapsed()));
            let reply = self.transport.attempt(&ask, limit).await;
            // Smaller calls are more calls, which is no help against this.
            let is_too_often = matches!(reply, Reply::Answered { status: 429, .. });
            let (verdict, retry_after) = match reply {
                Reply::Answered { status, retry_after, body } => {
                    (taking.verdict_of(status, &body, sent.len()), retry_after)
                }
                Reply::Unknown(reason) => {
                    (EachVerdict::Each { outcomes: vec![None; sent.len()], reason: Some(reason) }, None)
                }
            };
            let (outcomes, reason) = match verdict {
                EachVerdict::Each { outcomes, reason } => (outcomes, reason),
                EachVerdict::Whole { divisible: true, .. } if part.places.len() > 1 => {
                    parts.extend(part.halves());
                    attempts = 0; // an answer: the service is there
                    continue;
                }
                EachVerdict::Whole { outcome, .. } => (vec![Some(outcome); sent.len()], None),
            };
            // Whole or not at all: what the service queues in part, it has found no fault with.
            is_divisible |= reason.is_some() && outcomes.iter().any(Option::is_some);
            let rest = part.rest(taking, &outcomes, reason.is_none());
            let progress = rest.places.len() < part.places.len();
            for (place, outcome) in part.places.into_iter().zip(outcomes.into_iter().skip(part.witnesses.len())) {
                match outcome {
                    Some(outcome) => settle(place, outcome),
                    // The service was asked for this event's problems and told others' again.
                    None if reason.is_none() && !progress => settle(place, Outcome::HeldBack),
                    None => {}
                }
            }
            let Some(reason) = reason.filter(|_| !rest.places.is_empty()) else {
                (attempts, failures) = (0, 0);
                parts.extend(Some(rest).filter(|_| progress));
                continue;
            };
            let Some(wait) = policy.wait_after(attempts, started.elapsed(), retry_after, chance()) else {
                for place in rest.places.into_iter().chain(parts.into_iter().flat_map(|part| part.places)) {
                    settle(place, Outcome::Unavailable { reason: reason.clone(), retry_after, attempts });
                }
                return;
            };
            failures += u32::from(!is_too_often);
            if is_divisible && failures >= FAILURES_OF_A_SIZE && rest.places.len() > SMALL_CALL_EVENTS {
                failures = 0;
                parts.extend(rest.halves());
            } else {
                parts.push(rest);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for the end of a queued event: questions of up to 20 s each, until `timeout` after `started`.
    async fn follow(&self, event: &UsageEvent, submission: &str, started: Instant, timeout: Duration) -> Recorded {
        let id = event.id();
        let patience = RetryPolicy { max_attempts: self.retry.max_attempts, ..self.retry.endless() };
        let (mut failures, mut polls) = (0, 0);
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            // The service answers early for an end only: short turns first, so that a conflict with an event that has
            // not come to its end is told soon.
            let turn_s = (FIRST_WAIT_S << polls.min(8)).min(MAX_WAIT_S);
            let wait_s = left.saturating_sub(TRAVEL_TIME).as_secs().min(turn_s);
            let (asked, limit) =
                (Instant::now(), left.min(self.call_timeout.saturating_add(Duration::from_secs(wait_s))));
            let (pause, error) = match self.look_once::<EventStatus>(&status_ask(&id, wait_s), limit).await {
                Looked::Found(status) => {
                    let standing = status.standing;
                    if let Some(recorded) = recorded_of(event, submission, status) {
                        return recorded;
                    }
                    (failures, polls) = (0, polls + 1);
                    let pause = POLL.wait_after(polls, Duration::ZERO, None, chance());
                    let pause = pause.filter(|_| asked.elapsed() < WAITED).unwrap_or_default();
                    let reason = format!("queued, not yet terminal: {standing:?}");
                    (Some(pause), LookError::Unavailable { reason, retry_after: None, attempts: polls })
                }
                Looked::Refused(error) => return Recorded::queued_but(error),
                Looked::Again { reason, retry_after } => {
                    failures += 1;
                    let pause = patience.wait_after(failures, started.elapsed(), retry_after, chance());
                    let reason = format!("queued, and then: {reason}");
                    (pause, LookError::Unavailable { reason, retry_after, attempts: failures })
                }
            };
            match pause.filter(|pause| started.elapsed().saturating_add(*pause) < timeout) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Recorded::queued_but(error),
            }
        }
    }

    /// Asks until an answer stands or the policy ends; `wait` is how long the service may think about each answer.
    async fn look<T: DeserializeOwned>(&self, ask: &Ask, wait: Duration) -> Result<T, LookError> {
        let started = Instant::now();
        let max_elapsed = self.retry.max_elapsed.saturating_add(wait);
        let policy = RetryPolicy { max_elapsed, ..self.retry.clone() };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let limit = self.call_timeout.saturating_add(wait).min(max_elapsed.saturating_sub(started.elapsed()));
            let (reason, retry_after) = match self.look_once(ask, limit).await {
                Looked::Found(found) => return Ok(found),
                Looked::Refused(error) => return Err(error),
                Looked::Again { reason, retry_after } => (reason, retry_after),
            };
            match policy.wait_after(attempts, started.elapsed(), retry_after, chance()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(LookError::Unavailable { reason, retry_after, attempts }),
            }
        }
    }

    /// Asks once. An answer that cannot be read proves nothing, so it counts as none.
    async fn look_once<T: DeserializeOwned>(&self, ask: &Ask, limit: Duration) -> Looked<T> {
        let (status, retry_after, body) = match self.transport.attempt(ask, limit).await {
            Reply::Answered { status, retry_after, body } => (status, retry_after, body),
            Reply::Unknown(reason) => return Looked::Again { reason, retry_after: None },
        };
        if status == 200 {
            return match serde_json::from_slice(&body) {
                Ok(found) => Looked::Found(found),
                Err(error) => {
                    Looked::Again { reason: format!("the answer is not the one asked for: {error}"), retry_after }
                }
            };
        }
        let no_answer = || LookError::Refused { status, code: None, detail: "is no answer to a question".to_owned() };
        match verdict_of(status, &body, 1) {
            Verdict::Again { reason, .. } => Looked::Again { reason, retry_after },
            Verdict::Untold(_) => Looked::Refused(no_answer()),
            Verdict::Final(outcomes) => Looked::Refused(match outcomes.into_iter().next() {
                Some(Outcome::Unauthorized { code, detail }) => LookError::Unauthorized { code, detail },
                Some(Outcome::Refused { status, code, detail }) => LookError::Refused { status, code, detail },
                _ => no_answer(),
            }),
        }
    }
}

/// How a call is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taking {
    /// Whole or not at all.
    Whole,
    /// Each event for itself.
    Each,
}

impl Taking {
    fn path(self) -> &'static str {
        match self {
            Self::Whole => EVENTS_PATH,
            Self::Each => PARTIAL_EVENTS_PATH,
        }
    }

    fn verdict_of(self, status: u16, body: &[u8], events: usize) -> EachVerdict {
        match self {
            Self::Whole => whole_verdict_of(status, body, events),
            Self::Each => partial_verdict_of(status, body, events),
        }
    }
}

/// Events of one call that have no outcome, to be sent together.
struct Part {
    /// Events whose outcome stands, sent along so that the service refuses the whole again while it tells the others'
    /// problems.
    witnesses: Vec<usize>,
    places: Vec<usize>,
}

impl Part {
    fn sent(&self) -> impl Iterator<Item = usize> {
        self.witnesses.iter().chain(&self.places).copied()
    }

    /// The second first: what is pushed last is sent next.
    fn halves(mut self) -> [Self; 2] {
        let second = self.places.split_off(self.places.len() / 2);
        [Self { witnesses: self.witnesses.clone(), places: second }, self]
    }

    /// What is left of it after an answer with these outcomes.
    ///
    /// `is_refused`: not for want of an answer, so the rest of a call that is taken whole needs a witness. One with few
    /// problems leaves room for the others'; one that contradicts an event is needed for that event's problem.
    fn rest(&self, taking: Taking, outcomes: &[Option<Outcome>], is_refused: bool) -> Self {
        let places = self.sent().zip(outcomes).skip(self.witnesses.len());
        let places = places.filter(|(_, outcome)| outcome.is_none()).map(|(place, _)| place).collect();
        if taking == Taking::Each || !is_refused {
            return Self { witnesses: self.witnesses.clone(), places };
        }
        let told =
            || self.sent().zip(outcomes).filter_map(|(place, outcome)| Some((place, problems_of(outcome.as_ref())?)));
        let mildest = told().min_by_key(|(_, problems)| problems.len()).map(|(place, _)| place);
        let contradicts = |problems: &[ToldProblem]| problems.iter().any(ToldProblem::is_contradiction);
        let is_witness = |(place, problems): &(usize, &[ToldProblem])| Some(*place) == mildest || contradicts(problems);
        Self { witnesses: told().filter(is_witness).map(|(place, _)| place).collect(), places }
    }
}

fn problems_of(outcome: Option<&Outcome>) -> Option<&[ToldProblem]> {
    match outcome {
        Some(Outcome::Invalid { problems } | Outcome::Conflict { problems }) => Some(problems),
        _ => None,
    }
}

/// What one question came to.
enum Looked<T> {
    Found(T),
    Refused(LookError),
    Again { reason: String, retry_after: Option<Duration> },
}

fn events_ask(path: &str, body: Bytes, submission: &SubmissionId) -> Ask {
    Ask { method: Method::POST, path: path.to_owned(), body: Some(body), submission: Some(submission.header()) }
}

fn status_ask(id: &EventId, wait_s: u64) -> Ask {
    let query = if wait_s > 0 { format!("?wait={wait_s}") } else { String::new() };
    Ask::get(format!("{EVENTS_PATH}/{id}{query}"))
}

fn too_large(bytes: usize) -> Outcome {
    let problem = Problem::new(
        "event_too_large",
        "",
        format!("takes {bytes} bytes of JSON, more than the {MAX_CALL_BYTES} of a whole call"),
        "keep large content elsewhere and put its address into properties",
    );
    Outcome::Invalid { problems: vec![problem.into()] }
}

#[cfg(test)]
impl Client {
    /// A client of a service in this process.
    pub(crate) fn of(transport: Transport) -> Self {
        Self { transport, call_timeout: Duration::from_secs(10), retry: RetryPolicy::default() }
    }
}

#[cfg(test)]
mod tests;
