//! The system clock against the clock of the events: medians of what was stamped, block by block.

use std::collections::BTreeMap;

use crate::identity::Host;
use crate::ids::Maybe;

/// A block of time, in nanoseconds.
const BLOCK: i64 = 1_000_000_000;

/// What hosts stamped in one block of time.
#[derive(Clone)]
pub struct Offset {
    pub host: Maybe<Host>,
    pub block: i64,
    /// How far the system clock was ahead.
    pub median: i64,
    /// Of so many stamps.
    pub count: i64,
}

/// Of each host the stamps of the block of its last one, and what is known of those before.
#[derive(Clone, Default)]
pub struct Offsets {
    open: BTreeMap<Maybe<Host>, (i64, Vec<i64>)>,
    ended: Vec<Offset>,
}

impl Offsets {
    /// A host stamped something at a time of the events, which never falls.
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

    /// All of them, by host and block.
    pub fn all(&self) -> Vec<Offset> {
        let open = self.open.iter();
        let open =
            open.filter_map(|(host, (block, offsets))| median(*host, *block, &mut offsets.clone()));
        let mut all: Vec<Offset> = self.ended.iter().cloned().chain(open).collect();
        all.sort_unstable_by_key(|offset| (offset.host, offset.block));
        all
    }
}

/// Not their mean where a step falls into the block: one side or the other.
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
