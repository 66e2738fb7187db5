//! `GET /readyz`: whether what the front door cannot do without answers.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tollgate_domain::key::KeyHash;
use tollgate_domain::ports::{Intake, Keys, PortResult};

use crate::ports::FrontDoorPorts;

/// Time for each engine to answer.
const CHECK: Duration = Duration::from_secs(1);
/// For how long an answer is kept: whoever asks often does not load the engines.
const KEPT: Duration = Duration::from_secs(1);
/// A hash that no key has.
const NOBODY: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What the two engines said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Checks {
    keys: &'static str,
    queue: &'static str,
}

#[derive(Serialize)]
struct Document {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
}

/// The last answer, and whoever is asking for the next one.
#[derive(Default)]
pub(crate) struct Readiness {
    // Held while the engines are asked: the others wait for the same answer.
    last: Mutex<Option<(Instant, Checks)>>,
}

const WELL: &str = "ok";

impl Readiness {
    /// 200, or 503 with the engine that gave no answer; why, only the log tells.
    pub(crate) async fn answer<P: FrontDoorPorts>(&self, ports: &P) -> Response {
        let checks = self.checks(ports).await;
        if checks == (Checks { keys: WELL, queue: WELL }) {
            return Json(Document { status: "ready", checks: None }).into_response();
        }
        let document = Json(Document { status: "not_ready", checks: Some(checks) });
        (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], document).into_response()
    }

    async fn checks<P: FrontDoorPorts>(&self, ports: &P) -> Checks {
        let mut last = self.last.lock().await;
        if let Some((asked_at, checks)) = *last
            && asked_at.elapsed() < KEPT
        {
            return checks;
        }
        let nobody = KeyHash::from_stored(NOBODY);
        let (keys, queue) =
            tokio::join!(check("keys", ports.keys().find(&nobody)), check("queue", ports.intake().probe()));
        let checks = Checks { keys, queue };
        *last = Some((Instant::now(), checks));
        checks
    }
}

async fn check<T>(engine: &'static str, asked: impl Future<Output = PortResult<T>>) -> &'static str {
    let failure = match timeout(CHECK, asked).await {
        Ok(Ok(_)) => return WELL,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::warn!(engine, error = failure, "not ready");
    "unavailable"
}
