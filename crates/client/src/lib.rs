//! The SDK: records usage events. Any retry is harmless, since an event's facts are its identity.
//!
//! | to | call | it returns |
//! |---|---|---|
//! | record one event, or some | [`Client::record`], [`Client::record_batch`] | when they are durably queued, or refused |
//! | record some, each for itself | [`Client::record_batch_partial`] | the same, and a bad one holds no other back |
//! | know what became of it | [`Client::record_and_wait`] | when the event is charged and stored, or never will be |
//! | record in the background | [`Recorder`], with a [`Spool`] on disk if need be | at once; outcomes go to an observer |
//! | do so without a runtime | [`blocking`] | |
//! | ask | [`Client::event_status`], [`Client::usage`] | |
//!
//! # One event
//!
//! ```no_run
//! use std::time::SystemTime;
//! use tollgate_client::{ApiKey, Client, Outcome, UsageEvent, instant_of};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let key = ApiKey::parse(&std::env::var("TOLLGATE_API_KEY")?)?;
//! let client = Client::builder("https://tollgate.example.com", &key).build()?;
//!
//! // When the work was done, taken once, where it was done.
//! let occurred_at = instant_of(SystemTime::now());
//! let event = UsageEvent::builder("api_request", "cus_01", occurred_at).quantity(3).build()?;
//!
//! match client.record(&event).await {
//!     Outcome::Queued { id, .. } => println!("{id} will be charged once"),
//!     // Only this one is worth another try, later: with the same `event`, never with one built anew.
//!     Outcome::Unavailable { reason, .. } => println!("keep the event: {reason}"),
//!     refused => println!("do not send it again as it is: {refused:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Every outcome is a decision
//!
//! ```
//! use tollgate_client::{Outcome, UsageEvent};
//!
//! fn decide(event: &UsageEvent, outcome: &Outcome) -> String {
//!     match outcome {
//!         Outcome::Queued { id, .. } => format!("done: {id} is charged once, however often it is sent"),
//!         Outcome::Unavailable { reason, .. } => format!("keep {} and record it later: {reason}", event.to_json()),
//!         Outcome::QuotaExceeded { quota } => format!("record it after {:?} or an upgrade", quota.resets_at),
//!         // A bug, and a loud one: two pieces of work claim one id, or one was told in two ways. Never again as it is.
//!         Outcome::Conflict { problems } => format!("page somebody: {} has other facts: {problems:?}", event.id()),
//!         Outcome::Invalid { problems } => format!("mend what makes such events: {problems:?}"),
//!         // Of `record_batch` alone, which takes a call whole or not at all.
//!         Outcome::HeldBack => "record it again without the bad one".to_owned(),
//!         Outcome::Unauthorized { code, .. } => format!("mend the key ({code}), then record it again"),
//!         Outcome::Refused { status, detail, .. } => format!("mend the endpoint or the version: {status}: {detail}"),
//!         // Outcomes may be added; whatever they are, they are no success.
//!         other => format!("not taken: {other:?}"),
//!     }
//! }
//! # let event = UsageEvent::from_json(r#"{"meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1}"#)?;
//! # let outcome = Outcome::Unavailable { reason: "r".into(), retry_after: None, attempts: 1 };
//! # assert!(decide(&event, &outcome).contains(r#""meter":"m""#));
//! # Ok::<(), tollgate_client::InvalidEvent>(())
//! ```
//!
//! Only *unavailable* is retried, by the client itself: the same bytes under the same submission id, after waits of full
//! jitter that double up to a cap, within the attempts and the time of the [`RetryPolicy`]. The service's `Retry-After`
//! is honoured as a lower bound, in seconds and up to an hour; its other form, a date, counts as unsaid.
//!
//! # The trap of a second timestamp
//!
//! An event without an idempotency key is known by its facts, and the time is one of them. Whoever takes the time again
//! for a second try makes a second event, which is charged as well; with a key, the second try is a conflict.
//!
//! ```
//! use tollgate_client::{UsageEvent, UtcMillis};
//!
//! let first = UtcMillis::parse("2026-11-03T10:00:00.000Z")?;
//! let retried = UtcMillis::parse("2026-11-03T10:00:00.250Z")?; // the clock, read again by the retry
//!
//! let event = |at| UsageEvent::builder("tokens", "cus_01", at).quantity(1_420).build();
//! assert_ne!(event(first)?.id(), event(retried)?.id()); // two events: the work is charged twice
//!
//! let keyed = |at| UsageEvent::builder("tokens", "cus_01", at).quantity(1_420).idempotency_key("gen:4821").build();
//! assert_eq!(keyed(first)?.id(), keyed(retried)?.id()); // one event, with two stories
//! assert_ne!(keyed(first)?.fingerprint(), keyed(retried)?.fingerprint()); // a conflict
//!
//! // What to do instead: decide once, keep the event beside the work, and record what was kept.
//! let kept: String = event(first)?.to_json();
//! assert_eq!(UsageEvent::from_json(&kept)?, event(first)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! So [`UsageEvent::builder`] asks for the time and has no default for it, an event is immutable, every method takes an
//! event and none takes the parts of one, and the client retries *bytes*. Keep the event, not the code that built it.
//!
//! # A batch
//!
//! ```no_run
//! # use tollgate_client::{Client, Outcome, UsageEvent};
//! # async fn example(client: Client, events: Vec<UsageEvent>) {
//! let outcomes = client.record_batch_partial(&events).await;
//! // In order, one each. What found no answer is recorded again as it is, and nothing else.
//! let rest: Vec<UsageEvent> = (events.into_iter().zip(outcomes))
//!     .filter(|(_, outcome)| matches!(outcome, Outcome::Unavailable { .. }))
//!     .map(|(event, _)| event)
//!     .collect();
//! # }
//! ```
//!
//! [`Client::record_batch`] takes each call of 500 events or 1 MiB whole or not at all: for a batch that makes no sense
//! in part. Then the neighbours of a bad event are [`Outcome::HeldBack`].
//!
//! # Until the end is known
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate_client::{Client, Recorded, UsageEvent};
//!
//! # async fn example(client: Client, event: UsageEvent) {
//! match client.record_and_wait(&event, Duration::from_secs(30)).await {
//!     Recorded::Inserted { .. } => println!("charged and stored"),
//!     // A success: another call recorded the same facts, and they were charged then.
//!     Recorded::Duplicate { by, .. } => println!("charged before, by {by}"),
//!     Recorded::Conflict { existing, .. } => println!("page somebody: the ledger holds other facts: {existing:?}"),
//!     Recorded::Rejected { rejection, .. } => println!("not charged, and never will be: {rejection:?}"),
//!     Recorded::Uninsertable { .. } => println!("charged; the service's operators are on it"),
//!     Recorded::QuotaExceeded { quota } => println!("not taken before {:?} or an upgrade", quota.resets_at),
//!     Recorded::Invalid { problems } => println!("mend what makes such events: {problems:?}"),
//!     Recorded::Unavailable { queued: true, .. } => println!("will be charged once; only the answer is missing"),
//!     Recorded::Unavailable { reason, .. } => println!("record the same event later: {reason}"),
//!     Recorded::Unauthorized { code, queued, .. } => println!("mend the key ({code}); queued: {queued}"),
//!     Recorded::Refused { status, queued, .. } => println!("mend the program ({status}); queued: {queued}"),
//!     other => println!("no success: {other:?}"),
//! }
//! # }
//! ```
//!
//! # In the background, and on disk
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate_client::{Client, Outcome, Recorder, Settled, Spool, UsageEvent};
//!
//! # async fn example(client: Client, event: UsageEvent) -> Result<(), Box<dyn std::error::Error>> {
//! // Told of every event, once. There is no recorder without an observer: a conflict is always somebody's business.
//! let observer = |settled: Settled| match settled.outcome {
//!     Outcome::Queued { .. } => {}
//!     Outcome::Conflict { .. } => eprintln!("page somebody: {}", settled.event.id()),
//!     other => eprintln!("{} was not taken: {other:?}", settled.event.id()),
//! };
//! let spool = Spool::at("/var/lib/my-service/usage");
//! let builder = Recorder::builder(client, observer).batch_age(Duration::from_millis(200));
//! let (recorder, recovery) = builder.start_with_spool(spool).await?;
//! println!("{} events of an earlier process are on their way again", recovery.events);
//! for line in &recovery.set_aside {
//!     eprintln!("unreadable, and kept: {line:?}");
//! }
//!
//! recorder.record(event).await?; // on disk; waits while the buffer is full
//! recorder.flush().await?; // everything recorded so far has its outcome
//!
//! let closed = recorder.close().await?; // before the process ends
//! for event in &closed.unsent {
//!     eprintln!("no answer within the time of close; the next start sends it: {}", event.id());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Without a spool ([`RecorderBuilder::start`]) the buffer is memory: what `close` hands back in `unsent` is in nobody
//! else's hands. With one, an event is on disk from the return of `record` to its outcome: a process that dies, also by
//! a kill, sends it again at its next start, with the same id. Refused events do not vanish: they go to the spool's
//! file of refused ones, which [`read_refused`] reads.

pub mod blocking;
mod call;
mod client;
mod event;
mod outcome;
mod recorder;
mod retry;
mod spool;
mod status;
mod transport;

pub use client::{BuildError, Client, ClientBuilder};
pub use event::{InvalidEvent, UsageEvent, UsageEventBuilder, instant_of};
pub use outcome::{Outcome, Quota, ToldProblem};
pub use recorder::{
    Closed, Counts, Ended, NotRecorded, NotRecordedReason, Recorder, RecorderBuilder, Settled, StartError,
};
pub use retry::RetryPolicy;
pub use spool::{Durability, Recovery, RefusedEvent, SetAside, Spool, SpoolError, read_refused};
pub use status::{EventStatus, LookError, PlanName, Recorded, Rejection, Standing, Usage};
pub use tollgate_domain::identity::{EventId, Fingerprint};
pub use tollgate_domain::key::ApiKey;
pub use tollgate_domain::period::PeriodMonth;
pub use tollgate_domain::plan::{BilledAs, RejectedReason};
pub use tollgate_domain::problem::Problem;
pub use tollgate_domain::space::SpaceId;
pub use tollgate_domain::time::UtcMillis;
