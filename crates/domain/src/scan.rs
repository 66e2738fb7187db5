//! A look at a text's bytes before anything is made of them.
//!
//! One pass without recursion and without memory of its own. It knows strings, brackets, colons and commas and nothing
//! else of JSON: whether the text is JSON is the reader's to say. What it bounds is what the reader would have to build.

use crate::event::MAX_EVENT_BYTES;
use crate::problem::Problem;

/// Levels of arrays and objects that a call's text may nest. Above what any event may nest, so that the reader, which
/// knows the field, tells of the few levels too many; below what could cost a reader its stack.
pub const MAX_LEVELS: usize = 64;
/// Members of all objects of one event together, however they nest.
pub const MAX_MEMBERS: usize = 1_000;
/// Items of all arrays of one event together, however they nest; the first of each is not counted.
pub const MAX_ITEMS: usize = 10_000;
/// Bytes between the quotes of one string, as they are sent: a text as long as an event may be, of characters that take
/// two bytes and are sent as six (`\u00e9`).
pub const MAX_STRING_BYTES: usize = 3 * MAX_EVENT_BYTES;

/// Where the scan stands.
#[derive(Default)]
struct Scan {
    levels: usize,
    /// One bit a level, the innermost the lowest: whether it is an array.
    arrays: u64,
    /// Elements of the array at the root, so far; nothing while the root is no array.
    elements: Option<usize>,
    members: usize,
    items: usize,
}

/// Elements of the array at the root, `None` when the root is none; or the first limit that is passed, with its value,
/// its place and its event.
///
/// The number is right for every text that is JSON, and for no other.
pub fn scan(bytes: &[u8]) -> Result<Option<usize>, Problem> {
    let mut scan = Scan::default();
    let mut at: usize = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let length = string_length(bytes.get(at.saturating_add(1)..).unwrap_or_default());
                if length > MAX_STRING_BYTES {
                    let what = format!("has a string of {length} bytes, more than {MAX_STRING_BYTES},");
                    return Err(scan.over("string_too_long", &what, at, "keep large content elsewhere"));
                }
                at = at.saturating_add(length).saturating_add(1);
            }
            b'[' | b'{' if scan.levels == MAX_LEVELS => {
                let what = format!("nests deeper than {MAX_LEVELS} levels");
                return Err(scan.over("nested_too_deep", &what, at, "send a flatter structure"));
            }
            b'[' => scan.open(true),
            b'{' => scan.open(false),
            b']' | b'}' => {
                scan.levels = scan.levels.saturating_sub(1);
                scan.arrays >>= 1;
            }
            b':' => scan.members = scan.members.saturating_add(1),
            b',' => scan.separate(),
            b' ' | b'\t' | b'\n' | b'\r' => {
                at = at.saturating_add(1);
                continue;
            }
            _ => {}
        }
        // The first thing inside of an array at the root, an empty string too, is its first element.
        if scan.elements == Some(0) && !(scan.levels == 1 && *byte == b'[') && *byte != b']' {
            scan.elements = Some(1);
        }
        for (count, max, code, name) in [
            (scan.members, MAX_MEMBERS, "too_many_members", "members of objects"),
            (scan.items, MAX_ITEMS, "too_many_items", "items of arrays"),
        ] {
            if count > max {
                let what = format!("has more than {max} {name}");
                return Err(scan.over(code, &what, at, "send fewer, or several events"));
            }
        }
        at = at.saturating_add(1);
    }
    Ok(scan.elements)
}

impl Scan {
    fn open(&mut self, is_array: bool) {
        if self.levels == 0 && self.elements.is_none() && is_array {
            self.elements = Some(0);
        }
        self.levels = self.levels.saturating_add(1);
        self.arrays = (self.arrays << 1) | u64::from(is_array);
    }

    fn separate(&mut self) {
        match (self.levels, &mut self.elements) {
            (1, Some(elements)) => {
                *elements = elements.saturating_add(1);
                // The next event begins.
                (self.members, self.items) = (0, 0);
            }
            _ if self.arrays & 1 == 1 => self.items = self.items.saturating_add(1),
            _ => {}
        }
    }

    fn over(&self, code: &'static str, what: &str, at: usize, mend: &str) -> Problem {
        let index = self.elements.map_or(0, |elements| elements.saturating_sub(1));
        Problem::new(code, "", format!("{what} at byte {at} of the body"), mend).at(index)
    }
}

/// Bytes up to the closing quote, or up to the end of the text.
fn string_length(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    let ends = |byte: &u8| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    };
    rest.iter().position(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn found(text: &str) -> Option<(&'static str, Option<usize>)> {
        scan(text.as_bytes()).err().map(|problem| (problem.code, problem.index))
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", r#"{"a":["#.repeat(levels / 2), "]}".repeat(levels / 2))
    }

    fn object(members: usize) -> String {
        let members: Vec<String> = (0..members).map(|n| format!("\"{n}\":0")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn items(count: usize) -> String {
        format!("[{}]", vec!["0"; count].join(","))
    }

    fn string(bytes: usize) -> String {
        format!("\"{}\"", "x".repeat(bytes))
    }

    #[test]
    fn each_limit_is_exact_and_told_with_its_place_and_event() {
        for (fits, over, code) in [
            (nested(MAX_LEVELS - 2), nested(MAX_LEVELS), "nested_too_deep"),
            (object(MAX_MEMBERS), object(MAX_MEMBERS + 1), "too_many_members"),
            (
                format!("{{\"a\":{}}}", items(MAX_ITEMS + 1)),
                format!("{{\"a\":{}}}", items(MAX_ITEMS + 2)),
                "too_many_items",
            ),
            (string(MAX_STRING_BYTES), string(MAX_STRING_BYTES + 1), "string_too_long"),
        ] {
            assert_eq!(found(&fits), None, "{code}");
            assert_eq!(found(&format!("[{fits},{fits}]")), None, "{code}: of each event by itself");
            if code != "nested_too_deep" {
                assert_eq!(found(&over), Some((code, Some(0))));
            }
            assert_eq!(found(&format!("[{fits}, {over}]")), Some((code, Some(1))));
        }
        let problem = scan(format!("[1,{}]", string(MAX_STRING_BYTES + 1)).as_bytes()).unwrap_err();
        assert_eq!(problem.problem, "has a string of 196609 bytes, more than 196608, at byte 3 of the body");
        assert_eq!(found(&nested(MAX_LEVELS)), None);
        assert_eq!(found(&"[".repeat(1_000_000)), Some(("nested_too_deep", Some(0))));
    }

    #[test]
    fn an_array_s_items_are_counted_behind_whatever_stands_in_it_and_an_object_s_members_are_none() {
        let array_of = |item: &str, count: usize| format!("{{\"a\":[{}]}}", vec![item; count].join(","));
        for item in ["[]", "{}", "[[]]", "{\"b\":[1]}", "1"] {
            let members = usize::from(item.contains(':')) * MAX_ITEMS;
            let over = found(&array_of(item, MAX_ITEMS + 2)).map(|(code, _)| code);
            let expected = if members > MAX_MEMBERS { "too_many_members" } else { "too_many_items" };
            assert_eq!(over, Some(expected), "{item}");
        }
        let many: Vec<String> = (0..MAX_MEMBERS - 1).map(|number| format!("\"m{number}\":1")).collect();
        let full = format!("{{\"a\":[{}],{}}}", vec!["1"; MAX_ITEMS + 1].join(","), many.join(","));
        assert_eq!(found(&full), None, "members are no items");
    }

    #[test]
    fn what_stands_in_a_string_counts_for_nothing() {
        let text = r#"":,[{\"]}\\""#;
        assert_eq!(scan(format!("[{text},{{{text}:{text}}},{text}]").as_bytes()), Ok(Some(3)));
        assert_eq!(found(&format!("[\"{}\"]", "[{:,".repeat(20_000))), None);
        assert_eq!(found(&format!("\"{}", "\\\"".repeat(MAX_STRING_BYTES / 2 + 1))).unwrap().0, "string_too_long");
    }

    #[test]
    fn elements_of_the_root_are_counted_as_the_reader_counts_them() {
        for text in
            ["[]", "[ ]", "[1]", "[[]]", "[[1,2],{\"a\":[1,2],\"b\":3}]", "[\"\",\"\"]", "[ {} , {} ]", "[[],[],[]]"]
        {
            let read = json::parse(text.as_bytes()).unwrap();
            assert_eq!(scan(text.as_bytes()), Ok(read.as_array().map(Vec::len)), "{text}");
        }
        for text in ["{}", "3", "\"[1,2]\"", "{\"a\":[1,2]}", "", "]]", "}{"] {
            assert_eq!(scan(text.as_bytes()), Ok(None), "{text}");
        }
    }
}
