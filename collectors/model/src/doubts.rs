//! Executions that seem to have ended, and of which later events make that doubtful.
//!
//! The end of one execution and the start of the next one of its callback can be missing together:
//! what is left looks like a long one. Two things tell:
//!
//! * places of a ring buffer are emptied one after the other. Where some were left out, though none
//!   was pushed out, more than callbacks that began without a `dequeue` account for, nobody knows when
//!   those ended that began since the place before, or which message they had;
//! * where something is seen to be missing anywhere: two publications of one publisher within an
//!   execution, though of that callback but few ever did so twice; or a message that was published
//!   meanwhile, on a topic of that callback, of which only the take was recorded.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::Model;
use crate::callbacks::Execution;
use crate::intake::{Event, Kind};
use crate::rows::{NEVER, NONE};
use crate::sequence::Taking;

/// So many executions between two messages of a buffer are remembered.
const MOST: usize = 64;

/// What is done by fewer than one of so many is not what a callback does.
const RARE: u32 = 20;

/// What was published on a topic.
#[derive(Default)]
struct Topic {
    /// Timestamps of messages that were taken and of which no publication was recorded.
    unseen: Vec<i64>,
    /// Timestamps of publications, and how far each is ahead of the event.
    seen: Vec<(i64, i64)>,
    /// Threads and callbacks that published.
    callbacks: HashSet<(u32, u32)>,
}

impl Topic {
    /// When the others were published.
    fn moments(&mut self) -> Vec<i64> {
        self.unseen.sort_unstable();
        self.unseen.dedup();
        self.seen.sort_unstable();
        if self.unseen.len() * 2 >= self.seen.len() {
            return Vec::new();
        }
        let moment = |stamp: &i64| {
            let place = self.seen.partition_point(|(seen, _)| seen <= stamp);
            let (_, ahead) = self.seen[place.saturating_sub(1)];
            stamp.wrapping_sub(ahead)
        };
        self.unseen.iter().map(moment).collect()
    }
}

/// The last message out of a buffer.
#[derive(Clone)]
struct Out {
    object: u32,
    place: u64,
    time: i64,
    take: u32,
    /// Whether a message was pushed out since.
    pushed: bool,
    /// What began since, and how many of these without a message.
    begun: Vec<u32>,
    without: u64,
}

/// What left each ring buffer last, by process and address.
#[derive(Clone, Default)]
pub struct Skips {
    out: HashMap<(u32, u64), Out>,
    /// The buffer that a callback had its messages of, by process and address.
    of: HashMap<(u32, u64), u64>,
    /// Executions that may have ended otherwise.
    doubted: Vec<u32>,
}

impl Skips {
    /// A message leaves a buffer, of which the highest place is known. Where places were left out:
    /// since when, and the take of which nobody knows what it began; else `NEVER` and `NONE`.
    pub fn on_dequeue(
        &mut self,
        event: &Event,
        process: u32,
        (object, take): (u32, u32),
        highest: u64,
    ) -> (i64, u32) {
        let (Some(buffer), Some(place)) = (event.get(0), event.get(1)) else {
            return (NEVER, NONE);
        };
        let now = Out {
            object,
            place,
            time: event.time,
            take,
            pushed: false,
            begun: Vec::new(),
            without: 0,
        };
        let Some(last) = self.out.insert((process, buffer), now) else {
            return (NEVER, NONE);
        };
        let next = if place > last.place {
            last.place + 1
        } else {
            0
        };
        let rest = if place > last.place {
            0
        } else {
            highest.saturating_sub(last.place)
        };
        let skipped = rest + (place - next);
        if last.object != object || last.pushed || skipped <= last.without {
            return (NEVER, NONE);
        }
        self.doubted.extend(last.begun);
        (last.time, last.take)
    }

    /// A callback begins, of what its thread took right before.
    pub fn on_start(&mut self, event: &Event, process: u32, taken: Option<Taking>, number: u32) {
        let callback = event.get(0).unwrap_or_default();
        let led = taken.filter(|taken| taken.kind == Kind::Dequeue);
        let buffer = if let Some(taken) = led {
            self.of.insert((process, callback), taken.of);
            taken.of
        } else if event.get(1).is_some_and(|intra| intra != 0)
            && let Some(buffer) = self.of.get(&(process, callback))
        {
            *buffer
        } else {
            return;
        };
        if let Some(out) = self.out.get_mut(&(process, buffer)) {
            out.without += u64::from(led.is_none());
            if out.begun.len() < MOST {
                out.begun.push(number);
            }
        }
    }

    /// A message comes into a buffer, and may push another one out.
    pub fn on_enqueue(&mut self, event: &Event, process: u32) {
        if event.get(2).is_some_and(|overwritten| overwritten != 0)
            && let Some(out) = self
                .out
                .get_mut(&(process, event.get(0).unwrap_or_default()))
        {
            out.pushed = true;
        }
    }

    /// A buffer is emptied.
    pub fn on_clear(&mut self, event: &Event, process: u32) {
        self.out
            .remove(&(process, event.get(0).unwrap_or_default()));
    }
}

impl Model {
    /// Whether an order was broken anywhere: events are missing, and nobody said so.
    pub(crate) fn is_broken(&self) -> bool {
        self.sequence.broken
    }

    /// Executions that are doubtful have no end, once all has happened.
    pub(crate) fn doubt(&mut self) {
        let skipped = std::mem::take(&mut self.skips.doubted);
        if !self.is_broken() {
            return;
        }
        self.callbacks.without_ends(&skipped);
        let twice = self.published_twice();
        self.callbacks.without_ends(&twice);
    }

    /// Executions as something was published of which only these takes tell, on a topic on which their
    /// callback publishes, have no end; unless as much of the topic is published by who knows whom.
    pub(crate) fn doubt_unseen(&mut self, alone: &[u32]) {
        if !self.is_broken() || alone.is_empty() {
            return;
        }
        let mut topics: HashMap<u32, Topic> = HashMap::new();
        for take in alone.iter().filter_map(|take| self.takes.rows.get(*take)) {
            let topic = self.take_topic(&take);
            if topic != NONE && take.stamp != NEVER {
                topics.entry(topic).or_default().unseen.push(take.stamp);
            }
        }
        for (_, row) in self.publications.rows.iter() {
            if row.stamp == NEVER || row.rmw == NEVER || row.estimated {
                continue;
            }
            if let Some(topic) = topics.get_mut(&self.source(&row).topic) {
                let ahead = row.stamp.wrapping_sub(row.rmw);
                topic.seen.push((row.stamp, ahead));
                let within = self.callbacks.enclosing(row.within, row.publish);
                if let Some(of) = self.callbacks.executions.get(within) {
                    topic.callbacks.insert((of.thread, of.callback));
                }
            }
        }
        let mut moments: HashMap<(u32, u32), Vec<i64>> = HashMap::new();
        for mut topic in topics.into_values() {
            let found = topic.moments();
            for callback in topic.callbacks {
                moments.entry(callback).or_default().extend(&found);
            }
        }
        for times in moments.values_mut() {
            times.sort_unstable();
        }
        let meanwhile = |of: &Execution| {
            let times = moments.get(&(of.thread, of.callback));
            let times = times.map_or(&[][..], Vec::as_slice);
            let place = times.partition_point(|time| *time < of.start);
            of.end != NEVER && times.get(place).is_some_and(|time| *time <= of.end)
        };
        let all = self.callbacks.executions.iter();
        let found = all.filter(|(_, of)| meanwhile(of));
        let found: Vec<u32> = found.map(|(number, _)| number).collect();
        self.callbacks.without_ends(&found);
    }

    /// Executions that published twice with one publisher, as hardly any of their callback did.
    fn published_twice(&self) -> Vec<u32> {
        let mut counts: HashMap<(u32, u32), u32> = HashMap::new();
        for (_, row) in self.publications.rows.iter() {
            let execution = self.callbacks.enclosing(row.within, row.publish);
            let publisher = self.source(&row).publisher;
            if execution != NONE {
                *counts.entry((execution, publisher)).or_default() += 1;
            }
        }
        let key = |(execution, publisher): (u32, u32)| {
            let of = self.callbacks.executions.get(execution);
            (of.map_or(NONE, |of| of.callback), publisher)
        };
        let mut all: HashMap<(u32, u32), (u32, u32)> = HashMap::new();
        for (of, count) in &counts {
            let (some, twice) = all.entry(key(*of)).or_default();
            *some += 1;
            *twice += u32::from(*count > 1);
        }
        let rare = |of| {
            let (some, twice) = all.get(&key(of)).copied().unwrap_or_default();
            twice.saturating_mul(RARE) < some
        };
        let found = counts
            .iter()
            .filter(|(of, count)| **count > 1 && rare(**of));
        found.map(|((execution, _), _)| *execution).collect()
    }
}
