//! Any bytes as metadata.

#![no_main]

#[path = "../../tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    exercise::exercise(data, &[]);
});
