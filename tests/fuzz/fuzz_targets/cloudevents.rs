//! A CloudEvent or a batch of them; the first byte says in which mode.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tollgate_fuzz::cloudevents(bytes);
});
