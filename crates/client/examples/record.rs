//! Records events in each way that waits for an answer, and asks what became of them:
//! `TOLLGATE_URL=http://127.0.0.1:8787 TOLLGATE_API_KEY=tollgate_sk_… cargo run --example record -- cus_01 req_1`.
//! Run it twice with the same words: the second run is told of a conflict, since its time is another one. A real program
//! keeps the time beside its work.

use std::error::Error;
use std::io::{Write as _, stdout};
use std::time::{Duration, SystemTime};

use tollgate_client::{ApiKey, Client, Outcome, Recorded, UsageEvent, instant_of};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(subject), Some(request)) = (words.next(), words.next()) else {
        return Err("tell a subject and a request's id".into());
    };

    let key = ApiKey::parse(&std::env::var("TOLLGATE_API_KEY")?)?;
    let client = Client::builder(std::env::var("TOLLGATE_URL")?, &key).build()?;

    // The time is taken once, where the work was done: every retry sends the same bytes.
    let done_at = instant_of(SystemTime::now());
    let event = UsageEvent::builder("api_request", &subject, done_at).idempotency_key(&request).build()?;
    let end = match client.record_and_wait(&event, Duration::from_secs(30)).await {
        Recorded::Inserted { .. } => "charged and stored".to_owned(),
        Recorded::Duplicate { by, .. } => format!("charged before, by {by}"),
        Recorded::Conflict { existing, .. } => format!("page somebody, it has other facts: {existing:?}"),
        Recorded::Rejected { rejection, .. } => format!("never charged: {rejection:?}"),
        Recorded::Unavailable { queued: true, .. } => "will be charged once".to_owned(),
        Recorded::Unavailable { .. } => format!("record it later, as it is: {}", event.to_json()),
        other => format!("not taken: {other:?}"),
    };
    // Whoever reads this may go away early: an error then, and no panic.
    let mut out = stdout();
    writeln!(out, "{request}: {end}")?;

    // Many at once, each for itself. The first is there already: sending it again changes nothing.
    let next = UsageEvent::builder("tokens", &subject, done_at).quantity(1_420).build()?;
    for outcome in client.record_batch_partial(&[event.clone(), next]).await {
        match outcome {
            Outcome::Queued { id, .. } => writeln!(out, "{id}: queued")?,
            other => writeln!(out, "not taken: {other:?}")?,
        }
    }

    let status = client.event_status(&event.id(), Duration::ZERO).await?;
    let usage = client.usage(None).await?;
    writeln!(out, "{}: {:?}, {} used in {}", status.id, status.standing, usage.used.unwrap_or_default(), usage.month)?;
    Ok(())
}
