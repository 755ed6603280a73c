//! Bound the differences between hosts' clocks, and compare system clocks with the events' clock.

use std::collections::BTreeMap;

use crate::columns::{Columns, columns};
use crate::rows::NEVER;

use super::Tables;

impl Tables {
    /// Make the rows of the system clocks' offsets from the events' clock, in blocks of time.
    pub(super) fn clock_offsets(&self, columns: &mut Columns<'_>) {
        let rows = self.model.offsets.all();
        columns!(columns, rows, |offset|
            host "host" offset.host;
            int64 "block" offset.block;
            int64 "offset" offset.median;
            int64 "len" offset.count;
        );
    }
}

/// A timestamp: the event's time, and how far the system clock was ahead of it.
type Stamp = (i64, i64);

/// The nearest timestamps to some given times.
pub struct Nearest {
    times: Vec<i64>,
    /// The first and the last timestamp at or after so many of the times, and before the others.
    between: BTreeMap<usize, [Stamp; 2]>,
}

impl Nearest {
    /// Start without any timestamp.
    pub(super) fn new(mut times: Vec<i64>) -> Self {
        times.sort_unstable();
        let between = BTreeMap::new();
        Self { times, between }
    }

    /// Add a timestamp.
    pub(super) fn on_stamp(&mut self, stamp: Stamp) {
        let passed = self.times.partition_point(|time| *time <= stamp.0);
        let [first, last] = self.between.entry(passed).or_insert([stamp; 2]);
        if stamp.0 < first.0 {
            *first = stamp;
        }
        if stamp.0 >= last.0 {
            *last = stamp;
        }
    }

    /// Return how far the clock was ahead at one of the times, by the later of two timestamps that
    /// are equally near; `NEVER` if there is none.
    pub(super) fn offset(&self, time: i64) -> i64 {
        let place = self.times.partition_point(|moment| *moment < time);
        let before = self.between.range(..=place).next_back();
        let behind = self.between.range(place + 1..).next();
        match (before, behind) {
            (Some((_, [_, before])), Some((_, [behind, _]))) => {
                let is_before = time.wrapping_sub(before.0) < behind.0.wrapping_sub(time);
                if is_before { before.1 } else { behind.1 }
            }
            (Some((_, [_, (_, ahead)])), None) | (None, Some((_, [(_, ahead), _]))) => *ahead,
            (None, None) => NEVER,
        }
    }
}

#[cfg(test)]
mod tests;
