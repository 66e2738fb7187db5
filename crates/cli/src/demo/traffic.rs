//! What the demo sends, and what must come of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use tollgate_domain::identity::sha256_hex;
use tollgate_domain::plan::Limit;
use tollgate_domain::space::SpaceId;
use tollgate_domain::time::UtcMillis;

use crate::args::DemoArguments;
use crate::demo::folder;
use crate::expected::{ConflictingIds, Expected, ExpectedPlan, ExpectedSpace};
use crate::stack::StackRecord;

/// An input and its known answer.
pub(crate) struct Source {
    /// JSON lines.
    pub(crate) input: PathBuf,
    /// What must come out.
    pub(crate) expected: Expected,
    /// Tells this input from others on the same stack.
    pub(crate) name: String,
}

/// A synthetic space: its name's stem, plan, own limit, and distinct events.
const SPACES: [(&str, ExpectedPlan, Option<u64>, u64); 6] = [
    ("plus", ExpectedPlan::PlusActive, None, 320),
    ("roomy", ExpectedPlan::Free, None, 200),
    ("capped", ExpectedPlan::Free, Some(100), 240),
    ("walk-in", ExpectedPlan::Unknown, None, 120),
    ("lapsed", ExpectedPlan::PlusInactive, None, 100),
    ("canary", ExpectedPlan::Internal, None, 60),
];
/// One line in so many is sent twice.
const REPEAT_EVERY: u64 = 6;
/// Ids, in the space of the plus plan, that come a second time with another quantity.
const CONFLICTS: u64 = 5;
/// 2026-01-01T00:00:00Z: when the synthetic work was done.
const WORK_BEGAN_MS: i64 = 1_767_225_600_000;

impl Source {
    /// The files that the arguments name, or synthetic traffic made from the seed.
    pub(crate) fn open(arguments: &DemoArguments, record: &StackRecord) -> anyhow::Result<Self> {
        let (Some(input), Some(expected)) = (&arguments.input, &arguments.expected) else {
            return synthetic(arguments.seed, record);
        };
        let unreadable = |path: &PathBuf| format!("{} cannot be read", path.display());
        let bytes = std::fs::read(input).with_context(|| unreadable(input))?;
        let text = std::fs::read_to_string(expected).with_context(|| unreadable(expected))?;
        let expected: Expected = serde_json::from_str(&text)
            .with_context(|| format!("{} is not an expected file: see the README for its form", expected.display()))?;
        let name = sha256_hex(&format!("{}{text}", sha256_hex(&String::from_utf8_lossy(&bytes))));
        Ok(Self { input: input.clone(), expected, name: name.chars().take(12).collect() })
    }
}

/// Writes seeded traffic to the stack's folder. The names of its spaces hold the seed, so that two seeds never meet.
fn synthetic(seed: u64, record: &StackRecord) -> anyhow::Result<Source> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut lines, mut spaces) = (Vec::new(), BTreeMap::new());
    for (stem, plan, limit, distinct) in SPACES {
        let space = SpaceId::parse(&format!("{stem}-{seed}")).context("the seed does not fit into a space's name")?;
        let own: Vec<String> = (0..distinct).map(|at| line(&space, at, random.u64(1..=9))).collect();
        let repeats: Vec<String> = own.iter().step_by(usize::try_from(REPEAT_EVERY)?).cloned().collect();
        let conflicts: Vec<String> = match plan {
            ExpectedPlan::PlusActive => (0..CONFLICTS).map(|at| line(&space, at, 10)).collect(),
            _ => Vec::new(),
        };
        let cap = match plan {
            ExpectedPlan::PlusInactive => 0,
            _ => limit.unwrap_or(distinct),
        };
        let inserted = distinct.min(cap);
        let meter = if matches!(plan, ExpectedPlan::Free | ExpectedPlan::Unknown) { inserted } else { 0 };
        let told = ExpectedSpace {
            plan,
            limit: limit.and_then(Limit::new),
            lines: (own.len() + repeats.len() + conflicts.len()) as u64,
            distinct,
            inserted,
            rejected: distinct - inserted,
            meter,
            conflicting_ids: Some(ConflictingIds::Count(conflicts.len() as u64)),
        };
        spaces.insert(space, told);
        lines.extend([own, repeats, conflicts].concat());
    }
    random.shuffle(&mut lines);
    let folder = folder(record);
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let input = folder.join(format!("synthetic-{seed}.jsonl"));
    let mut file = std::fs::File::create(&input).with_context(|| format!("{} cannot be written", input.display()))?;
    file.write_all(lines.join("\n").as_bytes())?;
    Ok(Source { input, expected: Expected { spaces }, name: format!("synthetic-{seed}") })
}

/// The `at`-th event of a space. Its idempotency key is its identity, so that another quantity is a conflict.
fn line(space: &SpaceId, at: u64, quantity: u64) -> String {
    let offset_ms = i64::try_from(at).unwrap_or(i64::MAX).saturating_mul(61_001);
    json!({
        "space": space,
        "meter": "api_request",
        "subject": format!("customer-{}", at % 17),
        "occurredAt": UtcMillis::EPOCH.saturating_add_ms(WORK_BEGAN_MS).saturating_add_ms(offset_ms).to_string(),
        "quantity": quantity,
        "source": "demo",
        "idempotencyKey": format!("request-{at}"),
        "properties": {"region": (if at.is_multiple_of(3) { "eu" } else { "us" }), "bytes": at * 37},
    })
    .to_string()
}

impl Source {
    /// The spaces of this input.
    pub(crate) fn spaces(&self) -> BTreeSet<SpaceId> {
        self.expected.spaces.keys().cloned().collect()
    }
}
