//! A test's own corner of the shared stack: a space, stores, and pipelines over them.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate_domain::archive::ArchiveObject;
use tollgate_domain::ledger::{EventKey, LedgerItem};
use tollgate_domain::plan::{BilledAs, Limit, PlanPolicy, SpaceRecord, Subscription};
use tollgate_domain::ports::{Archive, Billing, Clock, Conditional, Consumption, Image, Ledger, Put, Rows};
use tollgate_domain::row::Row;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_stores::config::StoreConfig;
use tollgate_stores::connect::Stores;
use tollgate_stores::rows::ClickHouseRows;
use tollgate_worker::batch::{BatchSettings, Batcher};
use tollgate_worker::pipeline::Pipeline;
use tollgate_worker::ports::LivePorts;
use tollgate_worker::verdict::Verdict;

use crate::engines::{config, dynamo, unique_space};
use crate::message::{ACCEPTED, Message};
use crate::ports::{Scripted, ScriptedPorts};
use crate::script::{Edge, Script};

/// How rows are batched here: few at a time, and soon.
pub(crate) const BATCH: BatchSettings = BatchSettings { max_rows: 8, linger_ms: 5, concurrency: 2 };

/// A test's own corner of the shared stack.
pub(crate) struct World {
    pub(crate) config: StoreConfig,
    pub(crate) stores: Stores,
    pub(crate) dynamo: aws_sdk_dynamodb::Client,
    pub(crate) space: SpaceId,
    pub(crate) policy: PlanPolicy,
    pub(crate) quarantine_spacing_ms: u64,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(config()).await
    }

    pub(crate) async fn of(config: StoreConfig) -> Self {
        Self {
            stores: Stores::connect(&config).await.unwrap(),
            dynamo: dynamo(&config),
            config,
            space: unique_space(),
            policy: PlanPolicy { internal_spaces: BTreeSet::new(), default_free_limit: Limit::FREE_PLAN },
            quarantine_spacing_ms: 0,
        }
    }

    /// Stores of their own, as another process has them: other connections, nothing remembered.
    pub(crate) async fn other_stores(&self) -> Stores {
        Stores::connect(&self.config).await.unwrap()
    }

    /// Writes the space's plan as an operator would, from another process.
    pub(crate) async fn set_plan(&self, subscription: Subscription, limit: Option<u64>) {
        let record = SpaceRecord { subscription, monthly_limit: limit.and_then(Limit::new) };
        self.other_stores().await.spaces.set(&self.space, &record).await.unwrap();
    }

    pub(crate) fn message(&self, name: &str) -> Message {
        Message::new(&self.space, name, 3, ACCEPTED)
    }

    /// Another payload under the same id.
    pub(crate) fn other_payload(&self, name: &str) -> Message {
        Message::new(&self.space, name, 4, ACCEPTED)
    }

    /// The pipeline that production runs.
    pub(crate) fn live(&self) -> Pipeline<LivePorts> {
        let ports = LivePorts::new(self.stores.clone(), self.batcher());
        Pipeline::new(ports, self.policy.clone(), self.quarantine_spacing_ms)
    }

    fn batcher(&self) -> Batcher<ClickHouseRows> {
        Batcher::start(self.stores.rows.clone(), BATCH)
    }

    /// The live ports behind `script`.
    pub(crate) fn ports(&self, script: &Arc<Script>) -> ScriptedPorts {
        ScriptedPorts {
            ledger: behind(script, self.stores.ledger.clone()),
            billing: behind(script, self.stores.billing.clone()),
            spaces: behind(script, self.stores.spaces.clone()),
            archive: behind(script, self.stores.archive.clone()),
            rows: behind(script, self.batcher()),
        }
    }

    /// The pipeline with its live ports behind `script`.
    pub(crate) fn scripted(&self, script: &Arc<Script>) -> Pipeline<ScriptedPorts> {
        self.over(self.ports(script))
    }

    /// The pipeline over these ports.
    pub(crate) fn over(&self, ports: ScriptedPorts) -> Pipeline<ScriptedPorts> {
        Pipeline::new(ports, self.policy.clone(), self.quarantine_spacing_ms)
    }

    /// One delivery through the pipeline that production runs.
    pub(crate) async fn deliver(&self, message: &Message) -> Verdict {
        self.live().process_delivery(&message.body).await
    }

    /// One delivery to a worker that is killed at this point.
    pub(crate) async fn kill_at(&self, edge: Edge, effect: &'static str, message: &Message) {
        let script = Script::stop_at(edge, effect);
        let ended = self.kill_by(&script, message).await;
        assert_eq!(ended, None, "the delivery ended before the worker could be killed at {effect}");
    }

    /// One delivery to a worker that is killed where `script` stops; its verdict if that never happens.
    pub(crate) async fn kill_by(&self, script: &Arc<Script>, message: &Message) -> Option<Verdict> {
        let pipeline = self.scripted(script);
        tokio::select! {
            verdict = pipeline.process_delivery(&message.body) => Some(verdict),
            // The worker's future is dropped here: a killed process knows nothing more.
            () = script.reached() => None,
        }
    }

    /// One delivery that waits where `script` stops it until `meanwhile` has happened.
    pub(crate) async fn deliver_around(
        &self,
        script: &Arc<Script>,
        message: &Message,
        meanwhile: impl Future<Output = ()>,
    ) -> Verdict {
        let pipeline = self.scripted(script);
        let mut delivery = pin!(pipeline.process_delivery(&message.body));
        tokio::select! {
            verdict = &mut delivery => panic!("the delivery ended before it was stopped: {verdict:?}"),
            () = script.reached() => {}
        }
        meanwhile.await;
        script.release();
        delivery.await
    }

    /// The event's item.
    pub(crate) async fn item(&self, key: &EventKey) -> LedgerItem {
        match self.stores.ledger.read(key).await.unwrap() {
            Image::Item(item) => *item,
            other => panic!("{key} has no readable item: {other:?}"),
        }
    }

    /// Arranges: claimed, and no more.
    pub(crate) async fn claim(&self, message: &Message) -> LedgerItem {
        let claim = message.claim(SystemClock.now());
        assert_eq!(self.stores.ledger.claim(&claim).await, Ok(Conditional::Applied));
        claim.into_item()
    }

    /// Arranges: charged to the free quota.
    pub(crate) async fn consume(&self, message: &Message) {
        let (now, limit) = (SystemClock.now(), self.policy.default_free_limit);
        let answer = self.stores.billing.consume(&message.key, message.month(), limit, now).await;
        assert_eq!(answer, Ok(Consumption::Consumed));
    }

    /// Arranges: the payload of a claimed event in the archive.
    pub(crate) async fn archive(&self, message: &Message) -> ArchiveObject {
        let object = ArchiveObject::of_event(&message.envelope.event, &self.item(&message.key).await);
        assert_eq!(self.stores.archive.put(&object).await, Ok(Put::Stored));
        object
    }

    /// Arranges: the row of a claimed event.
    pub(crate) async fn insert(&self, message: &Message) {
        let row = Row::new(&message.envelope.event, &self.item(&message.key).await, BilledAs::Free);
        self.stores.rows.insert(&[row]).await.unwrap();
    }
}

fn behind<T>(script: &Arc<Script>, inner: T) -> Scripted<T> {
    Scripted { inner, script: Arc::clone(script) }
}

/// Polls until `holds`, or fails and says what did not happen.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("30 s later it is still not so: {what}");
}
