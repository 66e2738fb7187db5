//! `GET /v1/events/{id}`: where an event stands, now or once it has come to its end.

use std::time::Duration;

use http::Uri;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::ledger::{EventKey, LedgerItem, Rejection, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{BilledAs, Limit};
use tollgate_domain::ports::{Image, Ledger};
use tollgate_domain::space::SpaceId;
use utoipa::ToSchema;

use crate::answer::{ErrorKind, Refusal};
use crate::config::ReadsConfig;
use crate::ports::{FrontDoorPorts, in_time};
use crate::query::Query;
use crate::schema;

/// Seconds that a client may wait for an event's end: below what gateways allow a request.
pub const MAX_WAIT_S: u64 = 20;
/// Pauses between two looks: short at first, since most events end within a second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Where an event stands. What is not known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The event's id.
    #[schema(value_type = schema::EventId)]
    pub id: EventId,
    /// Where it stands.
    pub status: StandingStatus,
    /// Nothing will change by itself any more.
    pub terminal: bool,
    /// The ledger's facts of a known event.
    #[serde(flatten)]
    #[schema(value_type = schema::MaybeKnown)]
    pub known: Option<Known>,
    /// Other payloads seen under this id, each counted once.
    pub conflicts_seen: usize,
}

/// Where an event stands, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StandingStatus {
    /// The ledger does not know it: it may still be in the queue, or was never sent.
    Unknown,
    /// Claimed; on its way.
    Inserting,
    /// Charged, archived and stored.
    Inserted,
    /// Refused for ever.
    Rejected,
    /// Charged and archived, but its row was refused; an operator re-drives it.
    Uninsertable,
}

impl From<Status> for StandingStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Inserting => Self::Inserting,
            Status::Inserted => Self::Inserted,
            Status::Rejected => Self::Rejected,
            Status::Uninsertable => Self::Uninsertable,
        }
    }
}

/// What the ledger holds of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Known {
    /// The submission that won the claim.
    #[schema(value_type = schema::SubmissionId)]
    pub submission_id: String,
    /// The facts that won the claim.
    #[schema(value_type = schema::Fingerprint)]
    pub fingerprint: Fingerprint,
    /// The month that pays.
    #[schema(value_type = schema::Month)]
    pub period_month: PeriodMonth,
    /// When it was claimed.
    #[schema(value_type = schema::Instant)]
    pub claimed_at: String,
    /// When anything last changed.
    #[schema(value_type = schema::Instant)]
    pub updated_at: String,
    /// What it was billed as: `free`, `plus` or `internal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::BilledAs)]
    pub billed_as: Option<String>,
    /// When its bill was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Instant)]
    pub billing_accepted_at: Option<String>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rejection: Option<Rejected>,
}

/// Why an event was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Rejected {
    /// `limit_exhausted` or `plus_inactive`.
    #[schema(value_type = schema::RejectedReason)]
    pub reason: String,
    /// The limit seen; of `limit_exhausted` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub limit: Option<u64>,
    /// The month's count seen; of `limit_exhausted` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub count: Option<u64>,
}

impl From<Rejection> for Rejected {
    fn from(rejection: Rejection) -> Self {
        Self {
            reason: rejection.reason.as_str().to_ascii_lowercase(),
            limit: rejection.limit_seen.map(Limit::get),
            count: rejection.count_seen,
        }
    }
}

impl Standing {
    fn unknown(id: EventId) -> Self {
        Self { id, status: StandingStatus::Unknown, terminal: false, known: None, conflicts_seen: 0 }
    }
}

impl From<LedgerItem> for Standing {
    fn from(item: LedgerItem) -> Self {
        let billed_as = |as_what: BilledAs| as_what.as_str().to_ascii_lowercase();
        Self {
            id: item.key.id,
            status: item.status.into(),
            terminal: item.status.is_terminal(),
            conflicts_seen: item.conflicts.len(),
            known: Some(Known {
                submission_id: item.submission_id,
                fingerprint: item.fingerprint,
                period_month: item.period_month,
                claimed_at: item.created_at.to_string(),
                updated_at: item.updated_at.to_string(),
                billed_as: item.checkpoint.map(|checkpoint| billed_as(checkpoint.billed_as)),
                billing_accepted_at: item.checkpoint.map(|checkpoint| checkpoint.accepted_at.to_string()),
                rejection: item.rejection.map(Rejected::from),
            }),
        }
    }
}

/// Looks at events, for a bounded number of waiters.
pub(crate) struct Watch {
    config: ReadsConfig,
    waiters: Semaphore,
}

impl Watch {
    pub(crate) fn new(config: ReadsConfig) -> Self {
        let waiters = Semaphore::new(config.max_waiters.min(Semaphore::MAX_PERMITS));
        Self { config, waiters }
    }

    /// Where the event of this URL stands, in the caller's own space and in no other.
    pub(crate) async fn read_status<P: FrontDoorPorts>(
        &self,
        ports: &P,
        space: SpaceId,
        uri: &Uri,
    ) -> Result<Standing, Refusal> {
        let mut query = Query::of(uri);
        let wait_s = query.take("wait", &format!("a whole number of seconds, 0 to {MAX_WAIT_S}"), |text| {
            text.parse().ok().filter(|seconds| *seconds <= MAX_WAIT_S && text.bytes().all(|b| b.is_ascii_digit()))
        });
        let text = uri.path().rsplit('/').next().unwrap_or_default();
        let id = EventId::parse(text).map_err(|_| Refusal::new(ErrorKind::InvalidEventId))?;
        query.finish()?;
        self.wait(ports, &EventKey { space, id }, Duration::from_secs(wait_s.unwrap_or_default())).await
    }

    /// Answers as soon as the event has come to its end, or after `wait`. Whoever goes away ends the looking, since it
    /// is done by the request's own future.
    async fn wait<P: FrontDoorPorts>(&self, ports: &P, key: &EventKey, wait: Duration) -> Result<Standing, Refusal> {
        let started = Instant::now();
        let mut standing = self.look(ports, key).await?;
        if standing.terminal || wait.is_zero() {
            return Ok(standing);
        }
        // Beyond so many, nobody waits: a client that asks again costs less than one that is held.
        let Ok(_waiter) = self.waiters.try_acquire() else { return Ok(standing) };
        let mut pause = FIRST_PAUSE;
        while !standing.terminal {
            let left = wait.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            standing = self.look(ports, key).await?;
        }
        Ok(standing)
    }

    async fn look<P: FrontDoorPorts>(&self, ports: &P, key: &EventKey) -> Result<Standing, Refusal> {
        let error = match in_time(self.config.timeout, ports.ledger().read(key)).await {
            Ok(Image::Item(item)) => return Ok((*item).into()),
            Ok(Image::Absent) => return Ok(Standing::unknown(key.id.clone())),
            // Of a later version, perhaps: to call it unknown would be a lie.
            Ok(Image::Unreadable(error)) | Err(error) => error,
        };
        tracing::error!(space = %key.space, id = %key.id, error, "the ledger does not tell where an event stands");
        Err(Refusal::new(ErrorKind::LedgerUnavailable))
    }
}
