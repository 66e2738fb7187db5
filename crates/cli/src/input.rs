//! Files of events: JSON lines, plain or gzip.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use tollgate_domain::event::Event;
use tollgate_domain::identity::EventId;
use tollgate_domain::json;
use tollgate_domain::problem::Problem;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes of one line: an event of 64 KiB in its most wasteful spelling, six bytes a character.
const MAX_LINE_BYTES: u64 = 512 * 1024;

/// One checked line of a file.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Its place in the file, from 1.
    pub(crate) number: usize,
    /// Whose event, where the line says so.
    pub(crate) space: Option<SpaceId>,
    /// The event's id.
    pub(crate) id: EventId,
    /// The event, without the space.
    pub(crate) event: Value,
}

/// What is wrong with a line.
#[derive(Debug)]
pub(crate) struct BadLine {
    /// Its place in the file, from 1.
    pub(crate) number: usize,
    /// Every problem of it.
    pub(crate) problems: Vec<Problem>,
}

/// The lines of a file, each checked. Blank lines are passed over.
pub(crate) fn lines(
    path: &Path,
    now: UtcMillis,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Result<Line, BadLine>>>> {
    let mut reader = open(path)?;
    let path = path.to_path_buf();
    let mut number = 0;
    Ok(std::iter::from_fn(move || {
        loop {
            let mut text = Vec::new();
            let read = reader.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut text);
            match read.with_context(|| format!("{} cannot be read", path.display())) {
                Err(error) => return Some(Err(error)),
                Ok(0) => return None,
                Ok(_) => {}
            }
            number += 1;
            if text.len() as u64 > MAX_LINE_BYTES {
                return Some(Err(anyhow::anyhow!(
                    "{}: line {number} is longer than {MAX_LINE_BYTES} bytes",
                    path.display()
                )));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            return Some(Ok(parse(&text, number, now).map_err(|problems| BadLine { number, problems })));
        }
    }))
}

fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead + Send>> {
    let context = || format!("{} cannot be read", path.display());
    let mut file = File::open(path).with_context(context)?;
    let mut magic = [0; 2];
    let is_gzip = file.read_exact(&mut magic).is_ok() && magic == GZIP_MAGIC;
    file.seek(SeekFrom::Start(0)).with_context(context)?;
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(BufReader::new(file)) })
}

fn parse(text: &[u8], number: usize, now: UtcMillis) -> Result<Line, Vec<Problem>> {
    let mut value = json::parse(text)?;
    let space = match value.as_object_mut().and_then(|fields| fields.remove("space")) {
        None => None,
        Some(named) => Some(named.as_str().and_then(|name| SpaceId::parse(name).ok()).ok_or_else(|| {
            vec![Problem::new("invalid_space", "space", "is not a space's name", "use 1 to 64 of a-z, 0-9, - and _")]
        })?),
    };
    let event = Event::from_value(&value, now)?;
    Ok(Line { number, space, id: event.id(), event: value })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const GOOD: &str = r#"{"space":"acme","meter":"m","subject":"s","occurredAt":"2026-01-01T00:00:00Z","quantity":1}"#;

    fn read(bytes: &[u8]) -> Vec<Result<(Option<String>, bool), usize>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let now = UtcMillis::parse("2026-11-30T00:00:00Z").unwrap();
        lines(file.path(), now)
            .unwrap()
            .map(|line| match line.unwrap() {
                Ok(line) => Ok((line.space.map(|space| space.to_string()), line.event.get("space").is_some())),
                Err(bad) => Err(bad.number),
            })
            .collect()
    }

    #[test]
    fn plain_and_gzip_read_alike_and_the_space_is_not_part_of_the_event() {
        let text = format!("{GOOD}\n\n{GOOD}");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let expected = vec![Ok((Some("acme".to_owned()), false)); 2];
        assert_eq!(read(text.as_bytes()), expected);
        assert_eq!(read(&gzip.finish().unwrap()), expected);
        assert_eq!(read(b""), []);
    }

    #[test]
    fn a_bad_line_is_told_by_its_number() {
        assert_eq!(read(format!("{GOOD}\nx\n{}", GOOD.replace("acme", "ACME")).as_bytes())[1..], [Err(2), Err(3)]);
    }
}
