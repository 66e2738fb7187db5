//! `tollgate worker`.

use anyhow::Context;
use tollgate_stores::logging::log_to_stderr;
use tollgate_worker::config::WorkerConfig;
use tollgate_worker::worker::run_live;

use crate::args::ProcessArguments;
use crate::command::Ended;
use crate::process::stop_signal;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, arguments: &ProcessArguments) -> anyhow::Result<Ended> {
    let mut config = WorkerConfig::from_env(settings.env()).with_context(|| settings.what_is_missing())?;
    settings.point_at_stack(&mut config.stores.aws);
    log_to_stderr();
    run_live(config, stop_signal(arguments.with_parent)?).await?;
    Ok(Ended::Well)
}
