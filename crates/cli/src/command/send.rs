//! `tollgate send`.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tollgate_client::ApiKey;

use crate::args::SendArguments;
use crate::command::Ended;
use crate::output::{json, line};
use crate::sender::{KeyRing, Progress, SendCounts, check, send};

pub(crate) async fn run(arguments: SendArguments) -> anyhow::Result<Ended> {
    let keys = match &arguments.key_file {
        Some(path) => KeyRing::from_file(path)?,
        None => KeyRing::One(key_of_environment()?),
    };
    let lines = check(&arguments.file, &keys)?.values().sum();
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} events queued, {per_sec}, {eta} left")?;
    let bar = ProgressBar::new(lines).with_style(style);
    let progress: Progress = Arc::new({
        let bar = bar.clone();
        move |_, queued| bar.inc(queued as u64)
    });
    let batch = usize::from(arguments.batch);
    let counts = send(&arguments.file, &arguments.url, &keys, batch, &BTreeMap::new(), progress).await?;
    bar.abandon();
    if arguments.json {
        json(&counts)?;
    } else {
        line(format!(
            "{} sent: {} queued, {} over the quota, {} refused, {} unavailable",
            counts.lines, counts.queued, counts.quota_exceeded, counts.refused, counts.unavailable
        ));
        if counts.unavailable > 0 {
            line("Send the same file again: what is queued already is charged once all the same.");
        }
    }
    Ok(match counts {
        SendCounts { unavailable: 1.., .. } => Ended::NoAnswer,
        SendCounts { queued, lines, .. } if queued == lines => Ended::Well,
        _ => Ended::NotWell,
    })
}

/// From the environment, since arguments can be seen by every process of the machine.
pub(crate) fn key_of_environment() -> anyhow::Result<ApiKey> {
    let text = std::env::var("TOLLGATE_API_KEY").context(
        "TOLLGATE_API_KEY is not set: put the key there (tollgate keys create makes one), or use --key-file",
    )?;
    ApiKey::parse(text.trim()).context("TOLLGATE_API_KEY")
}
