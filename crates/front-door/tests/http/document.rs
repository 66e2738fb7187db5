//! What the OpenAPI document says of an answer, held against the answer.

use std::collections::HashMap;
use std::sync::LazyLock;

use http::Method;
use jsonschema::Validator;
use serde_json::{Value, json};
use tollgate_front_door::openapi;

use crate::fakes::Answer;

/// The document.
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(openapi::document()).unwrap());

/// What is described of one answer.
struct Described {
    media_type: String,
    body: Validator,
    headers: Vec<(String, Validator)>,
    required: Vec<String>,
}

static ANSWERS: LazyLock<HashMap<(String, u16), Described>> = LazyLock::new(|| {
    let described = operations().flat_map(|(id, operation)| {
        let responses = operation["responses"].as_object().unwrap().iter();
        responses.map(move |(status, response)| ((id.to_owned(), status.parse().unwrap()), describe(response)))
    });
    described.collect()
});

fn describe(response: &Value) -> Described {
    let (media_type, content) = response["content"].as_object().unwrap().iter().next().unwrap();
    let headers: Vec<_> =
        response["headers"].as_object().unwrap().iter().map(|(name, header)| (name, resolved(header))).collect();
    let required = headers.iter().filter(|(_, header)| header["required"] == true);
    Described {
        media_type: media_type.clone(),
        body: validator(&content["schema"]),
        required: required.map(|(name, _)| (*name).clone()).collect(),
        headers: headers.iter().map(|(name, header)| ((*name).clone(), validator(&header["schema"]))).collect(),
    }
}

/// Each operation, behind its id.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, &'static Value)> {
    let items = DOCUMENT["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    items.map(|operation| (operation["operationId"].as_str().unwrap(), operation))
}

/// What a reference stands for.
fn resolved(value: &Value) -> &Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

/// A validator of one of the document's schemas.
pub(crate) fn validator(schema: &Value) -> Validator {
    let root = json!({"components": DOCUMENT["components"], "allOf": [schema]});
    jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&root).unwrap()
}

/// The operations of a path.
fn template_of(path: &str) -> Option<&'static Value> {
    let id = path.strip_prefix("/v1/events/").filter(|id| !id.is_empty() && !id.contains('/'));
    DOCUMENT["paths"].get(if id.is_some() { "/v1/events/{id}" } else { path })
}

/// The operation that serves a request, if one does.
fn operation_at(method: &Method, path: &str) -> Option<&'static str> {
    template_of(path)?.get(method.as_str().to_lowercase())?["operationId"].as_str()
}

/// Fails unless the answer is one that the document describes.
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation_at(method, path) else {
        let code = if template_of(path).is_some() { "method_not_allowed" } else { "not_found" };
        assert!(*method == Method::HEAD || answer.code() == code, "{method} {path}: {}", answer.body);
        return;
    };
    let key = (operation.to_owned(), answer.status);
    assert!(ANSWERS.contains_key(&key), "{key:?} is not in the document: {}", answer.body);
    let described = &ANSWERS[&key];
    assert_eq!(answer.header("content-type"), Some(described.media_type.as_str()), "{key:?}");
    let wrong: Vec<String> =
        described.body.iter_errors(&answer.body).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{key:?}: {wrong:?} in {}", answer.body);
    for name in &described.required {
        assert!(answer.header(name).is_some(), "{key:?} without {name}");
    }
    for (name, schema) in &described.headers {
        let value = answer.header(name).map(|text| text.parse::<u64>().map_or(json!(text), |number| json!(number)));
        let typed = value.map(|value| schema.is_valid(&value) || schema.is_valid(&json!(answer.header(name))));
        assert_ne!(typed, Some(false), "{key:?}: {name}: {:?}", answer.header(name));
    }
}
