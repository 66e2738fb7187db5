//! The SDK: records usage events. Any retry is harmless, since an event's facts are its identity.
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
//! # The trap of a second timestamp
//!
//! An event without an idempotency key is known by its facts, and the time is one of them. Whoever takes the time
//! again for a second try makes a second event, which is charged. So [`UsageEvent::builder`] asks for the time, an
//! event is immutable, and the client retries its *bytes*. Keep the event, not the code that built it.

mod call;
mod client;
mod event;
mod outcome;
mod retry;
mod transport;

pub use client::{BuildError, Client, ClientBuilder};
pub use event::{InvalidEvent, UsageEvent, UsageEventBuilder, instant_of};
pub use outcome::{Outcome, Quota, ToldProblem};
pub use retry::RetryPolicy;
pub use tollgate_domain::identity::EventId;
pub use tollgate_domain::key::ApiKey;
pub use tollgate_domain::problem::Problem;
pub use tollgate_domain::time::UtcMillis;
