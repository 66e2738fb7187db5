//! Any JSON text, and any text that is none.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tollgate_fuzz::canonical_json(bytes);
});
