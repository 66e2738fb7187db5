//! Workers that are killed, and what the redelivery does.

use tollgate_domain::ledger::Status;
use tollgate_worker::verdict::{Outcome, Verdict};

use crate::count::Count;
use crate::script::{Act, Edge, Script};
use crate::world::World;

#[tokio::test]
async fn recovers_inserting_events_with_accepted_billing_without_consuming_usage_again() {
    let world = World::new().await;
    let message = world.message("a");
    // The window between the transaction and storage: the archive is asked and nothing of it has happened.
    world.kill_at(Edge::Before, "put", &message).await;
    assert_eq!(world.count(&message.key).await, Count::charged());

    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Inserted));
    assert_eq!(world.count(&message.key).await, Count::inserted());

    assert_eq!(world.deliver(&message).await, Verdict::Acknowledge(Outcome::Already(Status::Inserted)));
    assert_eq!(world.count(&message.key).await, Count::inserted());
}

#[tokio::test]
async fn a_worker_killed_before_or_after_any_effect_charges_and_stores_once() {
    let mut effects = Vec::new();
    for call in 1.. {
        let mut ended = Vec::new();
        for edge in [Edge::Before, Edge::After] {
            // A space of its own for each kill, so that every count is of one event.
            let world = World::new().await;
            let message = world.message("a");
            let script =
                Script::new(move |point| if (point.edge, point.total) == (edge, call) { Act::Stop } else { Act::Go });
            ended.push(world.kill_by(&script, &message).await);
            let redelivered = world.deliver(&message).await;
            assert!(matches!(redelivered, Verdict::Acknowledge(_)), "{edge:?} call {call}: {redelivered:?}");
            assert_eq!(world.count(&message.key).await, Count::inserted(), "{edge:?} call {call}");
        }
        match ended.as_slice() {
            [None, None] => effects.push(call),
            [Some(_), Some(_)] => break,
            _ => panic!("call {call} has one edge only"),
        }
    }
    // Claim, plan, consume, archive, insert, mark.
    assert_eq!(effects, [1, 2, 3, 4, 5, 6]);
}
