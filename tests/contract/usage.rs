//! What a Plus space is billed from.

use tollgate_domain::plan::BilledAs;
use tollgate_domain::ports::{PlusUsage, Rows};
use tollgate_domain::row::Row;
use tollgate_tests::traffic::example;

use crate::bench::{Bench, month};

/// A row of the suite's space: event `number`, in a month, billed as something.
fn row(on: &impl Bench, number: u8, period_month: &str, billed_as: BilledAs) -> Row {
    Row {
        space: on.space().as_str().to_owned(),
        event_id: on.key(number).id.as_str().to_owned(),
        period_month: period_month.to_owned(),
        billed_as: billed_as.as_str().to_owned(),
        ..example().row
    }
}

pub(crate) async fn plus_usage_is_the_month_s_events_that_were_billed_as_plus_each_once(on: &impl Bench) {
    let (this, next) = (month().to_string(), month().next().to_string());
    assert_eq!(on.rows().count_plus(on.space(), month()).await, Ok(0));
    let mut rows = vec![
        row(on, 1, &this, BilledAs::Plus),
        row(on, 2, &this, BilledAs::Plus),
        row(on, 3, &this, BilledAs::Free),
        row(on, 4, &this, BilledAs::Internal),
        row(on, 5, &next, BilledAs::Plus),
    ];
    let elsewhere = format!("{}-x", on.space());
    rows.push(Row { space: elsewhere, ..row(on, 6, &this, BilledAs::Plus) });
    on.rows().insert(&rows).await.unwrap();
    // A replay, which may stand twice until somebody merges.
    on.rows().insert(&rows[..1]).await.unwrap();
    assert_eq!(on.rows().count_plus(on.space(), month()).await, Ok(2));
    assert_eq!(on.rows().count_plus(on.space(), month().next()).await, Ok(1));
}
