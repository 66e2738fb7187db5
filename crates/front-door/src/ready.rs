//! `GET /readyz`: whether what the front door cannot do without answers.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tollgate_domain::key::KeyHash;
use tollgate_domain::ports::{Intake, Keys, PortResult};
use utoipa::ToSchema;

use crate::ports::{FrontDoorPorts, in_time};
use crate::schema;

/// Time for each engine to answer.
const CHECK: Duration = Duration::from_secs(1);
/// For how long an answer is kept: whoever asks often does not load the engines.
const KEPT: Duration = Duration::from_secs(1);
/// A hash that no key has.
const NOBODY: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What the two engines said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
struct Checks {
    /// The keys table.
    #[schema(value_type = schema::Check)]
    keys: &'static str,
    /// The event queue.
    #[schema(value_type = schema::Check)]
    queue: &'static str,
}

/// Whether what the front door cannot do without answers.
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct Document {
    /// `ready` or `not_ready`.
    #[schema(value_type = schema::ReadinessStatus)]
    status: &'static str,
    /// What each engine said, if not all are well.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    checks: Option<Checks>,
}

impl Document {
    fn of(checks: Checks) -> Self {
        if checks == (Checks { keys: WELL, queue: WELL }) {
            Self { status: "ready", checks: None }
        } else {
            Self { status: "not_ready", checks: Some(checks) }
        }
    }

    /// The answer while both engines are well, and while one is not.
    pub(crate) fn examples() -> [Self; 2] {
        [WELL, UNAVAILABLE].map(|queue| Self::of(Checks { keys: WELL, queue }))
    }
}

/// The last answer, and whoever is asking for the next one.
#[derive(Default)]
pub(crate) struct Readiness {
    // Held while the engines are asked: the others wait for the same answer.
    last: Mutex<Option<(Instant, Checks)>>,
}

const WELL: &str = "ok";
const UNAVAILABLE: &str = "unavailable";

impl Readiness {
    /// 200, or 503 with the engine that gave no answer; why, only the log tells.
    pub(crate) async fn answer<P: FrontDoorPorts>(&self, ports: &P) -> Response {
        let document = Document::of(self.checks(ports).await);
        match document.checks {
            None => Json(document).into_response(),
            Some(_) => (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], Json(document)).into_response(),
        }
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
    match in_time(CHECK, asked).await {
        Ok(_) => WELL,
        Err(error) => {
            tracing::warn!(engine, error, "not ready");
            UNAVAILABLE
        }
    }
}
