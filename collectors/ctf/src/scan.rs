//! First pass: where in a packet each event lies, and when it happened.

use crate::bits::align_up;
use crate::catalog::{Catalog, StreamPlan};
use crate::model::{Clock, Role, Trace, Type};
use crate::packet::Head;
use crate::plan::{End, FlatHeader, Plan, Segment};
use crate::walk::{Cursor, State, Stop, advance};

/// Found events of one table, in columns.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Nanoseconds since the epoch.
    pub time: Vec<i64>,
    /// Number of the packet.
    pub packet: Vec<u32>,
    /// Layout, as index into [`Catalog::layouts`].
    pub layout: Vec<u32>,
    /// For each row, `stride` times: the byte at which each segment begins, from the beginning of
    /// the packet; for a general layout the bit at which the event begins.
    pub bases: Vec<u32>,
    /// How many per row.
    pub stride: usize,
}

impl Rows {
    /// None yet.
    #[must_use]
    pub fn new(stride: usize) -> Self {
        Self {
            stride,
            ..Self::default()
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    fn push(&mut self, time: i64, packet: u32, layout: u32) {
        self.time.push(time);
        self.packet.push(packet);
        self.layout.push(layout);
        let width = self.time.len() * self.stride;
        while self.bases.len() < width {
            self.bases.push(0);
        }
    }

    /// All of `parts`, sorted by time; equal times by packet, then as they were.
    #[must_use]
    pub fn merge(parts: Vec<Self>, stride: usize) -> Self {
        let total = parts.iter().map(Self::len).sum::<usize>();
        let mut parts = parts.into_iter().filter(|p| !p.is_empty());
        let Some(mut all) = parts.next() else {
            return Self::new(stride);
        };
        let more = total - all.len();
        all.time.reserve_exact(more);
        all.packet.reserve_exact(more);
        all.layout.reserve_exact(more);
        all.bases.reserve_exact(more * stride);
        for part in parts {
            all.time.extend(part.time);
            all.packet.extend(part.packet);
            all.layout.extend(part.layout);
            all.bases.extend(part.bases);
        }
        let key = |row: usize| (all.time[row], all.packet[row]);
        if (1..all.len()).all(|row| key(row - 1) <= key(row)) {
            return all;
        }
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|row| key(*row));
        let mut bases = Vec::with_capacity(all.bases.len());
        for row in &order {
            bases.extend_from_slice(&all.bases[row * stride..(row + 1) * stride]);
        }
        Self {
            time: order.iter().map(|row| all.time[*row]).collect(),
            packet: order.iter().map(|row| all.packet[*row]).collect(),
            layout: order.iter().map(|row| all.layout[*row]).collect(),
            bases,
            stride,
        }
    }

    /// Cut off the rows from `at` on.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        Self {
            time: self.time.split_off(at),
            packet: self.packet.split_off(at),
            layout: self.layout.split_off(at),
            bases: self.bases.split_off(at * self.stride),
            stride: self.stride,
        }
    }
}

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Filter {
    /// By table.
    pub tables: Vec<bool>,
    /// First time.
    pub begin_ns: i64,
    /// Last time.
    pub end_ns: i64,
}

/// One packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its bytes, as far as they are there.
    pub bytes: &'a [u8],
    /// Its head.
    pub head: &'a Head,
    /// Its number, for [`Rows::packet`].
    pub number: u32,
    /// Its trace, as index into [`Catalog::members`].
    pub member: usize,
}

/// How the scan of a packet ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Whole events seen, wanted or not.
    pub events: u64,
    /// Time of the last of them.
    pub last_ns: Option<i64>,
    /// Byte in the packet at which nothing more could be read, and why; `None` for why where the
    /// bytes of the packet end before its content does.
    pub stopped: Option<(u64, Option<String>)>,
}

/// Find the events of a packet.
pub fn scan(catalog: &Catalog, packet: Packet<'_>, filter: &Filter, out: &mut [Rows]) -> Outcome {
    let trace = &catalog.members[packet.member].trace;
    let plan = &catalog.streams[packet.member][packet.head.stream];
    let mut state = State::new(trace);
    state.slots.clone_from(&packet.head.slots);
    if let Some((clock, cycles)) = packet.head.begin {
        state.clocks[clock] = cycles;
        state.clock = Some(clock);
    }
    let end = packet.head.content_bits.min(packet.bytes.len() as u64 * 8);
    let mut scanner = Scanner {
        catalog,
        packet,
        filter,
        plan,
        trace,
        scales: trace.clocks.iter().map(Scale::new).collect(),
        state,
        end,
        unwanted: Rows::new(1),
        outcome: Outcome::default(),
    };
    let stop = match &plan.header {
        Some(header) => scanner.flat(header, out),
        None => scanner.general(out),
    };
    let torn = end < packet.head.content_bits;
    scanner.outcome.stopped = match stop {
        None if torn => Some((end / 8, None)),
        None => None,
        Some((at, Stop::End)) if torn => Some((at / 8, None)),
        Some((at, Stop::End)) => Some((
            at / 8,
            Some("an event reaches beyond the end of its packet".into()),
        )),
        Some((at, Stop::Bad(what))) => Some((at / 8, Some(what))),
    };
    scanner.outcome
}

/// Clock cycles to nanoseconds.
struct Scale<'a> {
    /// Set where it is a mere addition.
    base: Option<i64>,
    clock: &'a Clock,
}

impl<'a> Scale<'a> {
    fn new(clock: &'a Clock) -> Self {
        Self {
            base: (clock.frequency == 1_000_000_000)
                .then(|| clock.to_ns(0))
                .flatten(),
            clock,
        }
    }

    fn ns(&self, cycles: u64) -> Result<i64, Stop> {
        let ns = match self.base {
            Some(base) => base.checked_add_unsigned(cycles),
            None => self.clock.to_ns(cycles),
        };
        ns.ok_or_else(|| {
            Stop::Bad(format!(
                "time {cycles} of clock '{}' is beyond the years that nanoseconds can count",
                self.clock.name
            ))
        })
    }
}

struct Scanner<'a> {
    catalog: &'a Catalog,
    packet: Packet<'a>,
    filter: &'a Filter,
    plan: &'a StreamPlan,
    trace: &'a Trace,
    scales: Vec<Scale<'a>>,
    state: State,
    /// First bit that is no content, or is not there.
    end: u64,
    unwanted: Rows,
    outcome: Outcome,
}

type Stopped = Option<(u64, Stop)>;

impl Scanner<'_> {
    fn flat(&mut self, header: &FlatHeader, out: &mut [Rows]) -> Stopped {
        let bytes = self.packet.bytes;
        let end = usize::try_from(self.end / 8)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let bytes = &bytes[..end];
        let mut at = self.packet.head.events_at.div_ceil(8);
        loop {
            if at >= end as u64 {
                return None;
            }
            let start = align_up(at, header.align);
            match self.flat_event(header, bytes, start, out) {
                Ok(next) if next == at => {
                    return Some((at * 8, Stop::Bad("an event that takes no space".into())));
                }
                Ok(next) => at = next,
                Err(stop) => return Some((start * 8, stop)),
            }
        }
    }

    #[inline]
    fn flat_event(
        &mut self,
        header: &FlatHeader,
        bytes: &[u8],
        start: u64,
        out: &mut [Rows],
    ) -> Result<u64, Stop> {
        let begin = usize::try_from(start).map_err(|_| Stop::End)?;
        let mut id = 0;
        if let Some(tag) = &header.tag {
            if begin + tag.span() > bytes.len() {
                return Err(Stop::End);
            }
            id = tag.at(bytes, begin);
        }
        let branch = header
            .branches
            .iter()
            .find(|b| b.low <= id && id <= b.high)
            .ok_or_else(|| Stop::Bad(format!("event header has no form for {id}")))?;
        let mut at = begin + branch.bytes;
        if at > bytes.len() {
            return Err(Stop::End);
        }
        if let Some(field) = &branch.id {
            id = field.at(bytes, begin);
        }
        let clock = branch.time.map(|(field, clock)| {
            let value = field.at(bytes, begin);
            self.state.clocks[clock] = advance(self.state.clocks[clock], value, field.bits);
            clock
        });
        let time = self.time(clock)?;
        let number = self
            .plan
            .layout(id)
            .ok_or_else(|| Stop::Bad(format!("the metadata declares no event {id}")))?;
        let layout = &self.catalog.layouts[number];
        let wanted = self.wanted(layout.table, time);
        let rows = if wanted {
            &mut out[layout.table]
        } else {
            self.unwanted.bases.clear();
            &mut self.unwanted
        };
        let Plan::Flat(segments, _) = &layout.plan else {
            let next = self.general_event(start * 8, out)?;
            return Ok(next.div_ceil(8));
        };
        let first = rows.bases.len();
        for segment in segments {
            if let Some(next) = step(bytes, at, segment, &mut rows.bases, first) {
                at = next;
            } else {
                rows.bases.truncate(first);
                return Err(Stop::End);
            }
        }
        if wanted {
            #[expect(clippy::cast_possible_truncation, reason = "far fewer event classes")]
            rows.push(time, self.packet.number, number as u32);
        }
        self.outcome.events += 1;
        self.outcome.last_ns = Some(time);
        Ok(at as u64)
    }

    fn wanted(&self, table: usize, time: i64) -> bool {
        self.filter.tables[table] && self.filter.begin_ns <= time && time <= self.filter.end_ns
    }

    fn time(&self, clock: Option<usize>) -> Result<i64, Stop> {
        match clock.or(self.state.clock) {
            Some(clock) => self.scales[clock].ns(self.state.clocks[clock]),
            None => Ok(0),
        }
    }

    fn general(&mut self, out: &mut [Rows]) -> Stopped {
        let mut at = self.packet.head.events_at;
        while at < self.end {
            match self.general_event(at, out) {
                Ok(next) if next == at => {
                    return Some((at, Stop::Bad("an event that takes no space".into())));
                }
                Ok(next) => at = next,
                Err(stop) => return Some((at, stop)),
            }
        }
        None
    }

    /// Step over the event that begins at bit `at`; returns where the next may begin.
    fn general_event(&mut self, at: u64, out: &mut [Rows]) -> Result<u64, Stop> {
        let stream = &self.trace.streams[self.packet.head.stream];
        let mut cursor = Cursor {
            bytes: self.packet.bytes,
            at,
            end: self.end,
        };
        self.state.slots.clone_from(&self.packet.head.slots);
        let id = header(&mut cursor, stream.event_header.as_ref(), &mut self.state)?;
        let time = self.time(None)?;
        let number = self
            .plan
            .layout(id)
            .ok_or_else(|| Stop::Bad(format!("the metadata declares no event {id}")))?;
        let layout = &self.catalog.layouts[number];
        let event = &stream.events[layout.event];
        for kind in [&stream.event_context, &event.context, &event.payload]
            .into_iter()
            .flatten()
        {
            crate::walk::walk(&mut cursor, kind, &mut self.state, None)?;
        }
        if self.wanted(layout.table, time) {
            let rows = &mut out[layout.table];
            let base =
                u32::try_from(at).map_err(|_| Stop::Bad("a packet beyond 512 MiB".into()))?;
            rows.bases.push(base);
            #[expect(clippy::cast_possible_truncation, reason = "far fewer event classes")]
            rows.push(time, self.packet.number, number as u32);
        }
        self.outcome.events += 1;
        self.outcome.last_ns = Some(time);
        Ok(cursor.at)
    }
}

/// Step over a segment: note where it begins, return where it ends.
#[inline]
fn step(
    bytes: &[u8],
    at: usize,
    segment: &Segment,
    bases: &mut Vec<u32>,
    first: usize,
) -> Option<usize> {
    let align = segment.align as usize;
    let base = at.checked_add(align - 1)? & !(align - 1);
    let at = base + segment.fixed as usize;
    if at > bytes.len() {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "packets are at most 512 MiB"
    )]
    bases.push(base as u32);
    match segment.end {
        End::Aligned => Some(at),
        End::Text => Some(at + memchr::memchr(0, &bytes[at..])? + 1),
        End::Sequence(spot, load, element) => {
            let from = bases[first + spot.segment] as usize + spot.offset;
            let length = usize::try_from(load.at(bytes, from)).ok()?;
            let end = at.checked_add(length.checked_mul(element as usize)?)?;
            (end <= bytes.len()).then_some(end)
        }
    }
}

/// Decode an event header with the general decoder; returns the event's number.
///
/// # Errors
///
/// As [`crate::walk::walk`].
pub fn header(
    cursor: &mut Cursor<'_>,
    kind: Option<&Type>,
    state: &mut State,
) -> Result<u64, Stop> {
    state.told.next_event();
    if let Some(kind) = kind {
        crate::walk::walk(cursor, kind, state, None)?;
    }
    state.told.number(Role::EventClass)
}
