-- Tollgate's tables in ClickHouse: the one schema file, applied statement by statement, safe to apply again.
-- The database is the connection's.
--
-- Both tables are keyed by event, (space, event id), so that a row which is inserted twice is one row: at merge time
-- by itself, and always for a reader that asks with FINAL or uniqExact((space, event_id)). Whoever counts money asks so.
-- A merge collapses rows within one partition only; the partition comes from the claim's stamp, which every replay of
-- an event repeats, so that its copies always meet.
--
-- No insert_deduplication_token: a repair inserts a single row again because its twin is missing, and a token still in
-- the window would drop that insert in silence. The keys below do the work.

CREATE TABLE IF NOT EXISTS events
(
    space              LowCardinality(String),
    event_id           String,
    fingerprint        String,
    meter              LowCardinality(String),
    subject            String,
    source             String,
    quantity           UInt64,
    -- Exact for every year an event may name; DateTime64 would bend those before 1900.
    occurred_at_ms     Int64,
    -- The claim's stamp: the same in every copy of the row.
    row_inserted_at_ms Int64,
    -- The month that pays. Reports filter on it and never on the partition: a claim can come a month later.
    period_month       LowCardinality(String),
    billed_as          LowCardinality(String),
    occurred_at        DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(occurred_at_ms, 'UTC'),
    row_inserted_at    DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(row_inserted_at_ms, 'UTC')
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(row_inserted_at_ms, 'UTC'))
ORDER BY (space, event_id);

CREATE TABLE IF NOT EXISTS events_billing
(
    space              LowCardinality(String),
    event_id           String,
    quantity           UInt64,
    row_inserted_at_ms Int64,
    period_month       LowCardinality(String),
    billed_as          LowCardinality(String),
    -- Keyed as events is, so that one probe finds both; a report by month skips the parts of other months by this.
    INDEX by_period_month period_month TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(row_inserted_at_ms, 'UTC'))
ORDER BY (space, event_id);

CREATE MATERIALIZED VIEW IF NOT EXISTS events_to_billing TO events_billing AS
SELECT space, event_id, quantity, row_inserted_at_ms, period_month, billed_as
FROM events;
