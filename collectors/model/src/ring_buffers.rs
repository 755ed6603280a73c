//! Intra-process ring buffers: what became of each message put into one.
//!
//! A message is put there by the publication whose intra-process event is the last publish event of
//! its thread, unless the buffer was made later, or has that message already: then it is replayed to
//! a late joiner. What comes next at its place takes it out, or overwrites it. The history that a
//! publisher keeps for late joiners of its process delivers nothing. Where events of a thread
//! that takes of it may be missing meanwhile, nothing tells what left a place. Places are filled one
//! after the other: where some were left out, nobody knows who filled the next one.

use ahash::HashMap;

use crate::gaps::Cuts;
use crate::intake::Event;
use crate::known::{Known, Sort};
use crate::publications::Publications;
use crate::rows::{NONE, Rows, plain};

/// What became of a message in a ring buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there still, for all that was recorded.
    Pending,
    /// It was taken out.
    Dequeued,
    /// A later one took its place.
    Overwritten,
    /// The buffer was cleared.
    Cleared,
}

plain!(enum Fate [Pending, Dequeued, Overwritten, Cleared]);

/// One message in one ring buffer.
#[derive(Clone, Copy)]
pub struct Enqueue {
    /// Its publication, or `NONE`.
    pub message: u32,
    /// Whose buffer it is, or `NONE`.
    pub subscription: u32,
    /// The process.
    pub process: u32,
    /// What took it out, or `NONE`.
    pub take: u32,
    /// What became of it.
    pub fate: Fate,
    /// Whether who published it may be missing.
    pub untold: bool,
    /// The ring buffer that its publication put it into before, or `NONE`.
    pub next: u32,
}

plain!(Enqueue {
    message,
    subscription,
    process,
    take,
    fate,
    untold,
    next
});

/// A buffer, by its address: what is in each of its places, and since when.
type Places = HashMap<u64, (u32, i64)>;

/// All messages in ring buffers.
#[derive(Clone, Default)]
pub struct RingBuffers {
    /// In the order in which they were put there.
    pub rows: Rows<Enqueue>,
    /// How many were cleared.
    pub cleared: u64,
    buffers: HashMap<(u32, u64), Places>,
    /// Of each buffer, while it is one object, the place that was filled last, and the highest one.
    filled: HashMap<(u32, u64), (u32, u64, u64)>,
    /// The threads that took something out of each buffer.
    takers: HashMap<(u32, u64), Vec<u32>>,
    /// The newest message that was taken of each buffer.
    newest: HashMap<(u32, u64), u32>,
    /// Of each thread the publication under way as it filled a place before which some were left out:
    /// that may have been of a later one, and the next one as well.
    lost: HashMap<u32, u32>,
    /// Of each thread the publication under way and the buffers that have it.
    given: HashMap<u32, (u32, Vec<u64>)>,
}

/// Whether one of these threads may have taken something since some time that was not recorded.
fn missing(cuts: &Cuts, takers: Option<&Vec<u32>>, since: i64, event: &Event) -> bool {
    let mut takers = takers.into_iter().flatten();
    takers.any(|thread| cuts.since(*thread, since, event.time))
}

impl RingBuffers {
    /// Whether places were left out since one of a buffer was filled before.
    fn skips(&mut self, buffer: (u32, u64), object: u32, place: u64) -> bool {
        let before = self.filled.get(&buffer).filter(|(of, ..)| *of == object);
        let (skips, highest) = before.map_or((false, place), |(_, last, highest)| {
            let goes_on = place == last.wrapping_add(1) || (place == 0 && last == highest);
            (!goes_on, place.max(*highest))
        });
        self.filled.insert(buffer, (object, place, highest));
        skips
    }

    /// `rclcpp_ring_buffer_enqueue`, of the publication under way on its thread, if one is.
    pub fn on_enqueue(
        &mut self,
        event: &Event,
        objects: &Known,
        process: u32,
        publications: &mut Publications,
        cuts: &Cuts,
    ) {
        let buffer = event.get(0);
        let object = objects.object(Sort::RingBuffer, process, buffer, event.time);
        let of = objects.ring_buffers.get(object as usize);
        let Some(buffer) = buffer.filter(|_| of.is_none_or(|of| of.publisher == NONE)) else {
            return;
        };
        let place = event.get(1).unwrap_or_default();
        let skips = self.skips((process, buffer), object, place);
        let under_way = publications.under_way(event.thread);
        let row = under_way.map_or(NONE, |(message, _)| message);
        if skips {
            self.lost.insert(event.thread, row);
        }
        let skips = skips || (row != NONE && self.lost.get(&event.thread) == Some(&row));
        let message = under_way
            .filter(|_| !skips)
            .map_or(NONE, |(message, published)| {
                let (of_message, given) = self.given.entry(event.thread).or_default();
                if *of_message != message {
                    *of_message = message;
                    given.clear();
                }
                let again = given.contains(&buffer);
                given.push(buffer);
                let late = of.is_some_and(|of| of.created > published);
                if again || late { NONE } else { message }
            });
        let number = self.rows.count();
        let of_message = publications.rows.edit(message);
        let next = of_message.map_or(NONE, |row| std::mem::replace(&mut row.given, number));
        self.rows.push(Enqueue {
            message,
            subscription: of.map_or(NONE, |of| of.subscription),
            process,
            take: NONE,
            fate: Fate::Pending,
            untold: skips || (message == NONE && publications.is_cut(event.thread)),
            next,
        });
        let takers = self.takers.get(&(process, buffer));
        let places = self.buffers.entry((process, buffer)).or_default();
        let now = (number, event.time);
        let before = places.insert(place, now);
        // Where the place was free again the message had been taken, which was not recorded.
        let pushed_out = event.get(2).is_some_and(|overwritten| overwritten != 0);
        if let Some(row) = before
            .filter(|(_, since)| pushed_out && !missing(cuts, takers, *since, event))
            .and_then(|(row, _)| self.rows.edit(row))
        {
            row.fate = Fate::Overwritten;
        }
    }

    /// `rclcpp_ring_buffer_dequeue`, which is a take.
    pub fn on_dequeue(&mut self, event: &Event, process: u32, take: u32, cuts: &Cuts) {
        let buffer = event.get(0).unwrap_or_default();
        let takers = self.takers.entry((process, buffer)).or_default();
        if !takers.contains(&event.thread) {
            takers.push(event.thread);
        }
        if let Some(places) = self.buffers.get_mut(&(process, buffer))
            && let Some((number, since)) = places.remove(&event.get(1).unwrap_or_default())
            && !missing(cuts, Some(takers), since, event)
        {
            // Messages leave a buffer in their order: what an older one's place gives is another.
            let newest = self.newest.entry((process, buffer)).or_default();
            if number < *newest {
                return;
            }
            *newest = number;
            if let Some(row) = self.rows.edit(number) {
                (row.fate, row.take) = (Fate::Dequeued, take);
            }
        }
    }

    /// The highest place of a buffer that was filled, while it is this object.
    #[must_use]
    pub fn highest(&self, process: u32, buffer: Option<u64>, object: u32) -> u64 {
        let filled = buffer.and_then(|buffer| self.filled.get(&(process, buffer)));
        let filled = filled.filter(|(of, ..)| *of == object);
        filled.map_or(0, |(_, _, highest)| *highest)
    }

    /// `rclcpp_ring_buffer_clear`.
    pub fn on_clear(&mut self, event: &Event, process: u32) {
        let buffer = event.get(0).unwrap_or_default();
        // The first place is filled next.
        self.filled.remove(&(process, buffer));
        let places = self.buffers.remove(&(process, buffer)).unwrap_or_default();
        for (number, _) in places.into_values() {
            if let Some(row) = self.rows.edit(number) {
                row.fate = Fate::Cleared;
            }
            self.cleared += 1;
        }
    }
}
