//! The blocking client against a scripted server on loopback, from where there is no runtime and from inside of one.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tollgate_client::{Closed, NotRecordedReason, Outcome, Recorded, Recorder, Spool, StartError, blocking};

use crate::support::{Server, Step, event, quick};

/// What every caller sees.
fn use_it(server: &Server) {
    let client = blocking::Client::new(server.client(quick())).unwrap();
    assert!(matches!(client.record(&event(1)), Outcome::Queued { .. }));
    assert_eq!(client.record_batch(&[event(1), event(2)]).len(), 2);
    assert!(client.record_batch_partial(&[event(1)]).iter().all(|outcome| matches!(outcome, Outcome::Queued { .. })));
    // The scripted server has no word on a status: a queued event whose end is not told.
    let recorded = client.clone().record_and_wait(&event(1), Duration::from_millis(300));
    assert!(matches!(&recorded, Recorded::Unavailable { queued: true, .. }), "{recorded:?}");
    let recorded = client.record_and_wait_batch(&[event(1), event(2)], Duration::from_millis(300));
    assert!(recorded.iter().all(|end| matches!(end, Recorded::Unavailable { queued: true, .. })), "{recorded:?}");
    assert_eq!(recorded.len(), 2);
    let json: serde_json::Value = serde_json::from_str(&event(1).to_json()).unwrap();
    assert!(matches!(client.record_json_batch(&[json]).as_slice(), [Outcome::Queued { .. }]));
    assert!(client.usage(None).is_err());
    assert!(client.event_status(&event(1).id(), Duration::ZERO).is_err());

    let (told, outcomes) = mpsc::channel();
    let observer = move |settled| told.send(settled).unwrap();
    let recorder = blocking::Recorder::start(Recorder::builder(server.client(quick()), observer)).unwrap();
    recorder.record(event(3)).unwrap();
    recorder.try_record(event(4)).unwrap();
    assert_eq!(recorder.flush(Duration::from_secs(30)).unwrap().unwrap().queued, 2);
    assert_eq!(outcomes.try_iter().count(), 2);
    let other = recorder.clone();
    let Closed { unsent, counts, .. } = recorder.close().unwrap();
    assert_eq!((unsent.len(), counts.queued), (0, 2));
    assert!(matches!(other.record(event(5)).unwrap_err().reason, NotRecordedReason::Closed));
    assert!(other.flush(Duration::ZERO).is_err());
}

#[test]
fn it_works_without_a_runtime() {
    use_it(&Server::on_a_thread(vec![Step::Queue]));
}

#[tokio::test]
async fn it_works_inside_a_runtime_of_one_thread() {
    let server = Server::on_a_thread(vec![Step::Queue]);
    use_it(&server);
    // Dropped in async code as well, which a runtime of its own would not survive.
    drop(blocking::Client::new(server.client(quick())).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_inside_a_runtime_of_many_threads() {
    use_it(&Server::on_a_thread(vec![Step::Queue]));
}

#[test]
fn an_observer_that_calls_its_own_thread_is_answered_and_does_not_wait_for_ever() {
    let server = Server::on_a_thread(vec![Step::Queue]);
    let (told, answers) = mpsc::channel();
    let (give, own) = mpsc::channel::<blocking::Recorder>();
    let observer = move |_| {
        if let Ok(own) = own.recv() {
            told.send(own.record(event(2)).unwrap_err().reason).unwrap();
            // The last handle may be dropped here, too.
        }
    };
    let recorder = blocking::Recorder::start(Recorder::builder(server.client(quick()), observer)).unwrap();
    recorder.record(event(1)).unwrap();
    give.send(recorder.clone()).unwrap();
    assert!(matches!(answers.recv().unwrap(), NotRecordedReason::Closed));
    assert!(recorder.close().unwrap().unsent.is_empty());
}

#[test]
fn a_dropped_recorder_s_spool_is_sent_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Server::on_a_thread(vec![Step::Drop]);
    let spool = || Spool::at(folder.path());
    let (recorder, recovery) =
        blocking::Recorder::start_with_spool(Recorder::builder(dead.client(quick()), |_| {}), spool()).unwrap();
    assert_eq!(recovery.events, 0);
    (0..5).for_each(|number| recorder.record(event(number)).unwrap());
    let in_use = blocking::Recorder::start_with_spool(Recorder::builder(dead.client(quick()), |_| {}), spool());
    assert!(matches!(in_use, Err(StartError::Spool(_))));
    drop(recorder);
    let alive = Server::on_a_thread(vec![Step::Queue]);
    let (recorder, recovery) = loop {
        let builder = Recorder::builder(alive.client(quick()), |_| {});
        match blocking::Recorder::start_with_spool(builder, spool()) {
            Ok(started) => break started,
            Err(StartError::Spool(_)) => thread::yield_now(), // its thread is on the way out
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(recovery.events, 5);
    let closed = recorder.close().unwrap();
    assert_eq!((closed.unsent.len(), closed.counts.queued), (0, 5));
}
