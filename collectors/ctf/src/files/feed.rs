//! Packets from files, in the order of their beginnings, into a merge.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::merge::Merge;
use crate::scan::{Packet, Reading};

use super::failure::{Failure, Result};
use super::recording::Recording;

/// Bytes read at once, where packets are smaller; few enough to stay in the cache.
const WINDOW: u64 = 256 << 10;
/// Bytes after those of the file, so that the decoder may copy more than an event needs.
const SLACK: usize = 64;

/// First and last time of a packet.
pub type Span = (Option<i64>, Option<i64>);

/// Parts of files in memory, one for each file.
#[derive(Default)]
pub struct Windows {
    parts: HashMap<usize, (u64, u64, Arc<Vec<u8>>)>,
    spare: Vec<Vec<u8>>,
}

impl Windows {
    /// The packet of a number, with its bytes.
    pub fn packet(&mut self, recording: &Recording, number: usize) -> Result<Packet> {
        let known = &recording.packets[number];
        let file = &recording.files[known.file];
        let holds = self.parts.get(&known.file).is_some_and(|(start, end, _)| {
            *start <= known.offset && known.offset + known.bytes <= *end
        });
        if !holds {
            if let Some((.., old)) = self.parts.remove(&known.file)
                && let Ok(old) = Arc::try_unwrap(old)
            {
                self.spare.push(old);
            }
            let mut bytes = self.spare.pop().unwrap_or_default();
            let length = known.bytes.max(WINDOW.min(file.bytes - known.offset));
            let found = File::open(&file.path)
                .and_then(|f| read_into(&f, known.offset, length, &mut bytes))
                .map_err(|e| Failure::input(&file.path, e))?;
            let part = (known.offset, known.offset + found, Arc::new(bytes));
            self.parts.insert(known.file, part);
        }
        let (start, end, bytes) = &self.parts[&known.file];
        let there = known.bytes.min(end.saturating_sub(known.offset));
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Packet {
            bytes: Arc::clone(bytes),
            start: size(known.offset - start),
            length: size(there),
            head: known.head.clone(),
            number: u32::try_from(number)
                .map_err(|_| Failure::Input("more than 2^32 packets".into()))?,
            member: file.member,
        })
    }
}

/// `length` bytes at `offset`, or as many as the file still has, and the slack.
fn read_into(file: &File, offset: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<u64> {
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.resize(length + SLACK, 0);
    let mut filled = 0;
    while filled < length {
        match file.read(&mut bytes[filled..length]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    bytes.resize(filled + SLACK, 0);
    Ok(filled as u64)
}

/// Packets on their way into a merge.
pub struct Feed<'a> {
    recording: &'a Recording,
    spans: &'a [Span],
    sort: bool,
    numbers: std::vec::IntoIter<usize>,
    windows: &'a mut Windows,
}

impl<'a> Feed<'a> {
    /// Packets by number, in the order of their beginnings.
    pub fn new(
        recording: &'a Recording,
        spans: &'a [Span],
        sort: bool,
        numbers: Vec<usize>,
        windows: &'a mut Windows,
    ) -> Self {
        Self {
            recording,
            spans,
            sort,
            numbers: numbers.into_iter(),
            windows,
        }
    }

    /// Give the merge one packet, after what comes before it; returns its bytes, or `None` when
    /// all is done and all batches are ready.
    pub fn step(&mut self, merge: &mut Merge<'_>) -> Result<Option<u64>> {
        let Some(number) = self.numbers.next() else {
            merge.run_until(None)?;
            return Ok((!merge.finish()?).then_some(0));
        };
        let span = self.spans[number];
        let begin = span.0.unwrap_or(i64::MIN);
        // First, so that the memory of a packet before can be used again.
        merge.run_until(Some((begin, u32::try_from(number).unwrap_or(u32::MAX))))?;
        let packet = self.windows.packet(self.recording, number)?;
        merge.push(packet, span, self.sort)?;
        Ok(Some(self.recording.packets[number].bytes))
    }
}

/// The true first and last time of a packet, found by reading it; `None` if it has no event.
pub fn true_span(
    recording: &Recording,
    windows: &mut Windows,
    number: usize,
) -> Result<Option<Span>> {
    let packet = windows.packet(recording, number)?;
    let mut reading = Reading::new(&recording.catalog, packet);
    // Damage is told when it is read for good.
    let _ = reading.sort();
    Ok(reading
        .span()
        .map(|(first, last)| (Some(first), Some(last))))
}
