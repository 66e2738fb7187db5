//! Ports that lie: how a pipeline would behave that dropped one of the protocol's rules, with nothing changed in it.

use std::sync::{Arc, Mutex, PoisonError};

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{Checkpoint, EventKey, NewClaim, Rejection};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::{Limit, SpaceRecord};
use tollgate_domain::ports::{
    Archive, Billing, Conditional, Consumption, Freshness, Image, InsertError, Ledger, PortError, PortResult, Put,
    Rows, Spaces,
};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::memory::World;

/// What is told instead of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Nothing: the ports are honest.
    None,
    /// No image ever shows its checkpoint.
    CheckpointHidden,
    /// The item that won a claim carries the loser's fingerprint.
    EveryPayloadAlike,
    /// After a cancellation the month's count reads as full.
    CancelledMeansFull,
    /// The payload is put after the row.
    RowBeforePayload,
    /// The claim takes its month from the clock.
    MonthOfTheClock,
    /// An item's stamp for row and archive is whatever the clock says.
    StampOfTheClock,
    /// A probe that looks for the base row only.
    TwinNotProbed,
    /// A strong read of the space is answered from memory.
    RejectionFromMemory,
    /// A transaction without an answer counts as done.
    NoAnswerMeansDone,
    /// A message that was handed back is deleted: the loop's own lie, no port's.
    HandedBackMeansDone,
    /// *Mark inserted* is refused, with an image that gives no reason for it.
    RefusedMarks,
}

/// A port of one delivery, perhaps lying.
pub(super) struct Lying<T> {
    pub(super) inner: T,
    pub(super) lie: Lie,
    pub(super) world: World,
    /// A payload that is held back until its row is in.
    pub(super) held_back: Arc<Mutex<Option<ArchiveObject>>>,
}

impl<T> Lying<T> {
    fn image(&self, image: Image) -> Image {
        let Image::Item(mut item) = image else { return image };
        match self.lie {
            Lie::CheckpointHidden => item.checkpoint = None,
            Lie::StampOfTheClock => item.row_inserted_at = self.world.with(|state| state.now),
            _ => {}
        }
        Image::Item(item)
    }

    fn conditional(&self, answer: Conditional) -> Conditional {
        match answer {
            Conditional::Refused(image) => Conditional::Refused(self.image(image)),
            Conditional::Applied => Conditional::Applied,
        }
    }
}

impl<L: Ledger> Ledger for Lying<L> {
    async fn claim(&self, claim: &NewClaim) -> PortResult<Conditional> {
        let month_of_the_clock = NewClaim { period_month: PeriodMonth::of(claim.now), ..claim.clone() };
        let claim = if self.lie == Lie::MonthOfTheClock { &month_of_the_clock } else { claim };
        Ok(match self.conditional(self.inner.claim(claim).await?) {
            Conditional::Refused(Image::Item(mut item)) if self.lie == Lie::EveryPayloadAlike => {
                item.fingerprint = claim.fingerprint.clone();
                Conditional::Refused(Image::Item(item))
            }
            answer => answer,
        })
    }

    async fn read(&self, key: &EventKey) -> PortResult<Image> {
        self.inner.read(key).await.map(|image| self.image(image))
    }

    async fn mark_inserted(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        if self.lie == Lie::RefusedMarks {
            return self.inner.read(key).await.map(Conditional::Refused);
        }
        self.inner.mark_inserted(key, now).await.map(|answer| self.conditional(answer))
    }

    async fn record_quarantine(
        &self,
        key: &EventKey,
        seen: u64,
        spacing_ms: i64,
        error: &str,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        let answer = self.inner.record_quarantine(key, seen, spacing_ms, error, now).await;
        answer.map(|answer| self.conditional(answer))
    }

    async fn mark_uninsertable(&self, key: &EventKey, now: UtcMillis) -> PortResult<Conditional> {
        self.inner.mark_uninsertable(key, now).await.map(|answer| self.conditional(answer))
    }

    async fn record_conflict(
        &self,
        key: &EventKey,
        fingerprint: &Fingerprint,
        now: UtcMillis,
    ) -> PortResult<Conditional> {
        self.inner.record_conflict(key, fingerprint, now).await.map(|answer| self.conditional(answer))
    }
}

impl<B: Billing> Billing for Lying<B> {
    async fn consume(
        &self,
        key: &EventKey,
        month: PeriodMonth,
        limit: Limit,
        now: UtcMillis,
    ) -> PortResult<Consumption> {
        match self.inner.consume(key, month, limit, now).await {
            Err(PortError::Unknown(_)) if self.lie == Lie::NoAnswerMeansDone => Ok(Consumption::Consumed),
            Ok(Consumption::Cancelled { ledger, count }) => {
                Ok(Consumption::Cancelled { ledger: ledger.map(|image| self.image(image)), count })
            }
            answer => answer,
        }
    }

    async fn stamp(&self, key: &EventKey, checkpoint: &Checkpoint) -> PortResult<Conditional> {
        self.inner.stamp(key, checkpoint).await.map(|answer| self.conditional(answer))
    }

    async fn reject(&self, key: &EventKey, rejection: &Rejection, now: UtcMillis) -> PortResult<Conditional> {
        self.inner.reject(key, rejection, now).await.map(|answer| self.conditional(answer))
    }

    async fn count(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        let count = self.inner.count(space, month).await?;
        Ok(if self.lie == Lie::CancelledMeansFull { u64::MAX } else { count })
    }
}

impl<S: Spaces> Spaces for Lying<S> {
    async fn read(&self, space: &SpaceId, freshness: Freshness) -> PortResult<Option<SpaceRecord>> {
        let freshness = if self.lie == Lie::RejectionFromMemory { Freshness::Cached } else { freshness };
        self.inner.read(space, freshness).await
    }
}

impl<A: Archive> Archive for Lying<A> {
    async fn put(&self, object: &ArchiveObject) -> PortResult<Put> {
        if self.lie == Lie::RowBeforePayload {
            *self.held_back.lock().unwrap_or_else(PoisonError::into_inner) = Some(object.clone());
            return Ok(Put::Stored);
        }
        self.inner.put(object).await
    }

    async fn get(&self, key: &str) -> PortResult<Option<Vec<u8>>> {
        self.inner.get(key).await
    }
}

impl<R: Rows> Rows for Lying<R> {
    async fn is_present(&self, key: &EventKey) -> PortResult<bool> {
        let present = self.inner.is_present(key).await?;
        let is_of = |row: &Row| row.space == key.space.as_str() && row.event_id == key.id.as_str();
        Ok(present || self.lie == Lie::TwinNotProbed && self.world.with(|state| state.events.iter().any(is_of)))
    }

    async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
        self.inner.insert(rows).await?;
        let held_back = self.held_back.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(object) = held_back {
            self.world.archive().put(&object).await?;
        }
        Ok(())
    }
}
