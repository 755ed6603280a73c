//! Cut the time into slices, each of which is decoded separately.
//!
//! The events of a packet on either side of a border are left to the two slices that meet there.

use arrow_array::RecordBatch;

use super::failure::Result;
use super::feed::{Span, Windows};
use super::job::Job;
use crate::merge::Merge;
use crate::scan::Damage;

/// Least size of a slice in bytes.
const SLICE: u64 = 4 << 20;
/// Largest size of a slice in bytes.
const LARGEST_SLICE: u64 = 64 << 20;

/// A slice of the time, with the numbers of the packets that have events in it.
pub struct Slice {
    begin_ns: i64,
    end_ns: i64,
    numbers: Vec<usize>,
    /// Size of the packets that begin in it.
    bytes: u64,
}

/// The decoded contents of a slice.
pub struct Decoded {
    /// Batches by table, in order.
    pub batches: Vec<(usize, RecordBatch)>,
    /// Packets that could not be read to their end.
    pub damage: Vec<Damage>,
    /// Bytes of the packets that begin in it.
    pub bytes: u64,
}

/// Cut the time of a job into slices, by bytes of packets.
pub fn slices(job: &Job<'_>, spans: &[Span], numbers: &[usize]) -> Vec<Slice> {
    let packets = &job.recording.packets;
    let total: u64 = numbers.iter().map(|n| packets[*n].bytes).sum();
    // Packets on a border are stepped through twice, so a slice holds several of each stream.
    let across = total / (numbers.len() as u64).max(1) * job.recording.files.len() as u64;
    let wanted = SLICE.max(8 * across).min(LARGEST_SLICE);
    let mut slices: Vec<Slice> = Vec::new();
    for number in numbers {
        let begin = spans[*number].0.unwrap_or(i64::MIN);
        let bytes = packets[*number].bytes;
        match slices.last_mut() {
            Some(last) if last.bytes + bytes <= wanted || begin <= last.begin_ns => {
                last.numbers.push(*number);
                last.bytes += bytes;
            }
            last => {
                let mut across: Vec<usize> = Vec::new();
                if let Some(last) = last {
                    last.end_ns = begin - 1;
                    let reaches = |n: &usize| spans[*n].1.is_none_or(|end| end >= begin);
                    across.extend(last.numbers.iter().copied().filter(reaches));
                }
                across.push(*number);
                slices.push(Slice {
                    begin_ns: begin,
                    end_ns: job.filter.end_ns,
                    numbers: across,
                    bytes,
                });
            }
        }
    }
    if let Some(first) = slices.first_mut() {
        first.begin_ns = job.filter.begin_ns;
    }
    slices
}

/// A decoder of packets, which are read one after the other in the order of their beginnings.
pub struct Decoder<'a> {
    job: &'a Job<'a>,
    spans: &'a [Span],
    sort: bool,
    /// Where the packets go, and batches come from.
    pub merge: Merge<'a>,
    windows: Windows,
}

impl<'a> Decoder<'a> {
    /// Start before any packet; `spans` are first and last times by packet.
    pub fn new(job: &'a Job<'a>, spans: &'a [Span], sort: bool) -> Self {
        Self {
            job,
            spans,
            sort,
            merge: Merge::new(&job.recording.catalog, &job.filter, job.projection),
            windows: Windows::default(),
        }
    }

    /// Give the merge the next one of these packets, after the events before it; return its number
    /// of bytes, or `None` when everything is done and all batches are ready.
    pub fn step(&mut self, numbers: &mut impl Iterator<Item = usize>) -> Result<Option<u64>> {
        let Some(number) = numbers.next() else {
            self.merge.run_until(None)?;
            return Ok((!self.merge.finish()?).then_some(0));
        };
        let span = self.spans[number];
        let begin = span.0.unwrap_or(i64::MIN);
        // This comes first, so that the memory of an earlier packet can be reused.
        let bound = (begin, u32::try_from(number).unwrap_or(u32::MAX));
        self.merge.run_until(Some(bound))?;
        let packet = self.windows.packet(self.job.recording, number)?;
        self.merge.push(packet, span, self.sort)?;
        Ok(Some(self.job.recording.packets[number].bytes))
    }

    /// Decode a slice.
    pub fn decode(&mut self, slice: &Slice) -> Result<Decoded> {
        let filter = &self.job.filter;
        self.merge.turn_to(
            slice.begin_ns.max(filter.begin_ns),
            slice.end_ns.min(filter.end_ns),
        );
        let mut numbers = slice.numbers.iter().copied();
        while self.step(&mut numbers)?.is_some() {}
        Ok(Decoded {
            batches: std::mem::take(&mut self.merge.ready),
            damage: std::mem::take(&mut self.merge.damage),
            bytes: slice.bytes,
        })
    }
}
