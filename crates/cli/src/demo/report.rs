//! What a person sees of the demo: progress while it runs, a table at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;
use tollgate_domain::period::PeriodMonth;
use tollgate_domain::space::SpaceId;

use crate::demo::traffic::Source;
use crate::expected::{ConflictingIds, Expected, SpaceCounts};
use crate::output::{self, line, note, table};
use crate::stack::StackRecord;

/// Two bars: events queued, and events done.
pub(crate) struct Passage {
    queued: ProgressBar,
    done: ProgressBar,
}

impl Passage {
    pub(crate) fn new(lines: u64) -> Self {
        let bars = MultiProgress::new();
        let style = |text| ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = |text| bars.add(ProgressBar::new(lines).with_style(style(text)));
        Self {
            queued: bar("queued {bar:32} {pos}/{len}  {per_sec}"),
            done: bar("done   {bar:32} {pos}/{len}  {elapsed}  {msg}"),
        }
    }

    /// `lines` more are queued.
    pub(crate) fn queued(&self, lines: u64) {
        self.queued.inc(lines);
    }

    /// `left` messages are still in the queue, and so many workers were killed; tells how many events are done.
    pub(crate) fn left(&self, left: u64, kills: u64) -> u64 {
        let done = self.queued.position().saturating_sub(left);
        self.done.set_position(done);
        self.done.set_message(format!("{kills} workers killed"));
        done
    }

    pub(crate) fn finish(&self) {
        self.queued.abandon();
        self.done.abandon();
    }
}

/// The comparison of what is there with what must be.
pub(crate) struct Report<'a> {
    expected: &'a Expected,
    counts: &'a BTreeMap<SpaceId, SpaceCounts>,
    differences: Vec<String>,
    kills: u64,
    month: PeriodMonth,
    elapsed: Duration,
    /// Whether everything agrees.
    pub(crate) ok: bool,
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        source: &'a Source,
        counts: &'a BTreeMap<SpaceId, SpaceCounts>,
        kills: u64,
        month: PeriodMonth,
        elapsed: Duration,
    ) -> Self {
        let expected = &source.expected;
        let differences = expected.differences(counts);
        let ok = differences.is_empty();
        Self { expected, counts, differences, kills, month, elapsed, ok }
    }

    /// Prints the table and the verdict; with `as_json`, to stderr, and one JSON object to stdout.
    pub(crate) fn print(&self, as_json: bool, record: &StackRecord) -> anyhow::Result<()> {
        let tell = |text: String| if as_json { note(text) } else { line(text) };
        tell(self.table());
        tell(format!(
            "{} workers were killed while they worked, in {} s. Ledger and meter are counted in DynamoDB, payloads in S3, rows \
             in ClickHouse; strays are payloads or rows that no inserted event accounts for.",
            self.kills,
            self.elapsed.as_secs()
        ));
        for difference in &self.differences {
            tell(format!("DIFFERS  {difference}"));
        }
        tell(if self.ok {
            "Every event was charged exactly once or rejected for a full month or an inactive plan; every charged event is \
             archived and stored; no repeat, no kill and no conflict changed a count."
                .to_owned()
        } else {
            format!("{} count(s) differ from what they must be.", self.differences.len())
        });
        tell(format!(
            "The stack {name:?} stays up: look around with `tollgate usage SPACE --stack {name}`, run the demo again (nothing \
             may change), or stop it with `tollgate down --stack {name}`.",
            name = record.name
        ));
        if as_json {
            output::json(&json!({
                "ok": self.ok,
                "month": self.month,
                "kills": self.kills,
                "seconds": self.elapsed.as_secs(),
                "spaces": self.counts,
                "differences": self.differences,
            }))?;
        }
        Ok(())
    }

    /// One row a space: each count as it is, and as it must be.
    fn table(&self) -> String {
        let rows = self.expected.spaces.iter().map(|(space, expected)| {
            let counted = self.counts.get(space).copied().unwrap_or_default();
            let cell = |counted: u64, expected: u64| {
                let sign = if counted == expected { "=" } else { "≠" };
                format!("{counted} {sign} {expected}")
            };
            let limit = expected.limit.map(|limit| format!(", limit {limit}")).unwrap_or_default();
            let conflicts = expected.conflicting_ids.as_ref().map(ConflictingIds::count);
            vec![
                space.to_string(),
                format!("{}{limit}", String::from(expected.plan)),
                cell(counted.lines, expected.lines),
                cell(counted.distinct, expected.distinct),
                cell(counted.inserted, expected.inserted),
                cell(counted.rejected, expected.rejected),
                cell(counted.meter, expected.meter),
                cell(counted.archived, expected.inserted),
                cell(counted.rows, expected.inserted),
                cell(counted.billing_rows, expected.inserted),
                cell(counted.strays, 0),
                conflicts
                    .map_or_else(|| counted.conflicting_ids.to_string(), |told| cell(counted.conflicting_ids, told)),
            ]
        });
        let head = [
            "space",
            "plan",
            "sent",
            "distinct",
            "inserted",
            "rejected",
            "meter",
            "archived",
            "rows",
            "billing",
            "strays",
            "conflicts",
        ];
        format!(
            "Each count as it is = as it must be; sent and distinct from the input, all else from the engines\n{}",
            table(&head, rows)
        )
    }
}
