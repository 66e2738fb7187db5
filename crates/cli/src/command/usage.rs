//! `tollgate usage`.

use serde_json::json;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::Plan;
use tollgate_domain::ports::{Billing, Clock, Freshness, Spaces};
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::plan_policy;

use crate::command::Ended;
use crate::output::{self, line};
use crate::settings::Settings;

pub(crate) async fn run(
    settings: &Settings,
    space: &SpaceId,
    month: Option<PeriodMonth>,
    as_json: bool,
) -> anyhow::Result<Ended> {
    let mut env = settings.env();
    let policy = plan_policy(&mut env);
    let policy = env.finish(policy)?;
    let stores = settings.connect().await?;
    let month = month.unwrap_or_else(|| PeriodMonth::of(SystemClock.now()));
    let record = stores.spaces.read(space, Freshness::Strong).await?;
    let used = stores.billing.count(space, month).await?;
    let (plan, limit) = match policy.plan_of(space, record.as_ref()) {
        Plan::Free(limit) => ("free", Some(limit.get())),
        Plan::PlusActive => ("plus_active", None),
        Plan::PlusInactive => ("plus_inactive", None),
        Plan::Internal => ("internal", None),
    };
    let remaining = limit.map(|limit| limit.saturating_sub(used));
    let resets_at = month.next().start();
    if as_json {
        output::json(&json!({
            "space": space, "month": month, "plan": plan, "limit": limit, "used": used,
            "remaining": remaining, "resetsAt": resets_at.to_string(),
        }))?;
        return Ok(Ended::Well);
    }
    line(format!("{space}, {month}: plan {plan}"));
    match (limit, remaining) {
        (Some(limit), Some(remaining)) => {
            line(format!("{used} of {limit} events used, {remaining} remain; resets at {resets_at}"));
        }
        _ => line(format!("{used} events of free quota consumed; this plan has no monthly limit")),
    }
    Ok(Ended::Well)
}
