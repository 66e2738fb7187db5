//! The proxy: forwards a worker's calls to the engines, except where a fault strikes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::answer::answer;
use super::{Edge, Faults, Strike, Victim, WireEffect};

/// Shorter than any engine keeps an idle connection: a connection that just closed would be a fault nobody asked for.
const POOL_IDLE: Duration = Duration::from_secs(2);

/// Where the engines are, as `host:port`.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// The AWS emulator.
    pub aws: String,
    /// ClickHouse.
    pub clickhouse: String,
}

/// A proxy of one worker. It stops when it is dropped.
pub struct Proxy {
    /// What the worker takes for AWS.
    pub aws_url: String,
    /// What the worker takes for ClickHouse.
    pub clickhouse_url: String,
    listening: [JoinHandle<()>; 2],
    /// Struck calls that are not over yet.
    open: watch::Sender<usize>,
}

/// How a request's effect is told.
type Name = fn(&Parts, &[u8]) -> Option<WireEffect>;
type Answer = io::Result<Response<Full<Bytes>>>;

/// One engine's side of the proxy.
#[derive(Clone)]
struct Side {
    upstream: String,
    name: Name,
    faults: Faults,
    victim: Arc<Victim>,
    open: watch::Sender<usize>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Proxy {
    /// Starts a proxy on two free ports of loopback. Kills take the `victim`.
    pub async fn start(upstreams: &Upstreams, faults: &Faults, victim: &Arc<Victim>) -> io::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(POOL_IDLE).build(connector);
        let open = watch::Sender::new(0);
        let side = |upstream: &String, name: Name| Side {
            upstream: upstream.clone(),
            name,
            faults: faults.clone(),
            victim: Arc::clone(victim),
            open: open.clone(),
            client: client.clone(),
        };
        let (aws, aws_task) = listen(side(&upstreams.aws, WireEffect::of_aws)).await?;
        let (clickhouse, clickhouse_task) = listen(side(&upstreams.clickhouse, WireEffect::of_clickhouse)).await?;
        Ok(Self {
            aws_url: format!("http://{aws}"),
            clickhouse_url: format!("http://{clickhouse}"),
            listening: [aws_task, clickhouse_task],
            open,
        })
    }

    /// Waits until every struck call is over: one that comes late may come after everything else is done.
    pub async fn until_quiet(&self) {
        // The sender lives as long as `self`: there is always an answer.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.iter().for_each(JoinHandle::abort);
    }
}

async fn listen(side: Side) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, side.clone()));
        }
    });
    Ok((address, task))
}

async fn serve(stream: TcpStream, side: Side) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| handle(request, side.clone()));
    // A connection that ends early is what this proxy is for.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// An error closes the connection without an answer.
async fn handle(request: Request<Incoming>, side: Side) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let Some(effect) = (side.name)(&parts, &body) else { return side.forward(parts, body).await };
    let Some(strike) = side.faults.next(effect) else { return side.forward(parts, body).await };
    side.open.send_modify(|open| *open += 1);
    // A task of its own: this future is dropped when the client gives up or dies, and the call must go on all the same.
    let struck = tokio::spawn(async move {
        let answer = side.strike(effect, strike, parts, body).await;
        side.open.send_modify(|open| *open -= 1);
        answer
    });
    struck.await.map_err(io::Error::other)?
}

impl Side {
    async fn strike(&self, effect: WireEffect, strike: Strike, parts: Parts, body: Bytes) -> Answer {
        let pause = || self.faults.pause(strike);
        match strike.edge {
            Edge::Dropped => pause().await,
            Edge::Refused | Edge::Throttled | Edge::Conflicted | Edge::Poisoned => {
                pause().await;
                return answer(effect, strike.edge).ok_or_else(lost);
            }
            Edge::AnswerLost => {
                let _ = self.forward(parts, body).await;
                pause().await;
            }
            Edge::Late(delay) => {
                pause().await;
                tokio::time::sleep(delay).await;
                return self.forward(parts, body).await;
            }
            Edge::Stalled(delay) => {
                pause().await;
                tokio::time::sleep(delay).await;
            }
            Edge::StalledAfter(delay) => {
                let _ = self.forward(parts, body).await;
                pause().await;
                tokio::time::sleep(delay).await;
            }
            Edge::KilledBefore => {
                self.victim.kill().await?;
                pause().await;
            }
            Edge::KilledAfter => {
                let _ = self.forward(parts, body).await;
                self.victim.kill().await?;
                pause().await;
            }
            Edge::Held => {
                pause().await;
                return self.forward(parts, body).await;
            }
        }
        Err(lost())
    }

    async fn forward(&self, mut parts: Parts, body: Bytes) -> Answer {
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

fn lost() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
