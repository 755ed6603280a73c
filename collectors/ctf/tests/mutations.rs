//! Check that damaged traces cause no panic, and that the fast and the general decoder agree.
//!
//! A short run of what `fuzz/` does at length, with the same seeds every time. `data/ctf2.*` was
//! made by `tests/ctf/ctf2_model.py`, the others by barectf (`tests/ctf/barectf/README.md`) and by
//! `LTTng`.

mod exercise;

use exercise::exercise;

macro_rules! lttng {
    ($name:literal) => {
        include_bytes!(concat!(
            "../../../data/samples/demo/003_r1_executor-Events/trace/ust/uid/0/64-bit/",
            $name
        ))
    };
}

const TRACES: [(&[u8], &[u8]); 3] = [
    (
        include_bytes!("data/ctf2.metadata"),
        include_bytes!("data/ctf2.stream"),
    ),
    (
        include_bytes!("../../../tests/ctf/barectf/trace/metadata"),
        include_bytes!("../../../tests/ctf/barectf/trace/stream"),
    ),
    (lttng!("metadata"), lttng!("ros2_0")),
];

struct Draw(u64);

impl Draw {
    /// Draw a number below `limit` (xorshift).
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % limit.max(1)
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 0xff, 0x7f, 0x80, b'9'][self.below(5)],
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..(at + self.below(16)).min(bytes.len()))),
                _ => {
                    let from = self.below(bytes.len());
                    let piece = bytes[from..(from + self.below(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
    }
}

/// Metadata of events of 11 bits, each at a whole byte; CTF 1.8.3, 4.1.2.
const BIT_PACKED: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
trace { major = 1; minor = 8; byte_order = le; };
stream {
    packet.context := struct { uint8_t content_size; uint8_t packet_size; };
    event.header := struct { uint8_t id; };
};
event {
    name = "three"; id = 0;
    fields := struct { integer { size = 3; align = 1; signed = false; } _bits; };
};
"#;

#[test]
fn bits_that_fill_up_the_last_byte_are_no_event() {
    let (content, total) = (6 * 8, 8 * 8);
    let stream = [content, total, 0, 5, 0, 6, 0xff, 0xff];
    assert_eq!(exercise(BIT_PACKED.as_bytes(), &stream), Some(2));
}

#[test]
fn whole_traces_decode_in_both_ways() {
    for (metadata, stream) in TRACES {
        assert!(exercise(metadata, stream).unwrap() > 0);
    }
}

#[test]
fn damaged_traces_decode_in_both_ways() {
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for round in 0..600 {
        let (metadata, stream) = TRACES[round % 3];
        let (mut metadata, mut stream) = (metadata.to_vec(), stream.to_vec());
        // The stream is damaged more often, because damaged metadata are mostly refused.
        if round % 4 == 0 {
            draw.damage(&mut metadata);
        }
        draw.damage(&mut stream);
        accepted += u32::from(exercise(&metadata, &stream).is_some());
    }
    assert!(accepted > 300);
}

/// The second event's header has no time: it gets that of the first one from both decoders.
#[test]
fn an_event_without_a_time_has_that_of_the_one_before() {
    let metadata = b"/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; };
        stream {
            event.header := struct {
                enum : integer { size = 8; align = 8; } { short = 0 ... 254, long = 255 } id;
                variant <id> {
                    struct { integer { size = 8; align = 8; } none; } short;
                    struct {
                        integer { size = 8; align = 8; } id;
                        integer { size = 64; align = 8; map = clock.c.value; } timestamp;
                    } long;
                } v;
            };
        };
        event { name = a; id = 0; fields := struct { integer { size = 8; align = 8; } x; }; };
        event { name = b; id = 1; fields := struct { integer { size = 8; align = 8; } x; }; };";
    let mut stream = vec![255, 1];
    stream.extend(1_234_567_u64.to_le_bytes());
    stream.extend([7, 0, 0, 8]);
    assert_eq!(exercise(metadata, &stream), Some(2));
}

/// A header with two readings of a clock moves it twice in both decoders.
#[test]
fn every_time_of_a_header_moves_the_clock() {
    let metadata = b"/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; };
        stream {
            event.header := struct {
                integer { size = 8; align = 8; } id;
                integer { size = 32; align = 8; map = clock.c.value; } before;
                integer { size = 32; align = 8; map = clock.c.value; } timestamp;
            };
        };
        event { name = a; id = 0; fields := struct { integer { size = 8; align = 8; } x; }; };";
    let mut stream = vec![0];
    // The second reading is smaller, so the clock wrapped in between.
    for time in [u32::MAX, 1] {
        stream.extend(time.to_le_bytes());
    }
    stream.push(7);
    assert_eq!(exercise(metadata, &stream), Some(1));
}
