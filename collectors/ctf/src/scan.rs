//! Go through a packet event by event: find the next event, its time, and where its fields begin.

use std::sync::Arc;

use crate::bits::{align_up, chunk};
use crate::catalog::{Catalog, StreamPlan};
use crate::model::{Clock, Role, StreamClass, Trace, Type};
use crate::packet::Head;
use crate::plan::{FlatHeader, Plan, over};
use crate::walk::{Cursor, State, Stop, advance, skip};

/// A choice of tables and times.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Whether each table is wanted.
    pub tables: Vec<bool>,
    /// First time, in ns.
    pub begin_ns: i64,
    /// Last time, in ns.
    pub end_ns: i64,
}

/// One packet.
#[derive(Debug, Clone)]
pub struct Packet {
    /// A buffer that holds its bytes, as far as they are there; others may follow them.
    pub bytes: Arc<Vec<u8>>,
    /// Where in the buffer it begins.
    pub start: usize,
    /// How many bytes of the packet are there.
    pub length: usize,
    /// Its head.
    pub head: Head,
    /// Its number: at equal times, the packet with the lower number comes first.
    pub number: u32,
    /// Its trace, as index into [`Catalog::members`].
    pub member: usize,
}

/// Where a packet could not be read any further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Number of the packet.
    pub packet: u32,
    /// Byte in the packet.
    pub at: u64,
    /// Why; `None` if its bytes end before its content does.
    pub why: Option<String>,
    /// Time of the last whole event.
    pub last_ns: Option<i64>,
}

/// The event that comes next in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the epoch.
    pub time: i64,
    /// Layout, as index into [`Catalog::layouts`].
    pub layout: u32,
    /// For a flat layout the byte at which the contexts begin, else the bit at which the event
    /// begins; both from the beginning of the packet.
    pub at: u32,
}

/// A packet that is being read.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The packet.
    pub packet: Packet,
    /// The class of its stream.
    pub stream: &'a StreamClass,
    catalog: &'a Catalog,
    plan: &'a StreamPlan,
    scales: Vec<Scale<'a>>,
    state: State,
    /// First bit that is not content, or is not there.
    end: u64,
    /// The byte that contains this bit.
    end_byte: usize,
    /// For an event of a general layout, the bit at which it ends.
    general_end: u64,
    /// Bit at which the next event begins.
    begins: u64,
    last_ns: Option<i64>,
    /// Why there is no next event.
    stop: Option<Stop>,
    /// Events found beforehand and sorted, and the index of the next one.
    sorted: Option<(Vec<Event>, usize)>,
}

/// A conversion of clock cycles to nanoseconds.
#[derive(Debug)]
struct Scale<'a> {
    /// The offset, if the conversion is a mere addition.
    base: Option<i64>,
    clock: &'a Clock,
}

impl<'a> Scale<'a> {
    fn new(clock: &'a Clock) -> Self {
        Self {
            base: (clock.frequency == 1_000_000_000 && clock.added.is_empty())
                .then(|| clock.to_ns(0))
                .flatten(),
            clock,
        }
    }

    #[inline]
    fn ns(&self, cycles: u64) -> Option<i64> {
        match self.base {
            Some(base) => base.checked_add_unsigned(cycles),
            None => self.clock.to_ns(cycles),
        }
    }
}

impl<'a> Reading<'a> {
    /// Begin to read a packet.
    #[must_use]
    pub fn new(catalog: &'a Catalog, packet: Packet) -> Self {
        let trace: &'a Trace = &catalog.members[packet.member].trace;
        let plan = &catalog.streams[packet.member][packet.head.stream];
        let mut state = State::new(trace);
        state.slots.clone_from(&packet.head.slots);
        if let Some((clock, cycles)) = packet.head.begin {
            state.clocks[clock] = cycles;
            state.clock = Some(clock);
        }
        let end = packet.head.content_bits.min(packet.length as u64 * 8);
        Self {
            stream: &trace.streams[packet.head.stream],
            catalog,
            plan,
            scales: trace.clocks.iter().map(Scale::new).collect(),
            state,
            end,
            end_byte: usize::try_from(end / 8).unwrap_or(usize::MAX),
            general_end: 0,
            begins: packet.head.events_at,
            last_ns: None,
            stop: None,
            sorted: None,
            packet,
        }
    }

    /// Return the bytes of the packet, and those that follow them in memory.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.packet.bytes[self.packet.start..]
    }

    /// Return the first byte that is not content, or is not there.
    #[must_use]
    #[inline]
    pub fn end(&self) -> usize {
        self.end_byte
    }

    /// Return the first event.
    pub fn first(&mut self) -> Option<Event> {
        if let Some((events, next)) = &mut self.sorted {
            *next = 1;
            return events.first().copied();
        }
        let event = self.at(self.packet.head.events_at);
        self.kept(event)
    }

    /// Return the event after one of a flat layout that ends at byte `end`.
    #[expect(
        clippy::inline_always,
        reason = "per event: a call costs more than its work"
    )]
    #[inline(always)]
    pub fn after(&mut self, event: Event, end: usize) -> Option<Event> {
        if self.sorted.is_none() {
            self.last_ns = Some(event.time);
            if let Some(header) = &self.plan.header
                && let Some(event) = self.flat_event(header, end)
            {
                return Some(event);
            }
        }
        self.at_next(event, end as u64 * 8)
    }

    /// Return the event after one of a general layout.
    pub fn after_general(&mut self, event: Event) -> Option<Event> {
        self.at_next(event, self.general_end)
    }

    /// Stop because the last event found reaches beyond the end; return `None`.
    #[cold]
    pub fn torn(&mut self) -> Option<Event> {
        self.stop = Some(Stop::End);
        None
    }

    #[inline(never)]
    fn at_next(&mut self, event: Event, end: u64) -> Option<Event> {
        if let Some((events, next)) = &mut self.sorted {
            *next += 1;
            return events.get(*next - 1).copied();
        }
        self.last_ns = Some(event.time);
        let next = if end == self.begins {
            Err(Stop::Bad("an event that takes no space".into()))
        } else {
            self.at(end)
        };
        self.kept(next)
    }

    fn kept(&mut self, event: Result<Option<Event>, Stop>) -> Option<Event> {
        event.unwrap_or_else(|stop| {
            self.stop = Some(stop);
            None
        })
    }

    /// Read a flat header; `None` if the general decoder has to decide.
    #[expect(
        clippy::inline_always,
        reason = "per event: a call costs more than its work"
    )]
    #[expect(clippy::cast_possible_truncation, reason = "packets up to 512 MiB")]
    #[inline(always)]
    fn flat_event(&mut self, header: &FlatHeader, end: usize) -> Option<Event> {
        let begin = end.checked_add(header.align - 1)? & !(header.align - 1);
        let bytes: &[u8; 16] = self.bytes().get(begin..)?.first_chunk()?;
        let id = u64::from_le_bytes(chunk(bytes, 0)) & header.id_mask;
        let word = u64::from_le_bytes(chunk(bytes, header.time_at.min(8)));
        let layout = *self.plan.flat.get(usize::try_from(id).ok()?)?;
        let clock = self.state.clocks.get_mut(header.clock)?;
        let at = begin + header.bytes;
        if at > self.end_byte || layout == u32::MAX {
            return None;
        }
        let stamp = word >> header.shift & header.mask;
        let cycles = advance(*clock, stamp, header.mask);
        let time = self.scales.get(header.clock)?.ns(cycles)?;
        *clock = cycles;
        self.state.clock = Some(header.clock);
        self.begins = begin as u64 * 8;
        Some(Event {
            time,
            layout,
            at: at as u32,
        })
    }

    /// Return the event that begins at bit `at` or, after alignment, at a later one. One of a
    /// general layout is stepped over, to check that it is whole.
    fn at(&mut self, at: u64) -> Result<Option<Event>, Stop> {
        if self.first_bit(at) >= self.end {
            return Ok(None);
        }
        self.begins = at;
        let mut cursor = Cursor {
            bytes: &self.packet.bytes[self.packet.start..][..self.packet.length],
            at,
            end: self.end,
        };
        let stream = self.stream;
        self.state.slots.clone_from(&self.packet.head.slots);
        let id = header(&mut cursor, stream.event_header.as_ref(), &mut self.state)?;
        let time = self.time()?;
        let number = self.layout(id)?;
        let layout = &self.catalog.layouts[number];
        let place = if matches!(layout.plan, Plan::General) {
            for kind in stream.events[layout.event]
                .scopes(stream)
                .into_iter()
                .flatten()
            {
                skip(&mut cursor, kind, &mut self.state)?;
            }
            self.general_end = cursor.at;
            at
        } else {
            cursor.at / 8
        };
        #[expect(clippy::cast_possible_truncation, reason = "far fewer event classes")]
        Ok(Some(Event {
            time,
            layout: number as u32,
            at: u32::try_from(place).map_err(|_| Stop::Bad("a packet beyond 512 MiB".into()))?,
        }))
    }

    /// Return where an event after bit `at` may begin: the bits that fill up a byte are no event.
    fn first_bit(&self, at: u64) -> u64 {
        let header = self.stream.event_header.as_ref();
        if header.is_some_and(|kind| kind.align().is_multiple_of(8)) {
            align_up(at, 8)
        } else {
            at
        }
    }

    fn layout(&self, id: u64) -> Result<usize, Stop> {
        self.plan
            .layout(id)
            .ok_or_else(|| Stop::Bad(format!("the metadata declares no event {id}")))
    }

    fn time(&self) -> Result<i64, Stop> {
        let Some(clock) = self.state.clock else {
            return Ok(0);
        };
        let (scale, cycles) = (&self.scales[clock], self.state.clocks[clock]);
        scale.ns(cycles).ok_or_else(|| {
            let name = &scale.clock.name;
            Stop::Bad(format!(
                "time {cycles} of clock '{name}' is beyond the years that nanoseconds can count"
            ))
        })
    }

    /// Return the damage of a packet that could not be read any further, or whose bytes end early.
    #[must_use]
    pub fn damage(&mut self) -> Option<Damage> {
        if self.sorted.is_some() {
            // Already returned by `sort`.
            return None;
        }
        let stop = self.stop.take();
        let torn = self.end < self.packet.head.content_bits;
        let (at, why) = match stop {
            None if torn => (self.end, None),
            None => return None,
            Some(Stop::End) if torn => (self.begins, None),
            Some(Stop::End) => (
                self.begins,
                Some("an event reaches beyond the end of its packet".into()),
            ),
            Some(Stop::Bad(what)) => (self.begins, Some(what)),
        };
        Some(Damage {
            packet: self.packet.number,
            at: at / 8,
            why,
            last_ns: self.last_ns,
        })
    }

    /// Find all events at once and sort them by time, for packets whose clock goes backwards.
    pub fn sort(&mut self) -> Option<Damage> {
        let mut all = Vec::new();
        let mut next = self.first();
        while let Some(event) = next {
            next = match &self.catalog.layouts[event.layout as usize].plan {
                Plan::General => {
                    all.push(event);
                    self.after_general(event)
                }
                Plan::Flat(segments, _) => {
                    match over(segments, self.bytes(), self.end(), event.at as usize) {
                        Some(end) => {
                            all.push(event);
                            self.after(event, end)
                        }
                        None => self.torn(),
                    }
                }
            };
        }
        let damage = self.damage();
        all.sort_by_key(|event| event.time);
        self.sorted = Some((all, 0));
        damage
    }

    /// Return the first and last time, after [`Reading::sort`].
    #[must_use]
    pub fn span(&self) -> Option<(i64, i64)> {
        let (events, _) = self.sorted.as_ref()?;
        Some((events.first()?.time, events.last()?.time))
    }
}

/// Decode an event header with the general decoder; return the event's number.
///
/// # Errors
///
/// Those of [`crate::walk::walk`].
pub fn header(
    cursor: &mut Cursor<'_>,
    kind: Option<&Type>,
    state: &mut State,
) -> Result<u64, Stop> {
    state.told.next_event();
    if let Some(kind) = kind {
        skip(cursor, kind, state)?;
    }
    state.told.number(Role::EventClass)
}
