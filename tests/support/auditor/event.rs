//! Each event against its ledger item, its object and its rows.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tollgate_domain::archive::{ArchiveObject, conflict_key, event_key};
use tollgate_domain::identity::Fingerprint;
use tollgate_domain::invariant::Invariant;
use tollgate_domain::ledger::{EventKey, LedgerItem, MAX_CONFLICTS_KEPT, MAX_QUARANTINES, Rejection, Status};
use tollgate_domain::plan::{BilledAs, Plan, RejectedReason};
use tollgate_domain::row::Row;

use super::{Findings, Kind, Plans, SentByKey};
use crate::sent::Sent;
use crate::snapshot::{BillingRow, Snapshot};

/// (space, event id) as the rows have it.
type RowId<'a> = (&'a str, &'a str);

struct Auditor<'a> {
    plans: &'a Plans,
    snapshot: &'a Snapshot,
    rows: BTreeMap<RowId<'a>, Vec<&'a Row>>,
    twins: BTreeMap<RowId<'a>, Vec<&'a BillingRow>>,
    findings: &'a mut Findings,
}

pub(super) fn audit_events(sent: &SentByKey<'_>, plans: &Plans, snapshot: &Snapshot, findings: &mut Findings) {
    let (mut rows, mut twins) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    for row in &snapshot.events {
        rows.entry((row.space.as_str(), row.event_id.as_str())).or_default().push(row);
    }
    for twin in &snapshot.events_billing {
        twins.entry((twin.space.as_str(), twin.event_id.as_str())).or_default().push(twin);
    }
    let mut auditor = Auditor { plans, snapshot, rows, twins, findings };
    for (key, deliveries) in sent {
        auditor.audit_event(key, deliveries);
    }
    auditor.audit_strangers(sent);
}

impl Auditor<'_> {
    fn audit_event(&mut self, key: &EventKey, deliveries: &[&Sent]) {
        let Some(item) = self.snapshot.ledger.get(key) else {
            self.findings.add(Kind::Lost, key, "the ledger has no item");
            return;
        };
        let same_facts = |sent: &&&Sent| sent.event.fingerprint() == item.fingerprint;
        let Some(winner) = deliveries.iter().find(same_facts) else {
            self.findings.add(Kind::NeverSent, key, "the claimed facts are none that were sent");
            return;
        };
        if !deliveries.iter().filter(same_facts).any(|sent| sent.month() == item.period_month) {
            self.findings.add(Kind::WrongMonth, key, format!("{} pays", item.period_month));
        }
        if !item.status.is_terminal() {
            self.findings.add(Kind::NotTerminal, key, item.status.as_str());
        }
        self.audit_verdict(item);
        if let Some(plan) = self.plans.fixed_plan_of(&key.space) {
            self.audit_plan(item, plan);
        }
        self.audit_storage(item, winner);
        self.audit_conflicts(item, deliveries);
    }

    /// Charged or rejected, never both, and with what justifies it.
    fn audit_verdict(&mut self, item: &LedgerItem) {
        let key = &item.key;
        let is_rejected = item.status == Status::Rejected || item.rejection.is_some();
        if item.checkpoint.is_some() && is_rejected {
            self.findings.breach(Invariant::NeverChargedAndRejected, key, "checkpoint and rejection stand together");
        }
        match (item.status, &item.rejection) {
            (Status::Rejected, None) => self.findings.add(Kind::WronglyRejected, key, "no reason is recorded"),
            (Status::Rejected, Some(rejection)) => self.audit_rejection(item, rejection),
            (status, Some(_)) => {
                self.findings.breach(Invariant::TerminalIsFinal, key, format!("rejected, and now {status}"));
            }
            (_, None) => {}
        }
        if item.status == Status::Uninsertable && item.quarantine.count < MAX_QUARANTINES {
            self.findings.add(Kind::GivenUpEarly, key, format!("after {} quarantines", item.quarantine.count));
        }
    }

    fn audit_rejection(&mut self, item: &LedgerItem, rejection: &Rejection) {
        if rejection.reason != RejectedReason::LimitExhausted {
            return;
        }
        let meter = self.snapshot.meters.get(&(item.key.space.clone(), item.period_month)).copied().unwrap_or_default();
        let is_justified = match (rejection.limit_seen, rejection.count_seen) {
            // A counter never falls: a count beyond today's was never there to see.
            (Some(limit), Some(count)) => limit.get() <= count && count <= meter,
            _ => false,
        };
        if !is_justified {
            let detail = format!("{rejection:?}, and the meter is {meter}");
            self.findings.breach(Invariant::RejectedAtLimit, &item.key, detail);
        }
    }

    fn audit_plan(&mut self, item: &LedgerItem, plan: Plan) {
        let key = &item.key;
        let (billed_as, limit, reason) = match plan {
            Plan::Internal => (Some(BilledAs::Internal), None, None),
            Plan::PlusActive => (Some(BilledAs::Plus), None, None),
            Plan::PlusInactive => (None, None, Some(RejectedReason::PlusInactive)),
            Plan::Free(limit) => (Some(BilledAs::Free), Some(limit), Some(RejectedReason::LimitExhausted)),
        };
        match item.checkpoint {
            Some(_) if billed_as.is_none() => self.findings.add(Kind::WronglyAccepted, key, format!("{plan:?}")),
            Some(checkpoint) if (Some(checkpoint.billed_as), checkpoint.limit) != (billed_as, limit) => {
                self.findings.add(Kind::WronglyBilled, key, format!("{checkpoint:?} under {plan:?}"));
            }
            _ => {}
        }
        if let Some(rejection) = item.rejection
            && (Some(rejection.reason), rejection.limit_seen) != (reason, limit)
        {
            self.findings.add(Kind::WronglyRejected, key, format!("{rejection:?} under {plan:?}"));
        }
    }

    fn audit_storage(&mut self, item: &LedgerItem, winner: &Sent) {
        let key = &item.key;
        let id: RowId = (key.space.as_str(), key.id.as_str());
        let rows = self.rows.get(&id).map(Vec::as_slice).unwrap_or_default();
        let twins = self.twins.get(&id).map(Vec::as_slice).unwrap_or_default();
        let object = self.snapshot.objects.get(&event_key(key));

        if let Some(body) = object
            && *body != ArchiveObject::of_event(&winner.event, item).body.into_bytes()
        {
            self.findings.add(Kind::WrongPayload, key, "the archive holds other bytes than the event's");
        }
        if object.is_none() && !(rows.is_empty() && twins.is_empty()) {
            self.findings.breach(Invariant::RowImpliesArchive, key, "a row without an archive object");
        }
        let distinct = (rows.iter().collect::<HashSet<_>>().len(), twins.iter().collect::<BTreeSet<_>>().len());
        if distinct.0 > 1 || distinct.1 > 1 {
            self.findings.breach(Invariant::OneRowAnEvent, key, format!("distinct rows and twins: {distinct:?}"));
        }
        if let Some(checkpoint) = item.checkpoint {
            let row = Row::new(&winner.event, item, checkpoint.billed_as);
            let twin = BillingRow::of(&row);
            if rows.iter().any(|stored| **stored != row) || twins.iter().any(|stored| **stored != twin) {
                self.findings.add(Kind::WrongRow, key, "a row says something else than its event");
            }
        } else if object.is_some() || !rows.is_empty() || !twins.is_empty() {
            self.findings.add(Kind::StoredUncharged, key, "an object or a row without a checkpoint");
        }
        // An uninsertable event misses its row and nothing else: a re-drive needs the rest.
        let missing: Vec<&str> = [
            ("checkpoint", item.checkpoint.is_some()),
            ("object", object.is_some()),
            ("row", !rows.is_empty() || item.status == Status::Uninsertable),
            ("twin", !twins.is_empty() || item.status == Status::Uninsertable),
        ]
        .into_iter()
        .filter_map(|(part, is_there)| (!is_there).then_some(part))
        .collect();
        if matches!(item.status, Status::Inserted | Status::Uninsertable) && !missing.is_empty() {
            let detail = format!("{} without {}", item.status, missing.join(", "));
            self.findings.breach(Invariant::InsertedIsComplete, key, detail);
        }
    }

    /// Every other payload is on the item and, with its bytes, under the conflicts' prefix; nothing else is.
    fn audit_conflicts(&mut self, item: &LedgerItem, deliveries: &[&Sent]) {
        let key = &item.key;
        let others: BTreeMap<Fingerprint, &Sent> = deliveries
            .iter()
            .map(|sent| (sent.event.fingerprint(), *sent))
            .filter(|(fingerprint, _)| *fingerprint != item.fingerprint)
            .collect();
        let invented = item.conflicts.iter().any(|kept| !others.contains_key(kept));
        if invented || item.conflicts.len() != others.len().min(MAX_CONFLICTS_KEPT) {
            let detail = format!("{} on the item, {} sent", item.conflicts.len(), others.len());
            self.findings.add(Kind::ConflictNotRecorded, key, detail);
        } else if !others.is_empty() && item.attention.is_none() {
            self.findings.add(Kind::ConflictNotRecorded, key, "nobody's attention is asked for");
        }
        for (fingerprint, sent) in others {
            let body = self.snapshot.objects.get(&conflict_key(key, &fingerprint));
            if body.is_none_or(|body| *body != ArchiveObject::of_conflict(&sent.event, key).body.into_bytes()) {
                let detail = format!("the payload of {fingerprint} is not kept as it came");
                self.findings.add(Kind::ConflictNotRecorded, key, detail);
            }
        }
    }

    /// What the facts know and nobody sent.
    fn audit_strangers(&mut self, sent: &SentByKey<'_>) {
        for key in self.snapshot.ledger.keys().filter(|key| !sent.contains_key(key)) {
            self.findings.add(Kind::NeverSent, key, "a ledger item");
        }
        let known: BTreeSet<RowId> = sent.keys().map(|key| (key.space.as_str(), key.id.as_str())).collect();
        let stored: BTreeSet<RowId> = self.rows.keys().chain(self.twins.keys()).copied().collect();
        for (space, id) in stored.difference(&known) {
            self.findings.add(Kind::NeverSent, &format!("{space}/{id}"), "a row");
        }
        let keys = |(key, deliveries): (&EventKey, &Vec<&Sent>)| {
            let conflicts = deliveries.iter().map(|sent| conflict_key(key, &sent.event.fingerprint()));
            conflicts.chain([event_key(key)]).collect::<Vec<String>>()
        };
        let archived: HashSet<String> = sent.iter().flat_map(keys).collect();
        for key in self.snapshot.objects.keys().filter(|key| !archived.contains(*key)) {
            self.findings.add(Kind::NeverSent, key, "an archive object");
        }
    }
}
