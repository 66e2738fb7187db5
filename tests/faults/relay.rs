//! A relay in front of a server that decides for each call what becomes of it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::forward::{Answer, Forward, lost};
use crate::traffic::Random;

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is passed on, and its answer back.
    Passed,
    /// It is passed on, and the connection breaks before the answer.
    AnswerLost,
    /// It is not passed on, and nothing is heard for so long.
    Stalled(Duration),
    /// It is not passed on: this status and this JSON come back.
    Answered(u16, &'static str),
}

/// Decides by the head and the body of a call.
type Judge = dyn Fn(&Parts, &[u8]) -> Fate + Send + Sync;

/// A relay on a free port of loopback. It stops when it is dropped.
pub struct Relay {
    /// What clients take for the server.
    pub url: String,
    struck: Arc<AtomicU64>,
    listening: JoinHandle<()>,
}

impl Relay {
    /// Relays to `upstream`, `host:port`, as `judge` says.
    pub async fn start(
        upstream: &str,
        judge: impl Fn(&Parts, &[u8]) -> Fate + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let struck = Arc::new(AtomicU64::new(0));
        let way = Way { forward: Forward::to(upstream), judge: Arc::new(judge), struck: Arc::clone(&struck) };
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, way.clone()));
            }
        });
        Ok(Self { url, struck, listening })
    }

    /// A flaky way: of 100 answers, `percent` are lost, by dice that depend on the seed.
    pub async fn losing(upstream: &str, seed: u64, percent: usize) -> io::Result<Self> {
        let random = Mutex::new(Random::new(seed));
        Self::start(upstream, move |_, _| {
            let is_lost = random.lock().unwrap_or_else(PoisonError::into_inner).percent(percent);
            if is_lost { Fate::AnswerLost } else { Fate::Passed }
        })
        .await
    }

    /// Calls so far that were not simply passed.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[derive(Clone)]
struct Way {
    forward: Forward,
    judge: Arc<Judge>,
    struck: Arc<AtomicU64>,
}

async fn serve(stream: TcpStream, way: Way) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| relay(request, way.clone()));
    // A connection that ends early is what this relay is for.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn relay(request: Request<Incoming>, way: Way) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let fate = (way.judge)(&parts, &body);
    if fate != Fate::Passed {
        way.struck.fetch_add(1, Ordering::Relaxed);
    }
    match fate {
        Fate::Passed => way.forward.call(parts, body).await,
        Fate::AnswerLost => way.forward.call(parts, body).await.and(Err(lost())),
        Fate::Stalled(time) => {
            tokio::time::sleep(time).await;
            Err(lost())
        }
        Fate::Answered(status, json) => {
            let answer = Response::builder().status(status).header("content-type", "application/x-amz-json-1.0");
            answer.body(Full::new(Bytes::from_static(json.as_bytes()))).map_err(io::Error::other)
        }
    }
}
