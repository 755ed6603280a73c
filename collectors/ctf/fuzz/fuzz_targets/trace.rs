//! Reads any bytes as metadata and a stream: two bytes with the length of the metadata, then both.

#![no_main]

#[path = "../../tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((length, rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (metadata, stream) = rest.split_at(length);
        exercise::exercise(metadata, stream);
    }
});
