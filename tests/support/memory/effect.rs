//! The effects: one for each method that suspends, of every port.

use std::fmt;

use tollgate_domain::ledger::EventKey;

/// One method of one port. Each is a place where a worker can die, and where an answer can be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// `Ledger::claim`
    Claim,
    /// `Ledger::read`
    ReadItem,
    /// `Ledger::mark_inserted`
    MarkInserted,
    /// `Ledger::record_quarantine`
    RecordQuarantine,
    /// `Ledger::mark_uninsertable`
    MarkUninsertable,
    /// `Ledger::record_conflict`
    RecordConflict,
    /// `EventLookup::read_many`
    ReadItems,
    /// `Billing::consume`
    Consume,
    /// `Billing::stamp`
    Stamp,
    /// `Billing::reject`
    Reject,
    /// `Billing::count`
    ReadCount,
    /// `Spaces::read`
    ReadSpace,
    /// `Keys::find`
    FindKey,
    /// `Keys::list`
    ListKeys,
    /// `Keys::touch`
    TouchKey,
    /// `Receipts::begin`
    BeginCommand,
    /// `Receipts::finish`
    FinishCommand,
    /// `Receipts::release`
    ReleaseCommand,
    /// `Archive::put`
    PutObject,
    /// `Archive::get`
    GetObject,
    /// `Rows::is_present`
    ProbeRow,
    /// `Rows::insert`
    InsertRows,
    /// `PlusUsage::count_plus`
    CountPlus,
    /// `Queue::receive`
    Receive,
    /// `Queue::delete`
    Delete,
    /// `Queue::set_visibility`
    SetVisibility,
    /// `Queue::dead_letter`
    DeadLetter,
    /// `Intake::send`, once for each message
    Send,
    /// `Intake::probe`
    ProbeQueue,
}

impl Effect {
    /// Every effect, in the order of the ports and of their methods.
    pub const ALL: [Self; 29] = [
        Self::Claim,
        Self::ReadItem,
        Self::MarkInserted,
        Self::RecordQuarantine,
        Self::MarkUninsertable,
        Self::RecordConflict,
        Self::ReadItems,
        Self::Consume,
        Self::Stamp,
        Self::Reject,
        Self::ReadCount,
        Self::ReadSpace,
        Self::FindKey,
        Self::ListKeys,
        Self::TouchKey,
        Self::BeginCommand,
        Self::FinishCommand,
        Self::ReleaseCommand,
        Self::PutObject,
        Self::GetObject,
        Self::ProbeRow,
        Self::InsertRows,
        Self::CountPlus,
        Self::Receive,
        Self::Delete,
        Self::SetVisibility,
        Self::DeadLetter,
        Self::Send,
        Self::ProbeQueue,
    ];

    /// The port and its method.
    pub fn method(self) -> (&'static str, &'static str) {
        match self {
            Self::Claim => ("Ledger", "claim"),
            Self::ReadItem => ("Ledger", "read"),
            Self::MarkInserted => ("Ledger", "mark_inserted"),
            Self::RecordQuarantine => ("Ledger", "record_quarantine"),
            Self::MarkUninsertable => ("Ledger", "mark_uninsertable"),
            Self::RecordConflict => ("Ledger", "record_conflict"),
            Self::ReadItems => ("EventLookup", "read_many"),
            Self::Consume => ("Billing", "consume"),
            Self::Stamp => ("Billing", "stamp"),
            Self::Reject => ("Billing", "reject"),
            Self::ReadCount => ("Billing", "count"),
            Self::ReadSpace => ("Spaces", "read"),
            Self::FindKey => ("Keys", "find"),
            Self::ListKeys => ("Keys", "list"),
            Self::TouchKey => ("Keys", "touch"),
            Self::BeginCommand => ("Receipts", "begin"),
            Self::FinishCommand => ("Receipts", "finish"),
            Self::ReleaseCommand => ("Receipts", "release"),
            Self::PutObject => ("Archive", "put"),
            Self::GetObject => ("Archive", "get"),
            Self::ProbeRow => ("Rows", "is_present"),
            Self::InsertRows => ("Rows", "insert"),
            Self::CountPlus => ("PlusUsage", "count_plus"),
            Self::Receive => ("Queue", "receive"),
            Self::Delete => ("Queue", "delete"),
            Self::SetVisibility => ("Queue", "set_visibility"),
            Self::DeadLetter => ("Queue", "dead_letter"),
            Self::Send => ("Intake", "send_each"),
            Self::ProbeQueue => ("Intake", "probe"),
        }
    }

    /// Whether it changes the world when it works. `Receive` does: it hides what it hands out.
    pub fn is_write(self) -> bool {
        !matches!(
            self,
            Self::ReadItem
                | Self::ReadItems
                | Self::ReadCount
                | Self::ReadSpace
                | Self::FindKey
                | Self::ListKeys
                | Self::GetObject
                | Self::ProbeRow
                | Self::CountPlus
                | Self::ProbeQueue
        )
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, method) = self.method();
        write!(f, "{port}::{method}")
    }
}

/// One call of an effect, and the event that it is about, where it is about one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// What is done.
    pub effect: Effect,
    /// To which event.
    pub key: Option<EventKey>,
}

impl Call {
    /// A call about one event.
    pub fn of(effect: Effect, key: &EventKey) -> Self {
        Self { effect, key: Some(key.clone()) }
    }
}

impl From<Effect> for Call {
    fn from(effect: Effect) -> Self {
        Self { effect, key: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::World;
    use crate::traffic::example;
    use std::collections::{BTreeMap, BTreeSet};
    use tollgate_domain::archive::ArchiveObject;
    use tollgate_domain::key::KeyHash;
    use tollgate_domain::ledger::{Checkpoint, Rejection};
    use tollgate_domain::plan::{BilledAs, Limit, RejectedReason};
    use tollgate_domain::ports::{
        Archive, Billing, EventLookup, Freshness, Intake, Keys, Ledger, PlusUsage, Queue, Receipts, Rows, Spaces,
    };
    use tollgate_domain::receipt::{NewReceipt, Owner, ReceiptKey, RequestHash, StoredAnswer};

    /// The ports as the domain declares them.
    const PORTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/domain/src/ports.rs"));

    /// (trait, method) of every method that returns a future and is a store's to write: one with a body calls those.
    fn declared() -> BTreeSet<(String, String)> {
        let mut methods = BTreeSet::new();
        for part in PORTS.split("\npub trait ").skip(1) {
            let body = part.split("\n}").next().unwrap();
            let name = body.split(':').next().unwrap();
            for method in body.split("    fn ").skip(1) {
                let signature = method.split(';').next().unwrap();
                if signature.contains("impl Future") && !signature.contains('{') {
                    methods.insert((name.to_owned(), signature.split('(').next().unwrap().to_owned()));
                }
            }
        }
        methods
    }

    #[test]
    fn the_effects_are_the_methods_of_the_ports_each_once() {
        let named: BTreeSet<_> = Effect::ALL
            .iter()
            .map(|effect| effect.method())
            .map(|(port, method)| (port.to_owned(), method.to_owned()))
            .collect();
        assert_eq!(named.len(), Effect::ALL.len(), "two effects name one method");
        assert_eq!(named, declared());
    }

    #[tokio::test]
    async fn every_method_of_a_twin_is_its_own_effect() {
        let (world, example) = (World::new(), example());
        let (key, now) = (example.claim.key.clone(), example.claim.now);
        let (ledger, billing, queue) = (world.ledger(), world.billing(), world.queue());
        let checkpoint = Checkpoint { accepted_at: now, billed_as: BilledAs::Plus, limit: None };
        let rejection = Rejection { reason: RejectedReason::PlusInactive, limit_seen: None, count_seen: None };
        let item = example.claim.clone().into_item();

        ledger.claim(&example.claim).await.unwrap();
        ledger.read(&key).await.unwrap();
        ledger.mark_inserted(&key, now).await.unwrap();
        ledger.record_quarantine(&key, 0, 0, "", now).await.unwrap();
        ledger.mark_uninsertable(&key, now).await.unwrap();
        ledger.record_conflict(&key, &item.fingerprint, now).await.unwrap();
        ledger.read_many(std::slice::from_ref(&key)).await.unwrap();
        billing.consume(&key, item.period_month, Limit::new(1).unwrap(), now).await.unwrap();
        billing.stamp(&key, &checkpoint).await.unwrap();
        billing.reject(&key, &rejection, now).await.unwrap();
        billing.count(&key.space, item.period_month).await.unwrap();
        world.spaces().read(&key.space, Freshness::Strong).await.unwrap();
        world.keys().find(&KeyHash::from_stored("")).await.unwrap();
        world.keys().list(&key.space).await.unwrap();
        world.keys().touch(&KeyHash::from_stored(""), 0, now).await.unwrap();
        let command = ReceiptKey::from_stored("");
        let (owner, request) = (Owner::new(""), RequestHash::from_stored(""));
        let answer = StoredAnswer { status: 202, headers: BTreeMap::new(), body: Vec::new() };
        let new = NewReceipt { key: command.clone(), request, owner: owner.clone(), now, lease_until: now };
        world.receipts().begin(&new).await.unwrap();
        world.receipts().finish(&command, &owner, &answer, now).await.unwrap();
        world.receipts().release(&command, &owner).await.unwrap();
        world.archive().put(&ArchiveObject::of_event(&example.envelope.event, &item)).await.unwrap();
        world.archive().get("").await.unwrap();
        world.rows().is_present(&key).await.unwrap();
        world.rows().insert(&[]).await.unwrap();
        world.rows().count_plus(&key.space, item.period_month).await.unwrap();
        queue.receive(1).await.unwrap();
        queue.delete(&[]).await.unwrap();
        queue.set_visibility(&[], 0).await.unwrap();
        queue.dead_letter("", "").await.unwrap();
        world.intake().send(&[String::new()]).await.pop().unwrap().unwrap();
        world.intake().probe().await.unwrap();

        let called: Vec<Effect> = world.calls().iter().map(|call| call.effect).collect();
        assert_eq!(called, Effect::ALL);
    }
}
