//! The worker's effects, as they look on the wire.

use std::fmt;

use hyper::Method;
use hyper::http::request::Parts;

/// One call that a worker makes of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireEffect {
    /// SQS `ReceiveMessage`.
    Receive,
    /// `PutItem` into the ledger.
    Claim,
    /// `GetItem` of the spaces table.
    ReadSpace,
    /// `TransactWriteItems`.
    Consume,
    /// `UpdateItem`: the checkpoint alone.
    Stamp,
    /// `UpdateItem`: the rejection.
    Reject,
    /// `GetItem` of the ledger.
    ReadLedger,
    /// `GetItem` of the meter.
    ReadCount,
    /// S3 `PutObject` of an event's payload.
    PutEvent,
    /// S3 `PutObject` of a conflict's payload.
    PutConflict,
    /// S3 `GetObject`.
    GetObject,
    /// The existence probe in ClickHouse.
    Probe,
    /// The client's look at the table's columns.
    Columns,
    /// ClickHouse `INSERT`.
    Insert,
    /// `UpdateItem`: one more quarantine.
    RecordQuarantine,
    /// `UpdateItem`: the row is given up.
    MarkUninsertable,
    /// `UpdateItem`: the event is closed.
    MarkInserted,
    /// `UpdateItem`: another fingerprint.
    RecordConflict,
    /// SQS `DeleteMessageBatch`.
    Delete,
    /// SQS `ChangeMessageVisibilityBatch`.
    SetVisibility,
    /// SQS `SendMessage` to the dead-letter queue.
    SendDeadLetter,
}

/// Who applies an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Ledger, meter, spaces.
    DynamoDb,
    /// The queues.
    Sqs,
    /// The archive.
    S3,
    /// The rows.
    ClickHouse,
}

/// A phrase that only one kind of ledger update has in its request, and which.
const LEDGER_UPDATES: [(&str, WireEffect); 6] = [
    ("rejectedReason = :reason", WireEffect::Reject),
    ("quarantineCount = :count", WireEffect::RecordQuarantine),
    ("#status = :uninsertable", WireEffect::MarkUninsertable),
    ("#status = :inserted", WireEffect::MarkInserted),
    ("ADD conflicts", WireEffect::RecordConflict),
    ("billingAcceptedAtMs = :now", WireEffect::Stamp),
];

const TARGETS: [(&str, WireEffect); 6] = [
    ("DynamoDB_20120810.PutItem", WireEffect::Claim),
    ("DynamoDB_20120810.TransactWriteItems", WireEffect::Consume),
    ("AmazonSQS.ReceiveMessage", WireEffect::Receive),
    ("AmazonSQS.DeleteMessageBatch", WireEffect::Delete),
    ("AmazonSQS.ChangeMessageVisibilityBatch", WireEffect::SetVisibility),
    ("AmazonSQS.SendMessage", WireEffect::SendDeadLetter),
];

impl WireEffect {
    /// Every effect, in the order in which a delivery comes to them.
    pub const ALL: [Self; 21] = [
        Self::Receive,
        Self::Claim,
        Self::Probe,
        Self::ReadSpace,
        Self::Consume,
        Self::ReadLedger,
        Self::ReadCount,
        Self::Stamp,
        Self::Reject,
        Self::PutEvent,
        Self::GetObject,
        Self::Columns,
        Self::Insert,
        Self::RecordQuarantine,
        Self::MarkUninsertable,
        Self::MarkInserted,
        Self::PutConflict,
        Self::RecordConflict,
        Self::SetVisibility,
        Self::SendDeadLetter,
        Self::Delete,
    ];

    /// Who applies it.
    pub fn engine(self) -> Engine {
        match self {
            Self::Receive | Self::Delete | Self::SetVisibility | Self::SendDeadLetter => Engine::Sqs,
            Self::PutEvent | Self::PutConflict | Self::GetObject => Engine::S3,
            Self::Probe | Self::Columns | Self::Insert => Engine::ClickHouse,
            _ => Engine::DynamoDb,
        }
    }

    /// Whether it changes nothing. A receive does: it hides what it brings.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Self::ReadSpace | Self::ReadLedger | Self::ReadCount | Self::GetObject | Self::Probe | Self::Columns
        )
    }

    /// The effect of a request to AWS; `None` for one that a worker never makes.
    pub fn of_aws(parts: &Parts, body: &[u8]) -> Option<Self> {
        let body = String::from_utf8_lossy(body);
        let target = parts.headers.get("x-amz-target").and_then(|value| value.to_str().ok());
        match target {
            Some("DynamoDB_20120810.UpdateItem") => {
                LEDGER_UPDATES.iter().find(|(phrase, _)| body.contains(phrase)).map(|(_, effect)| *effect)
            }
            Some("DynamoDB_20120810.GetItem") => Some(match () {
                () if body.contains("\"spaceId\"") => Self::ReadSpace,
                // The ledger's sort key is an event id, the meter's is a month.
                () if body.contains("\"uev_") => Self::ReadLedger,
                () => Self::ReadCount,
            }),
            Some(target) => TARGETS.iter().find(|(known, _)| *known == target).map(|(_, effect)| *effect),
            None if parts.method == Method::PUT && parts.uri.path().contains("/conflicts/") => Some(Self::PutConflict),
            None if parts.method == Method::PUT => Some(Self::PutEvent),
            None if parts.method == Method::GET => Some(Self::GetObject),
            None => None,
        }
    }

    /// The effect of a request to ClickHouse: an insert has its statement in the URL, since its body is the rows; any
    /// other statement is the body.
    pub fn of_clickhouse(parts: &Parts, body: &[u8]) -> Option<Self> {
        match () {
            () if parts.uri.query().is_some_and(|query| query.contains("INSERT")) => Some(Self::Insert),
            () if body.starts_with(b"DESCRIBE") => Some(Self::Columns),
            () if String::from_utf8_lossy(body).contains("FROM events_billing") => Some(Self::Probe),
            () => None,
        }
    }
}

impl fmt::Display for WireEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Receive => "receive",
            Self::Claim => "claim",
            Self::ReadSpace => "read-space",
            Self::Consume => "consume",
            Self::Stamp => "stamp",
            Self::Reject => "reject",
            Self::ReadLedger => "read-ledger",
            Self::ReadCount => "read-count",
            Self::PutEvent => "put-event",
            Self::PutConflict => "put-conflict",
            Self::GetObject => "get-object",
            Self::Probe => "probe",
            Self::Columns => "columns",
            Self::Insert => "insert",
            Self::RecordQuarantine => "record-quarantine",
            Self::MarkUninsertable => "mark-uninsertable",
            Self::MarkInserted => "mark-inserted",
            Self::RecordConflict => "record-conflict",
            Self::Delete => "delete",
            Self::SetVisibility => "set-visibility",
            Self::SendDeadLetter => "send-dead-letter",
        })
    }
}
