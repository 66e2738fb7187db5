//! A pair of queues of a test's own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use tollgate_domain::ports::{Delivery, Intake, PortResult, Queue, Receipt};
use tollgate_stores::config::QueueConfig;
use tollgate_stores::queue::{Depth, REASON_ATTRIBUTE, SqsQueue};

use crate::engines::unique;
use crate::message::Message;
use crate::world::{World, until};

/// The queue of accepted events and its dead-letter queue.
pub(crate) struct Queues {
    client: aws_sdk_sqs::Client,
    url: String,
    dead_letter_url: String,
}

impl Queues {
    pub(crate) async fn create(world: &World) -> Self {
        let settings = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(world.config.aws.endpoint_url.clone().unwrap_or_default())
            .credentials_provider(Credentials::new("test", "test", None, None, "local stack"));
        let client = aws_sdk_sqs::Client::from_conf(settings.build());
        let create = |name: String| {
            let client = client.clone();
            async move { client.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap() }
        };
        Self { url: create(unique("events")).await, dead_letter_url: create(unique("dead")).await, client }
    }

    /// The queues as a worker sees them.
    pub(crate) fn port(&self, visibility_s: i32) -> SqsQueue {
        self.polled_for(1, visibility_s)
    }

    /// The same, with another long poll.
    pub(crate) fn polled_for(&self, wait_s: i32, visibility_s: i32) -> SqsQueue {
        let config = QueueConfig { wait_s, visibility_s };
        SqsQueue::new(self.client.clone(), &self.url, &self.dead_letter_url, config)
    }

    pub(crate) async fn send(&self, messages: &[&Message]) {
        let bodies: Vec<String> = messages.iter().map(|message| message.body.clone()).collect();
        self.send_texts(&bodies).await;
    }

    pub(crate) async fn send_texts(&self, bodies: &[String]) {
        let answers = self.port(60).send(bodies).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }

    /// What another worker would be given now; waits for at most a second.
    pub(crate) async fn receive(&self) -> Vec<Delivery> {
        self.port(60).receive(10).await.unwrap()
    }

    /// Waits until every message is acknowledged: none waiting, none hidden.
    pub(crate) async fn until_empty(&self) {
        let port = self.port(60);
        until("the queue is empty", async || port.depth().await.unwrap() == Depth { visible: 0, in_flight: 0 }).await;
    }

    /// The dead letters: text and reason.
    pub(crate) async fn dead_letters(&self) -> Vec<(String, String)> {
        let receive = self
            .client
            .receive_message()
            .queue_url(&self.dead_letter_url)
            .max_number_of_messages(10)
            .message_attribute_names(REASON_ATTRIBUTE);
        let messages = receive.send().await.unwrap().messages.unwrap_or_default();
        messages
            .into_iter()
            .map(|message| {
                let attributes = message.message_attributes.unwrap_or_default();
                let reason = attributes.get(REASON_ATTRIBUTE).and_then(|attribute| attribute.string_value.clone());
                (message.body.unwrap_or_default(), reason.unwrap_or_default())
            })
            .collect()
    }
}

/// The real queue, with a note of each receive, and of each time for which a message was told to rest.
pub(crate) struct WatchedQueue {
    inner: SqsQueue,
    receives: Arc<AtomicU64>,
    rests_ms: Arc<Mutex<Vec<u64>>>,
}

impl WatchedQueue {
    pub(crate) fn over(inner: SqsQueue) -> Self {
        Self { inner, receives: Arc::default(), rests_ms: Arc::default() }
    }

    /// How many receives began so far.
    pub(crate) fn receives(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.receives)
    }

    /// The times so far, in milliseconds.
    pub(crate) fn rests(&self) -> Arc<Mutex<Vec<u64>>> {
        Arc::clone(&self.rests_ms)
    }
}

impl Queue for WatchedQueue {
    async fn receive(&self, max: usize) -> PortResult<Vec<Delivery>> {
        self.receives.fetch_add(1, Ordering::Relaxed);
        self.inner.receive(max).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> PortResult<Vec<Receipt>> {
        self.inner.delete(receipts).await
    }

    async fn set_visibility(&self, receipts: &[Receipt], ms: u64) -> PortResult<Vec<Receipt>> {
        self.rests_ms.lock().unwrap().push(ms);
        self.inner.set_visibility(receipts, ms).await
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> PortResult<()> {
        self.inner.dead_letter(body, reason).await
    }
}
