//! One attempt of one call over HTTP/1.1.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
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
}

/// Where calls go, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    connections: Connections,
    events_uri: Uri,
    /// Marked as sensitive, so that `Debug` does not tell it.
    authorization: HeaderValue,
}

impl Transport {
    /// A transport to `events_uri`, whose scheme is `http` or `https`; fails when no root certificates are found.
    pub(crate) fn new(
        events_uri: Uri,
        authorization: HeaderValue,
        connect_timeout: Duration,
    ) -> Result<Self, std::io::Error> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE_TIMEOUT);
        let connections = if events_uri.scheme() == Some(&http::uri::Scheme::HTTPS) {
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
        Ok(Self { connections, events_uri, authorization })
    }

    /// Sends `body` once and waits at most `limit` for the whole answer.
    pub(crate) async fn attempt(&self, body: Bytes, submission_id: &HeaderValue, limit: Duration) -> Reply {
        match tokio::time::timeout(limit, self.exchange(body, submission_id)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::Unknown(error),
            Err(_) => Reply::Unknown(format!("no answer within {} ms", limit.as_millis())),
        }
    }

    async fn exchange(&self, body: Bytes, submission_id: &HeaderValue) -> Result<Reply, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.events_uri.clone();
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(SUBMISSION_ID, submission_id.clone());
        let response = match &self.connections {
            Connections::Plain(client) => client.request(request),
            Connections::Tls(client) => client.request(request),
        };
        let response = response.await.map_err(|error| told(&error))?;
        let status = response.status().as_u16();
        // The form in seconds only: the one with a date needs two clocks to agree.
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
