//! ClickHouse killed between a row and its twin: the row is stored, the view that makes the twin never ran.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use tollgate_stores::config::ClickHouseConfig;
use tollgate_stores::rows::{ClickHouseRows, RowCounts};
use tollgate_stores::schema;

use super::post::Post;
use super::run::{Bench, until_done, worker_settings};
use super::setup::Setup;
use super::{Case, Circumstance};
use crate::auditor::{Finding, audit};
use crate::faults::{Edge, WireEffect};
use crate::live::{ClickHouseServer, Engines, Queues, snapshot};

/// Until the row is there and its twin is not.
const STORED: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// The view as it is, but for the three seconds that it takes over each row.
const SLOW_VIEW: &str = "CREATE MATERIALIZED VIEW events_to_billing TO events_billing AS \
     SELECT space, event_id, quantity, row_inserted_at_ms, period_month, billed_as FROM events \
     WHERE sleepEachRow(3) = 0";
const BASE_ROW_ALONE: RowCounts = RowCounts { events: 1, billing: 0 };

/// Who is killed with ClickHouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nobody: the worker that inserted hears no answer and inserts again.
    WorkerLives,
    /// The worker too: its redelivery has the probe alone to tell that the twin is missing.
    WorkerKilled,
}

impl Gap {
    pub(super) const ALL: [Self; 2] = [Self::WorkerLives, Self::WorkerKilled];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::WorkerLives => "insert/clickhouse-killed-between-row-and-twin/worker-lives",
            Self::WorkerKilled => "insert/clickhouse-killed-between-row-and-twin/worker-killed",
        }
    }
}

/// Takes ClickHouse from everybody: nothing else may run meanwhile.
pub(super) async fn run_case(bench: &Bench, gap: Gap) -> anyhow::Result<Vec<Finding>> {
    let case = Case { effect: WireEffect::Insert, edge: Edge::AnswerLost, circumstance: Circumstance::Alone };
    let setup = Setup::of(case, Engines::unique_space("gap")?);
    let queues = Queues::create(&bench.engines).await?;
    bench.engines.stores.spaces.set(&setup.space, &setup.record).await?;

    // A database of its own: its view is slow.
    let database = Engines::unique("gap").replace('-', "_");
    let shared = bench.engines.stores.rows.client();
    shared.query(&format!("CREATE DATABASE {database}")).execute().await?;
    let clickhouse = ClickHouseConfig { database: database.clone(), ..bench.engines.config.clickhouse.clone() };
    let mut engines = bench.engines.clone();
    engines.stores.rows = ClickHouseRows::connect(&clickhouse)?;
    schema::apply(&engines.stores.rows).await?;
    for statement in ["DROP VIEW events_to_billing", SLOW_VIEW] {
        engines.stores.rows.client().query(statement).execute().await?;
    }

    let post = Post::new(bench, [], worker_settings(&database), &gap.name().replace('/', ".")).await?;
    queues.send(&setup.first()).await?;
    post.start(bench, &queues).await?;
    let count = || engines.stores.rows.count(&setup.space);
    let stored = async {
        while count().await? != BASE_ROW_ALONE {
            tokio::time::sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(STORED, stored).await.context("the row never stood alone: this case proves nothing")??;
    if gap == Gap::WorkerKilled {
        post.end().await?;
    }
    ClickHouseServer::of(&bench.engines.stack).restart_killed().await?;
    // Whoever inserts again needs three seconds for the twin.
    ensure!(count().await? == BASE_ROW_ALONE, "the kill came too early or too late: this case proves nothing");
    if gap == Gap::WorkerKilled {
        post.start(bench, &queues).await?;
    }
    until_done(&queues, &[&post]).await?;
    post.end().await?;
    let snapshot = snapshot(&engines, &queues, &BTreeSet::from([setup.space.clone()])).await?;
    queues.delete().await?;
    shared.query(&format!("DROP DATABASE {database}")).execute().await?;
    Ok(audit(&setup.sent(), &setup.plans(), &snapshot))
}
