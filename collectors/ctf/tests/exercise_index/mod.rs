//! Find the packets of any bytes with and without an index, and compare the results.

use std::io::Cursor;

use roslens_ctf::model::Trace;
use roslens_ctf::stream_file::{Contents, find};

/// Find the packets of `stream` with and without `index`; return what was found with it.
///
/// # Panics
///
/// If the index removed or changed packets, or the packets contradict the file.
pub fn exercise(trace: &Trace, index: &[u8], stream: &[u8]) -> Option<Contents> {
    let with = find(trace, &mut Cursor::new(stream), Some(index));
    let without = find(trace, &mut Cursor::new(stream), None);
    let Ok(without) = without else {
        // The beginning of the stream cannot be read; an index may help.
        check(&with.ok()?, stream);
        return None;
    };
    let with = with.expect("what can be read without an index can be read with it");
    check(&without, stream);
    check(&with, stream);
    assert_eq!(without.index_fault, None);
    if with.index_fault.is_some() && with.lost.iter().all(|lost| lost.until.is_none()) {
        assert_eq!(with.packets, without.packets);
    }
    // An index may only cut a packet whose stated size is wrong, and add those after it.
    assert!(with.packets.len() >= without.packets.len());
    for (with, without) in with.packets.iter().zip(&without.packets) {
        assert_eq!((with.offset, &with.head), (without.offset, &without.head));
        assert!(with.bytes <= without.bytes);
    }
    Some(with)
}

fn check(contents: &Contents, stream: &[u8]) {
    let mut end = 0;
    for packet in &contents.packets {
        assert!(packet.offset >= end);
        assert!(packet.bytes > 0 && packet.bytes <= packet.head.total_bits / 8);
        end = packet.offset + packet.bytes;
        assert!(end <= stream.len() as u64);
    }
    for lost in &contents.lost {
        assert!(lost.after.is_none_or(|at| at < contents.packets.len()));
        assert!(lost.until.is_none_or(|at| at < contents.packets.len()));
    }
}
