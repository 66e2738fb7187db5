//! `GET /v1/usage`: a space's plan, and what it has used of a month.

use http::Uri;
use serde::Serialize;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Plan, PlanPolicy};
use tollgate_domain::ports::{Billing, Clock, Freshness, PlusUsage, PortResult, Spaces};
use tollgate_domain::space::SpaceId;
use utoipa::ToSchema;

use crate::answer::{ErrorKind, Refusal};
use crate::config::ReadsConfig;
use crate::ports::{FrontDoorPorts, in_time};
use crate::query::Query;
use crate::schema;

/// A space's plan and its use of a month. What does not apply, or is not known here, is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Whose.
    #[schema(value_type = schema::SpaceName)]
    pub space: SpaceId,
    /// Of which month.
    #[schema(value_type = schema::Month)]
    pub month: PeriodMonth,
    /// `free`, `plus` or `internal`: the plan of now, also for a month that is over.
    #[schema(value_type = schema::UsagePlan)]
    pub plan: &'static str,
    /// Whether the plan is in good standing; a Plus space's only, else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub active: Option<bool>,
    /// Events used: a free space's meter, or the distinct events that a Plus space is billed for.
    #[schema(required)]
    pub used: Option<u64>,
    /// Events a month beyond which a free space's are rejected.
    #[schema(required, minimum = 1)]
    pub limit: Option<u64>,
    /// Events that a free space has left.
    #[schema(required)]
    pub remaining: Option<u64>,
    /// Events a month that the Plus plan's price includes.
    #[schema(required)]
    pub included: Option<u64>,
    /// When the next month begins.
    #[schema(value_type = schema::Instant)]
    pub resets_at: String,
}

/// The usage of the caller's space; 503 when any store that it rests on gives no answer.
pub(crate) async fn read_usage<P: FrontDoorPorts>(
    ports: &P,
    config: &ReadsConfig,
    policy: &PlanPolicy,
    space: SpaceId,
    uri: &Uri,
) -> Result<Usage, Refusal> {
    let mut query = Query::of(uri);
    let month = query.take("month", "a month such as 2026-11", |text| PeriodMonth::parse(text).ok());
    query.finish()?;
    let month = month.unwrap_or_else(|| PeriodMonth::of(ports.clock().now()));
    in_time(config.timeout, find(ports, config, policy, &space, month)).await.map_err(|error| {
        tracing::error!(%space, %month, error, "usage cannot be told");
        Refusal::new(ErrorKind::UsageUnavailable)
    })
}

async fn find<P: FrontDoorPorts>(
    ports: &P,
    config: &ReadsConfig,
    policy: &PlanPolicy,
    space: &SpaceId,
    month: PeriodMonth,
) -> PortResult<Usage> {
    let record = ports.spaces().read(space, Freshness::Strong).await?;
    let usage = |plan| Usage {
        space: space.clone(),
        month,
        plan,
        active: None,
        used: None,
        limit: None,
        remaining: None,
        included: None,
        resets_at: month.next().start().to_string(),
    };
    match policy.plan_of(space, record.as_ref()) {
        Plan::Internal => Ok(usage("internal")),
        Plan::Free(limit) => {
            let used = ports.billing().count(space, month).await?;
            let remaining = limit.get().saturating_sub(used);
            Ok(Usage { used: Some(used), limit: Some(limit.get()), remaining: Some(remaining), ..usage("free") })
        }
        plan @ (Plan::PlusActive | Plan::PlusInactive) => {
            let used = match ports.plus_usage() {
                Some(plus) => Some(plus.count_plus(space, month).await?),
                None => None,
            };
            let active = Some(plan == Plan::PlusActive);
            Ok(Usage { active, used, included: Some(config.plus_included), ..usage("plus") })
        }
    }
}
