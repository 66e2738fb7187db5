//! Which scenario rows and which verdicts some schedule came to: what was never reached was never shown.

use tollgate_domain::ledger::LedgerItem;
use tollgate_domain::scenario::{Facts, LedgerFact, RowFact, scenario_for};
use tollgate_worker::verdict::Verdict;

/// Every word that a verdict can have in a simulated loop. A panic is the real loop's own affair.
pub const VERDICTS: [&str; 17] = [
    "inserted",
    "rejected_limit_exhausted",
    "rejected_plus_inactive",
    "uninsertable",
    "conflict",
    "already_inserted",
    "already_rejected",
    "already_uninsertable",
    "no_answer",
    "not_now",
    "contended",
    "broken",
    "quarantined",
    "unsettled",
    "stopping",
    "dead_letter: halted",
    "dead_letter: unparseable",
];

/// Number of the decision table's rows.
const ROWS: u8 = 8;

/// Rows and verdicts, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    rows: u32,
    verdicts: u32,
}

impl Reached {
    pub(super) fn merge(&mut self, other: Self) {
        self.rows |= other.rows;
        self.verdicts |= other.verdicts;
    }

    /// The row that these facts lead to.
    pub(super) fn facts(&mut self, facts: Facts) {
        self.rows |= 1 << scenario_for(facts).number;
    }

    /// The row that a lost claim leads to without a probe.
    pub(super) fn lost_claim(&mut self, item: Option<&LedgerItem>) {
        match item {
            Some(item) if item.status.is_terminal() => self.facts(Facts::found(item, RowFact::NotAsked)),
            Some(_) => {}
            None => self.facts(Facts { ledger: LedgerFact::Unreadable, checkpoint: false, row: RowFact::NotAsked }),
        }
    }

    pub(super) fn verdict(&mut self, verdict: &Verdict) {
        self.word(match verdict {
            Verdict::Acknowledge(outcome) => outcome.as_str(),
            Verdict::HandBack(why) => why.as_str(),
            Verdict::DeadLetter(letter) if letter.reason.starts_with("unparseable") => "dead_letter: unparseable",
            Verdict::DeadLetter(_) => "dead_letter: halted",
        });
    }

    pub(super) fn word(&mut self, word: &str) {
        if let Some(place) = VERDICTS.iter().position(|known| *known == word) {
            self.verdicts |= 1 << place;
        }
    }

    /// Numbers of the rows that were reached.
    pub fn rows(&self) -> Vec<u8> {
        (1..=ROWS).filter(|row| self.rows & (1 << row) != 0).collect()
    }

    /// What no schedule came to.
    pub fn missing(&self) -> Vec<String> {
        let rows = (1..=ROWS).filter(|row| self.rows & (1 << row) == 0).map(|row| format!("scenario row {row}"));
        let verdicts = VERDICTS.iter().enumerate().filter(|(place, _)| self.verdicts & (1 << place) == 0);
        rows.chain(verdicts.map(|(_, word)| format!("verdict {word}"))).collect()
    }
}
