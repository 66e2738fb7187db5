//! `tollgate spaces`.

use anyhow::bail;
use tollgate_domain::plan::SpaceRecord;

use crate::args::{PlanName, SpacesCommand};
use crate::command::Ended;
use crate::output::line;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, command: SpacesCommand) -> anyhow::Result<Ended> {
    let SpacesCommand::Set { space, plan, limit } = command;
    if limit.is_some() && plan != PlanName::Free {
        bail!("only a free space has a limit: leave out --limit, or use --plan free");
    }
    let record = SpaceRecord { subscription: plan.into(), monthly_limit: limit };
    settings.connect().await?.spaces.set(&space, &record).await?;
    let limit = match (plan, limit) {
        (PlanName::Free, Some(limit)) => format!(", {limit} events a month"),
        (PlanName::Free, None) => ", the configured limit".to_owned(),
        _ => String::new(),
    };
    line(format!("{space}: {}{limit} (workers see it within their plan cache's time)", record.subscription));
    Ok(Ended::Well)
}
