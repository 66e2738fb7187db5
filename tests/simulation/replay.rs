//! A printed path, run again and told step by step.

use std::fmt::Write as _;

use super::budget::Budget;
use super::case::Case;
use super::choice::Choice;
use super::finish::finish;
use super::mutants::Mutation;
use super::scheduler::{Phase, Run};
use super::stage::Stage;

/// What a path came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// One line a step.
    pub trace: String,
    /// What is wrong; empty when nothing is.
    pub findings: Vec<String>,
}

/// Runs exactly the schedule of `path`, as it was printed, with this mutation. The error says what is wrong with the
/// path itself.
pub fn replay(path: &str, mutation: Mutation) -> Result<Replay, String> {
    let (name, words) = path.split_once(':').ok_or("a path is a case's name, a colon and choices")?;
    let case = Case::parse(name.trim()).ok_or_else(|| format!("{name} is not the name of a case"))?;
    let choices: Vec<Choice> = words
        .split_whitespace()
        .map(|word| Choice::parse(word).ok_or_else(|| format!("{word} is not a choice")))
        .collect::<Result<_, _>>()?;
    let stage = Stage::new(&case, mutation);
    let mut trace = String::new();
    // A replay pays for nothing: the path says which faults there are.
    let mut run = Run::start(&stage, Budget::new([u8::MAX; 6], u8::MAX))?;
    for (number, choice) in (1..).zip(&choices) {
        let what = describe(&run, *choice);
        let ended = run.step(*choice);
        let _ = writeln!(trace, "{number:>3}. {choice:<4} {what}\n          {}", facts(&run));
        if let Err(finding) = ended {
            return Ok(Replay { trace, findings: vec![finding] });
        }
    }
    let findings = finish(&mut run).err().unwrap_or_default();
    let _ = writeln!(trace, "     faults stop, what is left is redelivered\n          {}", facts(&run));
    Ok(Replay { trace, findings })
}

fn describe(run: &Run<'_>, choice: Choice) -> String {
    match choice {
        Choice::Again(message) => format!("message {message} is received again"),
        Choice::Move(_) => run
            .moves_left
            .iter()
            .find(|one| Choice::Move(one.letter()) == choice)
            .map_or_else(|| "no such move".to_owned(), |one| format!("the environment: {one:?}")),
        Choice::Actor(who, act) => match run.actors.get(usize::from(who)).map(|actor| &actor.phase) {
            Some(Phase::Running(effect)) => format!("{effect}: {act:?}"),
            Some(Phase::Deleting) => format!("delete the message: {act:?}"),
            Some(Phase::Sending(reason)) => format!("to the dead-letter queue, {reason}: {act:?}"),
            Some(Phase::Waiting) => "receive".to_owned(),
            Some(Phase::Done) | None => "nothing".to_owned(),
        },
    }
}

/// The durable facts, in one line.
fn facts(run: &Run<'_>) -> String {
    run.world.with(|state| {
        let mut line = String::new();
        for one in &run.stage.followed {
            let id: String = one.key.id.as_str().chars().take(8).collect();
            let Some(item) = state.ledger.get(&one.key) else {
                let _ = write!(line, "{id} no item; ");
                continue;
            };
            let billed = item.checkpoint.map_or("unbilled", |checkpoint| checkpoint.billed_as.as_str());
            let count = |stored: usize| if stored == 0 { "-".to_owned() } else { stored.to_string() };
            let rows = count(state.events.iter().filter(|row| row.event_id == one.key.id.as_str()).count());
            let twins = count(state.events_billing.iter().filter(|row| row.event_id == one.key.id.as_str()).count());
            let object = if state.objects.contains_key(&one.object) { "object" } else { "-" };
            let _ = write!(line, "{id} {} {billed} {object} rows {rows}/{twins}", item.status);
            if item.quarantine.count > 0 {
                let _ = write!(line, " refused {}", item.quarantine.count);
            }
            line.push_str("; ");
        }
        for ((_, month), count) in &state.meters {
            let _ = write!(line, "meter {month} {count}; ");
        }
        line
    })
}
