//! Passes a call on, whole, and its answer back.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Shorter than any server keeps an idle connection: a connection that just closed would be a fault nobody asked for.
const POOL_IDLE: Duration = Duration::from_secs(2);

pub(super) type Answer = io::Result<Response<Full<Bytes>>>;

/// Calls one server; clones share their connections.
#[derive(Clone)]
pub(super) struct Forward {
    upstream: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Forward {
    /// To the server at `upstream`, `host:port`.
    pub(super) fn to(upstream: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(POOL_IDLE).build(connector);
        Self { upstream: upstream.to_owned(), client }
    }

    /// Passes the call on.
    pub(super) async fn call(&self, mut parts: Parts, body: Bytes) -> Answer {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = format!("http://{}{path}", self.upstream).parse::<Uri>().map_err(io::Error::other)?;
        // The body is whole here: its length replaces whatever framing it came in.
        parts.headers.remove("transfer-encoding");
        parts.headers.remove("content-length");
        let answer =
            self.client.request(Request::from_parts(parts, Full::new(body))).await.map_err(io::Error::other)?;
        let (mut parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        parts.headers.remove("transfer-encoding");
        Ok(Response::from_parts(parts, Full::new(body)))
    }
}

/// Closes the connection without an answer.
pub(super) fn lost() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
