//! Block resampling of a recording: events that came close together stay together.

use super::system::Series;

/// A resampled recording: a sequence of blocks of the original one.
pub struct Blocks {
    /// Where each block begins in the original recording [ns].
    begins: Vec<i64>,
    length: i64,
}

impl Blocks {
    /// Blocks that cover `total` ns, drawn from a recording of that length. A single block is the
    /// recording itself.
    pub fn drawn(total: i64, length: i64, random: &mut fastrand::Rng) -> Self {
        let count = (total + length - 1) / length;
        let last = (total - length).max(0);
        Self {
            begins: (0..count.max(1)).map(|_| random.i64(0..=last)).collect(),
            length,
        }
    }

    /// The number of the block at a time, and where that block begins in the original recording.
    fn at(&self, now: i64) -> (usize, i64) {
        let number = usize::try_from(now / self.length).unwrap_or(0);
        let number = number.min(self.begins.len() - 1);
        (number, self.begins[number])
    }

    /// The next of the recorded `times`, in the time of the resampled recording; None after the
    /// last.
    pub fn next_of(&self, times: &[i64], place: &mut Place) -> Option<i64> {
        for block in place.block..self.begins.len() {
            let begin = self.begins[block];
            if block > place.block || !place.begun {
                *place = Place {
                    block,
                    next: times.partition_point(|x| *x < begin),
                    begun: true,
                };
            }
            if let Some(time) = times.get(place.next)
                && *time < begin + self.length
            {
                place.next += 1;
                let before = i64::try_from(block).unwrap_or(0) * self.length;
                return Some(before + time - begin);
            }
        }
        place.block = self.begins.len();
        None
    }
}

/// A position in a series of recorded samples.
#[derive(Clone, Copy, Default)]
pub struct Place {
    block: usize,
    next: usize,
    begun: bool,
}

impl Place {
    /// The number of the next sample of the block at `now`; None if the series is empty.
    ///
    /// After the last sample comes the first, as a simulation may need more than were recorded.
    pub fn draw(&mut self, series: &Series, blocks: &Blocks, now: i64) -> Option<usize> {
        let (block, begin) = blocks.at(now);
        if !self.begun || self.block != block {
            let next = series.at.partition_point(|x| *x < begin);
            *self = Self {
                block,
                next,
                begun: true,
            };
        }
        if series.value.is_empty() {
            return None;
        }
        let number = self.next % series.value.len();
        self.next = number + 1;
        Some(number)
    }
}
