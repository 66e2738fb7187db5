//! One moment of the modelled world: what is durable, what the workers hold, and what the monitors keep.
//!
//! Small and `Copy`: millions of these are hashed and kept. Time is not a number here but the few facts that the
//! protocol asks of it: whether the month has turned, and whether an event's last quarantine is younger than a spacing.

use tollgate_domain::ledger::{Attention, Status};
use tollgate_domain::plan::{BilledAs, RejectedReason};

use super::breach::Breaches;
use super::world::World;

/// Workers that run side by side.
pub(super) const WORKERS: usize = 2;
/// Event ids of the one space: they share the month's counter.
pub(super) const EVENTS: usize = 2;
/// Messages that the front door accepted.
pub(super) const MESSAGES: usize = 2;
/// Operators who may re-drive at the same time.
pub(super) const OPERATORS: usize = 2;

/// Everything that decides what can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The ledger, one item an event.
    pub(super) ledger: [Option<Item>; EVENTS],
    /// The space's counters of the old month and the new.
    pub(super) meter: [u8; 2],
    /// S3, one object an event.
    pub(super) archive: [Option<Object>; EVENTS],
    /// S3, the conflicts prefix: whether the second payload of an event is kept.
    pub(super) is_conflict_kept: [bool; EVENTS],
    /// ClickHouse's `events`: the distinct rows of an event, one bit each.
    pub(super) rows: [RowSet; EVENTS],
    /// ClickHouse's `events_billing`, alike.
    pub(super) twins: [RowSet; EVENTS],
    /// Copies of each message that wait in the queue.
    pub(super) waiting: [u8; MESSAGES],
    /// Whether a message is in the dead-letter queue.
    pub(super) is_dead: [bool; MESSAGES],
    /// The workers.
    pub(super) workers: [Worker; WORKERS],
    /// The operators.
    pub(super) operators: [Operator; OPERATORS],
    /// How often the plan changed; odd, the world's other plan holds. A cache may still tell the one before.
    pub(super) plan_changes: u8,
    /// Whether the month turned.
    pub(super) is_next_month: bool,
    /// Events whose rows ClickHouse refuses.
    pub(super) is_poison: [bool; EVENTS],
    /// Whether the breaker is open.
    pub(super) is_breaker_open: bool,
    /// Faults that may still happen.
    pub(super) faults: Faults,
    /// Monitor: how often each event moved a meter.
    pub(super) charges: [u8; EVENTS],
    /// Monitor: what was broken by a step.
    pub(super) breaches: Breaches,
}

/// A ledger item, as far as the protocol reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Item {
    /// Where the event stands.
    pub(super) status: Status,
    /// The fingerprint: which of the payloads was claimed.
    pub(super) payload: u8,
    /// The month that pays.
    pub(super) month: u8,
    /// Which claim this is: stamps row and archive.
    pub(super) stamp: u8,
    /// The checkpoint, and as what it was billed.
    pub(super) checkpoint: Option<BilledAs>,
    /// What justified the rejection.
    pub(super) rejection: Option<Rejection>,
    /// Refusals of the row that were counted.
    pub(super) quarantines: u8,
    /// Whether the last of them is younger than a spacing.
    pub(super) is_quarantine_recent: bool,
    /// Monitor: spacings that went by after a counted refusal.
    pub(super) spacings: u8,
    /// Other payloads counted under this id.
    pub(super) conflicts: u8,
    /// Whether a re-drive reopened the item and nothing has closed it since.
    pub(super) is_redriving: bool,
    /// Whether this version of the worker can read the item.
    pub(super) is_readable: bool,
}

impl Item {
    /// The item right after the claim of a delivery.
    pub(super) fn claimed(payload: u8, month: u8, stamp: u8) -> Self {
        Self {
            status: Status::Inserting,
            payload,
            month,
            stamp,
            checkpoint: None,
            rejection: None,
            quarantines: 0,
            is_quarantine_recent: false,
            spacings: 0,
            conflicts: 0,
            is_redriving: false,
            is_readable: true,
        }
    }

    /// The highest open reason, from the facts.
    pub(super) fn attention(&self) -> Option<Attention> {
        let reasons = [
            (self.status == Status::Uninsertable).then_some(Attention::Uninsertable),
            self.is_redriving.then_some(Attention::Redriving),
            (self.conflicts > 0).then_some(Attention::Conflict),
        ];
        reasons.into_iter().flatten().max()
    }
}

/// Why an event was rejected, with what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Rejection {
    /// The reason.
    pub(super) reason: RejectedReason,
    /// The limit seen; 0 where the plan alone decides.
    pub(super) limit_seen: u8,
    /// The count seen.
    pub(super) count_seen: u8,
}

/// The content of an archived object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Object {
    /// Which payload.
    pub(super) payload: u8,
    /// Which claim's stamp.
    pub(super) stamp: u8,
}

/// The distinct rows of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct RowSet(u16);

impl RowSet {
    /// Adds the row of these facts; a row that is there already collapses with it.
    pub(super) fn insert(&mut self, object: Object, billed_as: BilledAs) {
        let kind = match billed_as {
            BilledAs::Free => 0,
            BilledAs::Plus => 1,
            BilledAs::Internal => 2,
        };
        self.0 |= 1 << (kind * 4 + object.payload * 2 + object.stamp);
    }

    /// Distinct rows.
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// No row.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a row of this payload is among them.
    pub(super) fn has_payload(self, payload: u8) -> bool {
        self.0 & (0b0011_0011_0011 << (payload * 2)) != 0
    }
}

/// A worker and what it holds in memory; a crash forgets all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    /// Which message it works on.
    pub(super) message: u8,
    /// What it does next.
    pub(super) step: Step,
    /// The checkpoint on the image that it works from.
    pub(super) checkpoint: Option<BilledAs>,
    /// The quarantine count on that image.
    pub(super) quarantines: u8,
    /// The claim's stamp on that image.
    pub(super) stamp: u8,
}

impl Worker {
    /// A worker without a delivery.
    pub(super) const IDLE: Self = Self { message: 0, step: Step::Idle, checkpoint: None, quarantines: 0, stamp: 0 };
}

/// A limit as somebody read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LimitRead {
    /// The limit.
    pub(super) limit: u8,
    /// Monitor: it was not the space's own any more when it was read.
    pub(super) is_stale: bool,
}

/// The next effect of a worker: each is one call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Waits for a delivery.
    Idle,
    /// Claims the event.
    Claim,
    /// Asks ClickHouse for the row and its twin.
    Probe,
    /// Reads plan and limit, from the cache or with strong consistency.
    ReadPlan {
        /// Strongly consistent.
        strong: bool,
    },
    /// Moves the counter and stamps, in one transaction.
    Consume(LimitRead),
    /// After a cancellation without the ledger's image: reads the item.
    ReadLedger {
        /// The count that came with the cancellation, if one did.
        count: Option<u8>,
        /// The limit that was sent. The protocol forgets it here; a mutant does not.
        sent: LimitRead,
    },
    /// Reads plan and limit with strong consistency, before a rejection.
    ReadLimit {
        /// The count that is known.
        count: Option<u8>,
    },
    /// Reads the counter.
    ReadCount {
        /// The limit to compare it with.
        limit: u8,
    },
    /// Stamps the checkpoint alone.
    Stamp(BilledAs),
    /// Rejects for ever.
    Reject {
        /// What justifies it.
        rejection: Rejection,
        /// Monitor: plan or limit came from a cache that was behind.
        is_stale: bool,
    },
    /// Puts the payload.
    Archive,
    /// Inserts the row.
    Insert,
    /// Counts a refusal of the row.
    RecordQuarantine,
    /// Gives the row up.
    MarkUninsertable,
    /// Closes the event.
    MarkInserted,
    /// Keeps the second payload of a conflict.
    KeepConflict,
    /// Counts the conflict.
    RecordConflict,
    /// Deletes the message.
    Acknowledge,
}

/// An operator who re-drives one event: reopen first, send second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    /// Not at work.
    Idle,
    /// Has seen the event in a listing, which may be old by now; reopens next.
    Listed(u8),
    /// Has reopened the event; sends next.
    Reopened(u8),
}

/// Faults that may still happen; the bound of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    /// A worker or an operator is killed; for the durable state, giving a message back is the same.
    pub(super) crashes: u8,
    /// An effect is applied and its answer lost.
    pub(super) lost_answers: u8,
    /// A transaction is cancelled by contention, throttling or capacity.
    pub(super) contentions: u8,
    /// A message comes again although somebody holds it or has deleted it.
    pub(super) redeliveries: u8,
    /// An insert stores the base row and not the twin.
    pub(super) half_inserts: u8,
    /// The probe answers from before the insert.
    pub(super) lagging_probes: u8,
    /// An operator starts a re-drive.
    pub(super) redrives: u8,
    /// The plan or the limit changes.
    pub(super) plan_changes: u8,
    /// The month turns.
    pub(super) month_turns: u8,
    /// The breaker opens.
    pub(super) breaker_openings: u8,
}

impl State {
    /// The beginning of a world.
    pub(super) fn initial(world: &World) -> Self {
        let mut state = Self {
            ledger: [None; EVENTS],
            meter: [0; 2],
            archive: [None; EVENTS],
            is_conflict_kept: [false; EVENTS],
            rows: [RowSet::default(); EVENTS],
            twins: [RowSet::default(); EVENTS],
            waiting: [0; MESSAGES],
            is_dead: [false; MESSAGES],
            workers: [Worker::IDLE; WORKERS],
            operators: [Operator::Idle; OPERATORS],
            plan_changes: 0,
            is_next_month: false,
            is_poison: world.is_poison,
            is_breaker_open: false,
            faults: world.faults,
            charges: [0; EVENTS],
            breaches: Breaches::default(),
        };
        for waiting in state.waiting.iter_mut().take(world.messages.len()) {
            *waiting = 1;
        }
        world.past.apply(&mut state);
        state
    }

    /// Whether somebody holds a copy of the message.
    pub(super) fn is_held(&self, message: usize) -> bool {
        self.workers.iter().any(|worker| worker.step != Step::Idle && usize::from(worker.message) == message)
    }

    /// Whether a copy of the message waits or is held.
    pub(super) fn is_live(&self, message: usize) -> bool {
        self.waiting[message] > 0 || self.is_held(message)
    }
}
