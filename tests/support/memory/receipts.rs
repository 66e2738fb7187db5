//! The receipts table's twin.

use tollgate_domain::ports::{PortResult, Receipts};
use tollgate_domain::receipt::{CommandReceipt, NewReceipt, Owner, Progress, ReceiptKey, StoredAnswer, expiry_s};
use tollgate_domain::time::UtcMillis;

use super::{Effect, World};

/// Port `Receipts` over a [`World`]. Like the table, it deletes what has expired at no promised time: here, never.
#[derive(Clone)]
pub struct MemoryReceipts(pub(super) World);

impl Receipts for MemoryReceipts {
    async fn begin(&self, new: &NewReceipt) -> PortResult<Option<CommandReceipt>> {
        self.0
            .effect(Effect::BeginCommand, |state| {
                let standing = state.receipts.get(&new.key);
                if !new.may_replace(standing) {
                    return Ok(standing.cloned());
                }
                state.receipts.insert(new.key.clone(), new.clone().into_receipt());
                Ok(None)
            })
            .await
    }

    async fn finish(&self, key: &ReceiptKey, owner: &Owner, answer: &StoredAnswer, now: UtcMillis) -> PortResult<bool> {
        self.0
            .effect(Effect::FinishCommand, |state| {
                let Some(receipt) = state.receipts.get_mut(key).filter(|receipt| receipt.owner == *owner) else {
                    return Ok(false);
                };
                receipt.progress = Progress::Done(answer.clone());
                receipt.expires_at_s = expiry_s(now);
                Ok(true)
            })
            .await
    }

    async fn release(&self, key: &ReceiptKey, owner: &Owner) -> PortResult<bool> {
        self.0
            .effect(Effect::ReleaseCommand, |state| {
                let receipt = state.receipts.get_mut(key).filter(|receipt| receipt.owner == *owner);
                let Some(Progress::Running { lease_until }) = receipt.map(|receipt| &mut receipt.progress) else {
                    return Ok(false);
                };
                *lease_until = UtcMillis::EPOCH;
                Ok(true)
            })
            .await
    }
}
