//! Find packets in damaged streams with damaged indices, in a short run (`fuzz/` does long ones).

mod exercise_index;

use exercise_index::exercise;
use roslens_ctf::metadata;

const PACKETS: u64 = 6;

/// Make packets without events as `lttng_ust.tsdl` declares them, and their index.
fn make() -> (Vec<u8>, Vec<u8>) {
    let mut stream = Vec::new();
    let mut index: Vec<u8> = [0xC1F1_DCC1_u32, 1, 1, 72]
        .iter()
        .flat_map(|w| w.to_be_bytes())
        .collect();
    for number in 0..PACKETS {
        let start = stream.len();
        let (begin, end) = (1000 * number, 1000 * number + 500);
        let (content, total) = (84 * 8, (84 + 5 * number) * 8);
        stream.extend(0xC1FC_1FC1_u32.to_le_bytes());
        stream.extend(0..16_u8);
        stream.extend(0_u32.to_le_bytes());
        for word in [5, begin, end, content, total, number, 3 * number] {
            stream.extend(word.to_le_bytes());
        }
        stream.extend(2_u32.to_le_bytes());
        stream.resize(start + usize::try_from(total / 8).unwrap(), 0);
        let words = [
            start as u64,
            total,
            content,
            begin,
            end,
            3 * number,
            0,
            5,
            number,
        ];
        index.extend(words.iter().flat_map(|w| w.to_be_bytes()));
    }
    (stream, index)
}

/// Draw a number below `limit` (xorshift).
fn below(state: &mut u64, limit: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 16).unwrap() % limit.max(1)
}

#[test]
fn any_damage_to_both() {
    let trace = metadata::parse(include_bytes!("lttng_ust.tsdl")).unwrap();
    let (whole, believable) = make();
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut believed = 0;
    for round in 0..4000 {
        let (mut stream, mut index) = (whole.clone(), believable.clone());
        for (bytes, wanted) in [(&mut stream, round % 2 == 0), (&mut index, round % 3 == 0)] {
            for _ in 0..usize::from(wanted) * (1 + below(&mut state, 3)) {
                let at = below(&mut state, bytes.len());
                match below(&mut state, 4) {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = 0xff,
                    2 => bytes.extend_from_within(at..),
                    _ => bytes[at] ^= 1 << below(&mut state, 8),
                }
            }
        }
        let found = exercise(&trace, &index, &stream);
        if stream == whole {
            let found = found.as_ref().unwrap();
            assert_eq!(
                (found.packets.len() as u64, &found.lost),
                (PACKETS, &vec![])
            );
            // Another minor version is no damage: a later one may add fields, an earlier has fewer.
            if index.get(8..12) == believable.get(8..12) {
                assert_eq!(found.index_fault.is_some(), index != believable);
            }
        }
        believed += u32::from(found.is_some_and(|found| found.index_fault.is_none()));
    }
    assert!(believed > 500);
}
