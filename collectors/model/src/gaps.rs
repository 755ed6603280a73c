//! Know when events may be missing, and of which hosts, processes and CPUs.
//!
//! The trace itself shows the gaps: events that the tracer discarded, packets or streams that are
//! not there. `LTTng` has a buffer per CPU, and an event that it dropped may belong to any thread
//! of the host, because threads move between CPUs; but not to a thread with two events on one other
//! CPU that are closer in time than a move to the buffer's CPU and back takes. Events that the
//! native tracer dropped belong to the process that wrote the file. A broken order is a place in a
//! process where an event must be missing although no tracer reports it.

use ahash::HashMap;

use crate::identity::{Host, NOTHING, Process, Thread};
use crate::ids::{Id, Maybe, entry, get};
use crate::intake::Event;
use crate::rows::NEVER;

/// The shortest time in which a thread can move to another CPU, run there and move back, in ns:
/// each way takes a switch on both CPUs, of a microsecond or more.
const ROUND_TRIP: i64 = 5_000;

/// A gap: events may be missing after `begin` and before `end`.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Its host.
    pub host: Maybe<Host>,
    /// The number of the process, if only its events may be missing.
    pub vpid: Option<i32>,
    /// The CPU, if only events on it may be missing.
    pub cpu: Option<i32>,
    /// The time of something recorded, or `i64::MIN`.
    pub begin: i64,
    /// The time of something recorded, or `i64::MAX`.
    pub end: i64,
}

/// Intervals of time sorted by end, each with the earliest begin of itself and all later ones.
#[derive(Clone, Default)]
struct Stretches(Vec<(i64, i64)>);

impl Stretches {
    fn sort(&mut self) {
        self.0.sort_unstable();
        let mut earliest = i64::MAX;
        for (_, begin) in self.0.iter_mut().rev() {
            earliest = earliest.min(*begin);
            *begin = earliest;
        }
    }

    /// Whether an interval has a time in common with `from..=until`.
    fn overlap(&self, from: i64, until: i64) -> bool {
        let place = self.0.partition_point(|(end, _)| *end < from);
        self.0.get(place).is_some_and(|(_, begin)| *begin <= until)
    }

    /// Whether events may be missing between two recorded events at these times.
    fn between(&self, from: i64, until: i64) -> bool {
        let place = self.0.partition_point(|(end, _)| *end <= from);
        self.0.get(place).is_some_and(|(_, begin)| *begin < until)
    }
}

/// The gaps that the trace shows of a host, or of one of its processes if only that one has gaps.
#[derive(Clone, Default)]
struct Declared {
    all: Stretches,
    /// The gaps by CPU, if that is known.
    on_cpu: HashMap<Option<i32>, Stretches>,
}

impl Declared {
    fn each(&mut self) -> impl Iterator<Item = &mut Stretches> {
        std::iter::once(&mut self.all).chain(self.on_cpu.values_mut())
    }
}

/// All gaps and broken orders.
#[derive(Clone, Default)]
pub struct Gaps {
    /// By host, and by process if only that one has gaps.
    declared: HashMap<(Maybe<Host>, Option<i32>), Declared>,
    /// Begin and end of each broken order by process, in the order in which they were found.
    broken: HashMap<Maybe<Process>, Vec<(i64, i64)>>,
    sorted: HashMap<Maybe<Process>, Stretches>,
    /// When the first gap that the trace shows began; what is forgotten is none of these.
    first: Option<i64>,
    /// End of the last gap that the trace shows.
    last: i64,
    /// The time before which everything is forgotten, if anything is.
    forgotten: Option<i64>,
    /// The host of each process, and its number there.
    places: Vec<(Maybe<Host>, i32)>,
}

impl Gaps {
    /// Take the gaps that the trace shows.
    #[must_use]
    pub fn new(gaps: &[Gap]) -> Self {
        let mut index = Self::default();
        for gap in gaps {
            let declared = index.declared.entry((gap.host, gap.vpid)).or_default();
            let on_cpu = declared.on_cpu.entry(gap.cpu).or_default();
            for stretches in [&mut declared.all, on_cpu] {
                stretches.0.push((gap.end, gap.begin));
            }
        }
        let each = index.declared.values_mut().flat_map(Declared::each);
        each.for_each(Stretches::sort);
        index.first = gaps.iter().map(|gap| gap.begin).min();
        index.last = gaps.iter().map(|gap| gap.end).max().unwrap_or(NEVER);
        index
    }

    /// Forget everything that happened before a time: it becomes a gap, except between the events of
    /// a thread (`before`), which were all seen.
    pub(crate) fn forget(&mut self, since: i64) {
        self.forgotten = self.forgotten.max(Some(since));
        for stretches in self.broken.values_mut() {
            stretches.retain(|(_, end)| *end > since);
        }
    }

    /// Whether the trace shows no gap.
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// Return when the first gap that the trace shows began.
    pub(crate) const fn first(&self) -> Option<i64> {
        self.first
    }

    /// Set the processes to which the gaps apply.
    pub(crate) fn of_processes(self, processes: &[Process]) -> Self {
        let place = |process: &Process| (process.host, process.vpid);
        let places = processes.iter().map(place).collect();
        Self { places, ..self }
    }

    fn declared_for(&self, process: Maybe<Process>) -> impl Iterator<Item = &Declared> {
        let place = get(&self.places, process).copied();
        let (host, vpid) = place.unwrap_or((None, NOTHING));
        let keys = [(host, None), (host, Some(vpid))];
        keys.into_iter().filter_map(|key| self.declared.get(&key))
    }

    /// Whether events of a process may be missing between two recorded events at these times.
    pub(crate) fn between(&self, process: Maybe<Process>, from: i64, until: i64) -> bool {
        if from != NEVER && self.forgotten.is_some_and(|since| from < since) {
            return true;
        }
        let within = from != NEVER && from < self.last;
        let mut declared = self.declared_for(process);
        within && declared.any(|gaps| gaps.all.between(from, until))
    }

    /// Whether an event of a thread may be missing between this event and the one before it. If
    /// there was none before, any gap that began earlier may hide one.
    pub(crate) fn before(&self, last: LastSeen, now: &Event) -> bool {
        if last.any >= self.last {
            return false;
        }
        let mut gaps = self.declared_for(now.process);
        let stayed = now.cpu != NOTHING && last.cpu == now.cpu;
        if !stayed || now.time.saturating_sub(last.any) > ROUND_TRIP {
            return gaps.any(|declared| declared.all.between(last.any, now.time));
        }
        let here = [None, Some(now.cpu)];
        let mut here = gaps.flat_map(|declared| here.map(|cpu| declared.on_cpu.get(&cpu)));
        here.any(|gaps| gaps.is_some_and(|gaps| gaps.between(last.any, now.time)))
    }

    /// Whether events of a process may be missing from one time to another, both included.
    pub(crate) fn overlap(&self, process: Maybe<Process>, from: i64, until: i64) -> bool {
        let mut declared = self.declared_for(process);
        self.forgotten.is_some_and(|since| from <= since)
            || declared.any(|gaps| gaps.all.overlap(from, until))
    }

    /// Add a broken order of a process.
    pub(crate) fn on_broken(&mut self, process: Maybe<Process>, begin: i64, end: i64) {
        self.broken.entry(process).or_default().push((begin, end));
    }

    /// Whether an order was broken in a process after this time, as far as is known by now.
    pub(crate) fn broken_since(&self, process: Maybe<Process>, since: i64) -> bool {
        let last = self.broken.get(&process).and_then(|orders| orders.last());
        last.is_some_and(|(_, end)| *end > since)
    }

    /// Sort the broken orders, after all events.
    pub(crate) fn finish(&mut self) {
        for (process, orders) in &self.broken {
            let mut stretches =
                Stretches(orders.iter().map(|(begin, end)| (*end, *begin)).collect());
            stretches.sort();
            self.sorted.insert(*process, stretches);
        }
    }

    /// Whether an order was broken in a process from one time to another; valid after `finish`.
    pub(crate) fn broken(&self, process: Maybe<Process>, from: i64, until: i64) -> bool {
        let stretches = self.sorted.get(&process);
        stretches.is_some_and(|stretches| stretches.overlap(from, until))
    }

    /// Return process, begin and end of each broken order, in order of time.
    pub(crate) fn all_broken(&self) -> Vec<BrokenOrder> {
        let each = self.broken.iter();
        let mut all: Vec<_> = each
            .flat_map(|(process, orders)| {
                orders.iter().map(|(begin, end)| (*process, *begin, *end))
            })
            .collect();
        all.sort_unstable_by_key(|(process, begin, end)| (*end, *begin, *process));
        all
    }
}

/// A process, and the begin and end of an interval in which an order was broken there.
pub type BrokenOrder = (Maybe<Process>, i64, i64);

/// The last event of each thread.
#[derive(Clone, Default)]
pub struct Continuity(Vec<Option<LastSeen>>);

/// The times of the last event of a thread and of its last one of ROS, `NEVER` if there was none.
#[derive(Clone, Copy)]
pub struct LastSeen {
    pub any: i64,
    pub ros: i64,
    /// The CPU that recorded the last event, -1 if that is not known.
    cpu: i32,
}

impl Continuity {
    /// Note that all events of a thread up to a time were seen.
    pub(crate) fn seen(&mut self, thread: Id<Thread>, until: i64) {
        *entry(&mut self.0, thread) = Some(LastSeen {
            any: until,
            ros: until,
            cpu: NOTHING,
        });
    }

    /// Return the last event of a thread.
    pub(crate) fn last(&self, thread: Id<Thread>) -> LastSeen {
        let last = self.0.get(thread.place()).copied().flatten();
        last.unwrap_or(LastSeen {
            any: NEVER,
            ros: NEVER,
            cpu: NOTHING,
        })
    }

    /// Note an event of a thread; return its last event before this one.
    pub(crate) fn on_event(&mut self, event: &Event, of_ros: bool) -> LastSeen {
        let before = self.last(event.thread);
        *entry(&mut self.0, event.thread) = Some(LastSeen {
            any: event.time,
            ros: if of_ros { event.time } else { before.ros },
            cpu: event.cpu,
        });
        before
    }
}

#[cfg(test)]
mod tests;
