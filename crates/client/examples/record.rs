//! Records one event and waits until it is charged:
//! `TOLLGATE_URL=http://127.0.0.1:8080 TOLLGATE_API_KEY=tollgate_sk_… cargo run --example record -- cus_01 req_1`.
//! Run it twice with the same words: the second run is told of a duplicate, or, since its time is another one, of a
//! conflict. A real program keeps the time beside its work.

#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::error::Error;
use std::time::{Duration, SystemTime};

use tollgate_client::{ApiKey, Client, Recorded, UsageEvent, instant_of};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (std::env::var("TOLLGATE_URL")?, ApiKey::parse(&std::env::var("TOLLGATE_API_KEY")?)?);
    let client = Client::builder(url, &key).build()?;
    let mut words = std::env::args().skip(1);
    let (Some(subject), Some(request)) = (words.next(), words.next()) else {
        return Err("tell a subject and a request's id".into());
    };
    let event =
        UsageEvent::builder("api_request", subject, instant_of(SystemTime::now())).idempotency_key(request).build()?;
    match client.record_and_wait(&event, Duration::from_secs(30)).await {
        Recorded::Inserted { .. } => println!("{} is charged and stored", event.id()),
        Recorded::Duplicate { by, .. } => println!("{} was charged before, by {by}", event.id()),
        Recorded::Conflict { existing, .. } => println!("{} has other facts: {existing:?}", event.id()),
        Recorded::Rejected { rejection, .. } => println!("{} is not charged: {rejection:?}", event.id()),
        Recorded::Unavailable { queued: true, .. } => println!("{} will be charged once", event.id()),
        Recorded::Unavailable { reason, .. } => println!("record the same event later ({reason}): {}", event.to_json()),
        other => println!("{} was not taken: {other:?}", event.id()),
    }
    let usage = client.usage(None).await?;
    println!("{} of {:?} used in {}", usage.used.unwrap_or_default(), usage.limit, usage.month);
    Ok(())
}
