//! Compare the system clock with the events' clock: medians of the timestamps' offsets per block.

use std::collections::BTreeMap;

use crate::identity::Host;
use crate::ids::Maybe;

/// The length of a block of time, in ns.
const BLOCK: i64 = 1_000_000_000;

/// The offset of a host's system clock in one block of time.
#[derive(Clone)]
pub struct Offset {
    pub host: Maybe<Host>,
    pub block: i64,
    /// How far the system clock was ahead of the events' clock, in ns.
    pub median: i64,
    /// The number of timestamps.
    pub count: i64,
}

/// The offsets of each host in the block of its last timestamp, and the medians of earlier blocks.
#[derive(Clone, Default)]
pub struct Offsets {
    open: BTreeMap<Maybe<Host>, (i64, Vec<i64>)>,
    ended: Vec<Offset>,
}

impl Offsets {
    /// Add a timestamp that a host made at a time of the events, which never decreases.
    pub fn on_stamp(&mut self, host: Maybe<Host>, time: i64, stamp: i64) {
        let block = time.div_euclid(BLOCK);
        let (last_block, offsets) = self.open.entry(host).or_insert((block, Vec::new()));
        if *last_block != block {
            self.ended.extend(median(host, *last_block, offsets));
            *last_block = block;
            offsets.clear();
        }
        offsets.push(stamp.wrapping_sub(time));
    }

    /// Return all offsets, by host and block.
    pub fn all(&self) -> Vec<Offset> {
        let open = self.open.iter();
        let open =
            open.filter_map(|(host, (block, offsets))| median(*host, *block, &mut offsets.clone()));
        let mut all: Vec<Offset> = self.ended.iter().cloned().chain(open).collect();
        all.sort_unstable_by_key(|offset| (offset.host, offset.block));
        all
    }
}

/// Return the lower median, not a mean: if the clock stepped, it is the offset on one of the sides.
fn median(host: Maybe<Host>, block: i64, offsets: &mut [i64]) -> Option<Offset> {
    let middle = offsets.len().checked_sub(1)? / 2;
    let (_, median, _) = offsets.select_nth_unstable(middle);
    let median = *median;
    let count = i64::try_from(offsets.len()).unwrap_or(i64::MAX);
    Some(Offset {
        host,
        block,
        median,
        count,
    })
}
