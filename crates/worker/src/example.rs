//! A ledger item for unit tests.

use tollgate_domain::identity::{EventId, Fingerprint};
use tollgate_domain::ledger::{Checkpoint, EventKey, LedgerItem, NewClaim, Status};
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::BilledAs;
use tollgate_domain::ports::Image;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

/// An item in this state.
pub(crate) fn item(status: Status, is_charged: bool) -> Image {
    let (now, hash) = (UtcMillis::EPOCH, "0".repeat(64));
    let claim = NewClaim {
        key: EventKey { space: SpaceId::parse("acme").unwrap(), id: EventId::parse(&format!("uev_{hash}")).unwrap() },
        fingerprint: Fingerprint::parse(&hash).unwrap(),
        submission_id: "sub_1".to_owned(),
        period_month: PeriodMonth::of(now),
        now,
    };
    let checkpoint = is_charged.then_some(Checkpoint { accepted_at: now, billed_as: BilledAs::Plus, limit: None });
    Image::Item(Box::new(LedgerItem { status, checkpoint, ..claim.into_item() }))
}
