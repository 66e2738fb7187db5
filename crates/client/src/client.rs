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
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use tollgate_domain::time::UtcMillis;

    use super::*;

    fn event(number: usize) -> UsageEvent {
        let at = UtcMillis::parse("2026-01-01T00:00:00Z").unwrap();
        UsageEvent::builder("api_request", "cus_01", at).property("n", number).build().unwrap()
    }

    /// What the service does with one request.
    enum Step {
        /// Every event is queued.
        Queue,
        /// The answer is lost, after this time.
        Lose(Duration),
        /// Answers with a status and a body, in which `$SUB` stands for the submission of the last call.
        Say(u16, String),
        /// As before, after this time.
        Late(Duration, String),
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<Ask>>>);

    impl Log {
        fn paths(&self) -> Vec<String> {
            self.0.lock().unwrap().iter().map(|ask| ask.path.clone()).collect()
        }

        /// Of each call, the numbers of its events.
        fn numbers(&self) -> Vec<Vec<u64>> {
            let of = |ask: &Ask| {
                let events: Vec<Value> = serde_json::from_slice(ask.body.as_ref()?).ok()?;
                Some(events.iter().map(|event| event["properties"]["n"].as_u64().unwrap()).collect())
            };
            self.0.lock().unwrap().iter().filter_map(of).collect()
        }

        fn submissions(&self) -> std::collections::BTreeSet<String> {
            let asks = self.0.lock().unwrap();
            asks.iter().filter_map(|ask| Some(ask.submission.as_ref()?.to_str().ok()?.to_owned())).collect()
        }
    }

    /// A client whose service takes these steps, the last one for ever.
    fn client(steps: Vec<Step>) -> (Client, Log) {
        let (log, steps) = (Log::default(), Arc::new(Mutex::new(VecDeque::from(steps))));
        let seen = log.clone();
        let transport = Transport::scripted(move |ask| {
            let (mut asks, mut steps) = (seen.0.lock().unwrap(), steps.lock().unwrap());
            asks.push(ask.clone());
            let submission =
                asks.iter().rev().find_map(|ask| Some(ask.submission.as_ref()?.to_str().unwrap().to_owned()));
            let last = steps.len() == 1;
            let (wait, reply) = match steps.front().unwrap() {
                Step::Queue => {
                    let events: Vec<Value> = serde_json::from_slice(ask.body.as_ref().unwrap()).unwrap();
                    let rows = events.iter().enumerate().map(|(index, event)| {
                        let id = UsageEvent::from_json(&event.to_string()).unwrap().id();
                        serde_json::json!({"index": index, "id": id, "submissionId": submission, "status": "queued"})
                    });
                    let body = serde_json::json!({"results": rows.collect::<Vec<_>>()}).to_string();
                    (Duration::ZERO, Reply::of(202, body))
                }
                Step::Lose(after) => (*after, Reply::Unknown("lost".to_owned())),
                Step::Say(status, body) => {
                    (Duration::ZERO, Reply::of(*status, body.replace("$SUB", &submission.unwrap_or_default())))
                }
                Step::Late(after, body) => {
                    (*after, Reply::of(200, body.replace("$SUB", &submission.unwrap_or_default())))
                }
            };
            if !last {
                steps.pop_front();
            }
            async move {
                tokio::time::sleep(wait).await;
                reply
            }
        });
        (Client::of(transport), log)
    }

    fn status(standing: &str, facts: &UsageEvent, by: &str) -> String {
        let terminal = standing != "inserting";
        format!(
            r#"{{"id":"{}","status":"{standing}","terminal":{terminal},"submissionId":"{by}","fingerprint":"{}"}}"#,
            event(1).id(),
            facts.fingerprint()
        )
    }

    fn unknown() -> String {
        format!(r#"{{"id":"{}","status":"unknown","terminal":false}}"#, event(1).id())
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_waited_for_and_a_lost_answer_s_retry_is_no_duplicate() {
        let (client, log) = client(vec![
            Step::Lose(Duration::ZERO),
            Step::Say(503, String::new()),
            Step::Queue,
            Step::Say(200, unknown()),
            Step::Lose(Duration::ZERO),
            Step::Late(Duration::from_secs(20), status("inserting", &event(1), "$SUB")),
            Step::Say(503, String::new()),
            Step::Say(200, "<html>".to_owned()),
            Step::Say(200, status("inserted", &event(1), "$SUB")),
        ]);
        let recorded = client.record_and_wait(&event(1), Duration::from_mins(1)).await;
        assert!(matches!(&recorded, Recorded::Inserted { status } if status.terminal), "{recorded:?}");
        assert_eq!(log.submissions().len(), 1, "one call has one submission id");
        assert_eq!(log.numbers(), [[1], [1], [1]]);
        let paths = log.paths();
        assert_eq!(paths[0], "/v1/events");
        let waits: Vec<_> = paths[3..5].iter().filter_map(|path| path.split_once("?wait=")).map(|(_, s)| s).collect();
        assert_eq!(waits, ["2", "4"], "short turns first");
        assert_eq!(paths.len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_a_row_of_failures() {
        // More failures than the policy has attempts, but never so many in a row.
        let mut steps = vec![Step::Queue];
        for _ in 0..3 {
            steps.extend((0..7).map(|_| Step::Lose(Duration::ZERO)));
            steps.push(Step::Say(200, unknown()));
        }
        steps.push(Step::Say(200, status("inserted", &event(1), "$SUB")));
        let recorded = client(steps).0.record_and_wait(&event(1), Duration::from_mins(10)).await;
        assert!(matches!(recorded, Recorded::Inserted { .. }), "{recorded:?}");

        // Divisions are answers, too.
        let mut steps: Vec<Step> = (0..9).map(|_| Step::Say(413, String::new())).collect();
        steps.extend([Step::Lose(Duration::ZERO), Step::Queue]);
        let outcomes = client(steps).0.record_batch_partial(&(0..500).map(event).collect::<Vec<_>>()).await;
        let refused = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused { .. })).count();
        let queued = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Queued { .. })).count();
        assert_eq!((refused, queued), (1, 499));
    }

    #[tokio::test(start_paused = true)]
    async fn each_end_is_told_apart() {
        let rejected = status("rejected", &event(1), "$SUB")
            .replace('}', r#","rejection":{"reason":"limit_exhausted","limit":10,"count":10}}"#);
        for (steps, expected) in [
            (
                vec![Step::Queue, Step::Say(200, status("inserted", &event(1), "sub_other"))],
                "Duplicate { by: \"sub_other\"",
            ),
            (
                vec![Step::Queue, Step::Say(200, status("inserting", &event(2), "sub_other"))],
                "Conflict { existing: Some",
            ),
            (
                vec![Step::Queue, Step::Say(200, rejected)],
                "Rejected { rejection: Rejection { reason: LimitExhausted, limit: Some(10)",
            ),
            (vec![Step::Queue, Step::Say(200, status("uninsertable", &event(1), "$SUB"))], "Uninsertable"),
            (
                vec![Step::Queue, Step::Say(403, r#"{"code":"missing_scope","detail":"d"}"#.to_owned())],
                "Unauthorized { code: \"missing_scope\", detail: \"d\", queued: true",
            ),
            (
                vec![Step::Queue, Step::Say(404, String::new())],
                "Refused { status: 404, code: None, detail: \"\", queued: true",
            ),
            (vec![Step::Say(401, String::new())], "Unauthorized { code: \"\", detail: \"\", queued: false"),
            (vec![Step::Say(402, r#"{"plan":"plus"}"#.to_owned())], "QuotaExceeded"),
            (vec![Step::Say(400, r#"{"problems":[{"code":"c","index":0}]}"#.to_owned())], "Invalid"),
            (vec![Step::Say(404, String::new())], "Refused { status: 404, code: None, detail: \"\", queued: false"),
            (vec![Step::Lose(Duration::ZERO)], "Unavailable { reason: \"lost\", queued: false"),
        ] {
            let recorded = client(steps).0.record_and_wait(&event(1), Duration::from_secs(30)).await;
            assert!(format!("{recorded:?}").starts_with(expected), "{recorded:?} is not {expected}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_over_when_its_time_is_and_says_what_is_known() {
        for (steps, timeout_ms) in [
            (vec![Step::Queue, Step::Say(200, unknown())], 30_000),
            (vec![Step::Queue, Step::Late(Duration::from_secs(20), unknown())], 30_000),
            (vec![Step::Queue, Step::Say(200, unknown())], 700),
            (vec![Step::Queue, Step::Lose(Duration::from_secs(7))], 30_000),
            (vec![Step::Queue, Step::Say(200, unknown())], 0),
        ] {
            let (client, log) = client(steps);
            let (started, timeout) = (Instant::now(), Duration::from_millis(timeout_ms));
            let recorded = client.record_and_wait(&event(1), timeout).await;
            assert!(matches!(&recorded, Recorded::Unavailable { queued: true, .. }), "{recorded:?}");
            assert!(started.elapsed() <= timeout + Duration::from_millis(1), "{:?}", started.elapsed());
            assert!(log.paths().len() < 100, "{} questions in {timeout:?}", log.paths().len());
        }
        // Nothing is known of an event that never got through, and the wait is no longer for it.
        let started = Instant::now();
        let (client, _) = client(vec![Step::Lose(Duration::from_secs(4))]);
        let recorded = client.record_and_wait(&event(1), Duration::from_secs(9)).await;
        assert!(matches!(&recorded, Recorded::Unavailable { queued: false, .. }), "{recorded:?}");
        assert!(started.elapsed() <= Duration::from_secs(9) + Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_is_waited_for_ends_event_by_event() {
        let rows = format!(
            r#"{{"problems":[{{"code":"same_id_other_payload","index":1}}],"results":[
                {{"index":0,"id":"{0}","submissionId":"sub_1","status":"queued"}},
                {{"index":1,"id":"{0}","submissionId":"sub_1","status":"conflict"}}]}}"#,
            event(1).id()
        );
        let (client, log) = client(vec![Step::Say(202, rows), Step::Say(200, status("inserted", &event(1), "sub_1"))]);
        let recorded = client.record_and_wait_batch(&[event(1), event(2)], Duration::from_secs(5)).await;
        assert!(
            matches!(recorded.as_slice(), [Recorded::Inserted { .. }, Recorded::Conflict { existing: None, problems }] if problems.len() == 1),
            "{recorded:?}"
        );
        assert_eq!(log.paths()[0], "/v1/events?partial=true");
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_has_no_outcome_is_sent_again() {
        let row = |index: usize, status: &str| {
            format!(r#"{{"index":{index},"id":"{}","submissionId":"sub_1","status":"{status}"}}"#, event(1).id())
        };
        let mixed = |rows: &[String]| format!(r#"{{"code":"queue_unavailable","results":[{}]}}"#, rows.join(","));
        let (client, log) = client(vec![
            Step::Say(503, mixed(&[row(0, "queued"), row(1, "unavailable"), row(2, "invalid"), row(3, "unavailable")])),
            Step::Lose(Duration::ZERO),
            Step::Say(503, mixed(&[row(0, "unavailable"), row(1, "queued")])),
            Step::Queue,
        ]);
        let outcomes = client.record_batch_partial(&[event(0), event(1), event(2), event(3)]).await;
        for (number, outcome) in outcomes.iter().enumerate() {
            let fits = matches!((number, outcome), (2, Outcome::Invalid { .. }) | (0 | 1 | 3, Outcome::Queued { .. }));
            assert!(fits, "{number}: {outcome:?}");
        }
        assert_eq!(outcomes.len(), 4);
        assert_eq!(log.numbers(), [vec![0, 1, 2, 3], vec![1, 3], vec![1, 3], vec![1]]);
        assert_eq!(log.submissions().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_refused_as_a_whole_is_divided_down_to_the_event_to_blame() {
        let log = Log::default();
        let seen = log.clone();
        let transport = Transport::scripted(move |ask| {
            seen.0.lock().unwrap().push(ask.clone());
            let events: Vec<Value> = serde_json::from_slice(ask.body.as_ref().unwrap()).unwrap();
            let rows: Vec<Value> = (0..events.len())
                .map(|index| serde_json::json!({"index": index, "id": event(0).id(), "submissionId": "sub_1", "status": "queued"}))
                .collect();
            let bad = events.iter().any(|event| event["properties"]["n"] == 5);
            let (status, body) = if bad {
                (400, r#"{"code":"body_too_complex"}"#.to_owned())
            } else {
                (202, serde_json::json!({"results": rows}).to_string())
            };
            std::future::ready(Reply::of(status, body))
        });
        let events: Vec<_> = (0..16).map(event).collect();
        let outcomes = Client::of(transport).record_batch_partial(&events).await;
        for (number, outcome) in outcomes.iter().enumerate() {
            let fits = match number {
                5 => matches!(outcome, Outcome::Refused { status: 400, code: Some(_), .. }),
                _ => matches!(outcome, Outcome::Queued { .. }),
            };
            assert!(fits, "{number}: {outcome:?}");
        }
        assert_eq!(log.paths().len(), 9, "1 + 2 for each halving of 16");
    }

    /// A client of a service that answers by the numbers of a call's events.
    fn client_of(answer: impl Fn(&[u64]) -> Reply + Send + Sync + 'static) -> (Client, Log) {
        let log = Log::default();
        let seen = log.clone();
        let transport = Transport::scripted(move |ask| {
            seen.0.lock().unwrap().push(ask.clone());
            std::future::ready(answer(seen.numbers().last().unwrap()))
        });
        (Client::of(transport), log)
    }

    /// Of a call's events the first so many are queued, and the others not.
    fn queue_some(numbers: &[u64], some: usize) -> Reply {
        let row = |index: usize| {
            let status = if index < some { "queued" } else { "unavailable" };
            serde_json::json!({"index": index, "id": event(0).id(), "submissionId": "sub_1", "status": status})
        };
        let status = if numbers.len() > some { 503 } else { 202 };
        let rows: Vec<Value> = (0..numbers.len()).map(row).collect();
        Reply::of(status, serde_json::json!({ "results": rows }).to_string())
    }

    fn sizes(log: &Log) -> Vec<usize> {
        log.numbers().iter().map(Vec::len).collect()
    }

    fn count(outcomes: &[Outcome], fits: fn(&Outcome) -> bool) -> usize {
        outcomes.iter().filter(|outcome| fits(outcome)).count()
    }

    const IS_QUEUED: fn(&Outcome) -> bool = |outcome| matches!(outcome, Outcome::Queued { .. });

    #[tokio::test(start_paused = true)]
    async fn problems_that_an_answer_has_no_room_for_are_asked_for_and_nothing_is_taken_meanwhile() {
        // Every fifth event is good, and so would the last be, if it did not contradict the fifth. The first bad one has
        // one problem, each other one four.
        let problems_of = |numbers: &[u64], index: usize| match numbers[index] {
            5 | 499 if numbers.contains(&5) && numbers.contains(&499) => vec!["same_id_other_payload"],
            499 => Vec::new(),
            number if number % 5 == 0 => Vec::new(),
            1 => vec!["missing_field"],
            _ => vec!["missing_field"; 4],
        };
        let (client, log) = client_of(move |numbers| {
            let told = |index| problems_of(numbers, index).into_iter().map(move |code| (index, code));
            let problems: Vec<Value> = (0..numbers.len())
                .flat_map(told)
                .map(|(index, code)| serde_json::json!({"index": index, "code": code}))
                .collect();
            assert_ne!(problems.len(), 0, "the service would take {numbers:?}");
            let told = &problems[..problems.len().min(1_000)];
            let omitted = problems.len() - told.len();
            Reply::of(400, serde_json::json!({"problems": told, "problemsOmitted": omitted}).to_string())
        });
        let outcomes = client.record_batch(&(0..500).map(event).collect::<Vec<_>>()).await;
        for (number, outcome) in outcomes.iter().enumerate() {
            let fits = match number {
                5 | 499 => matches!(outcome, Outcome::Conflict { .. }),
                number if number % 5 == 0 => *outcome == Outcome::HeldBack,
                _ => matches!(outcome, Outcome::Invalid { problems } if !problems.is_empty()),
            };
            assert!(fits, "{number}: {outcome:?}");
        }
        assert_eq!(outcomes.len(), 500);
        assert_eq!(log.paths(), [EVENTS_PATH; 2]);
        assert_eq!(log.numbers()[1][..2], [1, 5], "the mildest, and the one that the last contradicts");
        assert_eq!(log.submissions().len(), 1);

        // One event that fills every answer ends the asking.
        let endless = r#"{"problems":[{"code":"missing_field","index":0}],"problemsOmitted":9}"#;
        let (client, log) = client_of(move |_| Reply::of(400, endless));
        let outcomes = client.record_batch(&[event(0), event(1), event(2)]).await;
        assert!(
            matches!(outcomes.as_slice(), [Outcome::Invalid { .. }, Outcome::HeldBack, Outcome::HeldBack]),
            "{outcomes:?}"
        );
        assert_eq!(log.numbers(), [[0, 1, 2], [0, 1, 2]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_queues_a_few_of_a_call_at_a_time_ends_all_of_it() {
        let events: Vec<_> = (0..100).map(event).collect();
        for whole in [true, false] {
            let (mut client, log) = client_of(|numbers| queue_some(numbers, 10));
            let record = async |client: &Client| {
                if whole { client.record_batch(&events).await } else { client.record_batch_partial(&events).await }
            };
            // After three failures the rest goes in halves; an end of one is no failure.
            let outcomes = record(&client).await;
            assert_eq!(sizes(&log), [100, 90, 80, 35, 25, 15, 5, 35, 25, 15, 5]);
            assert_eq!(count(&outcomes, IS_QUEUED), 100);
            assert_eq!(log.submissions().len(), 1);
            // What is queued when the attempts end is said to be.
            client.retry.max_attempts = 4;
            assert_eq!(count(&record(&client).await, IS_QUEUED), 40);
        }
        // Twice a half, and no answer that takes the whole.
        let (client, log) = client_of(|numbers| {
            let reply = queue_some(numbers, 1);
            match reply {
                Reply::Answered { retry_after, body, .. } => Reply::Answered { status: 503, retry_after, body },
                unknown @ Reply::Unknown(_) => unknown,
            }
        });
        assert_eq!(count(&client.record_batch(&[event(0), event(1)]).await, IS_QUEUED), 2);
        assert_eq!(log.numbers(), [vec![0, 1], vec![1]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_too_large_for_its_time_is_divided_unless_it_is_taken_whole_or_too_often() {
        let events: Vec<_> = (0..500).map(event).collect();
        let slow = |numbers: &[u64]| match numbers.len() {
            0..=150 => queue_some(numbers, 150),
            _ => Reply::Unknown("no answer in time".to_owned()),
        };
        let (client, log) = client_of(slow);
        assert_eq!(count(&client.record_batch_partial(&events).await, IS_QUEUED), 500);
        assert_eq!(sizes(&log), [500, 500, 500, 250, 250, 250, 125, 125, 250, 250, 250, 125, 125]);

        let (client, log) = client_of(slow);
        assert_eq!(count(&client.record_batch(&events).await, IS_QUEUED), 0);
        assert_eq!(sizes(&log), [500; 8], "a half may be good where the whole is not");

        let (client, log) = client_of(|_| Reply::of(429, ""));
        assert_eq!(count(&client.record_batch_partial(&events).await, IS_QUEUED), 0);
        assert_eq!(sizes(&log), [500; 8]);

        let (client, log) = client_of(|_| Reply::of(503, ""));
        client.record_batch_partial(&events[..50]).await;
        assert_eq!(sizes(&log), [50; 8], "small enough");
    }

    #[tokio::test(start_paused = true)]
    async fn an_ended_policy_leaves_no_event_of_a_partial_call_without_an_outcome() {
        let (mut client, log) = client(vec![Step::Lose(Duration::ZERO)]);
        client.retry.max_attempts = 3;
        let outcomes = client.record_batch_partial(&(0..501).map(event).collect::<Vec<_>>()).await;
        assert_eq!(outcomes.len(), 501);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable { attempts: 3, .. })));
        assert_eq!(log.paths().len(), 6);
        assert_eq!(client.record_batch_partial(&[]).await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_are_asked_again_while_there_is_no_answer() {
        let usage = r#"{"space":"acme","month":"2026-11","plan":"internal","used":null}"#;
        let (asker, log) =
            client(vec![Step::Lose(Duration::ZERO), Step::Say(503, String::new()), Step::Say(200, usage.to_owned())]);
        let month = PeriodMonth::parse("2026-11").unwrap();
        assert_eq!(asker.usage(Some(month)).await.unwrap().month, month);
        assert_eq!(log.paths(), ["/v1/usage?month=2026-11"; 3]);
        assert!(asker.usage(None).await.is_ok());
        assert_eq!(log.paths()[3], "/v1/usage");

        let (asker, log) = client(vec![Step::Late(Duration::from_secs(20), unknown())]);
        let found = asker.event_status(&event(1).id(), Duration::from_millis(99_999)).await;
        assert_eq!(
            found.map(|status| status.standing),
            Ok(crate::Standing::Unknown),
            "the wait is not the call's time"
        );
        assert_eq!(log.paths(), [format!("/v1/events/{}?wait=20", event(1).id())]);

        for (status, expected) in
            [(401, "Unauthorized"), (403, "Unauthorized"), (404, "Refused"), (400, "Refused"), (402, "Refused")]
        {
            let (asker, log) = client(vec![Step::Say(status, r#"{"code":"c"}"#.to_owned())]);
            let error = asker.event_status(&event(1).id(), Duration::ZERO).await.unwrap_err();
            assert!(format!("{error:?}").starts_with(expected), "{status}: {error:?}");
            assert_eq!(log.paths(), [format!("/v1/events/{}", event(1).id())], "{status}");
        }
        let (asker, log) = client(vec![Step::Lose(Duration::ZERO)]);
        assert!(matches!(asker.usage(None).await, Err(LookError::Unavailable { attempts: 8, .. })));
        assert_eq!(log.paths().len(), 8);
    }

    fn key() -> ApiKey {
        ApiKey::from_random([7; 32])
    }

    #[test]
    fn the_endpoint_is_checked_before_a_key_travels_to_it() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:8080", Ok(())),
            ("http://localhost:8080/", Ok(())),
            ("http://[::1]:8080/stage", Ok(())),
            ("http://tollgate.example.com", Err("use https")),
            ("tollgate.example.com", Err("not of the form")),
            ("ftp://tollgate.example.com", Err("not of the form")),
            ("http://127.0.0.1/?a=b", Err("not of the form")),
            ("", Err("not of the form")),
        ] {
            let built = Client::builder(endpoint, &key()).build().map(|_| ()).map_err(|error| error.to_string());
            match (&built, expected) {
                (Ok(()), Ok(())) => {}
                (Err(told), Err(part)) if told.contains(part) => {}
                _ => panic!("{endpoint}: {built:?}"),
            }
        }
        assert!(Client::builder("http://tollgate.internal", &key()).allow_plain_text().build().is_ok());
    }

    #[test]
    fn https_needs_root_certificates_and_nothing_else() {
        let built = Client::builder("https://tollgate.example.com", &key()).build();
        assert!(matches!(built, Ok(_) | Err(BuildError::RootCertificates(_))), "{built:?}");
    }

    #[test]
    fn nobody_prints_the_key() {
        let builder = Client::builder("http://127.0.0.1:1", &key());
        let told = format!("{builder:?} {:?}", builder.clone().build().unwrap());
        assert!(!told.contains("0707"), "{told}");
    }
}
