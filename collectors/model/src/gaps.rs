//! When the tracer dropped something, and of whom.
//!
//! `LTTng` has a buffer per CPU: what was dropped is of threads that ran there. A thread is taken to
//! have run on the CPUs of its last event before and its first one after; that it moved to another
//! one and back in between cannot be seen. The native tracer has a buffer per thread: what was
//! dropped is of that process. Where neither is known it may be of any thread of the host.

use ahash::HashMap;

use crate::intake::Event;
use crate::rows::NEVER;

/// In place of the number of a process or CPU: not known, and any that is.
const NOT_KNOWN: i32 = -1;
const ANY: i32 = -2;

/// One gap.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Its host.
    pub host: u32,
    /// The only process and the only CPU of which something is missing, where there is one.
    pub vpid: Option<i32>,
    /// As above.
    pub cpu: Option<i32>,
    /// It began after this time, and ended before this one.
    pub begin: i64,
    /// As above.
    pub end: i64,
}

/// An event of a thread.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Its time.
    pub time: i64,
    /// Where it happened.
    pub cpu: Option<i32>,
}

impl Moment {
    /// Of an event.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        Self {
            time: event.time,
            cpu: event.cpu,
        }
    }

    /// Before the first one.
    pub const NEVER: Self = Self {
        time: NEVER,
        cpu: None,
    };
}

fn in_order(gaps: &mut [(i64, i64)]) {
    gaps.sort_unstable();
    let mut first = i64::MAX;
    for (_, begin) in gaps.iter_mut().rev() {
        first = first.min(*begin);
        *begin = first;
    }
}

/// All gaps: of each host, process and CPU ends, and the earliest begin of those from it on.
#[derive(Clone, Default)]
pub struct Gaps(HashMap<(u32, i32, i32), Vec<(i64, i64)>>);

impl Gaps {
    /// Of these.
    #[must_use]
    pub fn new(gaps: &[Gap]) -> Self {
        let mut found: HashMap<_, Vec<(i64, i64)>> = HashMap::default();
        for gap in gaps {
            let (vpid, cpu) = (gap.vpid.unwrap_or(NOT_KNOWN), gap.cpu.unwrap_or(NOT_KNOWN));
            let mut add = |vpid, cpu| {
                let of = found.entry((gap.host, vpid, cpu)).or_default();
                of.push((gap.end, gap.begin));
            };
            add(ANY, ANY);
            add(vpid, cpu);
            if gap.cpu.is_some() {
                add(vpid, ANY);
            }
        }
        for gaps in found.values_mut() {
            in_order(gaps);
        }
        Self(found)
    }

    /// Gaps of hosts, from one time to another.
    pub fn add(&mut self, gaps: impl Iterator<Item = (u32, i64, i64)>) {
        for (host, begin, end) in gaps {
            let of = self.0.entry((host, ANY, ANY)).or_default();
            of.push((end, begin));
        }
        for gaps in self.0.values_mut() {
            in_order(gaps);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first one began.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        let gaps = self.0.values().filter_map(|gaps| gaps.first());
        gaps.map(|(_, begin)| *begin).min()
    }

    /// Whether there is one on a host from one time to another.
    #[must_use]
    pub fn between(&self, host: u32, from: i64, until: i64) -> bool {
        let gaps = self.0.get(&(host, ANY, ANY)).map_or(&[][..], Vec::as_slice);
        let place = gaps.partition_point(|(end, _)| *end < from);
        from != NEVER && gaps.get(place).is_some_and(|(_, begin)| *begin <= until)
    }

    /// Whether one lies within two times, which themselves were recorded.
    fn within(&self, key: (u32, i32, i32), from: i64, until: i64) -> bool {
        let gaps = self.0.get(&key).map_or(&[][..], Vec::as_slice);
        let place = gaps.partition_point(|(end, _)| *end <= from);
        from != NEVER && gaps.get(place).is_some_and(|(_, begin)| *begin < until)
    }

    /// Whether an event of a thread may be missing between two that follow each other.
    #[must_use]
    pub fn of_thread(&self, (host, vpid): (u32, i32), last: Moment, now: Moment) -> bool {
        let near = |vpid, cpu| self.within((host, vpid, cpu), last.time, now.time);
        let on = |vpid| {
            let (last, now) = (last.cpu.unwrap_or(ANY), now.cpu.unwrap_or(ANY));
            near(vpid, NOT_KNOWN) || near(vpid, last) || (now != last && near(vpid, now))
        };
        on(NOT_KNOWN) || on(vpid)
    }
}

/// Which threads were cut, and when.
#[derive(Clone, Default)]
pub struct Cuts {
    /// What the tracer dropped.
    pub gaps: Gaps,
    /// Host and number of the process now.
    pub here: (u32, i32),
    /// Of each thread its last event, where there are gaps; and when it was cut last.
    last: Vec<Moment>,
    at: HashMap<u32, i64>,
}

impl Cuts {
    /// The next event of a thread; returns whether one before it may be missing.
    pub fn on_event(&mut self, thread: u32, now: Moment) -> bool {
        let place = thread as usize;
        if self.last.len() <= place {
            self.last.resize(place + 1, Moment::NEVER);
        }
        let last = std::mem::replace(&mut self.last[place], now);
        self.gaps.of_thread(self.here, last, now)
    }

    /// A thread was cut.
    pub fn on_cut(&mut self, thread: u32, time: i64) {
        self.at.insert(thread, time);
    }

    /// Whether an event of a thread of this process may be missing since some time.
    #[must_use]
    pub fn since(&self, thread: u32, since: i64, time: i64) -> bool {
        let last = self.last.get(thread as usize).copied();
        let last = last.unwrap_or(Moment::NEVER);
        self.at.get(&thread).is_some_and(|at| *at > since)
            || self
                .gaps
                .of_thread(self.here, last, Moment { time, ..last })
    }
}
