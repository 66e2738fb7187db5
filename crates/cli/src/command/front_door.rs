//! `tollgate front-door`.

use anyhow::Context;
use axum::Router;
use tokio::net::TcpListener;
use tollgate_front_door::clock::PinnedMonth;
use tollgate_front_door::config::FrontDoorConfig;
use tollgate_front_door::live::LivePorts;
use tollgate_front_door::router::router;
use tollgate_front_door::serve::serve_local;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::IntakeStoreConfig;
use tollgate_stores::connect::IntakeStores;
use tollgate_stores::logging::log_to_stderr;

use crate::args::FrontDoorArguments;
use crate::command::Ended;
use crate::output::line;
use crate::process::stop_signal;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, arguments: FrontDoorArguments) -> anyhow::Result<Ended> {
    let mut env = settings.env();
    let (stores, config) = (IntakeStoreConfig::from_env(&mut env), FrontDoorConfig::from_env(&mut env));
    let (mut stores, mut config) = env.finish((stores, config)).with_context(|| settings.what_is_missing())?;
    settings.point_at_stack(&mut stores.aws);
    if let Some(gate) = arguments.gate {
        config.gate.mode = gate;
    }
    if arguments.pin_month.is_some() {
        settings.require_local("--pin-month")?;
    }
    log_to_stderr();
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}: is another front door running there?", arguments.listen))?;
    let address = listener.local_addr()?;
    let stores = IntakeStores::connect(&stores).await?;
    let app: Router = match arguments.pin_month {
        None => router(LivePorts::new(stores, SystemClock), config.clone()),
        Some(month) => router(LivePorts::new(stores, PinnedMonth::new(SystemClock, month)), config.clone()),
    };
    // To stdout: stderr is the log, and nothing but JSON.
    line(format!("The front door listens on http://{address}"));
    if let Some(path) = &arguments.address_file {
        std::fs::write(path, address.to_string()).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    serve_local(listener, app, &config.server, stop_signal(arguments.process.with_parent)?).await;
    Ok(Ended::Well)
}
