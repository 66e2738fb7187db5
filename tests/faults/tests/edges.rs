//! Each edge: what arrives at the upstream, and what the caller hears.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::process::Command;

use super::upstream::Upstream;
use crate::faults::{Edge, Faults, Proxy, Rule, Script, Victim, WireEffect};

/// A proxy whose next claim is struck, a process behind it, and an upstream that counts.
struct Struck {
    upstream: Upstream,
    script: Arc<Script>,
    victim: Arc<Victim>,
    proxy: Proxy,
}

impl Struck {
    async fn by(edge: Edge) -> Self {
        let (upstream, victim) = (Upstream::start().await, Arc::new(Victim::default()));
        let script = Arc::new(Script::new([Rule { effect: WireEffect::Claim, edge, times: 1 }]));
        let proxy = Proxy::start(&upstream.places, &Faults::Script(Arc::clone(&script)), &victim).await.unwrap();
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        victim.replace(child).await.unwrap();
        Self { upstream, script, victim, proxy }
    }

    /// One claim; the status of its answer, if there is one.
    async fn claim(&self) -> Option<StatusCode> {
        claim(&self.proxy.endpoints.aws_url).await
    }
}

async fn claim(url: &str) -> Option<StatusCode> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = Request::post(url).header("x-amz-target", "DynamoDB_20120810.PutItem").body(Full::from("{}"));
    let answer = client.request(request.unwrap()).await.ok()?;
    let status = answer.status();
    answer.into_body().collect().await.ok().map(|_| status)
}

#[tokio::test]
async fn each_edge_applies_what_it_says_and_the_next_call_passes() {
    const SOON: Duration = Duration::from_millis(50);
    for (edge, answer, applied, lives) in [
        (Edge::Dropped, None, 0, true),
        (Edge::Refused, Some(500), 0, true),
        (Edge::Throttled, Some(400), 0, true),
        (Edge::Conflicted, Some(400), 0, true),
        (Edge::AnswerLost, None, 1, true),
        (Edge::Late(SOON), Some(200), 1, true),
        (Edge::Stalled(SOON), None, 0, true),
        (Edge::StalledAfter(SOON), None, 1, true),
        (Edge::KilledBefore, None, 0, false),
        (Edge::KilledAfter, None, 1, false),
        (Edge::Held, Some(200), 1, true),
    ] {
        let struck = Struck::by(edge).await;
        struck.script.resume();
        assert_eq!(struck.claim().await.map(|status| status.as_u16()), answer, "{edge}");
        assert_eq!(struck.upstream.applied(), applied, "{edge}");
        assert_eq!(struck.victim.kill().await.unwrap(), lives, "{edge}");
        assert_eq!(struck.claim().await, Some(StatusCode::OK), "{edge}: the next call");
    }
}

#[tokio::test]
async fn a_call_that_comes_late_is_applied_although_its_caller_has_gone() {
    let struck = Struck::by(Edge::Late(Duration::from_millis(200))).await;
    struck.script.resume();
    assert!(tokio::time::timeout(Duration::from_millis(100), struck.claim()).await.is_err(), "the caller gives up");
    assert_eq!(struck.upstream.applied(), 0);
    struck.proxy.until_quiet().await;
    assert_eq!(struck.upstream.applied(), 1);
}

#[tokio::test]
async fn what_was_struck_waits_between_effect_and_answer_until_it_may_go_on() {
    let struck = Struck::by(Edge::AnswerLost).await;
    let url = struck.proxy.endpoints.aws_url.clone();
    let call = tokio::spawn(async move { claim(&url).await });
    struck.script.until_struck().await;
    assert_eq!(struck.upstream.applied(), 1, "applied, and the answer waits");
    assert!(!call.is_finished());
    struck.script.resume();
    assert_eq!(call.await.unwrap(), None);
}
