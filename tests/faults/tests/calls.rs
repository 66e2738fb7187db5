//! The real clients behind a proxy whose upstream is not there: what is not struck does not answer.

use std::sync::Arc;

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::ledger::{Checkpoint, Rejection};
use tollgate_domain::plan::{BilledAs, Limit, RejectedReason};
use tollgate_domain::ports::{
    Archive, Billing, Freshness, InsertError, Ledger, PortError, PortResult, Queue, Receipt, Rows, Spaces,
};
use tollgate_stores::config::{AwsConfig, Env, StoreConfig};
use tollgate_stores::connect::Stores;

use crate::faults::{Faults, Proxy, Rule, Script, Upstreams, Victim, WireEffect};
use crate::traffic::{Example, example};

/// The real clients behind a proxy.
pub(super) struct Calls {
    pub(super) script: Arc<Script>,
    stores: Stores,
    example: Example,
    _proxy: Proxy,
}

impl Calls {
    pub(super) async fn struck(rule: Rule) -> Self {
        let script = Arc::new(Script::new([rule]));
        script.resume();
        let nowhere = Upstreams { aws: "127.0.0.1:1".to_owned(), clickhouse: "127.0.0.1:1".to_owned() };
        let victim = Arc::new(Victim::default());
        let proxy = Proxy::start(&nowhere, &Faults::Script(Arc::clone(&script)), &victim).await.unwrap();
        let (aws_url, clickhouse_url) = (proxy.endpoints.aws_url.clone(), proxy.endpoints.clickhouse_url.clone());
        let mut env = Env::new(|name| match name {
            "CLICKHOUSE_URL" => Some(clickhouse_url.clone()),
            "TOLLGATE_RECEIVE_WAIT_S" => Some("0".to_owned()),
            name if name.starts_with("TOLLGATE_") && (name.ends_with("_TABLE") || name.ends_with("_BUCKET")) => {
                Some("some-name".to_owned())
            }
            name if name.ends_with("_URL") => Some(format!("{aws_url}/000000000000/queue")),
            _ => None,
        });
        let mut config = StoreConfig::from_env(&mut env);
        config.aws = AwsConfig { endpoint_url: Some(aws_url.clone()), s3_path_style: true, ..AwsConfig::default() };
        let stores = Stores::connect(&config).await.unwrap();
        Self { script, stores, example: example(), _proxy: proxy }
    }

    /// Makes the one call of a port that is this effect; what it answers, in words.
    pub(super) async fn call(&self, effect: WireEffect) -> PortResult<String> {
        let Stores { ledger, billing, spaces, archive, rows, queue, .. } = &self.stores;
        let Example { envelope, claim, item, row } = &self.example;
        let (key, now, limit) = (&item.key, claim.now, Limit::FREE_PLAN);
        let receipts = [Receipt("receipt".to_owned())];
        match effect {
            WireEffect::Receive => told(queue.receive(1).await),
            WireEffect::Claim => told(ledger.claim(claim).await),
            WireEffect::ReadSpace => told(spaces.read(&key.space, Freshness::Strong).await),
            WireEffect::Consume => told(billing.consume(key, item.period_month, limit, now).await),
            WireEffect::Stamp => {
                let checkpoint = Checkpoint { accepted_at: now, billed_as: BilledAs::Plus, limit: None };
                told(billing.stamp(key, &checkpoint).await)
            }
            WireEffect::Reject => {
                let reason = RejectedReason::LimitExhausted;
                let rejection = Rejection { reason, limit_seen: Some(limit), count_seen: Some(limit.get()) };
                told(billing.reject(key, &rejection, now).await)
            }
            WireEffect::ReadLedger => told(ledger.read(key).await),
            WireEffect::ReadCount => told(billing.count(&key.space, item.period_month).await),
            WireEffect::PutEvent => told(archive.put(&ArchiveObject::of_event(&envelope.event, item)).await),
            WireEffect::PutConflict => told(archive.put(&ArchiveObject::of_conflict(&envelope.event, key)).await),
            WireEffect::GetObject => told(archive.get("acme/events/0f/an-event.json").await),
            WireEffect::Probe => told(rows.is_present(key).await),
            WireEffect::Columns | WireEffect::Insert => told(match rows.insert(std::slice::from_ref(row)).await {
                Ok(()) => Ok(()),
                Err(InsertError::Port(error)) => Err(error),
                Err(poison @ InsertError::Poison { .. }) => Err(PortError::Broken(poison.to_string())),
            }),
            WireEffect::RecordQuarantine => told(ledger.record_quarantine(key, 1, 0, "refused", now).await),
            WireEffect::MarkUninsertable => told(ledger.mark_uninsertable(key, now).await),
            WireEffect::MarkInserted => told(ledger.mark_inserted(key, now).await),
            WireEffect::RecordConflict => told(ledger.record_conflict(key, &item.fingerprint, now).await),
            WireEffect::Delete => told(queue.delete(&receipts).await),
            WireEffect::SetVisibility => told(queue.set_visibility(&receipts, 1_000).await),
            WireEffect::SendDeadLetter => told(queue.dead_letter("body", "reason").await),
        }
    }
}

fn told<T: std::fmt::Debug>(answer: PortResult<T>) -> PortResult<String> {
    answer.map(|answer| format!("{answer:?}"))
}
