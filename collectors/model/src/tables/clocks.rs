//! Bound the differences between hosts' clocks, and compare system clocks with the events' clock.

use std::collections::BTreeMap;

use crate::columns::{Columns, columns};
use crate::identity::Host;
use crate::ids::Maybe;
use crate::rows::NEVER;

use super::Tables;

impl Tables {
    /// Return by how much a latency between two hosts may be wrong, `NEVER` if it is not known.
    pub(super) fn bound(&self, from: Maybe<Host>, to: Maybe<Host>, time: i64) -> i64 {
        let Some(bounds) = self.model.about.clocks.get(&(from, to)) else {
            return NEVER;
        };
        if let [(_, always)] = bounds[..] {
            return always;
        }
        let next = bounds.partition_point(|(at, _)| *at < time);
        match (bounds.get(next.wrapping_sub(1)), bounds.get(next)) {
            (Some(before), Some(after)) => straight(*before, *after, time),
            (None, Some((at, bound))) if *at == time => *bound,
            _ => NEVER,
        }
    }

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

/// Return the height at `time` of the line between two points, rounded up.
fn straight(before: (i64, i64), after: (i64, i64), time: i64) -> i64 {
    let (length, rise) = (
        i128::from(after.0) - i128::from(before.0),
        i128::from(after.1) - i128::from(before.1),
    );
    if length <= 0 {
        return before.1.max(after.1);
    }
    let part = -(-rise * (i128::from(time) - i128::from(before.0))).div_euclid(length);
    i64::try_from(i128::from(before.1) + part).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests;
