//! A scripted server on loopback.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tollgate_client::{ApiKey, Client, RetryPolicy, UsageEvent, UtcMillis};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Reads it whole and closes the connection without an answer.
    Drop,
    /// Reads it whole and never answers.
    Stall,
    /// Answers 202, every event queued.
    Queue,
    /// Answers with a status, headers and a body.
    Answer(u16, &'static str, String),
}

pub(crate) struct Server {
    pub(crate) endpoint: String,
    /// Head and body of each request, in order.
    pub(crate) seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    /// A server that takes one step a request; the last step holds for all further ones.
    pub(crate) async fn start(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (steps, log) = (Arc::new(steps), seen.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, steps.clone(), log.clone()));
            }
        });
        Self { endpoint, seen }
    }

    /// Like [`Server::start`], on a thread of its own, for as long as the process lives.
    pub(crate) fn on_a_thread(steps: Vec<Step>) -> Self {
        let (started, wait) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                started.send(Self::start(steps).await).unwrap();
                std::future::pending::<()>().await;
            });
        });
        wait.recv().unwrap()
    }

    pub(crate) fn client(&self, retry: RetryPolicy) -> Client {
        Client::builder(&self.endpoint, &ApiKey::from_random([7; 32]))
            .retry(retry)
            .call_timeout(Duration::from_millis(300))
            .build()
            .unwrap()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }
}

async fn serve(mut stream: TcpStream, steps: Arc<Vec<Step>>, log: Arc<Mutex<Vec<(String, String)>>>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let events = serde_json::from_str::<Vec<serde_json::Value>>(&body).map_or(0, |events| events.len());
        let step = {
            let mut seen = log.lock().unwrap();
            seen.push((head, body));
            steps.get(seen.len() - 1).unwrap_or_else(|| steps.last().unwrap()).clone()
        };
        let (status, headers, body) = match step {
            Step::Drop => return,
            Step::Stall => std::future::pending().await,
            Step::Queue => (202, "", queued(0..events)),
            Step::Answer(status, headers, body) => (status, headers, body),
        };
        let answer = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub(crate) fn queued(indexes: std::ops::Range<usize>) -> String {
    let id = event(0).id();
    let rows =
        indexes.map(|index| format!(r#"{{"index":{index},"id":"{id}","submissionId":"sub_1","status":"queued"}}"#));
    format!(r#"{{"results":[{}]}}"#, rows.collect::<Vec<_>>().join(","))
}

pub(crate) fn event(number: usize) -> UsageEvent {
    let at = UtcMillis::parse("2026-01-01T00:00:00Z").unwrap();
    UsageEvent::builder("api_request", "cus_01", at).property("n", number).build().unwrap()
}

pub(crate) fn quick() -> RetryPolicy {
    RetryPolicy { base: Duration::from_millis(5), max_attempts: 5, ..RetryPolicy::default() }
}
