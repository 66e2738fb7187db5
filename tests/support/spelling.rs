//! Many texts of one JSON value.

use serde_json::{Number, Value};

use crate::traffic::Random;

/// A JSON text of `value`, spelled at random: order of keys, white space, forms of numbers, escapes.
pub fn spell(value: &Value, random: &mut Random) -> String {
    let mut text = String::new();
    spell_into(value, random, &mut text);
    text
}

fn spell_into(value: &Value, random: &mut Random, text: &mut String) {
    space_into(random, text);
    match value {
        Value::Null | Value::Bool(_) => text.push_str(&value.to_string()),
        Value::Number(number) => text.push_str(&spell_number(number, random)),
        Value::String(string) => spell_string_into(string, random, text),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { "," });
                spell_into(item, random, text);
            }
            space_into(random, text);
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            random.shuffle(&mut fields);
            text.push('{');
            for (place, (key, item)) in fields.into_iter().enumerate() {
                text.push_str(if place == 0 { "" } else { "," });
                space_into(random, text);
                spell_string_into(key, random, text);
                space_into(random, text);
                text.push(':');
                spell_into(item, random, text);
            }
            space_into(random, text);
            text.push('}');
        }
    }
    space_into(random, text);
}

fn space_into(random: &mut Random, text: &mut String) {
    for _ in 0..random.below(3) {
        text.push([' ', '\t', '\n', '\r'][random.below(4)]);
    }
}

fn spell_number(number: &Number, random: &mut Random) -> String {
    let plain = number.to_string();
    let has_exponent = plain.contains('e');
    let has_point = plain.contains('.');
    let zero = number.as_f64() == Some(0.0);
    match random.below(5) {
        1 if zero => ["-0", "0.0", "-0.0e5", "0e-7"][random.below(4)].to_owned(),
        1 if !has_exponent && !has_point => format!("{plain}.0"),
        2 if !has_exponent => format!("{plain}e0"),
        3 if !has_exponent => format!("{plain}E+00"),
        4 if !has_exponent && !has_point && !zero => format!("{plain}0e-1"),
        4 if has_point && !has_exponent => format!("{plain}000"),
        _ => plain,
    }
}

fn spell_string_into(string: &str, random: &mut Random, text: &mut String) {
    text.push('"');
    for char in string.chars() {
        let must_escape = char == '"' || char == '\\' || char < ' ';
        let short = match char {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            '\t' => Some("\\t"),
            '\r' => Some("\\r"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            _ => None,
        };
        match (random.below(3), short) {
            (1, Some(short)) => text.push_str(short),
            (0, _) | (2, None) if !must_escape => text.push(char),
            _ => {
                let is_upper = random.percent(50);
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let digits = format!("{unit:04x}");
                    text.push_str("\\u");
                    text.push_str(&if is_upper { digits.to_uppercase() } else { digits });
                }
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_value_has_many_spellings() {
        let value = serde_json::json!({"a": [1, 0, 2.5, 1e-9], "é/\n\"🦀": null});
        let mut random = Random::new(5);
        let texts: BTreeSet<String> = (0..200).map(|_| spell(&value, &mut random)).collect();
        assert!(texts.len() > 190, "{}", texts.len());
        for form in ["1.0", "1e0", "1E+00", "10e-1", "-0", "2.5000", "\\/", "\\n", "\\ud83e\\udd80", "\\uD83E", "🦀"]
        {
            assert!(texts.iter().any(|text| text.contains(form)), "{form} never came");
        }
    }
}
