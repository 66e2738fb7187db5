//! Events on disk until their outcome is known.
//!
//! A folder of one writer. `segment-<n>.events` is appended to and never changed: a first line that tells the version,
//! then one line an event, `<checksum> <event as JSON>`. `segment-<n>.done` beside it names the lines whose outcome is
//! final, `<line> <checksum>`; both go when every line is. `refused` keeps the events that were refused, `set-aside`
//! the lines that cannot be read, `lock` is held by the writer. Nothing of `.done` is synced: what it forgets is sent
//! again, which is harmless.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_domain::identity::sha256_hex;

use crate::event::UsageEvent;
use crate::outcome::Outcome;

const NAME: &str = "tollgate-spool";
const VERSION: &str = "1";
/// Hex digits of a line's checksum, the first of its SHA-256: against accidents, not against forgers.
const CHECKSUM_DIGITS: usize = 16;
/// Jobs that share one write and one sync.
const MAX_GROUP: usize = 1_024;

/// When an event counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// `record` returns when the event is on the disk (`fdatasync`; events recorded at the same time share one): it
    /// outlives the process and the machine. The default.
    #[default]
    Fsync,
    /// `record` returns when the operating system has the event: it outlives the process, also a killed one, but not a
    /// power failure. Far cheaper.
    Os,
}

/// Where and how a recorder keeps events on disk. One folder belongs to one space: what is found there is sent with the
/// key of the client that opens it.
#[derive(Debug, Clone)]
#[must_use = "a spool does nothing before a recorder is started with it"]
pub struct Spool {
    folder: PathBuf,
    durability: Durability,
    segment_bytes: u64,
}

impl Spool {
    /// A spool in `folder`, which is made, for this user alone, if it is missing.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), durability: Durability::default(), segment_bytes: 8 * 1024 * 1024 }
    }

    /// When an event counts as kept. Default [`Durability::Fsync`].
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Bytes after which a file is full and the next one begins. Default 8 MiB.
    pub fn segment_bytes(self, segment_bytes: u64) -> Self {
        Self { segment_bytes, ..self }
    }

    /// The file of refused events, which only ever grows. Whoever mends them moves it away, at any time, and reads it
    /// with [`read_refused`].
    pub fn refused_file(&self) -> PathBuf {
        self.folder.join("refused")
    }

    /// The file of lines that could not be read, each after its file's name and its place there.
    pub fn set_aside_file(&self) -> PathBuf {
        self.folder.join("set-aside")
    }
}

/// Why a spool cannot be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// Wait for the other recorder to end, or give each a folder of its own.
    #[error("another recorder writes to the spool {}", folder.display())]
    InUse {
        /// The spool's folder.
        folder: PathBuf,
    },
    /// Open it with the version that wrote it, and close that one's recorder: it empties the spool.
    #[error("{} is of the spool's version {found}, and this is version {VERSION}", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: String,
    },
    /// Mend the disk or the folder's permissions.
    #[error("{} cannot be used as a spool: {source}", path.display())]
    Io {
        /// The file or the folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// What was found in a spool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "lines that were set aside hold events that nobody sends"]
pub struct Recovery {
    /// Events without an outcome, which are sent again with the ids that they always had.
    pub events: usize,
    /// Lines that could not be read, kept in the file of [`Spool::set_aside_file`].
    pub set_aside: Vec<SetAside>,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The segment's file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// Whether it is a last line that broke off: an append that was under way when its process ended, so that no call
    /// of `record` ever returned for it.
    pub torn: bool,
}

/// A refused event, as the spool keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEvent {
    /// The event.
    pub event: UsageEvent,
    /// `conflict`, `invalid`, `quota_exceeded`, `unauthorized` or `refused`.
    pub outcome: String,
    /// What the service said.
    pub detail: String,
}

/// The events of a file of refused ones, and how many of its lines cannot be read.
pub fn read_refused(file: &Path) -> io::Result<(Vec<RefusedEvent>, usize)> {
    let text = std::fs::read(file)?;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let events: Vec<_> = lines.iter().filter_map(|line| refused_of(line)).collect();
    let unreadable = lines.len() - events.len();
    Ok((events, unreadable))
}

#[derive(Serialize, Deserialize)]
struct RefusedLine {
    outcome: String,
    detail: String,
    event: Value,
}

fn refused_of(line: &[u8]) -> Option<RefusedEvent> {
    let line: RefusedLine = serde_json::from_str(checked(line)?).ok()?;
    let event = UsageEvent::from_json(&line.event.to_string()).ok()?;
    Some(RefusedEvent { event, outcome: line.outcome, detail: line.detail })
}

/// Why an event is refused, as one word and one text; `None` for an outcome that is none.
fn refusal(outcome: &Outcome) -> Option<(&'static str, String)> {
    let problems = |problems: &[crate::ToldProblem]| {
        let told = problems.iter().map(|p| format!("{}: {}: {}; {}", p.code, p.field, p.problem, p.mend));
        told.collect::<Vec<_>>().join("\n")
    };
    match outcome {
        Outcome::Queued { .. } | Outcome::Unavailable { .. } | Outcome::HeldBack => None,
        Outcome::Conflict { problems: told } => Some(("conflict", problems(told))),
        Outcome::Invalid { problems: told } => Some(("invalid", problems(told))),
        Outcome::QuotaExceeded { quota } => {
            let until = quota.resets_at.as_deref().unwrap_or("an upgrade or a renewal");
            Some(("quota_exceeded", format!("the plan {} takes no more events until {until}", quota.plan)))
        }
        Outcome::Unauthorized { code, detail } => Some(("unauthorized", format!("{code}: {detail}"))),
        Outcome::Refused { status, code, detail } => {
            Some(("refused", format!("{status} {}: {detail}", code.as_deref().unwrap_or_default())))
        }
    }
}

/// A line's content, if its checksum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let (sum, content) = std::str::from_utf8(line).ok()?.split_at_checked(CHECKSUM_DIGITS)?;
    content.strip_prefix(' ').filter(|content| checksum(content) == sum)
}

fn line_of(content: &str) -> String {
    format!("{} {content}\n", checksum(content))
}

fn checksum(content: &str) -> String {
    let mut digits = sha256_hex(content);
    digits.truncate(CHECKSUM_DIGITS);
    digits
}

/// Where an event's line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    segment: u64,
    line: u64,
}

/// Events without an outcome, in the order in which they were recorded.
pub(crate) type Backlog = Vec<(Place, UsageEvent)>;

/// The folder, held by its lock. Every method blocks.
struct Store {
    spool: Spool,
    segments: BTreeMap<u64, Segment>,
    /// The one that is appended to, if any.
    active: Option<Active>,
    next: u64,
    /// Held until this is dropped.
    _lock: File,
}

#[derive(Default)]
struct Segment {
    /// Lines without a final outcome.
    open: usize,
    done: Option<File>,
}

struct Active {
    number: u64,
    file: File,
    bytes: u64,
    lines: u64,
}

/// What a segment's file holds.
#[derive(Default)]
struct Found {
    events: Vec<(u64, UsageEvent)>,
    /// Line, its bytes, whether it is torn.
    unreadable: Vec<(u64, Vec<u8>, bool)>,
}

impl Store {
    fn open(spool: &Spool) -> Result<(Self, Backlog, Recovery), SpoolError> {
        let folder = spool.folder.clone();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SpoolError::Io { path, source }
        };
        private_folder(&folder, spool.durability).map_err(failed(&folder))?;
        let lock = append_to(&folder.join("lock")).map_err(failed(&folder))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpoolError::InUse { folder }),
            Err(TryLockError::Error(source)) => return Err(SpoolError::Io { path: folder, source }),
        }
        let mut store = Self { spool: spool.clone(), segments: BTreeMap::new(), active: None, next: 1, _lock: lock };
        let (mut backlog, mut recovery) = (Vec::new(), Recovery::default());
        // Every file is judged before the first change, so that an error leaves the spool as it was.
        let mut found = Vec::new();
        for number in segment_numbers(&folder).map_err(failed(&folder))? {
            let file = store.events_file(number);
            let bytes = read_if_there(&file).map_err(failed(&file))?;
            let done = read_if_there(&store.done_file(number)).map_err(failed(&file))?;
            found.push((number, read_segment(&file, &bytes, &done_lines(number, &done))?));
        }
        for (number, Found { events, unreadable }) in found {
            store.next = number.saturating_add(1);
            let open = events.len().saturating_add(unreadable.len());
            store.segments.insert(number, Segment { open, done: None });
            let file = store.events_file(number);
            for (line, bytes, torn) in unreadable {
                store.set_aside(number, line, &bytes).map_err(failed(&file))?;
                recovery.set_aside.push(SetAside { file: file.clone(), line, torn });
            }
            store.drop_if_done(number).map_err(failed(&file))?;
            backlog.extend(events.into_iter().map(|(line, event)| (Place { segment: number, line }, event)));
        }
        recovery.events = backlog.len();
        Ok((store, backlog, recovery))
    }

    /// Writes events together. After an error it is unknown which of them a later start will find.
    fn append(&mut self, texts: &[&str]) -> io::Result<Vec<Place>> {
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.begin_segment()?,
        };
        let number = active.number;
        let lines: String = texts.iter().map(|text| line_of(text)).collect();
        let written = active.file.write_all(lines.as_bytes()).and_then(|()| match self.spool.durability {
            Durability::Fsync => active.file.sync_data(),
            Durability::Os => Ok(()),
        });
        if let Err(error) = written {
            // What follows a broken write would be joined to it, and a failed sync may have forgotten what it had to
            // write: the next append begins a new file.
            self.drop_if_done(number)?;
            return Err(error);
        }
        let first = active.lines.saturating_add(1);
        active.lines = active.lines.saturating_add(texts.len() as u64);
        active.bytes = active.bytes.saturating_add(lines.len() as u64);
        self.segments.entry(number).or_default().open += texts.len();
        let places = (first..=active.lines).map(|line| Place { segment: number, line }).collect();
        if active.bytes < self.spool.segment_bytes {
            self.active = Some(active);
        }
        Ok(places)
    }

    fn begin_segment(&mut self) -> io::Result<Active> {
        let number = self.next;
        self.next = number.saturating_add(1);
        let mut options = private();
        let mut file = options.write(true).create_new(true).open(self.events_file(number))?;
        self.segments.insert(number, Segment::default());
        let header = format!("{NAME} {VERSION}\n");
        file.write_all(header.as_bytes())?;
        if self.spool.durability == Durability::Fsync {
            // The name as well as the content: a file that the folder does not know is lost.
            file.sync_all()?;
            sync_folder(&self.spool.folder)?;
        }
        Ok(Active { number, file, bytes: header.len() as u64, lines: 1 })
    }

    /// These events have a final outcome.
    fn settle(&mut self, places: &[Place]) -> io::Result<()> {
        let mut by_segment: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for place in places {
            by_segment.entry(place.segment).or_default().push(place.line);
        }
        let mut result = Ok(());
        for (number, lines) in by_segment {
            result = self.settle_in(number, &lines).and(result);
        }
        result
    }

    fn settle_in(&mut self, number: u64, lines: &[u64]) -> io::Result<()> {
        let done_file = self.done_file(number);
        let Some(segment) = self.segments.get_mut(&number) else { return Ok(()) };
        segment.open = segment.open.saturating_sub(lines.len());
        if segment.open > 0 || self.active.as_ref().is_some_and(|active| active.number == number) {
            let done = match &mut segment.done {
                Some(done) => done,
                none => none.insert(append_to(&done_file)?),
            };
            let text: String = lines.iter().map(|line| done_line(number, *line)).collect();
            done.write_all(text.as_bytes())?;
        }
        self.drop_if_done(number)
    }

    /// Removes a segment that needs to be neither read nor written again. The events go first: done lines without
    /// events are nothing, events without their done lines are sent again.
    fn drop_if_done(&mut self, number: u64) -> io::Result<()> {
        let is_active = self.active.as_ref().is_some_and(|active| active.number == number);
        if is_active || self.segments.get(&number).is_none_or(|segment| segment.open > 0) {
            return Ok(());
        }
        self.segments.remove(&number);
        for file in [self.events_file(number), self.done_file(number)] {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Keeps a refused event, and only then lets go of its line.
    fn refuse(&mut self, place: Place, text: &str, outcome: &Outcome) -> io::Result<()> {
        if let Some((word, detail)) = refusal(outcome) {
            let event = serde_json::from_str(text)?;
            let line = RefusedLine { outcome: word.to_owned(), detail, event };
            let line = line_of(&serde_json::to_string(&line)?);
            self.keep(&self.spool.refused_file(), line.as_bytes())?;
        }
        self.settle(&[place])
    }

    fn set_aside(&mut self, segment: u64, line: u64, bytes: &[u8]) -> io::Result<()> {
        let mut kept = format!("{} {line} ", name_of(segment, "events")).into_bytes();
        kept.extend_from_slice(bytes);
        kept.push(b'\n');
        self.keep(&self.spool.set_aside_file(), &kept)?;
        self.settle(&[Place { segment, line }])
    }

    /// Appends a line to a file that others may move away at any time.
    fn keep(&self, file: &Path, line: &[u8]) -> io::Result<()> {
        let mut options = private();
        let mut file = options.read(true).append(true).create(true).open(file)?;
        let mut whole = Vec::with_capacity(line.len() + 1);
        if file.seek(SeekFrom::End(0))? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                whole.push(b'\n'); // its last writer broke off
            }
        }
        whole.extend_from_slice(line);
        file.write_all(&whole)?;
        match self.spool.durability {
            Durability::Fsync => file.sync_all().and_then(|()| sync_folder(&self.spool.folder)),
            Durability::Os => Ok(()),
        }
    }

    /// Leaves nothing behind that nobody needs.
    fn close(mut self) -> io::Result<()> {
        match self.active.take() {
            Some(active) => self.drop_if_done(active.number),
            None => Ok(()),
        }
    }

    fn events_file(&self, number: u64) -> PathBuf {
        self.spool.folder.join(name_of(number, "events"))
    }

    fn done_file(&self, number: u64) -> PathBuf {
        self.spool.folder.join(name_of(number, "done"))
    }
}

fn name_of(number: u64, kind: &str) -> String {
    format!("segment-{number:016x}.{kind}")
}

/// Numbers of the segments of which any file is there, in order.
fn segment_numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = PathBuf::from(entry?.file_name());
        let known = matches!(name.extension().and_then(OsStr::to_str), Some("events" | "done"));
        let digits = name.file_stem().and_then(OsStr::to_str).and_then(|stem| stem.strip_prefix("segment-"));
        numbers.extend(digits.filter(|_| known).and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn done_line(segment: u64, line: u64) -> String {
    format!("{line} {}\n", checksum(&format!("{segment} {line}")))
}

/// Lines with a final outcome. What cannot be read is not done: its event is sent again.
fn done_lines(segment: u64, text: &[u8]) -> HashSet<u64> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let done = |text: &str| {
        let line = text.split_once(' ')?.0.parse().ok()?;
        (done_line(segment, line) == text).then_some(line)
    };
    lines.filter_map(done).collect()
}

/// The lines of a segment that are not done.
fn read_segment(file: &Path, bytes: &[u8], done: &HashSet<u64>) -> Result<Found, SpoolError> {
    let mut found = Found::default();
    let header = format!("{NAME} {VERSION}\n");
    for (line, whole) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let (content, ended) = match whole.strip_suffix(b"\n") {
            Some(content) => (content, true),
            None => (whole, false),
        };
        if line == 1 {
            if let Some(found) = other_version(content).filter(|_| ended) {
                return Err(SpoolError::Version { file: file.to_owned(), found });
            }
            // A header that broke off has nothing behind it.
            if header.as_bytes().starts_with(whole) {
                continue;
            }
        }
        if done.contains(&line) {
            continue;
        }
        // A last line that is whole but for its end is the event: nobody was told that it is not.
        match checked(content).map(UsageEvent::from_json) {
            Some(Ok(event)) => found.events.push((line, event)),
            _ => found.unreadable.push((line, content.to_vec(), !ended)),
        }
    }
    Ok(found)
}

fn other_version(header: &[u8]) -> Option<String> {
    let version = std::str::from_utf8(header).ok()?.strip_prefix(NAME)?.strip_prefix(' ')?;
    let is_one = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    (is_one && version != VERSION).then(|| version.to_owned())
}

fn read_if_there(file: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn append_to(file: &Path) -> io::Result<File> {
    private().append(true).create(true).open(file)
}

/// For this user's eyes only: events are the caller's business.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn private_folder(folder: &Path, durability: Durability) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    for made in missing.into_iter().filter(|_| durability == Durability::Fsync) {
        sync_folder(made.parent().unwrap_or(made))?;
    }
    Ok(())
}

/// Makes the names in a folder as durable as what they name.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Elsewhere a folder is no file that could be opened, and its names need no sync.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Told where the event stands, once it is kept, on the spool's thread.
type Kept = Box<dyn FnOnce(io::Result<Place>) + Send>;

enum Job {
    Append { text: Arc<str>, kept: Kept },
    Settle(Place),
    Refuse { place: Place, text: Arc<str>, outcome: Outcome },
    Close(oneshot::Sender<()>),
}

/// The store on a thread of its own: a disk's waits are none of the runtime's.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    failures: Arc<AtomicU64>,
}

impl Writer {
    /// Opens the spool.
    pub(crate) async fn open(spool: Spool) -> Result<(Self, Backlog, Recovery), SpoolError> {
        let (jobs, received) = mpsc::channel();
        let (opened, wait) = oneshot::channel();
        let failures = Arc::new(AtomicU64::new(0));
        let (counted, folder) = (Arc::clone(&failures), spool.folder.clone());
        let thread = std::thread::Builder::new().name("tollgate-spool".to_owned()).spawn(move || {
            let opening = Store::open(&spool);
            let (store, rest) = match opening {
                Ok((store, backlog, recovery)) => (Some(store), Ok((backlog, recovery))),
                Err(error) => (None, Err(error)),
            };
            // Nobody waits for it any more: the lock goes with the store.
            if opened.send(rest).is_ok()
                && let Some(store) = store
            {
                work(store, &received, &counted);
            }
        });
        thread.map_err(|source| SpoolError::Io { path: folder.clone(), source })?;
        let gone = || SpoolError::Io { path: folder, source: io::Error::other("the spool's thread is gone") };
        let (backlog, recovery) = wait.await.map_err(|_| gone())??;
        Ok((Self { jobs, failures }, backlog, recovery))
    }

    /// Keeps an event and calls `kept`; drops it uncalled when the spool is closed.
    pub(crate) fn append(&self, text: Arc<str>, kept: Kept) {
        self.send(Job::Append { text, kept });
    }

    /// The event's outcome is final.
    pub(crate) fn settle(&self, place: Place, text: Arc<str>, outcome: &Outcome) {
        self.send(match outcome {
            Outcome::Queued { .. } => Job::Settle(place),
            outcome => Job::Refuse { place, text, outcome: outcome.clone() },
        });
    }

    /// Returns when everything said before is done and the folder is free.
    pub(crate) async fn close(&self) {
        let (done, wait) = oneshot::channel();
        self.send(Job::Close(done));
        // An error: it is closed already.
        let _closed = wait.await;
    }

    /// Writes that failed after the event was kept: at worst it is sent again.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn send(&self, job: Job) {
        // An error: it is closed, and the job is dropped with all that waits for it.
        let _sent = self.jobs.send(job);
    }
}

/// Does jobs until it is told to close or nobody is left to tell.
fn work(mut store: Store, jobs: &mpsc::Receiver<Job>, failures: &AtomicU64) {
    let count = |result: io::Result<()>| {
        failures.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
    };
    let mut closed = None;
    while closed.is_none() {
        let Ok(first) = jobs.recv() else { break };
        let (mut texts, mut waiting, mut places, mut refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for job in std::iter::once(first).chain(jobs.try_iter().take(MAX_GROUP)) {
            match job {
                Job::Append { text, kept } => {
                    texts.push(text);
                    waiting.push(kept);
                }
                Job::Settle(place) => places.push(place),
                Job::Refuse { place, text, outcome } => refused.push((place, text, outcome)),
                Job::Close(done) => closed = Some(done),
            }
            if closed.is_some() {
                break;
            }
        }
        if !texts.is_empty() {
            tell(store.append(&texts.iter().map(AsRef::as_ref).collect::<Vec<_>>()), waiting);
        }
        count(store.settle(&places));
        for (place, text, outcome) in refused {
            count(store.refuse(place, &text, &outcome));
        }
    }
    count(store.close());
    if let Some(closed) = closed {
        let _told = closed.send(());
    }
}

fn tell(appended: io::Result<Vec<Place>>, waiting: Vec<Kept>) {
    match appended {
        Ok(places) => waiting.into_iter().zip(places).for_each(|(kept, place)| kept(Ok(place))),
        Err(error) => {
            for kept in waiting {
                kept(Err(io::Error::new(error.kind(), error.to_string())));
            }
        }
    }
}

#[cfg(test)]
mod tests;
