//! The front door's latency beside that of the call that it cannot do without.
//!
//! Both send the same message to the same queue, in turns, so that whatever slows the machine slows both: the
//! difference is the front door's own.

use std::time::Instant;

use anyhow::{Context, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde_json::json;
use tollgate_domain::envelope::Envelope;
use tollgate_domain::event::Event;
use tollgate_domain::key::{ApiKey, KEY_BYTES, KeyRecord, Scope};
use tollgate_domain::ports::Clock;
use tollgate_domain::space::SpaceId;
use tollgate_stores::clock::SystemClock;
use tollgate_tests::live::{Engines, FrontDoor, FrontDoorSettings, Program, Queues};

use crate::sample::Sample;

/// Callers at once, and pairs of calls of each.
const SHAPES: [(usize, usize); 2] = [(1, 3_000), (8, 500)];
const SHORT: usize = 20;
/// Pairs before anything is measured: connections, caches.
const WARM_UP: usize = 50;

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The 99th percentile through the front door, less that of the bare call, one caller at a time, in milliseconds.
    p99_overhead_ms: f64,
    shapes: Vec<Shape>,
}

#[derive(Debug, Serialize)]
struct Shape {
    callers: usize,
    pairs: usize,
    requests_per_s: u64,
    bare: Percentiles,
    front_door: Percentiles,
    overhead: Overhead,
}

/// Microseconds.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit stands last in its name")]
struct Percentiles {
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
}

/// Microseconds; negative where the machine's noise was larger than the difference.
#[derive(Debug, Serialize)]
struct Overhead {
    p50_us: i64,
    p99_us: i64,
}

impl From<&Sample> for Percentiles {
    fn from(sample: &Sample) -> Self {
        let at = |permille| sample.percentile_us(permille);
        Self { p50_us: at(500), p99_us: at(990), p999_us: at(999) }
    }
}

/// Measures every shape.
pub(crate) async fn run(engines: &Engines, program: &Program, short: bool) -> anyhow::Result<Report> {
    let queues = Queues::create(engines).await?;
    let log = engines.stack.state_dir.join("bench").join("front-door.log");
    // A limit on one key's calls would be all that this measures.
    let variables = vec![("TOLLGATE_RATE_PER_KEY", "0".to_owned()), ("RUST_LOG", "info".to_owned())];
    let settings = FrontDoorSettings { variables, ..FrontDoorSettings::default() };
    let mut door = FrontDoor::start(engines, program, &queues, &settings, &log).await?;
    let caller = Caller::new(engines, &door, &queues).await?;
    caller.pairs(WARM_UP, 0).await?;

    let mut shapes = Vec::new();
    for (shape, (callers, pairs)) in SHAPES.into_iter().enumerate() {
        let pairs = if short { SHORT } else { pairs };
        let start = Instant::now();
        let all = (0..callers).map(|number| caller.pairs(pairs, 1 + shape * 1_000 + number));
        let (mut bare, mut through) = (Sample::default(), Sample::default());
        for measured in futures_util::future::try_join_all(all).await? {
            bare.merge(measured.0);
            through.merge(measured.1);
        }
        let seconds = start.elapsed().as_secs_f64();
        let (bare, through) = (Percentiles::from(&bare), Percentiles::from(&through));
        let over = |through: u64, bare: u64| through.cast_signed() - bare.cast_signed();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rate for people"
        )]
        let requests_per_s = ((callers * pairs) as f64 / seconds) as u64;
        shapes.push(Shape {
            callers,
            pairs,
            requests_per_s,
            overhead: Overhead { p50_us: over(through.p50_us, bare.p50_us), p99_us: over(through.p99_us, bare.p99_us) },
            bare,
            front_door: through,
        });
    }
    door.check()?;
    queues.delete().await?;
    let first = shapes.first().context("no shape was measured")?;
    #[expect(clippy::cast_precision_loss, reason = "microseconds of one call")]
    let p99_overhead_ms = first.overhead.p99_us as f64 / 1_000.0;
    Ok(Report { p99_overhead_ms, shapes })
}

/// Sends the same event both ways.
struct Caller {
    url: String,
    authorization: String,
    space: SpaceId,
    http: Client<HttpConnector, Full<Bytes>>,
    sqs: aws_sdk_sqs::Client,
    queue_url: String,
}

impl Caller {
    async fn new(engines: &Engines, door: &FrontDoor, queues: &Queues) -> anyhow::Result<Self> {
        let space = Engines::unique_space("bench")?;
        let key = ApiKey::from_random([0x42; KEY_BYTES]);
        let record = KeyRecord {
            space: space.clone(),
            scopes: [Scope::Ingest].into(),
            created_at: SystemClock.now(),
            revoked_at: None,
            last_used_at: None,
            label: "bench".to_owned(),
        };
        engines.stores.keys.create(&key.hash(), &record).await?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Self {
            url: format!("{}/v1/events", door.url),
            authorization: format!("Bearer {}", key.expose()),
            space,
            http: Client::builder(TokioExecutor::new()).build(connector),
            sqs: engines.sqs.clone(),
            queue_url: queues.url.clone(),
        })
    }

    /// Calls both ways in turns; which one is first changes from pair to pair. Bare calls, then those through the door.
    async fn pairs(&self, pairs: usize, caller: usize) -> anyhow::Result<(Sample, Sample)> {
        let (mut bare, mut through) = (Sample::default(), Sample::default());
        for pair in 0..pairs {
            let body = json!({
                "meter": "api_request",
                "subject": format!("customer-{caller}"),
                "occurredAt": "2026-01-01T00:00:00.000Z",
                "quantity": 1,
                "idempotencyKey": format!("{caller}-{pair}"),
            });
            for side in [pair % 2, 1 - pair % 2] {
                let start = Instant::now();
                if side == 0 {
                    self.send_bare(&body).await?;
                    bare.add(start.elapsed());
                } else {
                    self.send_through(&body).await?;
                    through.add(start.elapsed());
                }
            }
        }
        Ok((bare, through))
    }

    async fn send_through(&self, body: &serde_json::Value) -> anyhow::Result<()> {
        let request = Request::post(&self.url)
            .header("authorization", &self.authorization)
            .header("content-type", "application/json")
            .body(Full::from(body.to_string()))?;
        let answer = self.http.request(request).await?;
        let status = answer.status();
        let told = answer.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::ACCEPTED, "the front door answered {status}: {}", String::from_utf8_lossy(&told));
        Ok(())
    }

    async fn send_bare(&self, body: &serde_json::Value) -> anyhow::Result<()> {
        let now = SystemClock.now();
        let event = Event::from_value(body, now).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
        let (space, submission_id) = (self.space.clone(), "sub_bench".to_owned());
        let message = Envelope { space, event, accepted_at: now, submission_id, trace_parent: None }.encode();
        self.sqs.send_message().queue_url(&self.queue_url).message_body(message).send().await?;
        Ok(())
    }
}

impl Report {
    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN);
        table.set_header(["callers", "calls", "", "p50 ms", "p99 ms", "p99.9 ms"]);
        for shape in &self.shapes {
            let Shape { callers, pairs, bare, front_door, overhead, .. } = shape;
            let calls = callers * pairs;
            for (who, told) in [("bare SendMessage", bare), ("front door", front_door)] {
                let times = [told.p50_us, told.p99_us, told.p999_us].map(|us| ms(us.cast_signed()));
                let mut row = vec![callers.to_string(), calls.to_string(), who.to_owned()];
                row.extend(times);
                table.add_row(row);
            }
            let (p50, p99) = (ms(overhead.p50_us), ms(overhead.p99_us));
            table.add_row([callers.to_string(), calls.to_string(), "overhead".to_owned(), p50, p99, String::new()]);
        }
        table.to_string()
    }
}

/// Milliseconds with two decimals.
fn ms(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", us.unsigned_abs() / 1_000, us.unsigned_abs() % 1_000 / 10)
}
