//! Reads any bytes as a stream file and LTTng's index of it: two bytes with the length of the
//! index, then both. The metadata are those of `tests/lttng_ust.tsdl`.

#![no_main]

use std::sync::OnceLock;

use roslens_ctf::metadata;
use roslens_ctf::model::Trace;

#[path = "../../tests/exercise_index/mod.rs"]
mod exercise_index;

static TRACE: OnceLock<Trace> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let trace = TRACE.get_or_init(|| {
        metadata::parse(include_bytes!("../../tests/lttng_ust.tsdl")).expect("valid")
    });
    if let Some((length, rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (index, stream) = rest.split_at(length);
        exercise_index::exercise(trace, index, stream);
    }
});
