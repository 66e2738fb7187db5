//! A call's body in Tollgate's own form.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tollgate_fuzz::body(bytes);
});
