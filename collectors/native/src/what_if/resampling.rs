//! Resample a recording in blocks: events that came close together stay together.

use super::system::Series;

/// A resampled recording: a sequence of blocks of the original one.
pub struct Blocks {
    /// Where each block begins in the original recording [ns].
    begins: Vec<i64>,
    length: i64,
}

impl Blocks {
    /// Draw blocks that cover `total` ns from a recording of that length. They begin at multiples
    /// of `step`, which their length is a multiple of, so that timers with this period have the
    /// same phase in every block.
    pub fn drawn(total: i64, length: i64, step: i64, random: &mut fastrand::Rng) -> Self {
        let count = (total + length - 1) / length;
        let last = (total - length).max(0) / step;
        let begins = (0..count.max(1)).map(|_| random.i64(0..=last) * step);
        Self {
            begins: begins.collect(),
            length,
        }
    }

    /// Take the recording itself, as one block of that length.
    pub fn whole(length: i64) -> Self {
        Self {
            begins: vec![0],
            length,
        }
    }

    /// Return the time in the original recording.
    pub fn original(&self, now: i64) -> i64 {
        let number = usize::try_from(now / self.length).unwrap_or(0);
        let number = number.min(self.begins.len() - 1);
        let before = i64::try_from(number).unwrap_or(0) * self.length;
        self.begins[number] + now - before
    }

    /// Return how much of the block comes after that time [ns].
    pub fn left(&self, now: i64) -> i64 {
        self.length - now % self.length
    }

    /// Return the number of the sample that was recorded nearest to that time, so that events that
    /// happened together stay together; `None` if there are no samples.
    pub fn nearest(&self, series: &Series, now: i64) -> Option<usize> {
        let (at, time) = (&series.at, self.original(now));
        let after = at.partition_point(|x| *x < time);
        let Some(before) = after.checked_sub(1) else {
            return Some(after).filter(|_| !at.is_empty());
        };
        let nearer = at.get(after).is_some_and(|x| x - time <= time - at[before]);
        Some(if nearer { after } else { before })
    }

    /// Return the recorded `times` in the time of the resampled recording, in order.
    pub fn resampled(&self, times: &[i64]) -> Vec<i64> {
        let blocks = (0..).zip(&self.begins);
        let within = blocks.flat_map(|(block, begin)| {
            let first = times.partition_point(|time| time < begin);
            let block_times = times[first..].iter().copied();
            block_times
                .map(move |time| time - begin)
                .take_while(|since| *since < self.length)
                .map(move |since| block * self.length + since)
        });
        within.collect()
    }
}
