//! From events to calls: the bytes that are sent, and sent again.

use std::ops::Range;

use bytes::Bytes;
use http::HeaderValue;
use uuid::Uuid;

/// Events of one call.
pub(crate) const MAX_CALL_EVENTS: usize = 500;
/// Bytes of one call's body: 1 MiB.
pub(crate) const MAX_CALL_BYTES: usize = 1024 * 1024;

/// Names one call in the ledger: the same for every attempt, so that the ledger, which keeps the id of the submission
/// that won the claim, can tell a call's own retry from somebody else's duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubmissionId(String);

impl SubmissionId {
    /// One that no other call has.
    pub(crate) fn new() -> Self {
        Self(format!("sub_{}", Uuid::now_v7().simple()))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::try_from(&self.0).unwrap_or_else(|_| unreachable!("hex digits fit into a header"))
    }
}

/// Some of a batch's events, for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// To be sent.
    Events(
        /// Which events of the batch.
        Range<usize>,
    ),
    /// One event that is larger than any call may be.
    TooLarge {
        /// Its place in the batch.
        index: usize,
        /// Its own bytes.
        bytes: usize,
    },
}

/// The calls of a batch whose events have these JSON texts: in order, as few as the limits allow.
pub(crate) fn calls_of(texts: &[String]) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut start = 0;
    while let Some(rest) = texts.get(start..).filter(|rest| !rest.is_empty()) {
        let count = events_that_fit(rest);
        if count == 0 {
            let bytes = rest.first().map_or(0, String::len);
            calls.push(Call::TooLarge { index: start, bytes });
            start += 1;
            continue;
        }
        calls.push(Call::Events(start..start + count));
        start += count;
    }
    calls
}

/// The JSON array of these events' texts.
pub(crate) fn body_of(texts: &[impl AsRef<str>]) -> Bytes {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    Bytes::from(format!("[{}]", texts.join(",")))
}

/// How many of `texts`, from the first on, one call can carry.
fn events_that_fit(texts: &[String]) -> usize {
    // The brackets are two bytes and the commas one less than the events: as if each event had one, and one more.
    let mut bytes = 1;
    let fits = |text: &&String| {
        bytes += text.len() + 1;
        bytes <= MAX_CALL_BYTES
    };
    texts.iter().take(MAX_CALL_EVENTS).take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[String]) -> Vec<(Range<usize>, usize)> {
        calls_of(texts)
            .into_iter()
            .map(|call| match call {
                Call::Events(events) => (events.clone(), body_of(&texts[events]).len()),
                Call::TooLarge { index, .. } => (index..index, 0),
            })
            .collect()
    }

    #[test]
    fn a_batch_is_split_by_count() {
        let texts = vec!["{}".to_owned(); 1_001];
        assert_eq!(ranges(&texts), [(0..500, 1_501), (500..1_000, 1_501), (1_000..1_001, 4)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn a_batch_is_split_by_bytes_exactly_at_the_limit() {
        let half = "x".repeat((MAX_CALL_BYTES - 3) / 2);
        let exact = [half.clone(), format!("{half}x")];
        assert_eq!(ranges(&exact), [(0..2, MAX_CALL_BYTES)]);
        let one_more = [half.clone(), format!("{half}xx")];
        assert_eq!(ranges(&one_more).len(), 2);
    }

    #[test]
    fn an_event_larger_than_a_call_stands_alone_and_stops_no_other() {
        let texts = ["{}".to_owned(), "x".repeat(MAX_CALL_BYTES), "{}".to_owned()];
        assert_eq!(ranges(&texts), [(0..1, 4), (1..1, 0), (2..3, 4)]);
    }
}
