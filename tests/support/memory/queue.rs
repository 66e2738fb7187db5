//! The queue's twin as the worker sees it.

use tollgate_domain::envelope::Envelope;
use tollgate_domain::ports::{Delivery, PortError, PortResult, Queue, Receipt};
use tollgate_domain::time::UtcMillis;

use super::step::Manner;
use super::{Call, Effect, World};
use crate::snapshot::DeadLetter;

/// How long a received message stays hidden, unless a test sets another time.
pub const DEFAULT_VISIBILITY_MS: i64 = 30_000;
/// Messages or receipts that one call may carry.
const MAX_BATCH: usize = 10;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    /// The queue's name of it.
    pub message_id: String,
    /// Its text.
    pub body: String,
    /// From when on it can be received.
    pub visible_at: UtcMillis,
    /// How often it was received.
    pub receive_count: u32,
}

impl QueuedMessage {
    /// The receipt of its latest delivery; older ones are worthless.
    fn receipt(&self) -> Receipt {
        Receipt(format!("{}#{}", self.message_id, self.receive_count))
    }
}

/// The queue.
#[derive(Debug, Clone)]
pub struct QueueState {
    /// What is in it, received or not, in the order of arrival.
    pub messages: Vec<QueuedMessage>,
    /// What was given up.
    pub dead_letters: Vec<DeadLetter>,
    /// How long a received message stays hidden.
    pub visibility_ms: i64,
    arrivals: u64,
}

impl Default for QueueState {
    fn default() -> Self {
        Self { messages: Vec::new(), dead_letters: Vec::new(), visibility_ms: DEFAULT_VISIBILITY_MS, arrivals: 0 }
    }
}

impl QueueState {
    /// Adds a message that is visible at once, and tells its name.
    pub fn push(&mut self, body: &str, now: UtcMillis) -> String {
        self.arrivals += 1;
        let message_id = format!("message-{}", self.arrivals);
        self.messages.push(QueuedMessage {
            message_id: message_id.clone(),
            body: body.to_owned(),
            visible_at: now,
            receive_count: 0,
        });
        message_id
    }

    fn receive(&mut self, max: usize, now: UtcMillis) -> Vec<Delivery> {
        let hidden_until = now.saturating_add_ms(self.visibility_ms);
        let visible = self.messages.iter_mut().filter(|message| message.visible_at <= now);
        visible
            .take(max.min(MAX_BATCH))
            .map(|message| {
                message.visible_at = hidden_until;
                message.receive_count += 1;
                Delivery {
                    body: message.body.clone(),
                    receipt: message.receipt(),
                    message_id: message.message_id.clone(),
                    receive_count: message.receive_count,
                }
            })
            .collect()
    }

    /// A stale receipt is answered like a good one and deletes nothing: the worst that the real queue may do.
    fn delete(&mut self, receipt: &Receipt) {
        self.messages.retain(|message| message.receipt() != *receipt);
    }

    /// Whether the receipt was still good.
    fn hide(&mut self, receipt: &Receipt, until: UtcMillis) -> bool {
        let message = self.messages.iter_mut().find(|message| message.receipt() == *receipt);
        message.map(|message| message.visible_at = until).is_some()
    }
}

/// Port `Queue` over a [`World`].
#[derive(Clone)]
pub struct MemoryQueue(pub(super) World);

/// The receipts that this call reaches.
fn reached(receipts: &[Receipt], manner: Manner) -> PortResult<(&[Receipt], &[Receipt])> {
    if receipts.len() > MAX_BATCH {
        return Err(PortError::Broken(format!("more than {MAX_BATCH} receipts in one call")));
    }
    let reached = if manner == Manner::Partly { receipts.len() / 2 } else { receipts.len() };
    Ok(receipts.split_at(reached))
}

impl Queue for MemoryQueue {
    async fn receive(&self, max: usize) -> PortResult<Vec<Delivery>> {
        self.0.effect(Effect::Receive, |state| Ok(state.queue.receive(max, state.now))).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> PortResult<Vec<Receipt>> {
        self.0
            .effect_in_manner(Effect::Delete, |state, manner| {
                let (reached, rest) = reached(receipts, manner)?;
                for receipt in reached {
                    state.queue.delete(receipt);
                }
                Ok(rest.to_vec())
            })
            .await
    }

    async fn set_visibility(&self, receipts: &[Receipt], ms: u64) -> PortResult<Vec<Receipt>> {
        self.0
            .effect_in_manner(Effect::SetVisibility, |state, manner| {
                let (reached, rest) = reached(receipts, manner)?;
                let whole_seconds_ms = i64::try_from(ms.div_ceil(1000).saturating_mul(1000)).unwrap_or(i64::MAX);
                let until = state.now.saturating_add_ms(whole_seconds_ms);
                let stale = reached.iter().filter(|receipt| !state.queue.hide(receipt, until));
                Ok(stale.cloned().chain(rest.iter().cloned()).collect())
            })
            .await
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> PortResult<()> {
        let call = Call { effect: Effect::DeadLetter, key: Envelope::decode(body).ok().map(|sent| sent.key()) };
        self.0
            .effect(call, |state| {
                state.queue.dead_letters.push(DeadLetter { body: body.to_owned(), reason: reason.to_owned() });
                Ok(())
            })
            .await
    }
}

impl World {
    /// Puts a message into the queue, past the intake and its faults, and tells its name.
    pub fn enqueue(&self, body: &str) -> String {
        self.with(|state| state.queue.push(body, state.now))
    }

    /// Delivers once more whatever is in the queue, as at least once allows: each message gets a visible double.
    pub fn duplicate_messages(&self) {
        self.with(|state| {
            let bodies: Vec<String> = state.queue.messages.iter().map(|message| message.body.clone()).collect();
            for body in &bodies {
                state.queue.push(body, state.now);
            }
        });
    }

    /// Ends the visibility time-out of every message now.
    pub fn expire_visibility(&self) {
        self.with(|state| state.queue.messages.iter_mut().for_each(|message| message.visible_at = state.now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, Script};

    fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
        deliveries.iter().map(|delivery| delivery.receipt.clone()).collect()
    }

    #[tokio::test]
    async fn a_received_message_is_hidden_until_its_time_is_out_and_counts_its_receipts() {
        let world = World::new();
        let message_id = world.enqueue("a");
        let first = world.queue().receive(10).await.unwrap();
        assert_eq!((first[0].receive_count, &first[0].message_id), (1, &message_id));
        world.advance_ms(DEFAULT_VISIBILITY_MS - 1);
        assert_eq!(world.queue().receive(10).await, Ok(vec![]), "it returns at once");
        world.advance_ms(1);
        let second = world.queue().receive(10).await.unwrap();
        assert_eq!((second[0].receive_count, second[0].body.as_str()), (2, "a"));

        assert_eq!(world.queue().delete(&receipts(&first)).await, Ok(vec![]));
        assert_eq!(world.with(|state| state.queue.messages.len()), 1, "a stale receipt deletes nothing");
        assert_eq!(world.queue().set_visibility(&receipts(&first), 0).await, Ok(receipts(&first)));
        assert_eq!(world.queue().delete(&receipts(&second)).await, Ok(vec![]));
        assert_eq!(world.with(|state| state.queue.messages.len()), 0);
    }

    #[tokio::test]
    async fn a_heartbeat_extends_by_whole_seconds_and_zero_hands_back() {
        let world = World::new();
        world.enqueue("a");
        let held = receipts(&world.queue().receive(1).await.unwrap());
        world.queue().set_visibility(&held, 60_001).await.unwrap();
        world.advance_ms(60_999);
        assert_eq!(world.queue().receive(1).await, Ok(vec![]));
        assert_eq!(world.queue().set_visibility(&held, 0).await, Ok(vec![]));
        assert_eq!(world.queue().receive(1).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn batches_are_of_ten_and_can_fail_in_part() {
        let world = World::new();
        for n in 0..12 {
            world.enqueue(&n.to_string());
        }
        let ten = receipts(&world.queue().receive(99).await.unwrap());
        assert_eq!(ten.len(), MAX_BATCH);
        let eleven = vec![Receipt(String::new()); 11];
        assert!(matches!(world.queue().delete(&eleven).await, Err(PortError::Broken(_))));
        world.install(Script::new().on(Effect::SetVisibility, 1..=1, Fault::Partly).on(
            Effect::Delete,
            1..=1,
            Fault::Partly,
        ));
        assert_eq!(world.queue().set_visibility(&ten, 1).await, Ok(ten[5..].to_vec()));
        assert_eq!(world.queue().delete(&ten).await, Ok(ten[5..].to_vec()));
        assert_eq!(world.with(|state| state.queue.messages.len()), 7);
    }

    #[tokio::test]
    async fn doubles_and_time_outs_can_be_had_at_will() {
        let world = World::new();
        world.enqueue("a");
        world.queue().receive(1).await.unwrap();
        world.duplicate_messages();
        assert_eq!(world.queue().receive(10).await.unwrap().len(), 1);
        world.expire_visibility();
        assert_eq!(world.queue().receive(10).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_dead_letter_keeps_its_reason_and_the_source_its_message() {
        let world = World::new();
        world.enqueue("garbage");
        world.queue().dead_letter("garbage", "not JSON").await.unwrap();
        let letter = DeadLetter { body: "garbage".to_owned(), reason: "not JSON".to_owned() };
        assert_eq!(world.snapshot().dead_letters, [letter]);
        assert_eq!(world.with(|state| state.queue.messages.len()), 1);
    }
}
