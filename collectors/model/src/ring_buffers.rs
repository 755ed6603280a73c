//! Intra-process ring buffers: what became of each message put into one.
//!
//! A message is put there by the publication whose intra-process event is the last publish event of
//! its thread, unless the buffer was made later, or has that message already: then it is replayed to
//! a late joiner. What comes next at its place takes it out, or overwrites it. The history that a
//! publisher keeps for late joiners of its process delivers nothing. Where events of the process may be
//! missing meanwhile, nothing tells what left a place. Places are filled one after the other: where some
//! were left out, an event is missing.

use ahash::HashMap;

use crate::gaps::{Gaps, Place};
use crate::intake::Event;
use crate::publications::Publications;
use crate::registry::{HandleKind, Registry};
use crate::rows::{NEVER, NONE, Rows, plain};

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

plain! {
    /// One message in one ring buffer.
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
}

/// A buffer, by its address: what is in each of its places, and since when.
type Places = HashMap<u64, (u32, i64)>;

/// What a buffer was filled with last, while it is one object.
#[derive(Clone, Copy)]
struct Filled {
    object: u32,
    place: u64,
    highest: u64,
    time: i64,
}

/// All messages in ring buffers.
#[derive(Clone, Default)]
pub struct RingBuffers {
    /// In the order in which they were put there.
    pub rows: Rows<Enqueue>,
    /// How many were cleared.
    pub cleared: u64,
    buffers: HashMap<(u32, u64), Places>,
    filled: HashMap<(u32, u64), Filled>,
    /// The newest message that was taken of each buffer.
    newest: HashMap<(u32, u64), u32>,
    /// Of each thread the publication under way and the buffers that have it.
    given: HashMap<u32, (u32, Vec<u64>)>,
}

/// Whether something may be missing in a process since one of its places was filled.
fn missing(gaps: &Gaps, (process, place): (u32, Place), since: i64, event: &Event) -> bool {
    gaps.between(place, since, event.time) || gaps.broken_since(process, since)
}

impl RingBuffers {
    /// A place is filled, and those before it were left out: when one was filled before; else `NEVER`.
    pub fn out_of_turn(&mut self, event: &Event, process: u32, object: u32) -> i64 {
        let Some(buffer) = event.get(0) else {
            return NEVER;
        };
        let place = event.get(1).unwrap_or_default();
        let now = Filled {
            object,
            place,
            highest: place,
            time: event.time,
        };
        let before = self.filled.insert((process, buffer), now);
        let Some(before) = before.filter(|before| before.object == object) else {
            return NEVER;
        };
        let highest = place.max(before.highest);
        self.filled
            .insert((process, buffer), Filled { highest, ..now });
        let in_turn =
            place == before.place.wrapping_add(1) || (place == 0 && before.place == before.highest);
        if in_turn { NEVER } else { before.time }
    }

    /// `rclcpp_ring_buffer_enqueue`, of the publication under way on its thread, if one is.
    pub fn on_enqueue(
        &mut self,
        event: &Event,
        objects: &Registry,
        (process, host): (u32, Place),
        publications: &mut Publications,
        gaps: &Gaps,
    ) {
        let buffer = event.get(0);
        let object = objects.object(HandleKind::RingBuffer, process, buffer, event.time);
        let of = objects.ring_buffers.get(object as usize);
        let Some(buffer) = buffer.filter(|_| of.is_none_or(|of| of.publisher == NONE)) else {
            return;
        };
        let place = event.get(1).unwrap_or_default();
        let message = publications
            .under_way(event.thread)
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
            untold: message == NONE && publications.is_cut(event.thread),
            next,
        });
        let places = self.buffers.entry((process, buffer)).or_default();
        let now = (number, event.time);
        let before = places.insert(place, now);
        // Where the place was free again the message had been taken, which was not recorded.
        let pushed_out = event.get(2).is_some_and(|overwritten| overwritten != 0);
        if let Some(row) = before
            .filter(|(_, since)| pushed_out && !missing(gaps, (process, host), *since, event))
            .and_then(|(row, _)| self.rows.edit(row))
        {
            row.fate = Fate::Overwritten;
        }
    }

    /// `rclcpp_ring_buffer_dequeue`, which is a take.
    pub fn on_dequeue(
        &mut self,
        event: &Event,
        (process, host): (u32, Place),
        take: u32,
        gaps: &Gaps,
    ) {
        let buffer = event.get(0).unwrap_or_default();
        if let Some(places) = self.buffers.get_mut(&(process, buffer))
            && let Some((number, since)) = places.remove(&event.get(1).unwrap_or_default())
            && !missing(gaps, (process, host), since, event)
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
