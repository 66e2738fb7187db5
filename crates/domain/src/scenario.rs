//! The eight scenarios: durable facts in, entry point out.

use std::fmt;

use crate::ledger::{LedgerItem, Status};

/// What the ledger says of a delivery's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LedgerFact {
    /// This delivery won the claim just now.
    JustClaimed,
    /// The claim was lost to an item of this status.
    Found(Status),
    /// The claim was lost, and yet there is no item.
    Absent,
    /// The claim was lost to an item that this version cannot read.
    Unreadable,
}

/// What ClickHouse says of the event's row. Asked only when the ledger says `INSERTING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowFact {
    /// Nobody asked.
    NotAsked,
    /// In `events` and in `events_billing`.
    Present,
    /// Missing in at least one of the two.
    Absent,
}

/// The durable facts that decide, and nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// From the claim, or from the item that won it.
    pub ledger: LedgerFact,
    /// Whether the checkpoint stands on that item.
    pub checkpoint: bool,
    /// From the probe.
    pub row: RowFact,
}

impl Facts {
    /// The facts right after a won claim.
    pub const JUST_CLAIMED: Self = Self { ledger: LedgerFact::JustClaimed, checkpoint: false, row: RowFact::NotAsked };

    /// The facts of an item that another delivery claimed, and of its row.
    pub fn found(item: &LedgerItem, row: RowFact) -> Self {
        Self { ledger: LedgerFact::Found(item.status), checkpoint: item.checkpoint.is_some(), row }
    }
}

/// Where the pipeline is entered. The steps from there on always run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Accept billing, then everything after it.
    AcceptBilling,
    /// Archive, insert, then mark.
    ArchiveAndInsert,
    /// Only mark.
    MarkInserted,
    /// Nothing is left to do.
    Acknowledge,
    /// No acknowledgement, alarm, dead-letter queue.
    Halt,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcceptBilling => "accept billing",
            Self::ArchiveAndInsert => "archive and insert",
            Self::MarkInserted => "mark inserted",
            Self::Acknowledge => "acknowledge",
            Self::Halt => "halt: no ack, alarm, dead-letter queue",
        })
    }
}

/// One row of the table. `None` in a column means *any*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// Its place in the table, from 1.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// What the ledger must say.
    pub ledger: Option<LedgerFact>,
    /// Whether the checkpoint must stand.
    pub checkpoint: Option<bool>,
    /// What the probe must have said.
    pub row: Option<RowFact>,
    /// Where the pipeline is entered.
    pub entry: Entry,
}

const INSERTING: Option<LedgerFact> = Some(LedgerFact::Found(Status::Inserting));

/// The decision table: matched top to bottom, the first match wins, the last row matches everything.
#[rustfmt::skip]
pub const SCENARIOS: [Scenario; 8] = [
    Scenario { number: 1, name: "first delivery",         ledger: Some(LedgerFact::JustClaimed),                 checkpoint: Some(false), row: None,                   entry: Entry::AcceptBilling },
    Scenario { number: 2, name: "already inserted",       ledger: Some(LedgerFact::Found(Status::Inserted)),     checkpoint: None,        row: None,                   entry: Entry::Acknowledge },
    Scenario { number: 3, name: "already rejected",       ledger: Some(LedgerFact::Found(Status::Rejected)),     checkpoint: None,        row: None,                   entry: Entry::Acknowledge },
    Scenario { number: 4, name: "already uninsertable",   ledger: Some(LedgerFact::Found(Status::Uninsertable)), checkpoint: None,        row: None,                   entry: Entry::Acknowledge },
    Scenario { number: 5, name: "stored but not marked",  ledger: INSERTING,                                     checkpoint: None,        row: Some(RowFact::Present), entry: Entry::MarkInserted },
    Scenario { number: 6, name: "claimed but not billed", ledger: INSERTING,                                     checkpoint: Some(false), row: Some(RowFact::Absent),  entry: Entry::AcceptBilling },
    Scenario { number: 7, name: "billed but not stored",  ledger: INSERTING,                                     checkpoint: Some(true),  row: Some(RowFact::Absent),  entry: Entry::ArchiveAndInsert },
    ANYTHING_ELSE,
];

const ANYTHING_ELSE: Scenario =
    Scenario { number: 8, name: "anything else", ledger: None, checkpoint: None, row: None, entry: Entry::Halt };

impl Scenario {
    fn matches(&self, facts: Facts) -> bool {
        self.ledger.is_none_or(|ledger| ledger == facts.ledger)
            && self.checkpoint.is_none_or(|checkpoint| checkpoint == facts.checkpoint)
            && self.row.is_none_or(|row| row == facts.row)
    }

    /// The row's ledger column, in words.
    pub fn ledger_text(&self) -> &'static str {
        match self.ledger {
            None => "–",
            Some(LedgerFact::JustClaimed) => "just claimed",
            Some(LedgerFact::Found(status)) => status.as_str(),
            Some(LedgerFact::Absent) => "no item",
            Some(LedgerFact::Unreadable) => "unreadable",
        }
    }

    /// The row's checkpoint column, in words.
    pub fn checkpoint_text(&self) -> &'static str {
        match (self.number, self.checkpoint) {
            (8, _) => "–",
            (_, None) => "any",
            (_, Some(true)) => "present",
            (_, Some(false)) => "absent",
        }
    }

    /// The row's row column, in words.
    pub fn row_text(&self) -> &'static str {
        match self.row {
            None | Some(RowFact::NotAsked) => "–",
            Some(RowFact::Present) => "present",
            Some(RowFact::Absent) => "absent",
        }
    }
}

/// The first scenario that matches.
pub fn scenario_for(facts: Facts) -> &'static Scenario {
    SCENARIOS.iter().find(|scenario| scenario.matches(facts)).unwrap_or(&ANYTHING_ELSE)
}

/// The table as Markdown: the README's is this one, and a test compares them.
pub fn markdown_table() -> String {
    let line = |row: &Scenario| {
        let cells = [row.name, row.ledger_text(), row.checkpoint_text(), row.row_text()].join(" | ");
        format!("| {} | {cells} | {} |\n", row.number, row.entry)
    };
    let head = "| # | scenario | ledger | checkpoint | row | enter at |\n|---|---|---|---|---|---|\n";
    head.to_owned() + &SCENARIOS.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract's table, cell by cell: number, ledger, checkpoint, row.
    const CONTRACT: [(u8, &str, &str, &str, Entry); 8] = [
        (1, "just claimed", "absent", "any", Entry::AcceptBilling),
        (2, "INSERTED", "any", "any", Entry::Acknowledge),
        (3, "REJECTED", "any", "any", Entry::Acknowledge),
        (4, "UNINSERTABLE", "any", "any", Entry::Acknowledge),
        (5, "INSERTING", "any", "present", Entry::MarkInserted),
        (6, "INSERTING", "absent", "absent", Entry::AcceptBilling),
        (7, "INSERTING", "present", "absent", Entry::ArchiveAndInsert),
        (8, "any", "any", "any", Entry::Halt),
    ];

    #[test]
    fn all_combinations_of_facts_agree_with_the_table() {
        let ledgers = [
            (LedgerFact::JustClaimed, "just claimed"),
            (LedgerFact::Found(Status::Inserting), "INSERTING"),
            (LedgerFact::Found(Status::Inserted), "INSERTED"),
            (LedgerFact::Found(Status::Rejected), "REJECTED"),
            (LedgerFact::Found(Status::Uninsertable), "UNINSERTABLE"),
            (LedgerFact::Absent, "no item"),
            (LedgerFact::Unreadable, "unreadable"),
        ];
        let rows = [(RowFact::NotAsked, "not asked"), (RowFact::Present, "present"), (RowFact::Absent, "absent")];
        let mut reached = [0_u32; 9];
        for (ledger, ledger_word) in ledgers {
            for (checkpoint, checkpoint_word) in [(false, "absent"), (true, "present")] {
                for (row, row_word) in rows {
                    let fits = |cell: &str, word: &str| cell == "any" || cell == word;
                    let expected = CONTRACT
                        .iter()
                        .find(|(_, l, c, r, _)| fits(l, ledger_word) && fits(c, checkpoint_word) && fits(r, row_word))
                        .unwrap();
                    let scenario = scenario_for(Facts { ledger, checkpoint, row });
                    assert_eq!(
                        (scenario.number, scenario.entry),
                        (expected.0, expected.4),
                        "{ledger_word} {checkpoint_word} {row_word}"
                    );
                    reached[usize::from(scenario.number)] += 1;
                }
            }
        }
        assert_eq!(reached, [0, 3, 6, 6, 6, 2, 1, 1, 17], "combinations that reach each row");
    }

    #[test]
    fn rows_six_and_seven_differ_in_one_field_only() {
        let (six, seven) = (SCENARIOS[5], SCENARIOS[6]);
        assert_eq!((six.ledger, six.row), (seven.ledger, seven.row));
        assert_ne!(six.checkpoint, seven.checkpoint);
    }

    #[test]
    fn the_protocol_s_page_shows_this_table() {
        let table = markdown_table();
        assert_eq!(table.lines().count(), 2 + SCENARIOS.len());
        assert!(include_str!("../PROTOCOL.md").contains(&table));
    }

    #[test]
    fn rows_are_numbered_by_their_place() {
        for (place, scenario) in (1..).zip(&SCENARIOS) {
            assert_eq!(scenario.number, place);
        }
    }
}
