//! Find the packets of one stream file.
//!
//! Each head says where the next packet begins. The heads are authoritative; `LTTng`'s index of the
//! file ([`crate::lttng_index`]) is compared with them, and helps if they fail: after a damaged
//! head it shows where the next packet is, and at the end of a file that is too short, what is
//! missing. An index that contradicts the heads is not used.

use std::io::{self, Read, Seek, SeekFrom};

use crate::lttng_index::{self, Entry};
use crate::model::Trace;
use crate::packet::{Head, head};
use crate::walk::Stop;

/// The number of bytes that are first read for a head.
const WINDOW: u64 = 2 << 10;

/// Room after the bytes that are read, as the decoder may copy more than an event needs.
pub(crate) const SLACK: usize = 64;

/// Replace the contents of `bytes` by `length` bytes at `offset`, with room for the slack; by fewer
/// if the file ends before.
pub(crate) fn read_at(
    source: &mut (impl Read + Seek),
    offset: u64,
    length: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    bytes.clear();
    bytes.reserve_exact(usize::try_from(length).unwrap_or(0) + SLACK);
    source.seek(SeekFrom::Start(offset))?;
    source.take(length).read_to_end(bytes)?;
    Ok(())
}

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// Number of bytes that are there; fewer than the packet has if the file is cut.
    pub bytes: u64,
    /// Its head.
    pub head: Head,
}

/// Packets that are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The last packet before them.
    pub after: Option<usize>,
    /// The packet that follows them; `None` if all up to the end are missing.
    pub until: Option<usize>,
    /// How many, if an index shows that.
    pub packets: Option<u64>,
    /// Clock and cycles at their end, if an index shows that.
    pub end: Option<(usize, u64)>,
    /// What is wrong.
    pub what: String,
}

/// The contents of a stream file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// Its packets in order.
    pub packets: Vec<Place>,
    /// Packets that are missing.
    pub lost: Vec<Lost>,
    /// Why the index was not used, if there is one and it was not.
    pub index_fault: Option<String>,
}

/// An index, and how far it agrees with the heads.
struct Guide {
    /// The entries; `None` if there is no index, or it is not used.
    entries: Option<Vec<Entry>>,
    /// The entry of the next packet.
    next: usize,
    /// Number of the packet that differs from its entry.
    doubt: Option<usize>,
    /// Why the index is not used.
    fault: Option<String>,
}

/// Find all packets of a file.
///
/// # Errors
///
/// The file cannot be read, or it has bytes but no packet.
pub fn find(
    trace: &Trace,
    source: &mut (impl Read + Seek),
    index: Option<&[u8]>,
) -> Result<Contents, String> {
    let mut guide = Guide::new(index);
    let mut contents = Contents::default();
    let size = source.seek(SeekFrom::End(0)).map_err(|e| e.to_string())?;
    let mut offset = 0;
    loop {
        let mut fault = None;
        if offset < size {
            match head_at(trace, source, size, offset)? {
                Ok(head) => {
                    guide.hold_against(trace, offset, &head, contents.packets.len());
                    let total = head.total_bits / 8;
                    contents.packets.push(Place {
                        offset,
                        bytes: total.min(size - offset),
                        head,
                    });
                    offset = offset.saturating_add(total);
                    continue;
                }
                Err(what) => fault = Some((offset, what)),
            }
        }
        // The size in the head before may be wrong, and have led here or beyond the end.
        if guide.doubt.is_some()
            && let Some(last) = contents.packets.last()
        {
            fault = Some((last.offset, "a head that is not as its index says".into()));
        }
        let Some((at, what)) = fault else {
            break;
        };
        let what = format!("byte {at}: {what}");
        if let Some((next, passed)) = guide.beyond(trace, source, size, at, &contents)? {
            if let Some(last) = contents.packets.last_mut() {
                last.bytes = last.bytes.min(next - last.offset);
            }
            contents.lost.push(Lost {
                after: contents.packets.len().checked_sub(1),
                until: Some(contents.packets.len()),
                packets: Some(passed),
                end: None,
                what,
            });
            offset = next;
            continue;
        }
        if offset < size {
            if contents.packets.is_empty() {
                return Err(what);
            }
            if guide.doubt.is_some() || !guide.follows(offset, &contents) {
                guide.refuse("what it tells does not follow its packets".into());
            }
            contents.lost.push(guide.rest(&contents, what));
        }
        break;
    }
    if offset >= size && guide.goes_on_after(&contents) {
        let what = "the file is shorter than its index says".to_owned();
        contents.lost.push(guide.rest(&contents, what));
    }
    contents.index_fault = guide.fault;
    Ok(contents)
}

/// Read the head at a byte, or return why there is none.
fn head_at(
    trace: &Trace,
    source: &mut (impl Read + Seek),
    size: u64,
    offset: u64,
) -> Result<Result<Head, String>, String> {
    let left = size.saturating_sub(offset);
    let mut wanted = WINDOW.min(left);
    let mut bytes = Vec::new();
    loop {
        read_at(source, offset, wanted, &mut bytes).map_err(|e| e.to_string())?;
        return Ok(match head(trace, &bytes, left) {
            Err(Stop::End) if wanted < left => {
                wanted = wanted.saturating_mul(4).min(left);
                continue;
            }
            Err(Stop::End) => Err("ends inside the head of a packet".into()),
            Err(Stop::Bad(what)) => Err(what),
            Ok(head) if head.total_bits == 0 => Err("a packet of no size".into()),
            Ok(head) => Ok(head),
        });
    }
}

impl Guide {
    fn new(index: Option<&[u8]>) -> Self {
        let (entries, fault) = match index.map(lttng_index::parse).transpose() {
            Ok(entries) => (entries, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            entries,
            next: 0,
            doubt: None,
            fault,
        }
    }

    fn refuse(&mut self, why: String) {
        if self.entries.take().is_some() {
            self.fault = Some(why);
        }
        self.doubt = None;
    }

    /// Return the entries of the next packet and of all later ones.
    fn left(&self) -> &[Entry] {
        let entries = self.entries.as_deref().unwrap_or_default();
        entries.get(self.next..).unwrap_or_default()
    }

    /// Compare a head that was read with its entry.
    fn hold_against(&mut self, trace: &Trace, offset: u64, head: &Head, packet: usize) {
        let Some(entries) = &self.entries else {
            return;
        };
        // A head that differs may be damaged itself, but not if the next head is where it says.
        if let Some(doubtful) = self.doubt {
            self.refuse(format!("entry {doubtful} is not that of its packet"));
            return;
        }
        match entries.get(self.next) {
            Some(entry) if agrees(trace, entry, offset, head) => {}
            Some(_) => self.doubt = Some(packet),
            None => {
                let count = entries.len();
                self.refuse(format!(
                    "its {count} entries end before the packet at byte {offset}"
                ));
                return;
            }
        }
        self.next += 1;
    }

    /// Return the first byte beyond `offset` at which there is a packet that agrees with its entry,
    /// and how many entries lie between.
    fn beyond(
        &mut self,
        trace: &Trace,
        source: &mut (impl Read + Seek),
        size: u64,
        offset: u64,
        contents: &Contents,
    ) -> Result<Option<(u64, u64)>, String> {
        if self
            .doubt
            .is_some_and(|packet| packet + 1 < contents.packets.len())
        {
            return Ok(None);
        }
        for (passed, entry) in self.left().iter().enumerate() {
            let offset_of = entry.offset;
            if offset_of <= offset || offset_of >= size {
                continue;
            }
            if let Ok(head) = head_at(trace, source, size, offset_of)?
                && agrees(trace, entry, offset_of, &head)
            {
                self.next += passed;
                self.doubt = None;
                return Ok(Some((offset_of, passed as u64)));
            }
        }
        Ok(None)
    }

    /// Whether all packets agree with the index, and it has entries of more that would follow.
    fn goes_on_after(&mut self, contents: &Contents) -> bool {
        if let Some(packet) = self.doubt {
            self.refuse(format!("entry {packet} is not that of its packet"));
        }
        let last = contents.packets.last();
        let end = last.map_or(0, |p| p.offset.saturating_add(p.head.total_bits / 8));
        !self.left().is_empty() && self.follows(end, contents)
    }

    /// Whether the remaining entries may be those of packets from byte `offset` on.
    fn follows(&mut self, mut offset: u64, contents: &Contents) -> bool {
        let last = contents.packets.last().map(|p| &p.head);
        let mut sequence = last.and_then(|head| head.sequence);
        let mut time = last
            .and_then(|head| head.end)
            .map_or(0, |(_, cycles)| cycles);
        for entry in self.left() {
            let number = entry.instance_and_sequence.map(|(_, number)| number);
            let numbered = sequence
                .zip(number)
                .is_none_or(|(before, number)| before.checked_add(1) == Some(number));
            if entry.offset != offset || entry.begin < time || !numbered {
                let at = entry.offset;
                self.refuse(format!(
                    "it tells of a packet at byte {at}, which does not follow"
                ));
                return false;
            }
            (offset, time, sequence) = (entry.ends(), entry.end, number);
        }
        true
    }

    /// Describe the loss of all packets that would follow those found.
    fn rest(&self, contents: &Contents, what: String) -> Lost {
        let last = contents.packets.last();
        let clock = last.and_then(|p| p.head.end).map(|(clock, _)| clock);
        let gone = Some(self.left()).filter(|entries| !entries.is_empty());
        Lost {
            after: contents.packets.len().checked_sub(1),
            until: None,
            packets: gone.map(|entries| entries.len() as u64),
            end: gone.and_then(|entries| Some((clock?, entries.last()?.end))),
            what,
        }
    }
}

/// Whether an entry and a head agree in all values that both have.
fn agrees(trace: &Trace, entry: &Entry, offset: u64, head: &Head) -> bool {
    let same = |told: Option<u64>, entry: u64| told.is_none_or(|told| told == entry);
    let cycles = |time: Option<(usize, u64)>| time.map(|(_, cycles)| cycles);
    let numbers = entry.instance_and_sequence;
    entry.offset == offset
        && entry.total_bits == head.total_bits
        && entry.content_bits == head.content_bits
        && entry.class == trace.streams[head.stream].id
        && same(cycles(head.begin), entry.begin)
        && same(cycles(head.end), entry.end)
        && head
            .discarded
            .is_none_or(|(count, bits)| count == entry.discarded & crate::bits::mask(bits))
        && numbers.is_none_or(|(instance, sequence)| {
            same(head.instance, instance) && same(head.sequence, sequence)
        })
}
