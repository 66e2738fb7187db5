//! Random sequences of requests, with whatever a request can say about another space.

use axum::body::Body;
use http::request::Builder;
use http::{Method, Request};
use proptest::prelude::*;
use proptest::{collection, option};
use serde_json::{Map, Value, json};
use tollgate_domain::event::Event;
use tollgate_domain::ledger::EventKey;
use tollgate_domain::space::SpaceId;
use tollgate_tests::memory::State;

use crate::spaces::{KEYS, PAYLOAD, SPACES, key, submission_id};

/// One step of a sequence.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A space asks for something.
    Ask(Ask),
    /// The worker takes what is in the queue. A delivery of this space dies right after its event was charged.
    Work(Option<usize>),
    /// A minute passes: caches, leases and visibilities run out.
    Wait,
}

impl Step {
    /// Whether it is a step of a world where `space` is alone: its own, and those of nobody.
    pub(crate) fn is_of(&self, space: usize) -> bool {
        match self {
            Self::Ask(ask) => ask.space == space,
            Self::Work(_) | Self::Wait => true,
        }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// Whose.
    pub(crate) space: usize,
    /// Which of its keys it shows.
    key: usize,
    wish: Wish,
}

/// What a request asks for, whoever sends it: in one sequence the same wish comes again, from its sender and from others.
#[derive(Debug, Clone)]
struct Wish {
    route: Route,
    /// Where it names another space, and how many spaces ahead of its sender that one is.
    hint: Option<(Hint, usize)>,
    number: u8,
}

impl Wish {
    /// The same with other quantities: under ids that are given and not derived, a conflict.
    fn of_other_facts(mut self) -> Self {
        if let Route::Send(sending) = &mut self.route {
            sending.works.iter_mut().for_each(|work| work.quantity = 3 - work.quantity);
        }
        self
    }
}

#[derive(Debug, Clone)]
enum Route {
    Send(Sending),
    Status(Work),
    Usage,
    Keys,
}

#[derive(Debug, Clone)]
struct Sending {
    form: Form,
    works: Vec<Work>,
    partial: bool,
    /// The number of its idempotency key; all spaces draw from the same ones.
    command: Option<u8>,
    /// The number of a submission id that all spaces send; its own without one.
    submission: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Own,
    Structured,
    Batch,
    Binary,
}

/// What an event tells of. All spaces draw from the same ones, so that equal facts, and equal ids, are the rule.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    number: u8,
    quantity: u8,
    has_key: bool,
    /// The space whose customer its subject is.
    customer_of: usize,
}

/// Where a request can name a space that is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    /// A field or an extension attribute of the event.
    Field,
    /// The event's properties.
    Properties,
    /// The event's source.
    Source,
    Query,
    Path,
    Headers,
    /// The URL's host, and the header.
    Host,
    /// Its keys' public names, as if they were secrets.
    KeyId,
}

const METER: &str = "api_request";
/// The number of the work whose rows ClickHouse refuses from `acme-eu`.
const POISON: u8 = 2;

impl Work {
    fn subject(&self) -> String {
        format!("customer-of-{}", SPACES[self.customer_of].name)
    }

    fn occurred_at(&self) -> String {
        format!("2026-11-01T00:00:0{}Z", self.number)
    }

    fn properties(&self, hint: Option<(Hint, usize)>) -> Map<String, Value> {
        let mut properties = Map::from_iter([("note".to_owned(), json!(format!("{PAYLOAD}{}", self.number)))]);
        if let Some((Hint::Properties, other)) = hint {
            properties.insert("space".to_owned(), json!(SPACES[other].name));
        }
        properties
    }

    /// The event in Tollgate's own form.
    fn event(&self, hint: Option<(Hint, usize)>) -> Value {
        let mut event = json!({
            "meter": METER, "subject": self.subject(), "occurredAt": self.occurred_at(), "quantity": self.quantity,
            "properties": self.properties(hint),
        });
        if self.has_key {
            event["idempotencyKey"] = json!(format!("job-{}", self.number));
        }
        match hint {
            Some((Hint::Field, other)) => event["space"] = json!(SPACES[other].name),
            Some((Hint::Source, other)) => event["source"] = json!(SPACES[other].name),
            _ => {}
        }
        event
    }

    /// The attributes of a CloudEvent.
    fn attributes(&self, hint: Option<(Hint, usize)>) -> Map<String, Value> {
        let source = match hint {
            Some((Hint::Source, other)) => format!("/{}", SPACES[other].name),
            _ => "/gateway".to_owned(),
        };
        let mut attributes = Map::from_iter([
            ("specversion".to_owned(), json!("1.0")),
            ("id".to_owned(), json!(format!("job-{}", self.number))),
            ("source".to_owned(), json!(source)),
            ("type".to_owned(), json!(METER)),
            ("subject".to_owned(), json!(self.subject())),
            ("time".to_owned(), json!(self.occurred_at())),
        ]);
        if let Some((Hint::Field, other)) = hint {
            for name in ["space", "tenant", "partitionkey"] {
                attributes.insert(name.to_owned(), json!(SPACES[other].name));
            }
        }
        attributes
    }

    fn data(&self, hint: Option<(Hint, usize)>) -> Value {
        let mut data = self.properties(hint);
        data.insert("quantity".to_owned(), json!(self.quantity));
        Value::Object(data)
    }

    fn cloud_event(&self, hint: Option<(Hint, usize)>) -> Value {
        let mut event = self.attributes(hint);
        event.insert("data".to_owned(), self.data(hint));
        Value::Object(event)
    }

    /// Its id, as anybody can compute it who knows the facts.
    fn key_in(&self, space: usize) -> EventKey {
        let event = Event::from_value(&self.event(None), State::default().now).unwrap();
        EventKey { space: SpaceId::parse(SPACES[space].name).unwrap(), id: event.id() }
    }
}

/// The events whose rows are refused, of one space alone.
pub(crate) fn poisonous() -> impl Iterator<Item = EventKey> {
    let works = (0..SPACES.len()).flat_map(|customer_of| {
        let work = move |quantity, has_key| Work { number: POISON, quantity, has_key, customer_of };
        [work(1, false), work(2, false), work(1, true)]
    });
    works.map(|work| work.key_in(1))
}

impl Ask {
    /// Whether it names this space by itself.
    pub(crate) fn names(&self, space: usize) -> bool {
        self.hint().is_some_and(|(_, other)| other == space)
    }

    fn hint(&self) -> Option<(Hint, usize)> {
        self.wish.hint.map(|(hint, ahead)| (hint, (self.space + ahead) % SPACES.len()))
    }

    /// The request.
    pub(crate) fn request(&self) -> Request<Body> {
        let (method, path) = match &self.wish.route {
            Route::Send(sending) if sending.partial => (Method::POST, "/v1/events?partial=true".to_owned()),
            Route::Send(_) => (Method::POST, "/v1/events".to_owned()),
            Route::Status(work) => (Method::GET, format!("/v1/events/{}", work.key_in(self.space).id)),
            Route::Usage => (Method::GET, "/v1/usage".to_owned()),
            Route::Keys => (Method::GET, "/v1/keys".to_owned()),
        };
        let request = Request::builder()
            .method(method)
            .header("authorization", format!("Bearer {}", key(self.space, self.key).expose()))
            .header("x-request-id", format!("req-{}-{}", self.space, self.wish.number));
        let request = self.hinted(request, path);
        let Route::Send(sending) = &self.wish.route else { return request.body(Body::empty()).unwrap() };
        self.with_body(request, sending)
    }

    /// The request's head, with the other space wherever the hint says.
    fn hinted(&self, request: Builder, path: String) -> Builder {
        let Some((hint, other)) = self.hint() else { return request.uri(path) };
        let name = SPACES[other].name;
        let and = if path.contains('?') { '&' } else { '?' };
        match hint {
            Hint::Query => request.uri(format!("{path}{and}space={name}")),
            Hint::Path => request.uri(path.replacen("/v1/", &format!("/v1/spaces/{name}/"), 1)),
            Hint::Host => {
                request.uri(format!("https://{name}.example{path}")).header("host", format!("{name}.example"))
            }
            Hint::KeyId => {
                let id = key(other, 0).hash().id();
                let request = request.uri(path).header("x-api-key", id.as_str()).header("x-key-id", id.as_str());
                request.header("cookie", format!("key={}", id.as_str()))
            }
            Hint::Headers => {
                let named = ["space", "x-space", "x-tollgate-space", "tollgate-space", "x-tenant-id", "ce-space"];
                let request = named.into_iter().fold(request.uri(path), |request, header| request.header(header, name));
                request.header("cookie", format!("space={name}")).header("forwarded", format!("for={name};host={name}"))
            }
            Hint::Field | Hint::Properties | Hint::Source => request.uri(path),
        }
    }

    fn with_body(&self, mut request: Builder, sending: &Sending) -> Request<Body> {
        if let Some(command) = sending.command {
            request = request.header("idempotency-key", format!("\"retry-{command}\""));
        }
        let submission = sending.submission.map_or_else(|| submission_id(self.space), |number| format!("sub_{number}"));
        request = request.header("tollgate-submission-id", submission);
        let (works, hint) = (&sending.works, self.hint());
        let (media_type, body) = match sending.form {
            Form::Own => {
                let events: Vec<Value> = works.iter().map(|work| work.event(hint)).collect();
                ("application/json", Value::Array(events))
            }
            Form::Structured => ("application/cloudevents+json", works[0].cloud_event(hint)),
            Form::Batch => {
                let events: Vec<Value> = works.iter().map(|work| work.cloud_event(hint)).collect();
                ("application/cloudevents-batch+json", Value::Array(events))
            }
            Form::Binary => {
                for (name, value) in works[0].attributes(hint) {
                    request = request.header(format!("ce-{name}"), value.as_str().unwrap_or_default());
                }
                ("application/json", works[0].data(hint))
            }
        };
        request.header("content-type", media_type).body(Body::from(body.to_string())).unwrap()
    }
}

fn work() -> impl Strategy<Value = Work> {
    (0..=POISON, 1..=2_u8, prop::bool::weighted(0.7), 0..SPACES.len()).prop_map(
        |(number, quantity, has_key, customer_of)| {
            // Few customers, so that spaces meet: the third's stand in for those that nobody else has.
            Work { number, quantity, has_key, customer_of: customer_of / 2 * 2 }
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    let form =
        prop_oneof![3 => Just(Form::Own), 1 => Just(Form::Structured), 1 => Just(Form::Batch), 1 => Just(Form::Binary)];
    let sending = (form, collection::vec(work(), 1..=3), any::<bool>(), option::of(0..2_u8), option::of(0..2_u8))
        .prop_map(|(form, works, partial, command, submission)| Sending { form, works, partial, command, submission });
    prop_oneof![
        6 => sending.prop_map(Route::Send),
        3 => work().prop_map(Route::Status),
        1 => Just(Route::Usage),
        1 => Just(Route::Keys),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let hint = prop::sample::select(vec![
        Hint::Field,
        Hint::Properties,
        Hint::Source,
        Hint::Query,
        Hint::Path,
        Hint::Headers,
        Hint::Host,
        Hint::KeyId,
    ]);
    let hint = prop_oneof![2 => Just(None), 1 => (hint, 1..SPACES.len()).prop_map(Some)];
    (route(), hint, any::<u8>()).prop_map(|(route, hint, number)| Wish { route, hint, number })
}

/// Up to 31 steps around a few wishes.
pub(crate) fn sequence() -> impl Strategy<Value = Vec<Step>> {
    collection::vec(wish(), 1..6).prop_flat_map(|wishes| {
        // The first key may do everything: the others show what a scope keeps out.
        let key = prop_oneof![4 => Just(0), 1 => 1..KEYS];
        let ask = (0..SPACES.len(), key, prop::sample::select(wishes), prop::bool::weighted(0.3));
        let ask = ask.prop_map(|(space, key, wish, differs)| {
            Step::Ask(Ask { space, key, wish: if differs { wish.of_other_facts() } else { wish } })
        });
        let step = prop_oneof![
            9 => ask,
            3 => option::weighted(0.3, 0..SPACES.len()).prop_map(Step::Work),
            2 => Just(Step::Wait),
        ];
        collection::vec(step, 1..32)
    })
}
