//! Input files: one JSON object a line, an event with its space.

use serde_json::Value;
use tollgate_domain::event::Event;
use tollgate_domain::json;
use tollgate_domain::problem::Problem;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::sent::Sent;

/// Reads every line of an input file, or tells what is wrong with the first bad one.
pub fn read_lines(text: &str, accepted_at: UtcMillis) -> Result<Vec<Sent>, Vec<Problem>> {
    text.lines().map(|line| read_line(line, accepted_at)).collect()
}

fn read_line(line: &str, accepted_at: UtcMillis) -> Result<Sent, Vec<Problem>> {
    let mut value = json::parse(line.as_bytes())?;
    let space = value.as_object_mut().and_then(|fields| fields.remove("space"));
    let space = space.as_ref().and_then(Value::as_str).and_then(|name| SpaceId::parse(name).ok());
    let mend = "name the space that sends the line";
    let space = space.ok_or_else(|| vec![Problem::new("wrong_space", "space", "is not a space's name", mend)])?;
    Ok(Sent { space, event: Event::from_value(&value, accepted_at)?, accepted_at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::State;

    #[test]
    fn a_line_is_an_event_with_its_space() {
        let good = r#"{"space":"acme","meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1}"#;
        let now = State::default().now;
        assert_eq!(read_lines(&format!("{good}\n{good}\n"), now).unwrap().len(), 2);
        for (bad, field) in [(good.replace("acme", "A"), "space"), (good.replace(":1}", ":0}"), "quantity")] {
            assert_eq!(read_lines(&bad, now).unwrap_err()[0].field, field);
        }
    }
}
