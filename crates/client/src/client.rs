//! The client: batches in, one outcome an event out.

use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::header::{HeaderValue, InvalidHeaderValue};
use http::uri::Scheme;
use serde_json::Value;
use tokio::time::Instant;
use tollgate_domain::key::ApiKey;
use tollgate_domain::problem::Problem;
use uuid::Uuid;

use crate::call::{Call, MAX_CALL_BYTES, calls_of};
use crate::event::UsageEvent;
use crate::outcome::{Outcome, Verdict, verdict_of};
use crate::retry::{RetryPolicy, chance};
use crate::transport::{Reply, Transport};

const EVENTS_PATH: &str = "/v1/events";

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
        let events_uri = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(format!("{path}{EVENTS_PATH}"))
            .build()
            .map_err(|_| BuildError::Endpoint)?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", self.key.expose()))?;
        authorization.set_sensitive(true);
        let transport = Transport::new(events_uri, authorization, self.connect_timeout)?;
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
        let outcomes = self.record_texts(&[event.to_json()]).await;
        outcomes.into_iter().next().unwrap_or_else(|| unreachable!("one event has one outcome"))
    }

    /// Sends events, in order, in calls of at most 500 events and 1 MiB, one call after the other; each call is
    /// taken whole or not at all. One outcome an event, in the same order.
    ///
    /// The retry policy holds for each call by itself. For more than one call at a time, share clones of the client.
    pub async fn record_batch(&self, events: &[UsageEvent]) -> Vec<Outcome> {
        self.record_texts(&events.iter().map(UsageEvent::to_json).collect::<Vec<_>>()).await
    }

    /// Like [`Client::record_batch`], of events in Tollgate's JSON form that nobody has checked: the service tells what
    /// is wrong with them.
    pub async fn record_json_batch(&self, events: &[Value]) -> Vec<Outcome> {
        self.record_texts(&events.iter().map(Value::to_string).collect::<Vec<_>>()).await
    }

    async fn record_texts(&self, texts: &[String]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(texts.len());
        for call in calls_of(texts) {
            match call {
                Call::Body { events, body } => outcomes.extend(self.call(body, events.len()).await),
                Call::TooLarge { bytes, .. } => outcomes.push(too_large(bytes)),
            }
        }
        outcomes
    }

    /// One call: the same bytes under the same submission id until an answer stands or the policy ends.
    async fn call(&self, body: Bytes, events: usize) -> Vec<Outcome> {
        let started = Instant::now();
        let Ok(submission_id) = HeaderValue::try_from(format!("sub_{}", Uuid::now_v7().simple())) else {
            unreachable!("hex digits fit into a header");
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let limit = self.call_timeout.min(self.retry.max_elapsed.saturating_sub(started.elapsed()));
            let (verdict, retry_after) = match self.transport.attempt(body.clone(), &submission_id, limit).await {
                Reply::Answered { status, retry_after, body } => (verdict_of(status, &body, events), retry_after),
                Reply::Unknown(reason) => (Verdict::Again { reason, queued: Vec::new() }, None),
            };
            let (reason, queued) = match verdict {
                Verdict::Final(outcomes) => return outcomes,
                Verdict::Again { reason, queued } => (reason, queued),
            };
            let Some(wait) = self.retry.wait_after(attempts, started.elapsed(), retry_after, chance()) else {
                let mut outcomes = vec![Outcome::Unavailable { reason, retry_after, attempts }; events];
                for (index, outcome) in queued {
                    outcomes.get_mut(index).into_iter().for_each(|place| *place = outcome.clone());
                }
                return outcomes;
            };
            tokio::time::sleep(wait).await;
        }
    }
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
mod tests {
    use super::*;

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
