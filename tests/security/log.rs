//! What this thread logs.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends each thread's log to its own memory from now on. One subscriber for the whole process: `tracing` remembers
/// for good what a thread without one finds uninteresting.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        log.with_writer(|| ThreadLog).init();
    });
    LOG.with_borrow_mut(Vec::clear);
}

/// What this thread has logged since it began to listen.
pub(crate) fn logged() -> String {
    LOG.with_borrow(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

struct ThreadLog;

impl Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
