//! ClickHouse: the lean rows in `events`, whose materialized view keeps the narrow twin in `events_billing`.

use std::time::Duration;

use clickhouse::{Client, Compression};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use secrecy::ExposeSecret;
use serde::Serialize;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::ports::{InsertError, PortError, PortResult, Rows};
use tollgate_domain::row::Row;

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
        let sent = self.send(rows).await;
        if let Err(clickhouse::error::Error::SchemaMismatch(_)) = &sent {
            // The table may have been mended since its columns were read: the next insert looks again.
            self.client.clear_cached_metadata().await;
        }
        sent.map_err(|error| decide_insert(&error))
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
