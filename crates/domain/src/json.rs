//! JSON in, strictly; canonical JSON out.
//!
//! Reading refuses whatever two readers could understand differently: an object that names a key twice, an integer
//! that a double cannot hold, a lone surrogate, bottomless nesting. Writing is RFC 8785: keys by UTF-16 code unit, the
//! ECMAScript form of numbers, no white space. A number *is* the double nearest to its text, as RFC 8785 has it: `1`,
//! `1.0` and `1e0` are one value, and so are `0` and `-0`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::Problem;

/// Largest magnitude of a number: 2^53 − 1. Beyond it doubles fold different integers into one.
pub const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;
/// Levels of arrays and objects that an event may nest, itself included; [`crate::event::Event::from_value`] holds it.
pub const MAX_DEPTH: usize = 32;
/// Levels that a text may nest: an event's, and those of whatever carries it (a batch, a message, an archived object).
pub const MAX_TEXT_DEPTH: usize = MAX_DEPTH + 4;
/// Problems reported for one text, or for one element of an array at the root: enough to mend it, bounded so that an
/// answer never outgrows its question. An element of which anything is refused has at least one.
pub const MAX_PROBLEMS: usize = 100;

const MAX_SAFE_DOUBLE: f64 = 9_007_199_254_740_991.0;

/// Reads one JSON text, or says everything that is wrong with it.
///
/// A problem inside an array at the root carries its element's index.
pub fn parse(bytes: &[u8]) -> Result<Value, Vec<Problem>> {
    match read(bytes) {
        (Some(value), problems) if problems.is_empty() => Ok(value),
        (_, problems) => Err(problems),
    }
}

/// Like [`parse`], but gives the value also when parts of it are refused, so that one answer can tell those and
/// whatever else is wrong. Refused parts stand as null; a value that came with problems is for nothing but that.
pub fn read(bytes: &[u8]) -> (Option<Value>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Node { path: &Path::Root, depth: 0, problems: &mut problems }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(value) => (Some(value), problems),
        Err(error) => {
            problems.push(Problem::new(
                "invalid_json",
                "",
                format!("is not valid JSON: {error}"),
                "send one JSON text in UTF-8 (RFC 8259)",
            ));
            (None, problems)
        }
    }
}

/// The RFC 8785 form of `value`.
///
/// Total for every value that [`parse`] returns: such a value has only finite numbers and well-formed text.
pub fn canonical(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value)
        .unwrap_or_else(|_| unreachable!("a parsed value holds only finite numbers"))
}

/// The RFC 8785 form of a text, quotes included.
pub fn canonical_text(text: &str) -> String {
    serde_json_canonicalizer::to_string(&text).unwrap_or_else(|_| unreachable!("text always has a JSON form"))
}

/// Levels of arrays and objects in a value; 0 for one that is neither. Bounded, as what [`parse`] reads is.
pub fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    deepest.unwrap_or_default().saturating_add(1)
}

/// What kind of JSON value this is, for error messages that must not quote the value.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Where in the text the reader stands; lives on the reader's stack, so that a good text costs no allocation for it.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// The index of the root array's element, and the path inside of it.
    fn split(&self) -> (Option<usize>, String) {
        match self {
            Self::Root => (None, String::new()),
            Self::Index(Self::Root, index) => (Some(*index), String::new()),
            Self::Index(parent, index) => {
                let (root, path) = parent.split();
                (root, format!("{path}[{index}]"))
            }
            Self::Key(parent, key) => {
                let (root, path) = parent.split();
                // A key is a sender's text of any length: the path shows its beginning.
                let key: String = key.chars().take(64).filter(|c| !c.is_control()).collect();
                (root, if path.is_empty() { key } else { format!("{path}.{key}") })
            }
        }
    }
}

struct Node<'a> {
    path: &'a Path<'a>,
    depth: usize,
    problems: &'a mut Vec<Problem>,
}

impl Node<'_> {
    fn report(&mut self, code: &'static str, problem: &str, mend: &str) {
        let (index, field) = self.path.split();
        // Problems come in the order of the text: those of one element stand together.
        let before = self.problems.len().checked_sub(MAX_PROBLEMS).and_then(|place| self.problems.get(place));
        if before.is_none_or(|problem| problem.index != index) {
            self.problems.push(Problem { index, ..Problem::new(code, field, problem, mend) });
        }
    }

    /// After a reported problem reading goes on, so that one answer tells all of them; the value is never used.
    fn refused_number(&mut self) -> Value {
        self.report(
            "number_out_of_range",
            "is a number beyond ±(2^53−1), which doubles cannot hold exactly",
            "send a smaller number, or the digits as a text",
        );
        Value::Null
    }

    fn is_too_deep(&mut self) -> bool {
        let too_deep = self.depth >= MAX_TEXT_DEPTH;
        if too_deep {
            self.report(
                "nested_too_deep",
                &format!("is nested deeper than {MAX_TEXT_DEPTH} levels"),
                "send a flatter structure",
            );
        }
        too_deep
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_u64<E>(mut self, value: u64) -> Result<Value, E> {
        Ok(if value > MAX_SAFE_INTEGER { self.refused_number() } else { Value::from(value) })
    }

    fn visit_i64<E>(mut self, value: i64) -> Result<Value, E> {
        Ok(if value.unsigned_abs() > MAX_SAFE_INTEGER { self.refused_number() } else { Value::from(value) })
    }

    fn visit_f64<E>(mut self, value: f64) -> Result<Value, E> {
        let in_range = value.abs() <= MAX_SAFE_DOUBLE;
        Ok(match Number::from_f64(value) {
            Some(number) if in_range => Value::Number(number),
            _ => self.refused_number(),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        if self.is_too_deep() {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut array = Vec::new();
        loop {
            let path = Path::Index(self.path, array.len());
            let depth = self.depth.saturating_add(1);
            match items.next_element_seed(Node { path: &path, depth, problems: self.problems })? {
                Some(item) => array.push(item),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        if self.is_too_deep() {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = Path::Key(self.path, &key);
            let depth = self.depth.saturating_add(1);
            let mut node = Node { path: &path, depth, problems: self.problems };
            if object.contains_key(&key) {
                node.report("duplicate_key", "is a key that stands twice in one object", "send each key once");
            }
            let value = entries.next_value_seed(node)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canon(text: &str) -> String {
        canonical(&parse(text.as_bytes()).unwrap())
    }

    fn codes(text: &[u8]) -> Vec<(&'static str, Option<usize>, String)> {
        parse(text).unwrap_err().into_iter().map(|p| (p.code, p.index, p.field)).collect()
    }

    #[test]
    fn what_is_refused_stands_as_null_so_that_the_rest_can_be_judged() {
        let (value, problems) = read(br#"{"a":1e300,"b":1}"#);
        assert_eq!(value, Some(serde_json::json!({"a": null, "b": 1})));
        assert_eq!((problems.len(), problems[0].field.as_str()), (1, "a"));
        assert_eq!(read(b"{").0, None);
    }

    #[test]
    fn a_kind_is_told_without_the_value() {
        let kinds = ["null", "true", "1", "\"x\"", "[]", "{}"].map(|text| kind(&parse(text.as_bytes()).unwrap()));
        assert_eq!(kinds, ["null", "a boolean", "a number", "a text", "an array", "an object"]);
    }

    #[test]
    fn one_value_has_one_form() {
        for (text, form) in [
            ("1.0", "1"),
            ("1e0", "1"),
            ("10e-1", "1"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("9007199254740991", "9007199254740991"),
            ("-9007199254740991", "-9007199254740991"),
            ("1e-7", "1e-7"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("333333333.33333329", "333333333.3333333"),
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (" [ 1 , 2 ] ", "[1,2]"),
            (r#""\u00e9\u0041\/""#, r#""éA/""#),
            (r#""\u0000\n\u001f""#, r#""\u0000\n\u001f""#),
            // UTF-16 order: U+1F600 is D83D DE00, before U+FB33, although its UTF-8 bytes come after.
            ("{\"\u{fb33}\":1,\"\u{1f600}\":2}", "{\"\u{1f600}\":2,\"\u{fb33}\":1}"),
        ] {
            assert_eq!(canon(text), form, "{text}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused_with_its_path() {
        let path = |code, index, field: &str| vec![(code, index, field.to_owned())];
        assert_eq!(codes(br#"{"a":{"b":1,"b":1}}"#), path("duplicate_key", None, "a.b"));
        assert_eq!(codes(br#"[{}, {"q":9007199254740992}]"#), path("number_out_of_range", Some(1), "q"));
        assert_eq!(codes(br#"{"q":[0,-9007199254740992]}"#), path("number_out_of_range", None, "q[1]"));
        assert_eq!(codes(br#"{"q":9223372036854775808}"#), path("number_out_of_range", None, "q"));
        assert_eq!(codes(br#"{"q":9007199254740993.0}"#), path("number_out_of_range", None, "q"));
        assert_eq!(codes(br#"{"q":1e300}"#), path("number_out_of_range", None, "q"));
        for text in [&b"{"[..], b"", b"{} {}", br#""\ud800""#, b"\"\xff\"", b"NaN", b"1e999", b"[1,]", b"'a'"] {
            assert_eq!(codes(text), path("invalid_json", None, ""), "{text:?}");
        }
    }

    #[test]
    fn every_problem_is_told_at_once() {
        assert_eq!(codes(br#"{"a":1e300,"b":[1e300],"a":1}"#).len(), 3);
    }

    #[test]
    fn nesting_is_bounded_far_and_near() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(nested(MAX_TEXT_DEPTH).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_TEXT_DEPTH + 1).as_bytes()).unwrap_err()[0].code, "nested_too_deep");
        assert!(parse(nested(100_000).as_bytes()).is_err());
    }
}
