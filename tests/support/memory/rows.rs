//! ClickHouse's twin: two tables that a crash can leave apart.

use std::collections::BTreeSet;

use tollgate_domain::ledger::EventKey;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::plan::BilledAs;
use tollgate_domain::ports::{InsertError, PlusUsage, PortError, PortResult, Rows};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;

use super::step::Manner;
use super::{Call, Effect, State, World};
use crate::snapshot::BillingRow;

/// ClickHouse's code for a view that threw.
const VIEW_THREW: u32 = 395;

/// Port `Rows` over a [`World`].
#[derive(Clone)]
pub struct MemoryRows(pub(super) World);

fn is_of(space: &str, event_id: &str, key: &EventKey) -> bool {
    space == key.space.as_str() && event_id == key.id.as_str()
}

impl State {
    fn insert_rows(&mut self, rows: &[Row], manner: Manner) -> Result<(), InsertError> {
        let refused = |row: &&Row| self.poison.iter().find(|(key, _)| is_of(&row.space, &row.event_id, key));
        // One poisonous row refuses its whole batch, and the refusal does not say which one it was.
        if let Some((_, code)) = rows.iter().find_map(|row| refused(&row)) {
            return Err(InsertError::Poison { code: *code, message: "a row of this batch is refused".to_owned() });
        }
        self.events.extend_from_slice(rows);
        if manner == Manner::Partly {
            return Err(PortError::Unknown("the server died between the tables".to_owned()).into());
        }
        if self.view_throws && !rows.is_empty() {
            return Err(InsertError::Poison { code: VIEW_THREW, message: "the view threw".to_owned() });
        }
        self.events_billing.extend(rows.iter().map(BillingRow::of));
        Ok(())
    }
}

impl Rows for MemoryRows {
    async fn is_present(&self, key: &EventKey) -> PortResult<bool> {
        self.0
            .effect_in_manner(Call::of(Effect::ProbeRow, key), |state, manner| {
                let base = state.events.iter().any(|row| is_of(&row.space, &row.event_id, key));
                let twin = state.events_billing.iter().any(|row| is_of(&row.space, &row.event_id, key));
                Ok(base && twin && manner != Manner::ProbeLags)
            })
            .await
    }

    async fn insert(&self, rows: &[Row]) -> Result<(), InsertError> {
        self.0.effect_in_manner(Effect::InsertRows, |state, manner| state.insert_rows(rows, manner)).await
    }
}

impl PlusUsage for MemoryRows {
    async fn count_plus(&self, space: &SpaceId, month: PeriodMonth) -> PortResult<u64> {
        self.0
            .effect(Effect::CountPlus, |state| {
                let is_counted = |row: &&BillingRow| {
                    row.space == space.as_str()
                        && row.period_month == month.to_string()
                        && row.billed_as == BilledAs::Plus.as_str()
                };
                let distinct: BTreeSet<&str> =
                    state.events_billing.iter().filter(is_counted).map(|row| row.event_id.as_str()).collect();
                Ok(distinct.len() as u64)
            })
            .await
    }
}

impl World {
    /// Stores a row whose twin is missing: what a crash between the two tables leaves.
    pub fn insert_base_row_only(&self, row: Row) {
        self.with(|state| state.events.push(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, Script};
    use crate::traffic::{Example, example, examples};

    #[tokio::test]
    async fn a_row_is_present_when_both_tables_have_it() {
        let (world, Example { item, row, .. }) = (World::new(), example());
        assert_eq!(world.rows().is_present(&item.key).await, Ok(false));
        world.insert_base_row_only(row.clone());
        assert_eq!(world.rows().is_present(&item.key).await, Ok(false), "the twin is missing");
        world.rows().insert(&[row]).await.unwrap();
        assert_eq!(world.rows().is_present(&item.key).await, Ok(true));
        world.with(|state| state.events.clear());
        assert_eq!(world.rows().is_present(&item.key).await, Ok(false), "the base row is missing");
    }

    #[tokio::test]
    async fn a_repeat_stands_twice_until_somebody_merges() {
        let (world, Example { row, .. }) = (World::new(), example());
        for _ in 0..2 {
            world.rows().insert(std::slice::from_ref(&row)).await.unwrap();
        }
        assert_eq!(world.with(|state| (state.events.len(), state.events_billing.len())), (2, 2));
    }

    #[tokio::test]
    async fn one_poisonous_row_refuses_its_batch_and_nothing_is_stored() {
        let world = World::new();
        let [good, bad] = examples();
        world.with(|state| state.poison.insert(bad.item.key.clone(), 27));
        let answer = world.rows().insert(&[good.row.clone(), bad.row.clone()]).await;
        assert!(matches!(answer, Err(InsertError::Poison { code: 27, .. })));
        assert_eq!(world.with(|state| state.events.len()), 0);
        assert_eq!(world.rows().insert(&[good.row]).await, Ok(()));
    }

    #[tokio::test]
    async fn the_tables_can_come_apart() {
        let (world, Example { row, .. }) = (World::new(), example());
        world.install(Script::new().on(Effect::InsertRows, 1..=1, Fault::Partly));
        let answer = world.rows().insert(std::slice::from_ref(&row)).await;
        assert!(matches!(answer, Err(InsertError::Port(PortError::Unknown(_)))));
        world.with(|state| state.view_throws = true);
        let answer = world.rows().insert(&[row]).await;
        assert!(matches!(answer, Err(InsertError::Poison { code: VIEW_THREW, .. })));
        assert_eq!(world.with(|state| (state.events.len(), state.events_billing.len())), (2, 0));
    }

    #[tokio::test]
    async fn a_probe_can_lag() {
        let (world, Example { item, row, .. }) = (World::new(), example());
        world.rows().insert(&[row]).await.unwrap();
        world.install(Script::new().on(Effect::ProbeRow, 1..=1, Fault::ProbeLags));
        assert_eq!(world.rows().is_present(&item.key).await, Ok(false));
        assert_eq!(world.rows().is_present(&item.key).await, Ok(true));
    }
}
