//! Expected files: what an input must come to, computed by a program that shares no code with this one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tollgate_domain::plan::{Limit, SpaceRecord, Subscription};
use tollgate_domain::space::SpaceId;

/// An expected file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// By space.
    pub spaces: BTreeMap<SpaceId, ExpectedSpace>,
}

/// What one space's lines must come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedSpace {
    /// The space's plan.
    pub plan: ExpectedPlan,
    /// A limit of the space's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Lines of the input.
    pub lines: u64,
    /// Event ids among them.
    pub distinct: u64,
    /// Events that end up inserted.
    pub inserted: u64,
    /// Events that end up rejected.
    pub rejected: u64,
    /// The month's count.
    pub meter: u64,
    /// Ids of which a second payload is seen; unsaid, they are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicting_ids: Option<ConflictingIds>,
}

/// How many ids, or which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConflictingIds {
    /// So many.
    Count(u64),
    /// These.
    Ids(BTreeSet<String>),
}

impl ConflictingIds {
    /// How many.
    pub fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Ids(ids) => ids.len() as u64,
        }
    }
}

/// What one space's lines came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SpaceCounts {
    /// Lines that were sent.
    pub lines: u64,
    /// Event ids among them.
    pub distinct: u64,
    /// Events that are charged, archived, stored and closed.
    pub inserted: u64,
    /// Events that were refused for ever.
    pub rejected: u64,
    /// Events of free quota consumed.
    pub meter: u64,
    /// Events whose payload is archived; conflicting payloads are not counted.
    pub archived: u64,
    /// Events with a row in `events`.
    pub rows: u64,
    /// Events with a row in `events_billing`, from which Plus is billed.
    pub billing_rows: u64,
    /// Things that should not be there: payloads or rows of events that are not inserted, rows of another month or
    /// billed as something else than the ledger says.
    pub strays: u64,
    /// Ids of which a second payload was seen.
    pub conflicting_ids: u64,
}

/// A plan, in the words of an expected file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ExpectedPlan {
    /// `free`
    Free,
    /// `unknown` and whatever follows: the spaces table has no entry.
    Unknown,
    /// `plus active`
    PlusActive,
    /// `plus inactive`
    PlusInactive,
    /// `internal`
    Internal,
}

impl TryFrom<String> for ExpectedPlan {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "free" => Ok(Self::Free),
            "plus active" => Ok(Self::PlusActive),
            "plus inactive" => Ok(Self::PlusInactive),
            "internal" => Ok(Self::Internal),
            unknown if unknown.starts_with("unknown") => Ok(Self::Unknown),
            other => Err(format!("{other} is not a plan")),
        }
    }
}

impl From<ExpectedPlan> for String {
    fn from(plan: ExpectedPlan) -> Self {
        match plan {
            ExpectedPlan::Free => "free",
            ExpectedPlan::Unknown => "unknown (free)",
            ExpectedPlan::PlusActive => "plus active",
            ExpectedPlan::PlusInactive => "plus inactive",
            ExpectedPlan::Internal => "internal",
        }
        .to_owned()
    }
}

impl Expected {
    /// The spaces that must be internal: configuration, not entries of the table.
    pub fn internal_spaces(&self) -> BTreeSet<SpaceId> {
        let internal = self.spaces.iter().filter(|(_, expected)| expected.plan == ExpectedPlan::Internal);
        internal.map(|(space, _)| space.clone()).collect()
    }

    /// The entries that the spaces table must have.
    pub fn records(&self) -> BTreeMap<SpaceId, SpaceRecord> {
        let record = |expected: &ExpectedSpace| {
            let subscription = match expected.plan {
                ExpectedPlan::Internal | ExpectedPlan::Unknown => return None,
                ExpectedPlan::Free => Subscription::Free,
                ExpectedPlan::PlusActive => Subscription::PlusActive,
                ExpectedPlan::PlusInactive => Subscription::PlusInactive,
            };
            Some(SpaceRecord { subscription, monthly_limit: expected.limit })
        };
        self.spaces.iter().filter_map(|(space, expected)| Some((space.clone(), record(expected)?))).collect()
    }

    /// Each difference between these counts and the file, in words.
    pub fn differences(&self, counts: &BTreeMap<SpaceId, SpaceCounts>) -> Vec<String> {
        let spaces: BTreeSet<&SpaceId> = self.spaces.keys().chain(counts.keys()).collect();
        let mut differences = Vec::new();
        for space in spaces {
            let Some(expected) = self.spaces.get(space) else {
                differences.push(format!("{space}: is not in the expected file"));
                continue;
            };
            let counted = counts.get(space).copied().unwrap_or_default();
            for (what, counted, expected) in [
                ("lines", counted.lines, expected.lines),
                ("distinct", counted.distinct, expected.distinct),
                ("inserted", counted.inserted, expected.inserted),
                ("rejected", counted.rejected, expected.rejected),
                ("meter", counted.meter, expected.meter),
                ("archived", counted.archived, expected.inserted),
                ("rows", counted.rows, expected.inserted),
                ("billing_rows", counted.billing_rows, expected.inserted),
                ("strays", counted.strays, 0),
            ] {
                if counted != expected {
                    differences.push(format!("{space}: {what} is {counted}, must be {expected}"));
                }
            }
            if let Some(expected) = expected.conflicting_ids.as_ref().map(ConflictingIds::count)
                && counted.conflicting_ids != expected
            {
                differences
                    .push(format!("{space}: conflicting_ids is {}, must be {expected}", counted.conflicting_ids));
            }
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"input": "x", "totals": {}, "spaces": {
        "a": {"plan": "free", "limit": 2, "lines": 4, "distinct": 3, "inserted": 2, "rejected": 1, "meter": 2, "conflicting_ids": 1},
        "b": {"plan": "unknown (free)", "lines": 0, "distinct": 0, "inserted": 0, "rejected": 0, "meter": 0},
        "c": {"plan": "internal", "lines": 0, "distinct": 0, "inserted": 0, "rejected": 0, "meter": 0},
        "d": {"plan": "plus inactive", "lines": 0, "distinct": 0, "inserted": 0, "rejected": 0, "meter": 0},
        "e": {"plan": "plus active", "lines": 0, "distinct": 0, "inserted": 0, "rejected": 0, "meter": 0}}}"#;

    fn space(name: &str) -> SpaceId {
        SpaceId::parse(name).unwrap()
    }

    #[test]
    fn plans_come_from_the_file() {
        let expected: Expected = serde_json::from_str(FILE).unwrap();
        assert_eq!(expected.internal_spaces(), [space("c")].into());
        let record = |subscription, limit| SpaceRecord { subscription, monthly_limit: limit };
        let records = [
            (space("a"), record(Subscription::Free, Limit::new(2))),
            (space("d"), record(Subscription::PlusInactive, None)),
            (space("e"), record(Subscription::PlusActive, None)),
        ];
        assert_eq!(expected.records(), records.into());
        assert!(serde_json::from_str::<Expected>(&FILE.replace("internal", "gold")).is_err());
        let again = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<Expected>(&again).unwrap(), expected);
    }

    #[test]
    fn conflicting_ids_are_a_count_or_a_list() {
        let listed = FILE.replace(r#""conflicting_ids": 1"#, r#""conflicting_ids": ["uev_1"]"#);
        let expected: Expected = serde_json::from_str(&listed).unwrap();
        assert_eq!(expected.spaces[&space("a")].conflicting_ids.as_ref().unwrap().count(), 1);
    }

    #[test]
    fn each_differing_count_is_told() {
        let expected: Expected = serde_json::from_str(FILE).unwrap();
        let good = SpaceCounts {
            lines: 4,
            distinct: 3,
            inserted: 2,
            rejected: 1,
            meter: 2,
            archived: 2,
            rows: 2,
            billing_rows: 2,
            strays: 0,
            conflicting_ids: 1,
        };
        let with = |counts| expected.differences(&BTreeMap::from([(space("a"), counts)]));
        assert_eq!(with(good), Vec::<String>::new());
        for (broken, what) in [
            (SpaceCounts { lines: 5, ..good }, "lines"),
            (SpaceCounts { distinct: 4, ..good }, "distinct"),
            (SpaceCounts { inserted: 3, ..good }, "inserted"),
            (SpaceCounts { rejected: 0, ..good }, "rejected"),
            (SpaceCounts { meter: 3, ..good }, "meter"),
            (SpaceCounts { archived: 3, ..good }, "archived"),
            (SpaceCounts { rows: 1, ..good }, "rows"),
            (SpaceCounts { billing_rows: 3, ..good }, "billing_rows"),
            (SpaceCounts { strays: 1, ..good }, "strays"),
            (SpaceCounts { conflicting_ids: 0, ..good }, "conflicting_ids"),
        ] {
            let told = with(broken);
            assert!(told.len() == 1 && told[0].starts_with(&format!("a: {what} is ")), "{told:?}");
        }
        let stranger = BTreeMap::from([(space("a"), good), (space("z"), SpaceCounts::default())]);
        assert_eq!(expected.differences(&stranger), ["z: is not in the expected file"]);
    }
}
