//! SQS: accepted events on their way to a worker, and the dead-letter queue.

use std::ops::Range;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry,
};
use futures_util::{FutureExt, StreamExt, stream};
use tollgate_domain::ports::{Delivery, Intake, PortError, PortResult, Queue, Receipt};

use crate::aws::{decide, poll_time_outs};
use crate::config::QueueConfig;

/// Entries that one batch call takes.
pub const MAX_BATCH: usize = 10;
/// Bytes of the bodies in one `SendMessageBatch`: the limit that every region and account has (1 MiB is the newer one).
pub const MAX_BATCH_BYTES: usize = 256 * 1024;
/// Batch calls of one request that run side by side.
const SEND_CONCURRENCY: usize = 4;
/// Characters of a dead letter's reason.
const MAX_REASON_CHARS: usize = 500;
/// Attribute of a dead letter that tells why it is one.
pub const REASON_ATTRIBUTE: &str = "tollgateReason";

/// The queue of accepted events on SQS, as its sender sees it.
#[derive(Debug, Clone)]
pub struct SqsIntake {
    client: Client,
    queue_url: String,
}

/// The two queues on SQS.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    intake: SqsIntake,
    dead_letter_url: String,
    config: QueueConfig,
}

/// Messages in a queue, as SQS estimates them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Waiting to be received.
    pub visible: u64,
    /// Received and not yet deleted or handed back.
    pub in_flight: u64,
}

impl SqsQueue {
    /// The queue of accepted events and its dead-letter queue.
    pub fn new(
        client: Client,
        queue_url: impl Into<String>,
        dead_letter_url: impl Into<String>,
        config: QueueConfig,
    ) -> Self {
        Self { intake: SqsIntake::new(client, queue_url), dead_letter_url: dead_letter_url.into(), config }
    }

    /// How many messages the queue of accepted events holds. Estimates: wait until they are stable.
    pub async fn depth(&self) -> PortResult<Depth> {
        depth_of(&self.intake.client, &self.intake.queue_url).await
    }

    /// How many messages the dead-letter queue holds.
    pub async fn dead_letter_depth(&self) -> PortResult<Depth> {
        depth_of(&self.intake.client, &self.dead_letter_url).await
    }
}

async fn depth_of(client: &Client, url: &str) -> PortResult<Depth> {
    let get = client
        .get_queue_attributes()
        .queue_url(url)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible);
    let answer = get.send().await.map_err(|error| decide("GetQueueAttributes", &error))?;
    let attributes = answer.attributes.unwrap_or_default();
    let read = |name| attributes.get(&name).and_then(|text| text.parse().ok());
    let depth = (
        read(QueueAttributeName::ApproximateNumberOfMessages),
        read(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
    );
    match depth {
        (Some(visible), Some(in_flight)) => Ok(Depth { visible, in_flight }),
        _ => Err(PortError::Unknown("GetQueueAttributes: a count is missing".to_owned())),
    }
}

/// A request that lacks a field is a defect of ours: no retry mends it.
#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn broken(error: BuildError) -> PortError {
    PortError::Broken(format!("SQS request: {error}"))
}

/// A received message; one without a receipt could be neither deleted nor extended, and comes again by itself.
fn delivery(message: Message) -> Option<Delivery> {
    let receive_count = message
        .attributes
        .as_ref()
        .and_then(|attributes| attributes.get(&MessageSystemAttributeName::ApproximateReceiveCount))
        .and_then(|text| text.parse().ok());
    Some(Delivery {
        receipt: Receipt(message.receipt_handle?),
        body: message.body.unwrap_or_default(),
        message_id: message.message_id.unwrap_or_default(),
        receive_count: receive_count.unwrap_or(1),
    })
}

/// The receipts of those entries that a batch answer does not prove done. Ids are positions.
fn unproven<'a>(receipts: &[Receipt], successful: impl Iterator<Item = &'a str>) -> Vec<Receipt> {
    let done: Vec<usize> = successful.filter_map(|id| id.parse().ok()).collect();
    receipts.iter().enumerate().filter(|(at, _)| !done.contains(at)).map(|(_, receipt)| receipt.clone()).collect()
}

impl Queue for SqsQueue {
    async fn receive(&self, max: usize) -> PortResult<Vec<Delivery>> {
        let receive = self
            .intake
            .client
            .receive_message()
            .queue_url(&self.intake.queue_url)
            .max_number_of_messages(i32::try_from(max.clamp(1, MAX_BATCH)).unwrap_or(1))
            .wait_time_seconds(self.config.wait_s)
            .visibility_timeout(self.config.visibility_s)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .customize()
            .config_override(aws_sdk_sqs::config::Builder::new().timeout_config(poll_time_outs()));
        let answer = receive.send().await.map_err(|error| decide("ReceiveMessage", &error))?;
        Ok(answer.messages.unwrap_or_default().into_iter().filter_map(delivery).collect())
    }

    async fn delete(&self, receipts: &[Receipt]) -> PortResult<Vec<Receipt>> {
        let entries: Result<Vec<_>, _> = receipts
            .iter()
            .enumerate()
            .map(|(at, receipt)| {
                DeleteMessageBatchRequestEntry::builder().id(at.to_string()).receipt_handle(&receipt.0).build()
            })
            .collect();
        let delete = self
            .intake
            .client
            .delete_message_batch()
            .queue_url(&self.intake.queue_url)
            .set_entries(Some(entries.map_err(broken)?));
        let answer = delete.send().await.map_err(|error| decide("DeleteMessageBatch", &error))?;
        Ok(unproven(receipts, answer.successful.iter().map(|entry| entry.id.as_str())))
    }

    async fn set_visibility(&self, receipts: &[Receipt], ms: u64) -> PortResult<Vec<Receipt>> {
        let seconds = i32::try_from(ms.div_ceil(1000)).unwrap_or(i32::MAX);
        let entries: Result<Vec<_>, _> = receipts
            .iter()
            .enumerate()
            .map(|(at, receipt)| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(at.to_string())
                    .receipt_handle(&receipt.0)
                    .visibility_timeout(seconds)
                    .build()
            })
            .collect();
        let change = self
            .intake
            .client
            .change_message_visibility_batch()
            .queue_url(&self.intake.queue_url)
            .set_entries(Some(entries.map_err(broken)?));
        let answer = change.send().await.map_err(|error| decide("ChangeMessageVisibilityBatch", &error))?;
        Ok(unproven(receipts, answer.successful.iter().map(|entry| entry.id.as_str())))
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> PortResult<()> {
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(MAX_REASON_CHARS).collect();
        let reason =
            MessageAttributeValue::builder().data_type("String").string_value(reason).build().map_err(broken)?;
        let send = self
            .intake
            .client
            .send_message()
            .queue_url(&self.dead_letter_url)
            .message_body(body)
            .message_attributes(REASON_ATTRIBUTE, reason);
        send.send().await.map(|_| ()).map_err(|error| decide("SendMessage (dead letter)", &error))
    }
}

/// Consecutive messages that fit one batch call, as ranges of positions: by ten and by bytes.
fn batches(messages: &[String]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, message) in messages.iter().enumerate() {
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_BATCH && bytes + message.len() <= MAX_BATCH_BYTES => {
                batch.end = at + 1;
                bytes += message.len();
            }
            _ => {
                batches.push(at..at + 1);
                bytes = message.len();
            }
        }
    }
    batches
}

/// Sends the batches, some side by side, and tells of each message once its batch is answered: one that stalls keeps
/// nobody from hearing of the others.
async fn send_side_by_side<F: Future<Output = Vec<PortResult<()>>>>(
    batches: Vec<Range<usize>>,
    send: impl Fn(Range<usize>) -> F,
    told: &mut impl FnMut(usize, PortResult<()>),
) {
    let sending = |batch: Range<usize>| send(batch.clone()).map(move |results| batch.zip(results));
    let mut answers = stream::iter(batches).map(sending).buffer_unordered(SEND_CONCURRENCY);
    while let Some(results) = answers.next().await {
        results.for_each(|(place, result)| told(place, result));
    }
}

impl Intake for SqsIntake {
    async fn send_each(&self, messages: &[String], told: &mut (impl FnMut(usize, PortResult<()>) + Send)) {
        let send = |batch| self.send_batch(messages.get(batch).unwrap_or_default());
        send_side_by_side(batches(messages), send, told).await;
    }

    async fn probe(&self) -> PortResult<()> {
        depth_of(&self.client, &self.queue_url).await.map(|_| ())
    }
}

impl Intake for SqsQueue {
    async fn send_each(&self, messages: &[String], told: &mut (impl FnMut(usize, PortResult<()>) + Send)) {
        self.intake.send_each(messages, told).await;
    }

    async fn probe(&self) -> PortResult<()> {
        self.intake.probe().await
    }
}

impl SqsIntake {
    /// The queue of accepted events.
    pub fn new(client: Client, queue_url: impl Into<String>) -> Self {
        Self { client, queue_url: queue_url.into() }
    }

    async fn send_batch(&self, messages: &[String]) -> Vec<PortResult<()>> {
        let same_for_all = |error: PortError| messages.iter().map(|_| Err(error.clone())).collect();
        let entries: Result<Vec<_>, _> = messages
            .iter()
            .enumerate()
            .map(|(at, body)| SendMessageBatchRequestEntry::builder().id(at.to_string()).message_body(body).build())
            .collect();
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return same_for_all(broken(error)),
        };
        let send = self.client.send_message_batch().queue_url(&self.queue_url).set_entries(Some(entries));
        let answer = match send.send().await {
            Ok(answer) => answer,
            Err(error) => return same_for_all(decide("SendMessageBatch", &error)),
        };
        // A 200 can hold failed entries. An entry that is named nowhere is not proven queued.
        let mut results: Vec<PortResult<()>> = messages
            .iter()
            .map(|_| Err(PortError::Unknown("SendMessageBatch: an entry has no answer".to_owned())))
            .collect();
        let sent = answer.successful.iter().map(|entry| (entry.id.as_str(), Ok(())));
        let failed = answer.failed.iter().map(|entry| (entry.id.as_str(), Err(entry_error(entry))));
        for (id, result) in sent.chain(failed) {
            if let Some(slot) = id.parse().ok().and_then(|at: usize| results.get_mut(at)) {
                *slot = result;
            }
        }
        results
    }
}

fn entry_error(entry: &BatchResultErrorEntry) -> PortError {
    let text = format!("SendMessageBatch entry: {}", entry.code);
    if entry.sender_fault { PortError::Broken(text) } else { PortError::NotNow(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_split_by_ten_and_by_bytes() {
        let sized = |sizes: &[usize]| sizes.iter().map(|size| "x".repeat(*size)).collect::<Vec<_>>();
        assert!(batches(&sized(&[])).is_empty());
        assert_eq!(batches(&sized(&[1; 21])), [0..10, 10..20, 20..21]);
        let half = MAX_BATCH_BYTES / 2;
        assert_eq!(batches(&sized(&[half, half, 1])), [0..2, 2..3]);
        assert_eq!(batches(&sized(&[half, half + 1, 1])), [0..1, 1..3]);
    }

    #[test]
    fn a_batch_that_stalls_hides_no_answer_of_another() {
        let mut told = Vec::new();
        let send = |batch: Range<usize>| async move {
            if batch.start == 10 {
                std::future::pending::<()>().await;
            }
            batch.map(|place| if place == 21 { Err(PortError::NotNow(String::new())) } else { Ok(()) }).collect()
        };
        let all: Vec<Range<usize>> = vec![0..10, 10..20, 20..30, 30..40, 40..50, 50..51];
        let ended =
            send_side_by_side(all, send, &mut |place, result| told.push((place, result.is_ok()))).now_or_never();
        assert_eq!(ended, None);
        told.sort_unstable();
        let expected: Vec<_> = (0..10).chain(20..51).map(|place| (place, place != 21)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn only_a_named_success_proves_an_entry_done() {
        let receipts: Vec<Receipt> = ["a", "b", "c"].map(|r| Receipt(r.to_owned())).into();
        assert_eq!(unproven(&receipts, ["0", "2"].into_iter()), [receipts[1].clone()]);
        assert_eq!(unproven(&receipts, std::iter::empty()), receipts);
    }
}
