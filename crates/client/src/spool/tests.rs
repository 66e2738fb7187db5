//! Tests of `spool`.

use tempfile::TempDir;
use tollgate_domain::time::UtcMillis;

use super::*;

fn event(number: usize) -> UsageEvent {
    let at = UtcMillis::parse("2026-01-01T00:00:00Z").unwrap();
    UsageEvent::builder("m", "s", at).property("n", number).build().unwrap()
}

fn events(numbers: std::ops::Range<usize>) -> Vec<UsageEvent> {
    numbers.map(event).collect()
}

fn append(store: &mut Store, events: &[UsageEvent]) -> Vec<Place> {
    let texts: Vec<String> = events.iter().map(UsageEvent::to_json).collect();
    store.append(&texts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
}

/// Opens the spool, and tells its events.
fn reopen(spool: &Spool) -> (Store, Vec<UsageEvent>, Recovery) {
    let (store, backlog, recovery) = Store::open(spool).unwrap();
    (store, backlog.into_iter().map(|(_, event)| event).collect(), recovery)
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A folder with four events in one segment, of which the second is done; and the segment's two files.
fn written() -> (TempDir, Spool, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::at(folder.path());
    let (mut store, backlog, recovery) = reopen(&spool);
    assert_eq!((backlog.len(), recovery), (0, Recovery::default()));
    let places = append(&mut store, &events(0..4));
    store.settle(&places[1..2]).unwrap();
    let (events, done) = (store.events_file(1), store.done_file(1));
    (folder, spool, events, done)
}

#[test]
fn an_append_that_broke_off_at_any_byte_leaves_the_whole_events_before_it() {
    let (_folder, spool, file, done) = written();
    std::fs::remove_file(done).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    for cut in 0..=bytes.len() {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let _gone = std::fs::remove_file(spool.set_aside_file());
        // An event is there as soon as all of it but the line's end is.
        let whole = ends[1..].iter().filter(|end| cut >= **end).count();
        let (store, backlog, recovery) = reopen(&spool);
        assert_eq!(backlog, events(0..whole), "cut at {cut}");
        assert_eq!(recovery.events, whole);
        let torn = cut > ends[0] + 1 && !ends[1..].iter().any(|end| cut == *end || cut == end + 1);
        assert_eq!(recovery.set_aside.len(), usize::from(torn), "cut at {cut}");
        assert!(recovery.set_aside.iter().all(|line| line.torn));
        if torn {
            let kept = std::fs::read(spool.set_aside_file()).unwrap();
            let tail = &bytes[ends[whole] + 1..cut];
            assert!(kept.strip_suffix(b"\n").unwrap().ends_with(tail), "cut at {cut}");
        }
        drop(store);
        // What was told once is not told again.
        let (_store, backlog, recovery) = reopen(&spool);
        assert_eq!((backlog.len(), recovery.set_aside.len()), (whole, 0), "cut at {cut}");
        let _gone = std::fs::remove_file(name_path(&spool, "done"));
    }
}

fn name_path(spool: &Spool, kind: &str) -> PathBuf {
    spool.folder.join(name_of(1, kind))
}

#[test]
fn done_lines_that_broke_off_or_changed_make_a_second_try_and_never_a_loss() {
    let (_folder, spool, file, done) = written();
    let (bytes, lines) = (std::fs::read(&file).unwrap(), std::fs::read(&done).unwrap());
    let with_done = |text: &[u8]| {
        std::fs::write(&file, &bytes).unwrap();
        std::fs::write(&done, text).unwrap();
        reopen(&spool).1
    };
    let without_second: Vec<UsageEvent> = [0, 2, 3].map(event).into();
    for cut in 0..lines.len() {
        assert_eq!(with_done(&lines[..cut]), events(0..4), "cut at {cut}");
    }
    assert_eq!(with_done(&lines), without_second);
    for at in 0..lines.len() {
        let mut changed = lines.clone();
        changed[at] ^= 1;
        assert_eq!(with_done(&changed), events(0..4), "changed at {at}");
    }
}

#[test]
fn a_changed_byte_anywhere_is_told_and_costs_no_other_line() {
    let (_folder, spool, file, done) = written();
    std::fs::remove_file(&done).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x80; // no digit becomes another one, and no text UTF-8
        std::fs::write(&file, &changed).unwrap();
        let (store, backlog, recovery) = reopen(&spool);
        let line = bytes[..at].split(|byte| *byte == b'\n').count() - 1;
        // A lost line end joins two lines; the last line has none behind it to join.
        let hit: Vec<usize> = match bytes[at] {
            b'\n' => (line..=(line + 1).min(4)).collect(),
            _ => vec![line],
        };
        let expected: Vec<UsageEvent> =
            (1..=4).filter(|line| !hit.contains(line)).map(|line| event(line - 1)).collect();
        assert_eq!(backlog, expected, "changed at {at}");
        assert_eq!(recovery.set_aside.len(), 1, "changed at {at}");
        drop(store);
        assert_eq!(reopen(&spool).2.set_aside, [], "told once");
        let _gone = std::fs::remove_file(&done);
    }
    let kept = std::fs::read(spool.set_aside_file()).unwrap();
    assert!(kept.len() > bytes.len(), "every changed line is kept");
}

#[test]
fn a_segment_goes_when_every_event_of_it_is_done_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    // Full after every append.
    let spool = Spool::at(folder.path()).segment_bytes(1).durability(Durability::Os);
    let (mut store, ..) = reopen(&spool);
    let (first, second) = (append(&mut store, &events(0..2)), append(&mut store, &events(2..4)));
    let both = ["lock", "segment-0000000000000001.events", "segment-0000000000000002.events"];
    assert_eq!(files(folder.path()), both);
    store.settle(&[first[1], second[0]]).unwrap();
    assert_eq!(files(folder.path()).len(), 5);
    store.settle(&first[..1]).unwrap();
    let kept = ["lock", "segment-0000000000000002.done", "segment-0000000000000002.events"];
    assert_eq!(files(folder.path()), kept);
    store.close().unwrap();
    let (mut store, backlog, _) = reopen(&spool);
    assert_eq!(backlog, [event(3)]);
    store.settle(&second[1..]).unwrap();
    assert_eq!(files(folder.path()), ["lock"]);
    // A number is never used twice while anything remembers it.
    std::fs::write(store.done_file(7), "").unwrap();
    store.close().unwrap();
    let (mut store, ..) = reopen(&spool);
    assert_eq!(files(folder.path()), ["lock"]);
    assert!(append(&mut store, &events(0..1))[0].segment > 7);
}

#[test]
fn a_closed_store_leaves_its_open_events_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::at(folder.path());
    let (mut store, ..) = reopen(&spool);
    let places = append(&mut store, &events(0..2));
    store.settle(&places).unwrap();
    assert_eq!(files(folder.path()).len(), 3, "the active segment stays");
    store.close().unwrap();
    assert_eq!(files(folder.path()), ["lock"]);
}

#[test]
fn a_refused_event_is_kept_before_it_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::at(folder.path());
    let (mut store, ..) = reopen(&spool);
    let places = append(&mut store, &events(0..6));
    let outcomes = [
        Outcome::Conflict { problems: Vec::new() },
        Outcome::Invalid { problems: Vec::new() },
        Outcome::QuotaExceeded { quota: crate::Quota::default() },
        Outcome::Unauthorized { code: "revoked_key".to_owned(), detail: "d".to_owned() },
        Outcome::Refused { status: 404, code: None, detail: String::new() },
    ];
    for (number, outcome) in outcomes.iter().enumerate() {
        if number == 2 {
            // A line that broke off does not swallow the next one.
            let mut file = append_to(&spool.refused_file()).unwrap();
            file.write_all(b"0123").unwrap();
        }
        store.refuse(places[number], &event(number).to_json(), outcome).unwrap();
    }
    let (refused, unreadable) = read_refused(&spool.refused_file()).unwrap();
    let words: Vec<&str> = refused.iter().map(|refused| refused.outcome.as_str()).collect();
    assert_eq!(words, ["conflict", "invalid", "quota_exceeded", "unauthorized", "refused"]);
    assert_eq!(refused.iter().map(|refused| refused.event.clone()).collect::<Vec<_>>(), events(0..5));
    assert_eq!((unreadable, refused[3].detail.as_str()), (1, "revoked_key: d"));
    drop(store);
    assert_eq!(reopen(&spool).1, [event(5)]);

    // Where it cannot be kept, it is not let go.
    std::fs::remove_file(spool.refused_file()).unwrap();
    std::fs::create_dir(spool.refused_file()).unwrap();
    let (mut store, ..) = reopen(&spool);
    assert!(store.refuse(places[5], &event(5).to_json(), &outcomes[0]).is_err());
    drop(store);
    assert_eq!(reopen(&spool).1, [event(5)]);
}

#[test]
fn one_writer_a_folder_and_one_version() {
    let (_folder, spool, file, _) = written();
    let (store, ..) = reopen(&spool);
    assert!(matches!(Store::open(&spool), Err(SpoolError::InUse { .. })));
    drop(store);
    let (store, backlog, _) = reopen(&spool);
    assert_eq!(backlog.len(), 3);
    drop(store);

    let other = std::fs::read_to_string(&file).unwrap().replacen("spool 1", "spool 2", 1);
    std::fs::write(&file, &other).unwrap();
    let error = Store::open(&spool).map(|_| ()).unwrap_err();
    assert!(matches!(&error, SpoolError::Version { found, .. } if found == "2"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), other, "and nothing is changed");
}

#[cfg(unix)]
#[test]
fn nobody_else_reads_the_events() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let spool = Spool::at(parent.path().join("a/b"));
    let (mut store, ..) = reopen(&spool);
    let places = append(&mut store, &events(0..3));
    store.settle(&places[..1]).unwrap();
    store.refuse(places[1], &event(1).to_json(), &Outcome::Conflict { problems: Vec::new() }).unwrap();
    store.set_aside(1, 4, b"x").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&spool.folder), 0o700);
    assert_eq!(files(&spool.folder).len(), 5);
    for file in files(&spool.folder) {
        assert_eq!(mode(&spool.folder.join(&file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_write_that_failed_is_told_and_its_folder_works_again_afterwards() {
    let parent = tempfile::tempdir().unwrap();
    let spool = Spool::at(parent.path().join("spool"));
    let (writer, ..) = Writer::open(spool.clone()).await.unwrap();
    std::fs::rename(&spool.folder, parent.path().join("away")).unwrap();
    let keep = async |number: usize| {
        let (told, wait) = oneshot::channel();
        let kept = Box::new(move |result: io::Result<Place>| told.send(result).unwrap());
        writer.append(event(number).to_json().into(), kept);
        wait.await.unwrap()
    };
    assert_eq!(keep(1).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    std::fs::rename(parent.path().join("away"), &spool.folder).unwrap();
    keep(2).await.unwrap();
    writer.close().await;
    assert_eq!(reopen(&spool).1, [event(2)]);
}
