//! The proxy: forwards a worker's calls to the engines, except where a fault strikes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::answer::answer;
use super::forward::{Answer, Forward, lost};
use super::{Edge, Faults, Strike, Victim, WireEffect};

/// Where the engines are, as `host:port`.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// The AWS emulator.
    pub aws: String,
    /// ClickHouse.
    pub clickhouse: String,
}

/// What a worker takes for its engines.
#[derive(Debug, Clone)]
pub struct Endpoints {
    /// What it takes for AWS.
    pub aws_url: String,
    /// What it takes for ClickHouse.
    pub clickhouse_url: String,
}

/// A proxy of one worker. It stops when it is dropped.
pub struct Proxy {
    /// Where it listens.
    pub endpoints: Endpoints,
    listening: [JoinHandle<()>; 2],
    /// Struck calls that are not over yet.
    open: watch::Sender<usize>,
}

/// How a request's effect is told.
type Name = fn(&Parts, &[u8]) -> Option<WireEffect>;

/// One engine's side of the proxy.
#[derive(Clone)]
struct Side {
    forward: Forward,
    name: Name,
    faults: Faults,
    victim: Arc<Victim>,
    open: watch::Sender<usize>,
}

impl Proxy {
    /// Starts a proxy on two free ports of loopback. Kills take the `victim`.
    pub async fn start(upstreams: &Upstreams, faults: &Faults, victim: &Arc<Victim>) -> io::Result<Self> {
        let open = watch::Sender::new(0);
        let side = |upstream: &String, name: Name| Side {
            forward: Forward::to(upstream),
            name,
            faults: faults.clone(),
            victim: Arc::clone(victim),
            open: open.clone(),
        };
        let (aws, aws_task) = listen(side(&upstreams.aws, WireEffect::of_aws)).await?;
        let (clickhouse, clickhouse_task) = listen(side(&upstreams.clickhouse, WireEffect::of_clickhouse)).await?;
        Ok(Self {
            endpoints: Endpoints { aws_url: format!("http://{aws}"), clickhouse_url: format!("http://{clickhouse}") },
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
    let Some(effect) = (side.name)(&parts, &body) else { return side.forward.call(parts, body).await };
    let Some(strike) = side.faults.next(effect) else { return side.forward.call(parts, body).await };
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
                let _ = self.forward.call(parts, body).await;
                pause().await;
            }
            Edge::Late(delay) => {
                pause().await;
                tokio::time::sleep(delay).await;
                return self.forward.call(parts, body).await;
            }
            Edge::Stalled(delay) => {
                pause().await;
                tokio::time::sleep(delay).await;
            }
            Edge::StalledAfter(delay) => {
                let _ = self.forward.call(parts, body).await;
                pause().await;
                tokio::time::sleep(delay).await;
            }
            Edge::KilledBefore => {
                self.victim.kill().await?;
                pause().await;
            }
            Edge::KilledAfter => {
                let _ = self.forward.call(parts, body).await;
                self.victim.kill().await?;
                pause().await;
            }
            Edge::Held => {
                pause().await;
                return self.forward.call(parts, body).await;
            }
        }
        Err(lost())
    }
}
