//! Read the indices of packets that `LTTng` writes for each stream, `index/<stream>.idx`.
//!
//! They contain nothing that the heads of the packets do not, and the heads are authoritative: an
//! index may be torn, or belong to another recording. But if a head is damaged, or the end of a
//! stream is missing, the index still shows what was there ([`crate::stream_file`]).
//!
//! Source: `src/common/index/ctf-index.h` of LTTng-tools (versions 1.0 and 1.1), big-endian.

use crate::error::{Error, Result, fail};
use crate::packet::MAX_PACKET;

const MAGIC: u32 = 0xC1F1_DCC1;
const HEADER: usize = 16;
/// Bytes of an entry of version 1.0, and of 1.1, which also has the instance and number.
const ENTRY: [usize; 2] = [56, 72];
/// Largest accepted entry, in bytes: more than any version needs.
const MAX_ENTRY: usize = 4096;

/// The entry of one packet in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// First byte.
    pub offset: u64,
    /// Bits up to the next packet.
    pub total_bits: u64,
    /// Bits up to the end of the last event.
    pub content_bits: u64,
    /// Cycles at the beginning of the packet.
    pub begin: u64,
    /// Cycles at the end of the packet.
    pub end: u64,
    /// Events discarded in its stream so far.
    pub discarded: u64,
    /// Number of the stream class.
    pub class: u64,
    /// Number of the stream among those of that class, and of the packet in the stream.
    pub instance_and_sequence: Option<(u64, u64)>,
}

impl Entry {
    /// Return the first byte after the packet.
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.offset + self.total_bits / 8
    }
}

/// Parse the entries of an index file, in the order of the packets.
///
/// # Errors
///
/// The file is no index, ends inside an entry, or its entries contradict themselves or each other.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
    };
    let header = (word(0), word(4), word(8), word(12));
    let (Some(magic), Some(major), Some(minor), Some(length)) = header else {
        return fail(0, "ends inside its header");
    };
    if magic != MAGIC {
        return fail(
            0,
            format!("not an LTTng index: magic number 0x{magic:08X}, expected 0x{MAGIC:08X}"),
        );
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let numbered = minor >= 1;
    if major != 1 || length < ENTRY[usize::from(numbered)] || length > MAX_ENTRY {
        return fail(
            4,
            format!("version {major}.{minor} with entries of {length} bytes is not known"),
        );
    }
    let entries = bytes[HEADER..].chunks(length);
    let mut checked: Vec<Entry> = Vec::with_capacity(entries.len());
    for (number, bytes) in entries.enumerate() {
        let at = (HEADER + number * length) as u64;
        if bytes.len() < length {
            return fail(at, "ends inside an entry");
        }
        let word = |field: usize| {
            let bytes = bytes.get(field * 8..).and_then(|b| b.first_chunk());
            bytes.map_or(0, |b| u64::from_be_bytes(*b))
        };
        let entry = Entry {
            offset: word(0),
            total_bits: word(1),
            content_bits: word(2),
            begin: word(3),
            end: word(4),
            discarded: word(5),
            class: word(6),
            instance_and_sequence: numbered.then(|| (word(7), word(8))),
        };
        check(&entry, checked.last()).map_err(|what| Error::new(at, what))?;
        checked.push(entry);
    }
    Ok(checked)
}

fn check(entry: &Entry, before: Option<&Entry>) -> std::result::Result<(), String> {
    let Entry {
        offset,
        total_bits,
        content_bits,
        begin,
        end,
        ..
    } = *entry;
    if total_bits == 0 || !total_bits.is_multiple_of(8) || total_bits / 8 > MAX_PACKET {
        return Err(format!("a packet of {total_bits} bits"));
    }
    if content_bits > total_bits {
        return Err(format!(
            "{content_bits} bits of content in a packet of {total_bits} bits"
        ));
    }
    if offset.checked_add(total_bits / 8).is_none() {
        return Err(format!("a packet at byte {offset}"));
    }
    if begin > end {
        return Err(format!("a packet that begins at {begin} and ends at {end}"));
    }
    match before {
        Some(before) if offset < before.ends() => Err(format!(
            "the packet at byte {offset} overlaps the one before, which ends at byte {}",
            before.ends()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(minor: u32, entries: &[[u64; 9]]) -> Vec<u8> {
        let words = if minor == 0 { 7 } else { 9 };
        let header = [MAGIC, 1, minor, words * 8];
        let mut bytes: Vec<u8> = header.iter().flat_map(|w| w.to_be_bytes()).collect();
        for entry in entries {
            let words = &entry[..words as usize];
            bytes.extend(words.iter().flat_map(|w| w.to_be_bytes()));
        }
        bytes
    }

    const TWO: [[u64; 9]; 2] = [
        [0, 800, 700, 5, 9, 1, 0, 3, 0],
        [100, 80, 80, 9, 12, 4, 0, 3, 1],
    ];

    #[test]
    fn entries_of_both_versions() {
        let new = parse(&file(1, &TWO)).unwrap();
        assert_eq!(new[1].instance_and_sequence, Some((3, 1)));
        let old = parse(&file(0, &TWO)).unwrap();
        assert_eq!(old[1].instance_and_sequence, None);
        for entries in [new, old] {
            assert_eq!(entries.len(), 2);
            assert_eq!((entries[0].offset, entries[0].ends()), (0, 100));
            let last = entries[1];
            assert_eq!((last.begin, last.end, last.discarded), (9, 12, 4));
        }
        assert_eq!(parse(&file(1, &[])).unwrap(), []);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let with = |entry: usize, word: usize, value: u64| {
            let mut entries = TWO;
            entries[entry][word] = value;
            parse(&file(1, &entries)).unwrap_err().to_string()
        };
        assert!(with(1, 0, 99).starts_with("byte 88: the packet at byte 99 overlaps"));
        assert!(with(0, 1, 801).contains("a packet of 801 bits"));
        assert!(with(0, 1, 0).contains("a packet of 0 bits"));
        assert!(with(0, 1, 1 << 40).contains("a packet of"));
        assert!(with(0, 2, 801).contains("801 bits of content"));
        assert!(with(0, 3, 10).contains("begins at 10 and ends at 9"));
        assert!(with(1, 0, u64::MAX).contains("a packet at byte"));
    }

    #[test]
    fn what_is_torn_or_no_index_is_refused() {
        let whole = file(1, &TWO);
        for length in 0..whole.len() {
            let whole_entries = length >= HEADER && (length - HEADER).is_multiple_of(72);
            assert_eq!(parse(&whole[..length]).is_ok(), whole_entries);
        }
        for (at, value) in [(0, 0), (7, 2), (15, 55), (13, 255)] {
            let mut other = whole.clone();
            other[at] = value;
            assert!(parse(&other).is_err());
        }
    }
}
