//! A sound world has no finding, and each kind of finding has a world that was broken to show it.

use super::*;
use crate::memory::{State, World};
use crate::snapshot::BillingRow;
use crate::traffic::Traffic;
use tollgate_domain::archive::{ArchiveObject, conflict_key, event_key};
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::ledger::{Attention, Checkpoint, LedgerItem, MAX_QUARANTINES, NewClaim, Rejection, Status};
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason, Subscription};
use tollgate_domain::row::Row;
use tollgate_domain::time::UtcMillis;

const SPACES: [&str; 5] = ["capped", "roomy", "plus", "lapsed", "canary"];

fn space(name: &str) -> SpaceId {
    SpaceId::parse(name).unwrap()
}

fn limit(events: u64) -> Limit {
    Limit::new(events).unwrap()
}

fn plans() -> Plans {
    let record = |subscription, monthly_limit| SpaceRecord { subscription, monthly_limit };
    Plans {
        policy: PlanPolicy { internal_spaces: [space("canary")].into(), default_free_limit: limit(1000) },
        records: [
            (space("capped"), record(Subscription::Free, Some(limit(5)))),
            (space("plus"), record(Subscription::PlusActive, None)),
            (space("lapsed"), record(Subscription::PlusInactive, None)),
        ]
        .into(),
        changed: BTreeSet::new(),
    }
}

fn sent() -> Vec<Sent> {
    let traffic = Traffic {
        seed: 11,
        spaces: SPACES.map(space).to_vec(),
        distinct: 120,
        duplicates_percent: 20,
        conflicts_percent: 20,
        accepted_at: State::default().now,
    };
    traffic.envelopes().iter().map(Sent::from).collect()
}

/// The facts that these deliveries must come to: written down one after the other, by nobody's port.
fn settled(sent: &[Sent], plans: &Plans) -> Snapshot {
    let mut facts = Snapshot::default();
    for one in sent {
        if let Some(item) = facts.ledger.get_mut(&one.key()) {
            if item.fingerprint != one.event.fingerprint() {
                item.conflicts.insert(one.event.fingerprint());
                item.attention = Some(Attention::Conflict);
                let object = ArchiveObject::of_conflict(&one.event, &item.key);
                facts.objects.insert(object.key, object.body.into_bytes());
            }
            continue;
        }
        let mut item = NewClaim {
            key: one.key(),
            fingerprint: one.event.fingerprint(),
            submission_id: "sub".to_owned(),
            period_month: one.month(),
            now: one.accepted_at,
        }
        .into_item();
        let meter = (one.space.clone(), item.period_month);
        let count = facts.meters.get(&meter).copied().unwrap_or_default();
        let (billed_as, limit) = match plans.plan_of(&one.space) {
            Plan::Internal => (Some(BilledAs::Internal), None),
            Plan::PlusActive => (Some(BilledAs::Plus), None),
            Plan::PlusInactive => (None, None),
            Plan::Free(limit) => ((count < limit.get()).then_some(BilledAs::Free), Some(limit)),
        };
        if let Some(billed_as) = billed_as {
            item.checkpoint = Some(Checkpoint { accepted_at: one.accepted_at, billed_as, limit });
            item.status = Status::Inserted;
            if billed_as == BilledAs::Free {
                facts.meters.insert(meter, count + 1);
            }
            let object = ArchiveObject::of_event(&one.event, &item);
            facts.objects.insert(object.key, object.body.into_bytes());
            let row = Row::new(&one.event, &item, billed_as);
            facts.events_billing.push(BillingRow::of(&row));
            facts.events.push(row);
        } else {
            let reason = limit.map_or(RejectedReason::PlusInactive, |_| RejectedReason::LimitExhausted);
            item.rejection = Some(Rejection { reason, limit_seen: limit, count_seen: limit.map(|_| count) });
            item.status = Status::Rejected;
        }
        facts.ledger.insert(item.key.clone(), item);
    }
    facts
}

/// The kinds that an audit finds after `break_it`.
fn kinds(break_it: impl FnOnce(&mut Vec<Sent>, &mut Plans, &mut Snapshot)) -> BTreeSet<Kind> {
    let (mut sent, mut plans) = (sent(), plans());
    let mut facts = settled(&sent, &plans);
    break_it(&mut sent, &mut plans, &mut facts);
    audit(&sent, &plans, &facts).iter().map(|finding| finding.kind).collect()
}

/// Some item of a space with this status, to be broken.
fn item<'a>(facts: &'a mut Snapshot, name: &str, status: Status) -> &'a mut LedgerItem {
    facts.ledger.values_mut().find(|item| item.key.space.as_str() == name && item.status == status).unwrap()
}

fn inserted<'a>(facts: &'a mut Snapshot, name: &str) -> &'a mut LedgerItem {
    item(facts, name, Status::Inserted)
}

fn inserted_key(facts: &mut Snapshot, name: &str) -> EventKey {
    inserted(facts, name).key.clone()
}

fn meter<'a>(facts: &'a mut Snapshot, name: &str) -> &'a mut u64 {
    facts.meters.iter_mut().find(|((space, _), _)| space.as_str() == name).unwrap().1
}

fn is_row_of(row: &Row, key: &EventKey) -> bool {
    row.space == key.space.as_str() && row.event_id == key.id.as_str()
}

fn later(instant: UtcMillis) -> UtcMillis {
    instant.saturating_add_ms(1)
}

fn only(kinds: &[Kind]) -> BTreeSet<Kind> {
    kinds.iter().copied().collect()
}

#[test]
fn a_sound_world_has_no_finding_and_duplicate_rows_are_none() {
    let (sent, plans) = (sent(), plans());
    let mut facts = settled(&sent, &plans);
    assert_eq!(audit(&sent, &plans, &facts), vec![]);
    facts.events.extend_from_within(..);
    facts.events_billing.extend_from_within(..);
    assert_eq!(audit(&sent, &plans, &facts), vec![]);
    assert_eq!(audit_change(&facts, &facts, &BTreeSet::new()), vec![]);
    let counts = facts.counts(&sent);
    let capped = counts[&space("capped")];
    assert_eq!((capped.inserted, capped.meter, capped.archived, capped.rows), (5, 5, 5, 5));
    assert_eq!(capped.rejected, capped.distinct - 5);
    assert_eq!(
        (counts[&space("lapsed")].inserted, counts[&space("lapsed")].rejected),
        (0, counts[&space("lapsed")].distinct)
    );
    assert_eq!(counts.values().map(|space| space.lines).sum::<u64>(), sent.len() as u64);
    assert_eq!(counts.values().map(|space| space.distinct).sum::<u64>(), 120);
}

#[test]
fn an_empty_world_has_lost_everything_that_was_sent() {
    let found = audit(&sent(), &plans(), &World::new().snapshot());
    assert_eq!(found.len(), 120);
    assert!(found.iter().all(|finding| finding.kind == Kind::Lost));
}

type Break = fn(&mut Vec<Sent>, &mut Plans, &mut Snapshot);

/// Each line breaks one thing and names exactly the kinds that must be found.
#[rustfmt::skip]
const BROKEN: &[(&str, &[Kind], Break)] = &[
    ("an item is gone, and its charge with it", &[Kind::Lost, Kind::Breach(Invariant::MeterEqualsCheckpoints), Kind::DoubleCharged], |_, _, facts| {
        let key = inserted_key(facts, "roomy");
        facts.ledger.remove(&key);
    }),
    ("an event is still open", &[Kind::NotTerminal], |_, _, facts| inserted(facts, "plus").status = Status::Inserting),
    ("nobody sent what the ledger, the rows and the archive hold", &[Kind::NeverSent], |sent, plans, facts| {
        plans.changed.insert(space("plus"));
        let key = inserted_key(facts, "plus");
        sent.retain(|one| one.key() != key);
    }),
    ("nobody sent the facts that were claimed", &[Kind::NeverSent], |_, _, facts| {
        inserted(facts, "plus").fingerprint = Fingerprint::parse(&"0".repeat(64)).unwrap();
    }),
    ("the meter moved once more", &[Kind::DoubleCharged, Kind::Breach(Invariant::MeterEqualsCheckpoints)], |_, _, facts| {
        *meter(facts, "roomy") += 1;
    }),
    ("the meter lost one", &[Kind::Breach(Invariant::MeterEqualsCheckpoints)], |_, _, facts| *meter(facts, "roomy") -= 1),
    ("one was accepted beyond the limit", &[Kind::DoubleCharged, Kind::WronglyAccepted, Kind::Breach(Invariant::ConsumedBelowLimit), Kind::Breach(Invariant::InsertedIsComplete)], |_, _, facts| {
        *meter(facts, "capped") += 1;
        let checkpoint = inserted(facts, "capped").checkpoint;
        let over = item(facts, "capped", Status::Rejected);
        (over.status, over.rejection, over.checkpoint) = (Status::Inserted, None, checkpoint);
    }),
    ("a changing limit was never above the count", &[Kind::Breach(Invariant::ConsumedBelowLimit)], |_, plans, facts| {
        plans.changed.insert(space("roomy"));
        let roomy = facts.ledger.values_mut().filter(|item| item.key.space.as_str() == "roomy");
        roomy.take(3).for_each(|item| item.checkpoint.as_mut().unwrap().limit = Some(limit(2)));
    }),
    ("a rejection saw room", &[Kind::Breach(Invariant::RejectedAtLimit)], |_, _, facts| {
        item(facts, "capped", Status::Rejected).rejection.as_mut().unwrap().count_seen = Some(4);
    }),
    ("a rejection saw more than there ever was", &[Kind::Breach(Invariant::RejectedAtLimit)], |_, _, facts| {
        item(facts, "capped", Status::Rejected).rejection.as_mut().unwrap().count_seen = Some(6);
    }),
    ("a rejection saw nothing", &[Kind::Breach(Invariant::RejectedAtLimit)], |_, _, facts| {
        item(facts, "capped", Status::Rejected).rejection.as_mut().unwrap().count_seen = None;
    }),
    ("a month that has room rejects", &[Kind::WronglyRejected, Kind::Breach(Invariant::RejectedAtLimit)], |_, _, facts| {
        *meter(facts, "capped") -= 1;
        let key = inserted_key(facts, "capped");
        facts.objects.remove(&event_key(&key));
        facts.events.retain(|row| !is_row_of(row, &key));
        facts.events_billing.retain(|row| row.event_id != key.id.as_str());
        let rejected = facts.ledger.get_mut(&key).unwrap();
        let rejection = Rejection { reason: RejectedReason::LimitExhausted, limit_seen: Some(limit(5)), count_seen: Some(5) };
        (rejected.status, rejected.checkpoint, rejected.rejection) = (Status::Rejected, None, Some(rejection));
    }),
    ("a rejection has no reason", &[Kind::WronglyRejected], |_, _, facts| item(facts, "lapsed", Status::Rejected).rejection = None),
    ("a free space is rejected as a lapsed one", &[Kind::WronglyRejected], |_, _, facts| {
        item(facts, "capped", Status::Rejected).rejection.as_mut().unwrap().reason = RejectedReason::PlusInactive;
    }),
    ("a plan that accepts nothing accepted", &[Kind::WronglyAccepted], |_, plans, _| {
        plans.records.insert(space("plus"), SpaceRecord { subscription: Subscription::PlusInactive, monthly_limit: None });
    }),
    ("a canary was billed", &[Kind::WronglyBilled, Kind::WrongRow], |_, _, facts| {
        inserted(facts, "canary").checkpoint.as_mut().unwrap().billed_as = BilledAs::Plus;
    }),
    ("another limit was applied", &[Kind::WronglyBilled], |_, _, facts| {
        inserted(facts, "roomy").checkpoint.as_mut().unwrap().limit = Some(limit(999));
    }),
    ("an event is charged and rejected", &[Kind::Breach(Invariant::NeverChargedAndRejected)], |_, plans, facts| {
        plans.changed.insert(space("plus"));
        let rejection = item(facts, "lapsed", Status::Rejected).rejection;
        let both = inserted(facts, "plus");
        (both.status, both.rejection) = (Status::Rejected, rejection);
    }),
    ("a rejected event was opened again", &[Kind::Breach(Invariant::TerminalIsFinal), Kind::NotTerminal], |_, _, facts| {
        item(facts, "lapsed", Status::Rejected).status = Status::Inserting;
    }),
    ("an event is closed unbilled", &[Kind::Breach(Invariant::InsertedIsComplete), Kind::StoredUncharged], |_, _, facts| {
        inserted(facts, "plus").checkpoint = None;
    }),
    ("a rejected event was archived", &[Kind::StoredUncharged], |sent, _, facts| {
        let rejected = item(facts, "lapsed", Status::Rejected).clone();
        let one = sent.iter().find(|one| one.event.fingerprint() == rejected.fingerprint).unwrap();
        let object = ArchiveObject::of_event(&one.event, &rejected);
        facts.objects.insert(object.key, object.body.into_bytes());
    }),
    ("a row is missing", &[Kind::Breach(Invariant::InsertedIsComplete)], |_, _, facts| drop(facts.events.pop())),
    ("a twin is missing", &[Kind::Breach(Invariant::InsertedIsComplete)], |_, _, facts| drop(facts.events_billing.pop())),
    ("a payload is missing", &[Kind::Breach(Invariant::InsertedIsComplete), Kind::Breach(Invariant::RowImpliesArchive)], |_, _, facts| {
        let key = inserted_key(facts, "plus");
        facts.objects.remove(&event_key(&key));
    }),
    ("a twin alone has no payload", &[Kind::Breach(Invariant::InsertedIsComplete), Kind::Breach(Invariant::RowImpliesArchive)], |_, _, facts| {
        let key = inserted_key(facts, "plus");
        facts.objects.remove(&event_key(&key));
        facts.events.retain(|row| !is_row_of(row, &key));
    }),
    ("an uninsertable event has no payload", &[Kind::Breach(Invariant::InsertedIsComplete)], |_, _, facts| {
        let key = inserted_key(facts, "plus");
        facts.objects.remove(&event_key(&key));
        facts.events.retain(|row| !is_row_of(row, &key));
        facts.events_billing.retain(|row| row.event_id != key.id.as_str());
        let given_up = facts.ledger.get_mut(&key).unwrap();
        (given_up.status, given_up.quarantine.count) = (Status::Uninsertable, MAX_QUARANTINES);
    }),
    ("a row was given up early", &[Kind::GivenUpEarly], |_, _, facts| {
        let given_up = inserted(facts, "plus");
        (given_up.status, given_up.quarantine.count) = (Status::Uninsertable, MAX_QUARANTINES - 1);
    }),
    ("a replay has another stamp", &[Kind::Breach(Invariant::OneRowAnEvent), Kind::WrongRow], |_, _, facts| {
        let row = Row { row_inserted_at_ms: 0, ..facts.events[0].clone() };
        facts.events.push(row);
    }),
    ("a replay's twin has another stamp", &[Kind::Breach(Invariant::OneRowAnEvent), Kind::WrongRow], |_, _, facts| {
        let twin = BillingRow { row_inserted_at_ms: 0, ..facts.events_billing[0].clone() };
        facts.events_billing.push(twin);
    }),
    ("a twin says another quantity", &[Kind::WrongRow], |_, _, facts| facts.events_billing[0].quantity += 1),
    ("a payload was overwritten", &[Kind::WrongPayload], |_, _, facts| {
        let key = inserted_key(facts, "plus");
        facts.objects.insert(event_key(&key), b"{}".to_vec());
    }),
    ("another month pays", &[Kind::WrongMonth], |sent, plans, facts| {
        plans.changed.insert(space("plus"));
        let key = inserted_key(facts, "plus");
        let next = sent[0].month().next().start();
        sent.iter_mut().filter(|one| one.key() == key).for_each(|one| one.accepted_at = next);
    }),
    ("a conflict is not on the item", &[Kind::ConflictNotRecorded], |_, _, facts| {
        facts.ledger.values_mut().find(|item| !item.conflicts.is_empty()).unwrap().conflicts.clear();
    }),
    ("a conflict was invented", &[Kind::ConflictNotRecorded], |_, _, facts| {
        let item = facts.ledger.values_mut().find(|item| item.conflicts.is_empty()).unwrap();
        item.conflicts.insert(item.fingerprint.clone());
    }),
    ("a conflict was mistaken for another", &[Kind::ConflictNotRecorded], |_, _, facts| {
        let item = facts.ledger.values_mut().find(|item| !item.conflicts.is_empty()).unwrap();
        item.conflicts = [item.fingerprint.clone()].into();
    }),
    ("nobody is told of a conflict", &[Kind::ConflictNotRecorded], |_, _, facts| {
        facts.ledger.values_mut().find(|item| !item.conflicts.is_empty()).unwrap().attention = None;
    }),
    ("a conflict's payload is not kept", &[Kind::ConflictNotRecorded], |_, _, facts| {
        let item = facts.ledger.values().find(|item| !item.conflicts.is_empty()).unwrap();
        facts.objects.remove(&conflict_key(&item.key, item.conflicts.first().unwrap()));
    }),
    ("a good message was given up", &[Kind::DeadLettered], |_, _, facts| {
        let body = crate::traffic::example().envelope.encode();
        facts.dead_letters.push(crate::snapshot::DeadLetter { body, reason: "halted".to_owned() });
    }),
    ("garbage was given up", &[], |_, _, facts| {
        facts.dead_letters.push(crate::snapshot::DeadLetter { body: "{}".to_owned(), reason: "no envelope".to_owned() });
    }),
];

#[test]
fn each_broken_world_shows_what_was_broken_and_nothing_else() {
    for (name, expected, break_it) in BROKEN {
        assert_eq!(kinds(break_it), only(expected), "{name}");
    }
}

/// The kinds that one change between two moments shows.
fn changed(change: impl FnOnce(&mut Snapshot, &mut Snapshot, &mut BTreeSet<EventKey>)) -> BTreeSet<Kind> {
    let mut before = settled(&sent(), &plans());
    let (mut after, mut redriven) = (before.clone(), BTreeSet::new());
    change(&mut before, &mut after, &mut redriven);
    audit_change(&before, &after, &redriven).iter().map(|finding| finding.kind).collect()
}

#[test]
fn what_is_final_changes_by_redrive_only() {
    let given_up = |before: &mut Snapshot| {
        let item = inserted(before, "plus");
        item.status = Status::Uninsertable;
        item.key.clone()
    };
    let broken = only(&[Kind::Breach(Invariant::TerminalIsFinal)]);
    assert_eq!(changed(|before, _, _| drop(given_up(before))), broken);
    let redriven = changed(|before, _, redriven| {
        redriven.insert(given_up(before));
    });
    assert_eq!(redriven, only(&[]));
    let rejected_after_all = changed(|before, after, redriven| {
        let key = given_up(before);
        after.ledger.get_mut(&key).unwrap().status = Status::Rejected;
        redriven.insert(key);
    });
    assert_eq!(rejected_after_all, broken, "a re-drive can reopen, and not reject");
    assert_eq!(changed(|_, after, _| inserted(after, "plus").status = Status::Inserting), broken);
    let reopened_too_much = changed(|_, after, redriven| {
        redriven.insert(inserted_key(after, "plus"));
        inserted(after, "plus").status = Status::Inserting;
    });
    assert_eq!(reopened_too_much, broken, "a re-drive of a finished event");
    assert_eq!(changed(|before, _, _| inserted(before, "plus").status = Status::Inserting), only(&[]));
}

#[test]
fn what_is_stamped_once_stays() {
    let stamp_changed = only(&[Kind::StampChanged]);
    let stamped_again = changed(|_, after, _| {
        let item = inserted(after, "plus");
        item.row_inserted_at = later(item.row_inserted_at);
    });
    assert_eq!(stamped_again, stamp_changed);
    assert_eq!(changed(|_, after, _| inserted(after, "plus").checkpoint = None), stamp_changed);
    assert_eq!(changed(|_, after, _| item(after, "lapsed", Status::Rejected).rejection = None), stamp_changed);
    assert_eq!(changed(|_, after, _| *meter(after, "roomy") -= 1), stamp_changed);
    assert_eq!(changed(|_, after, _| drop(after.ledger.pop_first())), only(&[Kind::Lost]));
    assert_eq!(changed(|_, after, _| drop(after.objects.pop_first())), only(&[Kind::WrongPayload]));
}

#[test]
fn every_kind_is_shown_by_a_broken_world() {
    let shown: BTreeSet<Kind> = BROKEN.iter().flat_map(|(_, kinds, _)| kinds.iter().copied()).collect();
    // Shown by what_is_stamped_once_stays: it takes two moments to see.
    let shown = &shown | &only(&[Kind::StampChanged]);
    assert_eq!(shown, Kind::all().into_iter().collect());
    assert_eq!(Kind::all().iter().map(|kind| kind.id()).collect::<BTreeSet<_>>().len(), Kind::all().len());
}
