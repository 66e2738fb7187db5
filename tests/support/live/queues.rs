//! A pair of queues of a case's own.

use anyhow::{Context, ensure};
use tollgate_domain::ports::{Intake, PortResult};
use tollgate_stores::config::QueueConfig;
use tollgate_stores::queue::{Depth, REASON_ATTRIBUTE, SqsQueue};

use super::Engines;
use crate::snapshot::DeadLetter;

/// The queue of accepted events and its dead-letter queue.
#[derive(Clone)]
pub struct Queues {
    client: aws_sdk_sqs::Client,
    port: SqsQueue,
    /// URL of the queue of accepted events.
    pub url: String,
    /// URL of the dead-letter queue.
    pub dead_letter_url: String,
}

impl Queues {
    /// Makes them, without a redrive policy: no receive count is a verdict.
    pub async fn create(engines: &Engines) -> anyhow::Result<Self> {
        let (url, dead_letter_url) = (create(engines, "events").await?, create(engines, "dead").await?);
        let config = QueueConfig { wait_s: 0, visibility_s: 60 };
        let port = SqsQueue::new(engines.sqs.clone(), &url, &dead_letter_url, config);
        Ok(Self { client: engines.sqs.clone(), port, url, dead_letter_url })
    }

    /// Removes them: a busy emulator should not keep what nobody will read.
    pub async fn delete(self) -> anyhow::Result<()> {
        for url in [&self.url, &self.dead_letter_url] {
            self.client.delete_queue().queue_url(url).send().await?;
        }
        Ok(())
    }

    /// Sends every message, or fails.
    pub async fn send(&self, bodies: &[String]) -> anyhow::Result<()> {
        self.port.send(bodies).await.into_iter().collect::<PortResult<()>>()?;
        Ok(())
    }

    /// How many messages wait and are in flight.
    pub async fn depth(&self) -> anyhow::Result<Depth> {
        Ok(self.port.depth().await?)
    }

    /// Whether every message was acknowledged.
    pub async fn is_empty(&self) -> anyhow::Result<bool> {
        Ok(self.depth().await? == Depth { visible: 0, in_flight: 0 })
    }

    /// Every dead letter. Takes them from the queue.
    pub async fn dead_letters(&self) -> anyhow::Result<Vec<DeadLetter>> {
        let mut letters = Vec::new();
        loop {
            let receive = self
                .client
                .receive_message()
                .queue_url(&self.dead_letter_url)
                .max_number_of_messages(10)
                .visibility_timeout(600)
                .message_attribute_names(REASON_ATTRIBUTE);
            let messages = receive.send().await?.messages.unwrap_or_default();
            if messages.is_empty() {
                let depth = self.port.dead_letter_depth().await?;
                ensure!(depth.visible == 0, "the dead-letter queue holds {} messages back", depth.visible);
                return Ok(letters);
            }
            letters.extend(messages.into_iter().map(|message| {
                let attributes = message.message_attributes.unwrap_or_default();
                let reason = attributes.get(REASON_ATTRIBUTE).and_then(|attribute| attribute.string_value.clone());
                DeadLetter { body: message.body.unwrap_or_default(), reason: reason.unwrap_or_default() }
            }));
        }
    }
}

async fn create(engines: &Engines, kind: &str) -> anyhow::Result<String> {
    let made = engines.sqs.create_queue().queue_name(Engines::unique(kind)).send().await?;
    made.queue_url.context("a queue without a URL")
}
