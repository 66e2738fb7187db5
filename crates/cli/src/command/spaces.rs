//! `tollgate spaces`.

use tollgate_domain::plan::SpaceRecord;

use crate::args::SpacesCommand;
use crate::command::Ended;
use crate::output::line;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, command: SpacesCommand) -> anyhow::Result<Ended> {
    let SpacesCommand::Set { space, plan, limit } = command;
    let record = SpaceRecord { subscription: plan.into(), monthly_limit: limit };
    settings.connect().await?.spaces.set(&space, &record).await?;
    let limit = limit.map_or_else(|| "the configured limit".to_owned(), |limit| format!("{limit} events a month"));
    line(format!("{space}: {}, {limit} (workers see it within their plan cache's time)", record.subscription));
    Ok(Ended::Well)
}
