//! Schemas for what the types of the answers do not say by themselves, and for what a client sends. Limits are those of
//! the code that reads; what no schema can say, the descriptions do.

use serde_json::{Value, json};
use tollgate_domain::cloudevent::{SPEC_VERSION, idempotency_key};
use tollgate_domain::event::{MAX_AHEAD_MS, MAX_EVENT_BYTES, MAX_METER_CHARS, MAX_TEXT_CHARS};
use tollgate_domain::json::{MAX_DEPTH, MAX_SAFE_INTEGER};
use tollgate_domain::key::Scope;
use tollgate_domain::plan;
use tollgate_domain::receipt::MAX_KEY_CHARS;
use tollgate_domain::scan::{MAX_ITEMS, MAX_MEMBERS, MAX_STRING_BYTES};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::answer::{ErrorKind, EventResult, MAX_PROBLEMS_TOLD, Quota, TYPE_PREFIX};
use crate::config::IntakeConfig;
use crate::status::{Known, StandingStatus};

/// Text without the control characters of Unicode.
const PRINTABLE: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";
const DAY: &str = "(?:0[1-9]|[12][0-9]|3[01])";
const HOUR: &str = "(?:[01][0-9]|2[0-3])";
const SIXTY: &str = "[0-5][0-9]";
/// The media types that `cloudevent::is_json` takes.
const JSON_MEDIA_TYPE: &str = r"^\s*(?:[aA][pP][pP][lL][iI][cC][aA][tT][iI][oO][nN]/[jJ][sS][oO][nN]|[tT][eE][xX][tT]/[jJ][sS][oO][nN]|[^/;\s][^/;]*/[^;]+\+[jJ][sS][oO][nN])\s*(?:;[\s\S]*)?$";
/// A CloudEvents attribute in a header: printable ASCII, in double quotes or not, percent-encoded where it is anything
/// else.
const HEADER_TEXT: &str = r#"^(?:(?:[!#$&-~]|%[0-9A-Fa-f]{2})(?: *(?:[!#$&-~]|%[0-9A-Fa-f]{2}))*|"(?:[ !#$&-\[\]-~]|%[0-9A-Fa-f]{2}|\\[ -$&-~])+")$"#;

/// Every JSON schema as utoipa holds it: its builders lack some keywords.
pub(crate) fn schema_of(keywords: Value) -> RefOr<Schema> {
    let keywords = match keywords {
        Value::Object(keywords) => keywords,
        // `true` and `false`, of which the first says the same as no keywords; nothing here is the other.
        _ => serde_json::Map::new(),
    };
    let extensions: Extensions = keywords.into_iter().collect();
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).extensions(Some(extensions)).into()
}

/// Where a schema stands in the document.
pub(crate) fn reference<T: ToSchema>() -> Value {
    json!({"$ref": Ref::from_schema_name(T::name()).ref_location})
}

/// Types that stand for a schema and for nothing else. Behind `with`: the types that it refers to.
macro_rules! schemas {
    ($($name:ident = $schema:expr $(, with $($other:ty),+)?;)+) => {
        $(
            pub(crate) enum $name {}

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    schema_of($schema)
                }
            }

            impl ToSchema for $name {
                fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                    let _ = &schemas;
                    $($(
                        schemas.push((<$other>::name().into_owned(), <$other>::schema()));
                        <$other>::schemas(schemas);
                    )+)?
                }
            }
        )+
    };
}

schemas! {
    // What is told.
    Instant = json!({
        "type": "string", "format": "date-time",
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        "description": "An instant in UTC with milliseconds.",
    });
    EventId = json!({
        "type": "string", "pattern": "^uev_[0-9a-f]{64}$",
        "description": "An event's id, made of what it says. Unique within a space.",
    });
    Fingerprint = json!({
        "type": "string", "pattern": "^[0-9a-f]{64}$",
        "description": "Equal for the same facts under an id, different for others.",
    });
    SpaceName = json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$", "description": "A space's name."});
    Month = json!({"type": "string", "pattern": MONTH, "description": "A calendar month of UTC."});
    SubmissionId = json!({
        "type": "string", "pattern": "^sub_[A-Za-z0-9_-]{1,60}$",
        "description": "Which call sent an event: the client's own, if it sent one in Tollgate-Submission-Id.",
    });
    KeyId = json!({
        "type": "string", "pattern": "^[0-9a-f]{16}$",
        "description": "A key's name: the first 16 hex digits of its hash.",
    });
    Scopes = json!({
        "type": "array", "items": {"enum": Scope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>()},
        "uniqueItems": true, "maxItems": Scope::ALL.len(), "description": "What a key may do.",
    });
    QuotaPlan = json!({"enum": ["free", "plus"]});
    UsagePlan = json!({"enum": ["free", "plus", "internal"]});
    BilledAs = told(plan::BilledAs::ALL.iter().map(|as_what| as_what.as_str()));
    RejectedReason = told(plan::RejectedReason::ALL.iter().map(|reason| reason.as_str()));
    Check = json!({"enum": ["ok", "unavailable"]});
    ReadinessStatus = json!({"enum": ["ready", "not_ready"]});
    Health = json!({
        "type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}},
        "description": "The process is up.",
    });
    ErrorCode = json!({
        "enum": ErrorKind::ALL.iter().map(|kind| kind.row().code).collect::<Vec<_>>(),
        "description": "Stable, for programs. `not_found` and `method_not_allowed` are told where no operation is.",
    });
    ErrorType = json!({"type": "string", "pattern": format!("^{TYPE_PREFIX}[a-z_]+$")});
    Problem = json!({
        "type": "object", "required": ["code", "field", "problem", "mend"],
        "description": "One thing that is wrong with what was sent.",
        "properties": {
            "code": {"type": "string", "pattern": "^[a-z0-9_]+$", "description": "Stable, for programs."},
            "index": {
                "type": "integer", "minimum": 0,
                "description": "Position of the event in the call; absent when the problem is the call's own.",
            },
            "field": {
                "type": "string",
                "description": "Path of the field, such as `properties.items[2]`; empty for the whole.",
            },
            "problem": {"type": "string", "minLength": 1, "description": "What is wrong."},
            "mend": {"type": "string", "minLength": 1, "description": "What to send instead."},
        },
    });
    Problems = json!({
        "type": "array", "minItems": 1, "maxItems": MAX_PROBLEMS_TOLD, "items": reference::<Problem>(),
    }), with Problem;
    Results = json!({
        "type": "array", "minItems": 1, "maxItems": max_events(), "items": reference::<EventResult>(),
    }), with EventResult;
    MaybeQuota = json!({
        "description": "Why the plan takes no more events, where that is what stops some.",
        "anyOf": [reference::<Quota>(), {"not": {"required": ["plan"]}}],
    }), with Quota;
    MaybeKnown = json!({
        "description": "What the ledger holds of an event, unless it does not know it.",
        "anyOf": [reference::<Known>(), {"properties": {"status": {"const": StandingStatus::Unknown}}}],
    }), with Known;

    // What is sent.
    JsonValue = json!({
        "type": ["null", "boolean", "number", "string", "array", "object"],
        "minimum": -safe(), "maximum": safe(),
        "items": reference::<Self>(), "additionalProperties": reference::<Self>(),
        "description": format!(
            "Any JSON with numbers that doubles hold, without a name twice in an object, and within the limits of an \
             event: {MAX_DEPTH} levels, {MAX_MEMBERS} members of objects and {MAX_ITEMS} items of arrays in all, \
             {MAX_STRING_BYTES} bytes a string."
        ),
    });
    Moment = json!({
        "type": "string", "format": "date-time",
        "pattern": format!(
            r"^(?:[0-8][0-9]|9[0-8])[0-9]{{2}}-(?:0[1-9]|1[0-2])-{DAY}T{HOUR}:{SIXTY}:{SIXTY}(?:\.[0-9]{{1,3}})?(?:Z|[+-]{HOUR}:{SIXTY})$"
        ),
        "description": format!(
            "An instant with at most milliseconds and an offset, of a day that exists and at most {} minutes ahead of \
             the front door's clock.", MAX_AHEAD_MS / 60_000
        ),
    });
    Event = json!({
        "type": "object", "additionalProperties": false,
        "required": ["meter", "subject", "occurredAt", "quantity"],
        "description": format!(
            "One billable fact, in Tollgate's own form. Its canonical JSON (RFC 8785) takes at most {MAX_EVENT_BYTES} \
             bytes."
        ),
        "properties": {
            "meter": text(MAX_METER_CHARS, "What is counted."),
            "subject": text(MAX_TEXT_CHARS, "For whom it is counted, such as a customer's id."),
            "occurredAt": reference::<Moment>(),
            "quantity": {
                "type": "integer", "minimum": 1, "maximum": safe(),
                "description": "How much happened, written without a decimal point. The unit of billing is the event.",
            },
            "source": {
                "type": ["string", "null"], "maxLength": MAX_TEXT_CHARS, "pattern": PRINTABLE,
                "description": "Where it was observed. Empty, null and absent are the same.",
            },
            "properties": {
                "type": ["object", "null"], "additionalProperties": reference::<JsonValue>(),
                "description": "Whatever else is to be told of it. Empty, null and absent are the same.",
            },
            "idempotencyKey": {
                "type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT_CHARS, "pattern": PRINTABLE,
                "description": "The id of the work that is counted. With it the event's id is made of meter, subject \
                    and key; without it, of all facts.",
            },
        },
    }), with Moment, JsonValue;
    Call = json!({
        "description": format!("One event, or up to {} of them.", max_events()),
        "oneOf": [reference::<Event>(), batch_of(&reference::<Event>())],
    }), with Event;
    CloudEvent = json!({
        "type": "object", "additionalProperties": reference::<JsonValue>(),
        "required": ["specversion", "id", "source", "type", "subject", "time"],
        "description": "A CloudEvent 1.0 that is a billable fact. Other attributes are taken and ignored.",
        "properties": {
            "specversion": {"const": SPEC_VERSION},
            "id": joined_text("Names the event together with `source`."),
            "source": joined_text("Where the event comes from."),
            "type": text(MAX_METER_CHARS, "The meter: what is counted."),
            "subject": text(MAX_TEXT_CHARS, "For whom it is counted."),
            "time": reference::<Moment>(),
            "datacontenttype": {
                "type": ["string", "null"], "pattern": JSON_MEDIA_TYPE,
                "description": "A media type of JSON.",
            },
            "data": reference::<CloudData>(),
            "data_base64": {"type": "null", "description": "Not taken: data is JSON here."},
            "quantity": {
                "description": "An extension attribute, for events whose data has none. If both are there, they are equal.",
                "anyOf": [
                    {"type": ["integer", "null"], "minimum": 1, "maximum": safe()},
                    {"type": "string", "pattern": format!("^{}$", decimals_to(MAX_SAFE_INTEGER))},
                ],
            },
        },
    }), with Moment, CloudData, JsonValue;
    CloudData = json!({
        "type": ["object", "null"], "additionalProperties": reference::<JsonValue>(),
        "properties": {
            "quantity": {
                "type": ["integer", "null"], "minimum": 1, "maximum": safe(),
                "description": "How much happened: 1 if it stands neither here nor in the attribute.",
            },
        },
        "description": "The event's properties, unchanged.",
    }), with JsonValue;
    CloudEventBatch = batch_of(&reference::<CloudEvent>()), with CloudEvent;
    IdempotencyKey = json!({
        "type": "string",
        "pattern": format!(
            r#"^(?:"(?:[ !#-\[\]-~]|\\["\\]){{1,{MAX_KEY_CHARS}}}"|[A-Za-z0-9!#$%&'*+.^_`|~:/=-]{{1,{MAX_KEY_CHARS}}})$"#
        ),
        "description": "A structured-field string, or the same characters without quotes.",
    });
}

/// The months that `PeriodMonth` reads.
pub(crate) const MONTH: &str = "^(?:[0-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])-(?:0[1-9]|1[0-2])$";

/// The headers that carry a CloudEvent in binary mode, each with its schema and whether it must be there.
pub(crate) fn cloud_event_headers() -> [(&'static str, bool, Value); 7] {
    let text = |what| json!({"type": "string", "pattern": HEADER_TEXT, "description": what});
    [
        ("ce-specversion", true, json!({"const": SPEC_VERSION})),
        ("ce-id", true, text("Names the event together with ce-source.")),
        ("ce-source", true, text("Where the event comes from.")),
        ("ce-type", true, text("The meter: what is counted.")),
        ("ce-subject", true, text("For whom it is counted.")),
        ("ce-time", true, reference::<Moment>()),
        (
            "ce-quantity",
            false,
            json!({"type": "string", "pattern": format!("^{}$", decimals_to(MAX_SAFE_INTEGER)),
                "description": "How much happened, if the data does not say it."}),
        ),
    ]
}

/// Events of one call.
fn max_events() -> usize {
    IntakeConfig::default().max_events
}

/// The largest magnitude of a number that is taken, which is one that JSON's readers agree about.
fn safe() -> i64 {
    i64::try_from(MAX_SAFE_INTEGER).unwrap_or(i64::MAX)
}

fn told<'a>(stored: impl Iterator<Item = &'a str>) -> Value {
    json!({"enum": stored.map(str::to_ascii_lowercase).collect::<Vec<_>>()})
}

fn text(max_chars: usize, what: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": max_chars, "pattern": PRINTABLE, "description": what})
}

/// `id` or `source`: as long as the other one, of one character, leaves it.
fn joined_text(what: &str) -> Value {
    let around = idempotency_key("x", "").chars().count();
    let what = format!("{what} `[\"source\",\"id\"]` as JSON has at most {MAX_TEXT_CHARS} characters.");
    text(MAX_TEXT_CHARS.saturating_sub(around), &what)
}

fn batch_of(event: &Value) -> Value {
    json!({"type": "array", "minItems": 1, "maxItems": max_events(), "items": event})
}

/// A pattern for the decimals from 1 to `max`, without leading zeros.
fn decimals_to(max: u64) -> String {
    let max = max.to_string();
    let shorter = max.len().saturating_sub(2);
    let mut forms = vec![format!("[1-9][0-9]{{0,{shorter}}}")];
    // As long as `max`, equal to it up to a digit, there smaller, and then any.
    for (at, digit) in max.bytes().enumerate() {
        let least = if at == 0 { b'1' } else { b'0' };
        if digit > least {
            let (head, rest) = (max.get(..at).unwrap_or_default(), max.len().saturating_sub(at).saturating_sub(1));
            let (least, most) = (char::from(least), char::from(digit.saturating_sub(1)));
            forms.push(format!("{head}[{least}-{most}][0-9]{{{rest}}}"));
        }
    }
    forms.push(max);
    format!("(?:{})", forms.join("|"))
}
