//! ClickHouse: the lean rows in `events`, whose materialized view keeps the narrow twin in `events_billing`.

use std::collections::BTreeSet;
use std::time::Duration;

use clickhouse::{Client, Compression};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use secrecy::ExposeSecret;
use serde::Serialize;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::{InsertError, PlusUsage, PortError, PortResult, Rows};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;

use crate::clickhouse_error::{decide, decide_insert};
use crate::config::ClickHouseConfig;

/// The table that is inserted into.
pub const EVENTS: &str = "events";
/// Connecting to a healthy server takes milliseconds.
const CONNECT: Duration = Duration::from_secs(1);
/// Handing a chunk to the socket.
const SEND: Duration = Duration::from_secs(5);
/// The server's answer to an insert, views included.
const INSERT_ANSWER: Duration = Duration::from_secs(20);
/// The server's answer to a probe.
const QUERY_ANSWER: Duration = Duration::from_secs(5);
/// ClickHouse closes idle connections after 10 s by default (3 s before version 23.12).
const POOL_IDLE: Duration = Duration::from_millis(2_500);

/// Present in both tables, or the row counts as absent and is inserted again: money is counted from the twin.
const PROBE: &str = "SELECT count() FROM (\
     SELECT 1 FROM events WHERE space = ? AND event_id = ? LIMIT 1 \
     UNION ALL SELECT 1 FROM events_billing WHERE space = ? AND event_id = ? LIMIT 1)";
const IN_BOTH_TABLES: u64 = 2;

/// A stored row, copies collapsed.
const FIND: &str = "SELECT space, event_id, fingerprint, meter, subject, source, quantity, occurred_at_ms, \
     row_inserted_at_ms, period_month, billed_as FROM events FINAL WHERE space = ? AND event_id = ?";
/// Distinct events of a space and month in each table, with what they were billed as: whoever counts money counts
/// distinct events, whatever was merged already.
const EVENTS_OF_MONTH: &str = "SELECT DISTINCT event_id, billed_as FROM events WHERE space = ? AND period_month = ?";
const BILLING_OF_MONTH: &str =
    "SELECT DISTINCT event_id, billed_as FROM events_billing WHERE space = ? AND period_month = ?";

/// What a Plus space is billed from: distinct events of a month that were billed as Plus, copies collapsed.
const PLUS_OF_MONTH: &str = "SELECT uniqExact((space, event_id)) FROM events_billing \
     WHERE space = ? AND period_month = ? AND billed_as = 'PLUS'";

/// Distinct events of a space in both tables, over all months.
const COUNT: &str = "SELECT sum(events), sum(billing) FROM (\
     SELECT uniqExact((space, event_id)) AS events, toUInt64(0) AS billing FROM events WHERE space = ? \
     UNION ALL SELECT toUInt64(0), uniqExact((space, event_id)) FROM events_billing WHERE space = ?)";

/// Distinct events of a space, by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCounts {
    /// In `events`.
    pub events: u64,
    /// In `events_billing`.
    pub billing: u64,
}

/// The events of a space and month, with what they were billed as, by table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthRows {
    /// In `events`.
    pub events: BTreeSet<(String, String)>,
    /// In `events_billing`.
    pub billing: BTreeSet<(String, String)>,
}

/// The rows on ClickHouse.
#[derive(Clone)]
pub struct ClickHouseRows {
    client: Client,
}

/// A row as it is sent: the domain's, borrowed.
#[derive(clickhouse::Row, Serialize)]
struct SentRow<'a> {
    space: &'a str,
    event_id: &'a str,
    fingerprint: &'a str,
    meter: &'a str,
    subject: &'a str,
    source: &'a str,
    quantity: u64,
    occurred_at_ms: i64,
    row_inserted_at_ms: i64,
    period_month: &'a str,
    billed_as: &'a str,
}

impl<'a> From<&'a Row> for SentRow<'a> {
    fn from(row: &'a Row) -> Self {
        Self {
            space: &row.space,
            event_id: &row.event_id,
            fingerprint: &row.fingerprint,
            meter: &row.meter,
            subject: &row.subject,
            source: &row.source,
            quantity: row.quantity,
            occurred_at_ms: row.occurred_at_ms,
            row_inserted_at_ms: row.row_inserted_at_ms,
            period_month: &row.period_month,
            billed_as: &row.billed_as,
        }
    }
}

impl ClickHouseRows {
    /// The rows at `config`.
    pub fn connect(config: &ClickHouseConfig) -> Result<Self, PortError> {
        Ok(Self { client: client(config)? })
    }

    /// The distinct rows of an event in `events`: one, or none; more is a broken invariant.
    pub async fn find(&self, key: &EventKey) -> PortResult<Vec<Row>> {
        let query = self.client.query(FIND).bind(key.space.as_str()).bind(key.id.as_str());
        // As JSON, since the domain's row reads it; 64-bit integers unquoted, which is not the engine's default.
        let rows = query.with_setting("output_format_json_quote_64bit_integers", "0").fetch_bytes("JSONEachRow");
        let unreadable = |_| PortError::Unknown("find: a row cannot be read".to_owned());
        let text = rows.map_err(|error| decide("find", &error))?.collect().await;
        text.map_err(|error| decide("find", &error))?
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).map_err(unreadable))
            .collect()
    }

    /// How many distinct events of a space are in each table.
    pub async fn count(&self, space: &SpaceId) -> PortResult<RowCounts> {
        let query = self.client.query(COUNT).bind(space.as_str()).bind(space.as_str());
        let (events, billing) = query.fetch_one::<(u64, u64)>().await.map_err(|error| decide("count", &error))?;
        Ok(RowCounts { events, billing })
    }

    /// The events of a space and month in each table. For operators and tests; holds all ids in memory.
    pub async fn of_month(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<MonthRows> {
        let ids = async |query: &str| {
            let query = self.client.query(query).bind(space.as_str()).bind(month.to_string());
            let rows =
                query.fetch_all::<(String, String)>().await.map_err(|error| decide("rows of a month", &error))?;
            PortResult::Ok(rows.into_iter().collect())
        };
        Ok(MonthRows { events: ids(EVENTS_OF_MONTH).await?, billing: ids(BILLING_OF_MONTH).await? })
    }

    /// The crate's client, for operators' queries and tests.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// A client whose settings are deliberate.
fn client(config: &ClickHouseConfig) -> Result<Client, PortError> {
    let mut connector = HttpConnector::new();
    // With Nagle's algorithm left on, a call stalls for some 40 ms on the peer's delayed acknowledgement.
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    connector.enforce_http(false);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|_| PortError::Broken("ClickHouse: the system has no root certificates".to_owned()))?
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    let http = HyperClient::builder(TokioExecutor::new()).pool_idle_timeout(POOL_IDLE).build(connector);
    Ok(Client::with_http_client(http)
        .with_url(&config.url)
        .with_database(&config.database)
        .with_user(&config.user)
        .with_password(config.password.expose_secret())
        .with_compression(Compression::Lz4)
        // Drift of the table's schema is an error before anything is sent, not a lost column.
        .with_validation(true)
        // An acknowledged insert is stored: a queue on the server would answer before it is.
        .with_setting("async_insert", "0"))
}

impl PlusUsage for ClickHouseRows {
    async fn count_plus(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        let query = self.client.query(PLUS_OF_MONTH).bind(space.as_str()).bind(month.to_string());
        match tokio::time::timeout(QUERY_ANSWER, query.fetch_one::<u64>()).await {
            Ok(answer) => answer.map_err(|error| decide("plus usage", &error)),
            Err(_) => Err(PortError::Unknown("plus usage: timed out".to_owned())),
        }
    }
}

impl Rows for ClickHouseRows {
    async fn is_present(&self, key: &EventKey) -> PortResult<bool> {
        let (space, id) = (key.space.as_str(), key.id.as_str());
        let query = self.client.query(PROBE).bind(space).bind(id).bind(space).bind(id);
        match tokio::time::timeout(QUERY_ANSWER, query.fetch_one::<u64>()).await {
            Ok(answer) => answer.map(|tables| tables == IN_BOTH_TABLES).map_err(|error| decide("probe", &error)),
            Err(_) => Err(PortError::Unknown("probe: timed out".to_owned())),
        }
    }

    async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
        let answer = self.send(rows).await.map_err(|error| decide_insert(&error));
        if let Err(InsertError::Port(PortError::Broken(_))) = &answer {
            // What is remembered of the table's columns may be what is wrong: it was altered since they were read, or
            // mended. The next insert looks again, so that no restart is needed.
            self.client.clear_cached_metadata().await;
        }
        answer
    }
}

impl ClickHouseRows {
    async fn send(&self, rows: &[Row]) -> clickhouse::error::Result<()> {
        let opened = tokio::time::timeout(QUERY_ANSWER, self.client.insert::<SentRow<'_>>(EVENTS)).await;
        let mut insert =
            opened.map_err(|_| clickhouse::error::Error::TimedOut)??.with_timeouts(Some(SEND), Some(INSERT_ANSWER));
        for row in rows {
            insert.write(&SentRow::from(row)).await?;
        }
        insert.end().await
    }
}
