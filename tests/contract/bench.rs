//! What the suite runs on: stores, and the one fact that no port would write.

use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::key::{KeyHash, KeyRecord};
use tollgate_domain::ledger::{EventKey, LedgerItem, NewClaim};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::ports::{Billing, Conditional, EventLookup, Image, Keys, Ledger, PlusUsage, Receipts, Rows};
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

/// Stores to run the suite on, with a space that nobody else uses.
pub(crate) trait Bench {
    type Ledger: Ledger + EventLookup;
    type Billing: Billing;
    type Keys: Keys;
    type Receipts: Receipts;
    type Rows: Rows + PlusUsage;

    fn ledger(&self) -> &Self::Ledger;
    fn billing(&self) -> &Self::Billing;
    fn keys(&self) -> &Self::Keys;
    fn receipts(&self) -> &Self::Receipts;
    fn rows(&self) -> &Self::Rows;
    fn space(&self) -> &SpaceId;
    /// Stores a new key.
    async fn add_key(&self, hash: &KeyHash, record: &KeyRecord);
    /// Sets the item's quarantines, the last of them at instant 0, past every condition.
    async fn set_quarantines(&self, key: &EventKey, count: u64);

    /// An event that was not claimed yet. The same number is the same event.
    fn key(&self, number: u8) -> EventKey {
        EventKey { space: self.space().clone(), id: EventId::parse(&format!("uev_{number:064x}")).unwrap() }
    }

    /// Claims event `number` at instant 0 of the suite.
    async fn claimed(&self, number: u8) -> LedgerItem {
        let claim = claim(self.key(number));
        assert_eq!(self.ledger().claim(&claim).await, Ok(Conditional::Applied));
        claim.into_item()
    }

    /// The item, which must be there.
    async fn item(&self, key: &EventKey) -> LedgerItem {
        match self.ledger().read(key).await {
            Ok(Image::Item(item)) => *item,
            other => panic!("{other:?}"),
        }
    }

    /// Asserts that `answer` refuses with the item that stands, and that it stands as before.
    async fn assert_refused(&self, before: &LedgerItem, answer: tollgate_domain::ports::PortResult<Conditional>) {
        assert_eq!(answer, Ok(Conditional::Refused(Image::Item(Box::new(before.clone())))));
        assert_eq!(&self.item(&before.key).await, before);
    }

    /// Asserts that `answer` refuses since there is no item, and that it made none.
    async fn assert_refused_without_item(
        &self,
        key: &EventKey,
        answer: tollgate_domain::ports::PortResult<Conditional>,
    ) {
        assert_eq!(answer, Ok(Conditional::Refused(Image::Absent)));
        assert_eq!(self.ledger().read(key).await, Ok(Image::Absent));
    }
}

/// The claim of an event at instant 0 of the suite.
pub(crate) fn claim(key: EventKey) -> NewClaim {
    NewClaim { key, fingerprint: fingerprint(1), submission_id: "sub_1".to_owned(), period_month: month(), now: at(0) }
}

/// The month that pays for the suite's events.
pub(crate) fn month() -> PeriodMonth {
    PeriodMonth::parse("2025-04").unwrap()
}

/// `ms` milliseconds after the suite's instant 0.
pub(crate) fn at(ms: i64) -> UtcMillis {
    UtcMillis::parse("2025-05-01T00:00:00Z").unwrap().saturating_add_ms(ms)
}

/// Some payload's fingerprint.
pub(crate) fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::parse(&format!("{number:064x}")).unwrap()
}
