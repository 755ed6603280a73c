//! Follow each message that is put into an intra-process ring buffer.
//!
//! A message is put there by the publication whose intra-process event is the last publish event of
//! its thread, unless the buffer was made later, or has that message already: then the message is
//! replayed to a late joiner. The next event at its place takes the message out, or overwrites it.
//! The history that a publisher keeps for late joiners of its process delivers nothing. If events
//! of the process may be missing in between, it is not known what left a place. Places are filled
//! one after the other: if some were left out, an event is missing.

use ahash::HashMap;

use crate::gaps::Gaps;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe};
use crate::intake::Event;
use crate::publications::{Enqueue, Fate, Publication, Publications};
use crate::registry::RingBuffer;
use crate::rows::{NEVER, Rows};
use crate::takes::Take;

/// A buffer: its process and address.
type Buffer = (Maybe<Process>, u64);

/// The state of a buffer.
#[derive(Clone, Default)]
struct State {
    /// The message in each of its places, and since when it is there.
    places: HashMap<u64, (Maybe<Enqueue>, i64)>,
    filled: Option<Filled>,
    /// The newest message that was taken from the buffer.
    newest: Maybe<Enqueue>,
}

/// The last enqueue into a buffer, as long as its address means the same object.
#[derive(Clone, Copy)]
struct Filled {
    object: Maybe<RingBuffer>,
    place: u64,
    highest: u64,
    time: i64,
}

/// All messages in ring buffers.
#[derive(Clone, Default)]
pub struct RingBuffers {
    /// The enqueued messages, in the order in which they were put there.
    pub rows: Rows<Enqueue>,
    /// How many messages were cleared.
    pub cleared: u64,
    buffers: HashMap<Buffer, State>,
    /// The publication under way on each thread, and the buffers that have it.
    given: HashMap<Id<Thread>, (Maybe<Publication>, Vec<u64>)>,
}

/// Whether an event of a process may be missing since one of its places was filled.
fn missing(gaps: &Gaps, since: i64, event: &Event) -> bool {
    gaps.between(event.process, since, event.time) || gaps.broken_since(event.process, since)
}

impl RingBuffers {
    /// Note that a place is filled; return when the last one was filled if places between the two
    /// were left out, else `NEVER`.
    pub fn out_of_turn(&mut self, event: &Event, object: Maybe<RingBuffer>) -> i64 {
        let Some(buffer) = event.get(0) else {
            return NEVER;
        };
        let place = event.get(1).unwrap_or_default();
        let state = self.buffers.entry((event.process, buffer)).or_default();
        let before = state.filled.filter(|before| before.object == object);
        state.filled = Some(Filled {
            object,
            place,
            highest: before.map_or(place, |before| place.max(before.highest)),
            time: event.time,
        });
        let Some(before) = before else {
            return NEVER;
        };
        let in_turn =
            place == before.place.wrapping_add(1) || (place == 0 && before.place == before.highest);
        if in_turn { NEVER } else { before.time }
    }

    /// Handle `rclcpp_ring_buffer_enqueue`, of the publication under way on its thread, if any.
    pub fn on_enqueue(
        &mut self,
        event: &Event,
        ring_buffer: Option<&RingBuffer>,
        publications: &mut Publications,
        gaps: &Gaps,
    ) {
        let buffer = event.get(0);
        let of_subscription = ring_buffer.is_none_or(|object| object.publisher.is_none());
        let Some(buffer) = buffer.filter(|_| of_subscription) else {
            return;
        };
        let place = event.get(1).unwrap_or_default();
        let message = publications
            .under_way(event.thread)
            .and_then(|(message, published)| {
                let (of_message, given) = self.given.entry(event.thread).or_default();
                if *of_message != Some(message) {
                    *of_message = Some(message);
                    given.clear();
                }
                let again = given.contains(&buffer);
                given.push(buffer);
                let late = ring_buffer.is_some_and(|ring_buffer| ring_buffer.created > published);
                (!again && !late).then_some(message)
            });
        let number = self.rows.next();
        let of_message = publications.rows.edit(message);
        let next = of_message.and_then(|row| std::mem::replace(&mut row.given, number));
        self.rows.push(Enqueue {
            message,
            subscription: ring_buffer.and_then(|ring_buffer| ring_buffer.subscription),
            process: event.process,
            take: None,
            fate: Fate::Pending,
            untold: message.is_none() && publications.is_cut(event.thread),
            next,
        });
        let state = self.buffers.entry((event.process, buffer)).or_default();
        let before = state.places.insert(place, (number, event.time));
        // If the place was free again, the message had been taken, which was not recorded.
        let pushed_out = event.get(2).is_some_and(|overwritten| overwritten != 0);
        if let Some(row) = before
            .filter(|(_, since)| pushed_out && !missing(gaps, *since, event))
            .and_then(|(row, _)| self.rows.edit(row))
        {
            row.fate = Fate::Overwritten;
        }
    }

    /// Handle `rclcpp_ring_buffer_dequeue`, which is a take.
    pub fn on_dequeue(&mut self, event: &Event, take: Maybe<Take>, gaps: &Gaps) {
        let buffer = (event.process, event.get(0).unwrap_or_default());
        if let Some(state) = self.buffers.get_mut(&buffer)
            && let Some((number, since)) = state.places.remove(&event.get(1).unwrap_or_default())
            && !missing(gaps, since, event)
        {
            // Messages leave a buffer in order, so another message left this older place.
            if number < state.newest {
                return;
            }
            state.newest = number;
            if let Some(row) = self.rows.edit(number) {
                (row.fate, row.take) = (Fate::Dequeued, take);
            }
        }
    }

    /// Handle `rclcpp_ring_buffer_clear`.
    pub fn on_clear(&mut self, event: &Event) {
        let buffer = (event.process, event.get(0).unwrap_or_default());
        let Some(state) = self.buffers.get_mut(&buffer) else {
            return;
        };
        // The first place is filled next.
        state.filled = None;
        for (number, _) in std::mem::take(&mut state.places).into_values() {
            if let Some(row) = self.rows.edit(number) {
                row.fate = Fate::Cleared;
            }
            self.cleared += 1;
        }
    }
}
