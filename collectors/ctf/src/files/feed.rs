//! Read packets from files.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use crate::scan::{Packet, Reading};
use crate::stream_file::{SLACK, read_at};

use super::failure::{Failure, Result};
use super::recording::Recording;

/// Bytes that are read at once if packets are smaller; few enough to stay in the cache.
const WINDOW: u64 = 256 << 10;

/// First and last time of a packet, in ns.
pub type Span = (Option<i64>, Option<i64>);

/// Parts of files in memory, one for each file.
#[derive(Default)]
pub struct Windows {
    parts: HashMap<usize, (u64, u64, Arc<Vec<u8>>)>,
    spare: Vec<Vec<u8>>,
}

impl Windows {
    /// Return the packet of a number, with its bytes.
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
            File::open(&file.path)
                .and_then(|mut file| read_at(&mut file, known.offset, length, &mut bytes))
                .map_err(|e| Failure::input(&file.path, e))?;
            let found = bytes.len();
            bytes.resize(found + SLACK, 0);
            let part = (known.offset, known.offset + found as u64, Arc::new(bytes));
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

/// Find the true first and last time of a packet by reading it; `None` if it has no event.
pub fn true_span(
    recording: &Recording,
    windows: &mut Windows,
    number: usize,
) -> Result<Option<Span>> {
    let packet = windows.packet(recording, number)?;
    let mut reading = Reading::new(&recording.catalog, packet);
    // Damage is reported when the packet is read again to decode it.
    let _ = reading.sort();
    Ok(reading
        .span()
        .map(|(first, last)| (Some(first), Some(last))))
}
