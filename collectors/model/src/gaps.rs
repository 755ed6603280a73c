//! When events may be missing, and of whom.
//!
//! A gap is what the trace itself tells of: events that the tracer discarded, packets or streams that
//! are not there. `LTTng` has a buffer per CPU, and what it dropped may be of any thread of the host, as
//! threads move between CPUs; but not between two events of a thread on one other CPU that are closer
//! than the time that it takes to move away and back. What the native tracer dropped is of the process
//! that wrote the file. A broken order is a place in a process where an event must be missing though no
//! tracer says so.

use ahash::HashMap;

use crate::intake::Event;
use crate::rows::NEVER;

/// A thread cannot move to another CPU, run there and move back in less, in ns: each way takes a
/// switch on both CPUs, of a microsecond or more.
const ROUND_TRIP: i64 = 5_000;

/// Events may be missing after `begin` and before `end`.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Its host.
    pub host: u32,
    /// The only process of which something is missing, where there is one.
    pub vpid: Option<i32>,
    /// The only CPU on which something is missing, where there is one.
    pub cpu: Option<i32>,
    /// A recorded moment, or the first time there is.
    pub begin: i64,
    /// A recorded moment, or the last time there is.
    pub end: i64,
}

/// Stretches of time by their ends, each with the earliest begin of those from it on.
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

    /// Whether one has a moment in common with `from..=until`.
    fn overlap(&self, from: i64, until: i64) -> bool {
        let place = self.0.partition_point(|(end, _)| *end < from);
        self.0.get(place).is_some_and(|(_, begin)| *begin <= until)
    }

    /// Whether something may be missing between two moments that were recorded.
    fn between(&self, from: i64, until: i64) -> bool {
        let place = self.0.partition_point(|(end, _)| *end <= from);
        self.0.get(place).is_some_and(|(_, begin)| *begin < until)
    }
}

/// Where a process is: its host, and its number there.
pub type Place = (u32, i32);

/// All gaps and broken orders.
#[derive(Clone, Default)]
pub struct Gaps {
    /// By host, and by process where only that one lacks events.
    declared: HashMap<(u32, Option<i32>), Stretches>,
    /// The same by CPU, where that is known.
    on_cpu: HashMap<(u32, Option<i32>, Option<i32>), Stretches>,
    /// By process: begin and end of each, in the order in which they were found.
    broken: HashMap<u32, Vec<(i64, i64)>>,
    sorted: HashMap<u32, Stretches>,
}

impl Gaps {
    /// What the trace tells of.
    #[must_use]
    pub fn new(gaps: &[Gap]) -> Self {
        let mut found = Self::default();
        for gap in gaps {
            let of = found.declared.entry((gap.host, gap.vpid)).or_default();
            of.0.push((gap.end, gap.begin));
            let of = found.on_cpu.entry((gap.host, gap.vpid, gap.cpu));
            of.or_default().0.push((gap.end, gap.begin));
        }
        found.declared.values_mut().for_each(Stretches::sort);
        found.on_cpu.values_mut().for_each(Stretches::sort);
        found
    }

    /// Whether the trace tells of none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// When the first one began that the trace tells of.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        let gaps = self.declared.values().filter_map(|gaps| gaps.0.first());
        gaps.map(|(_, begin)| *begin).min()
    }

    fn of(&self, (host, vpid): Place) -> impl Iterator<Item = &Stretches> {
        let keys = [(host, None), (host, Some(vpid))];
        keys.into_iter().filter_map(|key| self.declared.get(&key))
    }

    /// Whether events of a process may be missing between two moments at which some were recorded.
    #[must_use]
    pub fn between(&self, place: Place, from: i64, until: i64) -> bool {
        from != NEVER && self.of(place).any(|gaps| gaps.between(from, until))
    }

    /// Whether an event of a thread may be missing between this one and the one before it. Where
    /// there was none before, any gap that began before may hide one.
    #[must_use]
    pub fn before(&self, place: Place, last: LastSeen, now: &Event) -> bool {
        let found = self.of(place).any(|gaps| gaps.between(last.any, now.time));
        let stayed = now.cpu.is_some() && last.cpu == now.cpu;
        if !found || !stayed || now.time.saturating_sub(last.any) > ROUND_TRIP {
            return found;
        }
        let (host, vpid) = place;
        let processes = [None, Some(vpid)].into_iter();
        let mut keys = processes.flat_map(|of| [None, now.cpu].map(|cpu| (host, of, cpu)));
        keys.any(|key| {
            let gaps = self.on_cpu.get(&key);
            gaps.is_some_and(|gaps| gaps.between(last.any, now.time))
        })
    }

    /// Whether events of a process may be missing from one time to another, both included.
    #[must_use]
    pub fn overlap(&self, place: Place, from: i64, until: i64) -> bool {
        self.of(place).any(|gaps| gaps.overlap(from, until))
    }

    /// An order was broken in a process.
    pub fn on_broken(&mut self, process: u32, begin: i64, end: i64) {
        self.broken.entry(process).or_default().push((begin, end));
    }

    /// Whether an order was broken in a process after this time, as far as is known by now.
    #[must_use]
    pub fn broken_since(&self, process: u32, since: i64) -> bool {
        let last = self.broken.get(&process).and_then(|found| found.last());
        last.is_some_and(|(_, end)| *end > since)
    }

    /// All events were seen.
    pub fn finish(&mut self) {
        for (process, found) in &self.broken {
            let mut stretches =
                Stretches(found.iter().map(|(begin, end)| (*end, *begin)).collect());
            stretches.sort();
            self.sorted.insert(*process, stretches);
        }
    }

    /// After `finish`: whether an order was broken in a process from one time to another.
    #[must_use]
    pub fn broken(&self, process: u32, from: i64, until: i64) -> bool {
        let found = self.sorted.get(&process);
        found.is_some_and(|found| found.overlap(from, until))
    }

    /// Process, begin and end of each broken order, in the order of time.
    #[must_use]
    pub fn all_broken(&self) -> Vec<(u32, i64, i64)> {
        let each = self.broken.iter();
        let mut all: Vec<_> = each
            .flat_map(|(process, found)| found.iter().map(|(begin, end)| (*process, *begin, *end)))
            .collect();
        all.sort_unstable_by_key(|(process, begin, end)| (*end, *begin, *process));
        all
    }
}

/// When each thread was seen last.
#[derive(Clone, Default)]
pub struct Continuity(Vec<LastSeen>);

/// The last event of a thread; `NEVER` where there was none.
#[derive(Clone, Copy)]
pub struct LastSeen {
    /// Of any kind.
    pub any: i64,
    /// Of ROS 2.
    pub ros: i64,
    /// The CPU that recorded the last one, where that is known.
    cpu: Option<i32>,
}

impl Continuity {
    /// An event of a thread; returns when it was seen before.
    pub fn on_event(&mut self, event: &Event, of_ros: bool) -> LastSeen {
        let place = event.thread as usize;
        if self.0.len() <= place {
            let never = LastSeen {
                any: NEVER,
                ros: NEVER,
                cpu: None,
            };
            self.0.resize(place + 1, never);
        }
        let last = &mut self.0[place];
        let before = *last;
        (last.any, last.cpu) = (event.time, event.cpu);
        if of_ros {
            last.ros = event.time;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::{Continuity, Event, Gap, Gaps, ROUND_TRIP};

    fn gap(vpid: Option<i32>, cpu: Option<i32>, begin: i64, end: i64) -> Gap {
        Gap {
            host: 0,
            vpid,
            cpu,
            begin,
            end,
        }
    }

    fn event(time: i64, cpu: i32) -> Event {
        let mut event = Event::default();
        (event.time, event.cpu) = (time, Some(cpu));
        event
    }

    /// By hand: a long gap that began first, and a short one within it.
    #[test]
    fn a_gap_is_found_behind_a_shorter_one() {
        let gaps = Gaps::new(&[gap(None, None, 10, 100), gap(None, None, 30, 40)]);
        assert!(gaps.between((0, 1), 50, 60));
        assert!(!gaps.between((0, 1), 100, 200));
        assert!(gaps.overlap((0, 1), 100, 200));
        assert!(!gaps.overlap((0, 1), 101, 200));
        assert!(!gaps.between((1, 1), 50, 60));
    }

    /// By hand: what the native tracer dropped is of one process.
    #[test]
    fn a_gap_of_one_process_is_not_another_ones() {
        let gaps = Gaps::new(&[gap(Some(7), None, 10, 20)]);
        assert!(gaps.between((0, 7), 0, 15));
        assert!(!gaps.between((0, 8), 0, 15));
    }

    /// By hand: a gap on CPU 1 hides what a thread did there between two events on CPU 0, unless it
    /// could not have been there and back.
    #[test]
    fn a_thread_needs_time_to_move_to_another_cpu_and_back() {
        let gaps = Gaps::new(&[gap(None, Some(1), 0, 1_000_000)]);
        let mut seen = Continuity::default();
        let mut missing = |time, cpu| {
            let now = event(time, cpu);
            let last = seen.on_event(&now, true);
            gaps.before((0, 7), last, &now)
        };
        assert!(missing(1_000, 0));
        assert!(!missing(1_000 + ROUND_TRIP, 0));
        assert!(missing(1_001 + 2 * ROUND_TRIP, 0));
        assert!(missing(1_002 + 2 * ROUND_TRIP, 1));
        assert!(missing(1_003 + 2 * ROUND_TRIP, 1));
    }
}
