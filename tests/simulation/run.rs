//! All cases of a size, over every core.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::case::Case;
use super::explore::{Beginning, Explorer, Failure, Tally};
use super::mutants::Mutation;
use super::report::{Explored, Report};
use super::size::{Bounded, Size};
use super::stage::Stage;
use super::walk::walk;

/// Choices after which a case is parted between the cores.
const PART_AT: usize = 4;
/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Schedules between two looks at whether somebody else has failed.
const LOOK_EVERY: u64 = 512;

/// Something that one core can do alone.
enum Work {
    Explore { case: usize, part: Beginning },
    Walk { case: Case, seed: u64, walks: u64 },
}

/// What the cores share.
#[derive(Default)]
struct Shared {
    next: AtomicUsize,
    done: AtomicU64,
    failed: AtomicBool,
    /// One for each family.
    explored: Vec<Mutex<Tally>>,
    walked: Mutex<Tally>,
    /// The failure of the first work in order, so that two runs tell the same one where they can.
    failure: Mutex<Option<(usize, Failure)>>,
}

/// Explores every case of `size`, then walks beyond it from `seed`. The first failure ends it.
pub fn run(size: Size, seed: u64, progress: &dyn Fn(&str)) -> Result<Report, Failure> {
    let begun = Instant::now();
    let bounded = size.cases();
    let stages: Vec<Stage> = bounded.iter().map(|one| Stage::new(&one.case, Mutation::NONE)).collect();
    let cases: Vec<(&Stage, &Bounded)> = stages.iter().zip(&bounded).collect();
    let shared = Shared { explored: size.bounds().map(|_| Mutex::default()).collect(), ..Shared::default() };
    let mut works = Vec::new();
    for (case, (stage, bounded)) in cases.iter().enumerate() {
        let (parts, tally) = Explorer::parts(stage, bounded.budget, PART_AT)?;
        shared.merge(bounded.family, &tally);
        works.extend(parts.into_iter().map(|part| Work::Explore { case, part }));
    }
    let (walked, walks) = size.walks();
    works.extend(walked.into_iter().zip(seed..).map(|(case, seed)| Work::Walk { case, seed, walks }));

    progress(&format!("{} cases in {} parts", stages.len(), works.len()));
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (finished, wait) = mpsc::channel::<()>();
    thread::scope(|scope| {
        for _ in 0..cores {
            let (finished, shared, works, cases) = (finished.clone(), &shared, &works, &cases);
            scope.spawn(move || {
                work_off(shared, works, cases);
                drop(finished);
            });
        }
        drop(finished);
        while wait.recv_timeout(PROGRESS_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
            let (done, next) = (shared.done.load(Ordering::Relaxed), shared.next.load(Ordering::Relaxed));
            let rate = done / begun.elapsed().as_secs().max(1);
            progress(&format!("{done} schedules, {rate} a second; part {next} of {}", works.len()));
        }
    });

    if let Some((_, failure)) = lock(&shared.failure).take() {
        return Err(failure);
    }
    let walked = *lock(&shared.walked);
    let (mut explored, mut families) = (Tally::default(), Vec::new());
    for (family, (bounds, tally)) in size.bounds().zip(&shared.explored).enumerate() {
        let tally = lock(tally);
        let cases = bounded.iter().filter(|one| one.family == family).count();
        families.push(Explored { bounds, cases, schedules: tally.schedules });
        explored.merge(&tally);
    }
    let mut reached = explored.reached;
    reached.merge(walked.reached);
    let missing = reached.missing();
    if !missing.is_empty() {
        let findings = missing.into_iter().map(|what| format!("never reached: {what}")).collect();
        return Err(Failure { path: format!("every schedule of {size:?}"), findings });
    }
    Ok(Report {
        families,
        schedules: explored.schedules,
        pruned: explored.pruned,
        repeated: explored.repeated,
        walks: walked.schedules,
        seed,
        deepest: explored.deepest.max(walked.deepest),
        ends: explored.ends + walked.ends,
        reached,
        elapsed: begun.elapsed(),
    })
}

impl Shared {
    fn merge(&self, family: usize, tally: &Tally) {
        if let Some(explored) = self.explored.get(family) {
            lock(explored).merge(tally);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work_off(shared: &Shared, works: &[Work], cases: &[(&Stage, &Bounded)]) {
    while !shared.failed.load(Ordering::Relaxed) {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(work) = works.get(number) else { return };
        let failure = match work {
            Work::Explore { case, part } => {
                let Some((stage, bounded)) = cases.get(*case) else { return };
                let mut explorer = Explorer::new(stage, bounded.budget, part.clone());
                let mut told = 0;
                let ended = explorer.explore(|tally| {
                    if tally.schedules < told + LOOK_EVERY {
                        return true;
                    }
                    shared.done.fetch_add(tally.schedules - told, Ordering::Relaxed);
                    told = tally.schedules;
                    !shared.failed.load(Ordering::Relaxed)
                });
                shared.done.fetch_add(explorer.tally.schedules - told, Ordering::Relaxed);
                shared.merge(bounded.family, &explorer.tally);
                ended.err()
            }
            Work::Walk { case, seed, walks } => match walk(case, Mutation::NONE, *seed, *walks) {
                Ok(tally) => {
                    lock(&shared.walked).merge(&tally);
                    None
                }
                Err(failure) => Some(failure),
            },
        };
        if let Some(failure) = failure {
            let mut first = lock(&shared.failure);
            if first.as_ref().is_none_or(|(earlier, _)| number < *earlier) {
                *first = Some((number, failure));
            }
            shared.failed.store(true, Ordering::Relaxed);
        }
    }
}
