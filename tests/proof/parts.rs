//! The parts, each with what it adds to the summary.

use std::process::id;

use anyhow::{Context, ensure};
use tollgate_cli::stack;
use tollgate_tests::live::{Engines, Program};
use tollgate_tests::matrix::Selection;
use tollgate_tests::{accord, chaos, clients, matrix, model, simulation};

use crate::PASS_ON;
use crate::arguments::{Extent, MatrixArguments, Part};
use crate::output::note;
use crate::summary::{Chaos, Clients, Mutants, Summary};

/// The stack that the proof starts, and which stops by itself after this process has gone.
const STACK: &str = "proof";
/// Schedules that one mutant may survive before it counts as not caught.
const MOST_SCHEDULES_A_MUTANT: u64 = 500_000;
const OPERATIONS: (u64, u64) = (10_000, 50_000);
/// What the proof promises at least, in short and in full: a size that shrinks below it fails.
const LEAST_SCHEDULES: (u64, u64) = (1_000_000, 5_000_000);
const LEAST_STATES: usize = 1_000_000;
const LEAST_CASES: usize = 60;
/// Findings that are told one by one.
const TOLD: usize = 20;

/// Runs parts, one after the other.
pub(crate) struct Runner {
    extent: Extent,
    runtime: tokio::runtime::Runtime,
    engines: Option<Engines>,
}

fn told(line: &str) {
    note(line);
}

impl Runner {
    pub(crate) fn new(extent: Extent) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        Ok(Self { extent, runtime, engines: None })
    }

    /// Runs one part; an error is what is wrong.
    pub(crate) fn run(&mut self, part: &Part, summary: &mut Summary) -> anyhow::Result<()> {
        match part {
            Part::Simulate => self.simulate(summary),
            Part::Model => self.model(summary),
            Part::Mutants => self.mutants(summary),
            Part::Contract => self.contract(summary),
            Part::Matrix(arguments) => self.matrix(arguments, summary),
            Part::Chaos => self.chaos(summary),
            Part::Clients => self.clients(summary),
            Part::Replay { path } => replay(path),
        }
    }

    fn simulate(&self, summary: &mut Summary) -> anyhow::Result<()> {
        let size = if self.extent.full { simulation::Size::Full } else { simulation::Size::Ci };
        let ran = simulation::run(size, self.extent.seed, &told);
        let findings = ran.as_ref().err().map(|failure| failure.findings.clone()).unwrap_or_default();
        summary.audited(|kind| findings.iter().filter(|finding| finding.starts_with(kind.id())).count());
        let report = ran.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        note(report.to_string());
        summary.schedules = Some(report.schedules);
        let (short, full) = LEAST_SCHEDULES;
        let least = if self.extent.full { full } else { short };
        ensure!(report.schedules >= least, "only {} schedules of {least} that are promised", report.schedules);
        Ok(())
    }

    fn model(&self, summary: &mut Summary) -> anyhow::Result<()> {
        let size = if self.extent.full { model::Size::Full } else { model::Size::Ci };
        let report = model::run(size, &told)?;
        summary.model_states = Some(report.states);
        ensure!(report.states >= LEAST_STATES, "only {} states of {LEAST_STATES} that are promised", report.states);
        Ok(())
    }

    fn mutants(&self, summary: &mut Summary) -> anyhow::Result<()> {
        let simulated = simulation::run_mutants(MOST_SCHEDULES_A_MUTANT, &told);
        // The small worlds already show every loss; the larger ones show it again.
        let size = if self.extent.full { model::Size::Ci } else { model::Size::Test };
        let modelled = model::run_mutants(size);
        for verdict in &modelled {
            match verdict.caught {
                Some(caught) => {
                    note(format!("caught in {} steps: {}: {}", caught.steps, verdict.mutant.text(), caught.property));
                }
                None => note(format!("survived: {}", verdict.mutant.text())),
            }
        }
        let caught = simulated.caught() + modelled.iter().filter(|verdict| verdict.caught.is_some()).count();
        let of = simulated.of() + modelled.len();
        summary.mutants = Some(Mutants { caught, of });
        ensure!(caught == of, "{} of {of} mutants survive", of - caught);
        Ok(())
    }

    fn contract(&mut self, summary: &mut Summary) -> anyhow::Result<()> {
        let engines = self.engines()?;
        let (ci, full) = OPERATIONS;
        let operations = if self.extent.full { full } else { ci };
        let name = Engines::unique("accord");
        let report = self.runtime.block_on(accord::run(&engines.stores, &name, operations, self.extent.seed))?;
        summary.contract_operations = Some(report.operations);
        ensure!(report.operations >= ci, "only {} operations of {ci} that are promised", report.operations);
        Ok(())
    }

    fn matrix(&mut self, arguments: &MatrixArguments, summary: &mut Summary) -> anyhow::Result<()> {
        let (engines, program) = (self.engines()?, program()?);
        let size = if self.extent.full { matrix::Size::Full } else { matrix::Size::Ci };
        let selection = Selection { size, only: arguments.only.clone(), parallel: arguments.parallel };
        let report = self.runtime.block_on(matrix::run(&selection, &engines, &program, &told))?;
        if self.extent.full {
            for (why, left_out) in matrix::inapplicable() {
                note(format!("left out: {why}: {}", left_out.join(", ")));
            }
        }
        summary.matrix_cases = Some(report.outcomes.len());
        summary.audited(|kind| report.count(kind));
        let (failed, of) = (report.failed().count(), report.outcomes.len());
        ensure!(of > 0, "no case has such a name");
        ensure!(arguments.only.is_some() || of >= LEAST_CASES, "only {of} cases of {LEAST_CASES} that are promised");
        ensure!(failed == 0, "{failed} of {of} cases fail; logs are in {}", engines.stack.state_dir.display());
        Ok(())
    }

    fn chaos(&mut self, summary: &mut Summary) -> anyhow::Result<()> {
        let (engines, program) = (self.engines()?, program()?);
        let size = if self.extent.full { chaos::Size::Full } else { chaos::Size::Ci };
        let report = self.runtime.block_on(chaos::run(size, self.extent.seed, &engines, &program, &told))?;
        note(format!(
            "{} messages, {} events rejected, {} ids in conflict, in {:.0} s",
            report.messages,
            report.rejected,
            report.conflicts,
            report.took.as_secs_f64()
        ));
        summary.chaos = Some(Chaos { events: report.events, kills: report.kills, faults: report.faults });
        summary.audited(|kind| report.count(kind));
        report.findings.iter().take(TOLD).for_each(|finding| note(finding.to_string()));
        ensure!(
            report.findings.is_empty(),
            "the auditor found {} things (seed {})",
            report.findings.len(),
            report.seed
        );
        Ok(())
    }

    fn clients(&mut self, summary: &mut Summary) -> anyhow::Result<()> {
        let (engines, program) = (self.engines()?, program()?);
        let running = clients::run(clients::Size::Ci, self.extent.seed, &engines, &program, &told);
        let report = self.runtime.block_on(running)?;
        note(format!("told: {:?}, in {:.0} s", report.told, report.took.as_secs_f64()));
        summary.clients = Some(Clients {
            events: report.events,
            recorded: report.recorded,
            lost_answers: report.lost_answers,
            disagreements: report.disagreements.len(),
        });
        summary.audited(|kind| report.count(kind));
        report.disagreements.iter().take(TOLD).for_each(note);
        report.findings.iter().take(TOLD).for_each(|finding| note(finding.to_string()));
        let (disagreements, findings) = (report.disagreements.len(), report.findings.len());
        ensure!(
            disagreements + findings == 0,
            "{disagreements} answers are wrong, and the auditor found {findings} things"
        );
        Ok(())
    }

    /// The engines, started by the first part that asks.
    fn engines(&mut self) -> anyhow::Result<Engines> {
        if let Some(engines) = &self.engines {
            return Ok(engines.clone());
        }
        // What an earlier run left would only slow this one.
        if stack::running(STACK)?.is_none() {
            stack::down(STACK, true)?;
        }
        let record = stack::up(STACK, Some(id()))?;
        let engines = self.runtime.block_on(Engines::connect(record)).context("the local stack")?;
        self.engines = Some(engines.clone());
        Ok(engines)
    }
}

/// Tells a schedule step by step; an error is what is wrong with it, or with its path.
fn replay(path: &str) -> anyhow::Result<()> {
    let replayed = simulation::replay(path, simulation::Mutation::NONE).map_err(anyhow::Error::msg)?;
    note(replayed.trace);
    ensure!(replayed.findings.is_empty(), "{}", replayed.findings.join("; "));
    Ok(())
}

/// The command `tollgate`, as it is linked into this program: never an older build that lies beside it.
fn program() -> anyhow::Result<Program> {
    Ok(Program::new(std::env::current_exe().context("this program's own path")?, &[PASS_ON]))
}
