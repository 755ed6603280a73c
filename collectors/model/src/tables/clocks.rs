//! What clocks do to times: by how much hosts' may be apart, and stamps of the system clock.

use crate::columns::{Columns, columns};
use crate::identity::Host;
use crate::ids::Maybe;
use crate::rows::NEVER;

use super::state::Tables;

impl Tables {
    /// By how much a latency between two hosts may be wrong; `NEVER` where nothing tells.
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

    /// The system clock against that of the events, in blocks of time.
    pub(super) fn clock_offsets(&self, columns: &mut Columns<'_>) {
        let rows = self.model.offsets.all();
        columns!(columns, rows, |of|
            host "host" of.host;
            int64 "block" of.block;
            int64 "offset" of.median;
            int64 "len" of.count;
        );
    }
}

/// Sort stamps by time, and leave out those that are next to none of these times, which are sorted.
pub(super) fn keep_nearest(stamps: &mut Vec<(i64, i64)>, times: &[i64]) {
    stamps.sort_by_key(|(time, _)| *time);
    let until = |place: usize| match stamps.get(place) {
        Some((stamp, _)) => times.partition_point(|time| time <= stamp),
        None => times.len(),
    };
    let mut before = 0;
    let kept: Vec<bool> = (0..stamps.len())
        .map(|place| {
            let (here, next) = (until(place), until(place + 1));
            let nearest = before < here || here < next;
            before = here;
            nearest
        })
        .collect();
    let mut kept = kept.into_iter();
    stamps.retain(|_| kept.next() == Some(true));
}

/// What was stamped nearest to a time, of two as near the later; `NEVER` where nothing was.
pub(super) fn nearest(stamps: &[(i64, i64)], time: i64) -> i64 {
    let after = stamps.partition_point(|(near, _)| *near < time);
    match (
        after.checked_sub(1).and_then(|place| stamps.get(place)),
        stamps.get(after),
    ) {
        (None, None) => NEVER,
        (Some((_, offset)), None) | (None, Some((_, offset))) => *offset,
        (Some((before, one)), Some((behind, other))) => {
            if time.wrapping_sub(*before) < behind.wrapping_sub(time) {
                *one
            } else {
                *other
            }
        }
    }
}

/// The height at `time` of the line between two points, rounded up.
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
