//! One attempt of one call over HTTP/1.1.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Bytes of an answer that are read; the service's own are far smaller.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Shorter than any load balancer's: a pooled connection should not be found closed.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
const AGENT: &str = concat!("tollgate-client/", env!("CARGO_PKG_VERSION"));
const SUBMISSION_ID: HeaderName = HeaderName::from_static("tollgate-submission-id");

/// What one attempt came to.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The service answered.
    Answered { status: u16, retry_after: Option<Duration>, body: Bytes },
    /// It did not: the call may have had its effect, or not.
    Unknown(String),
}

/// Connections to one endpoint. An enum over the scheme, so that plain HTTP needs no root certificates.
#[derive(Debug, Clone)]
enum Connections {
    Plain(HyperClient<HttpConnector, Full<Bytes>>),
    Tls(HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>),
    /// In this process, so that a test can stop the clock.
    #[cfg(test)]
    Scripted(scripted::Script),
}

/// One request: every attempt of it is the same.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// Below the endpoint, such as `/v1/events`.
    pub(crate) path: String,
    /// The events' JSON array; nothing for a question.
    pub(crate) body: Option<Bytes>,
    /// The call's own id, the same for every attempt of it.
    pub(crate) submission: Option<HeaderValue>,
}

impl Ask {
    /// A question, which changes nothing.
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None, submission: None }
    }
}

/// Where calls go, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    connections: Connections,
    endpoint: Endpoint,
    /// Marked as sensitive, so that `Debug` does not tell it.
    authorization: HeaderValue,
}

/// A front door's address, `http` or `https`.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// Before every route; without a slash at its end.
    pub(crate) prefix: String,
}

impl Endpoint {
    /// The address of a route; `None` when its path is not one.
    pub(crate) fn uri(&self, path: &str) -> Option<Uri> {
        let whole = format!("{}{path}", self.prefix);
        let builder = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        builder.path_and_query(whole).build().ok()
    }
}

impl Transport {
    /// A transport to `endpoint`; fails when no root certificates are found.
    pub(crate) fn new(
        endpoint: Endpoint,
        authorization: HeaderValue,
        connect_timeout: Duration,
    ) -> Result<Self, std::io::Error> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE_TIMEOUT);
        let connections = if endpoint.scheme == Scheme::HTTPS {
            tcp.enforce_http(false);
            let tls = hyper_rustls::HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())?
                .https_only()
                .enable_http1()
                .wrap_connector(tcp);
            Connections::Tls(builder.build(tls))
        } else {
            Connections::Plain(builder.build(tcp))
        };
        Ok(Self { connections, endpoint, authorization })
    }

    /// Asks once and waits at most `limit` for the whole answer.
    pub(crate) async fn attempt(&self, ask: &Ask, limit: Duration) -> Reply {
        match tokio::time::timeout(limit, self.exchange(ask)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::Unknown(error),
            Err(_) => Reply::Unknown(format!("no answer within {} ms", limit.as_millis())),
        }
    }

    async fn exchange(&self, ask: &Ask) -> Result<Reply, String> {
        let mut request = Request::new(Full::new(ask.body.clone().unwrap_or_default()));
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = self.endpoint.uri(&ask.path).ok_or("the address is none")?;
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if ask.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(submission) = &ask.submission {
            headers.insert(SUBMISSION_ID, submission.clone());
        }
        let response = match &self.connections {
            Connections::Plain(client) => client.request(request),
            Connections::Tls(client) => client.request(request),
            #[cfg(test)]
            Connections::Scripted(script) => return Ok(script.answer(ask).await),
        };
        let response = response.await.map_err(|error| told(&error))?;
        let status = response.status().as_u16();
        // The form in seconds only, which is the service's own: the one with a date needs two clocks to agree, and
        // without a wish the back-off holds.
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
        Ok(Reply::Answered { status, retry_after: retry_after.map(Duration::from_secs), body })
    }
}

/// The error with its causes: the outermost alone says next to nothing.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A service in this process: what it is asked, and what a test has it answer.
#[cfg(test)]
pub(crate) mod scripted {
    use std::fmt;
    use std::pin::Pin;
    use std::sync::Arc;

    use super::{Ask, Connections, Endpoint, Reply, Transport};

    type Answer = Pin<Box<dyn Future<Output = Reply> + Send>>;

    #[derive(Clone)]
    pub(crate) struct Script(Arc<dyn Fn(Ask) -> Answer + Send + Sync>);

    impl Script {
        pub(super) fn answer(&self, ask: &Ask) -> Answer {
            (self.0)(ask.clone())
        }
    }

    impl fmt::Debug for Script {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Script")
        }
    }

    impl Transport {
        pub(crate) fn scripted<F>(script: impl Fn(Ask) -> F + Send + Sync + 'static) -> Self
        where
            F: Future<Output = Reply> + Send + 'static,
        {
            let endpoint = Endpoint {
                scheme: http::uri::Scheme::HTTP,
                authority: http::uri::Authority::from_static("in.process"),
                prefix: String::new(),
            };
            let script = Script(Arc::new(move |ask| Box::pin(script(ask)) as Answer));
            let authorization = http::HeaderValue::from_static("none");
            Self { connections: Connections::Scripted(script), endpoint, authorization }
        }
    }

    impl Reply {
        pub(crate) fn of(status: u16, body: impl Into<bytes::Bytes>) -> Self {
            Self::Answered { status, retry_after: None, body: body.into() }
        }
    }
}
