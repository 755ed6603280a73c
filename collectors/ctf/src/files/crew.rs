//! Use several threads, each of which decodes a slice of the time or writes a table, as is due.
//!
//! Slices are begun in order, but not all at once: batches that are decoded and not yet written are
//! limited to a few slices. The batches of a table are written in order, by one thread at a time.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::scan::Damage;
use arrow_array::RecordBatch;

use super::failure::{Failure, Result};
use super::job::{Job, Seen, Sink};
use super::slices::{Decoded, Decoder, Slice};

/// How often progress is reported, and Ctrl-C is checked.
const LISTEN: Duration = Duration::from_millis(50);

/// A table: the batches to be written, and where to write them (`None` while a thread does so).
struct Table<'s, S> {
    queue: Vec<RecordBatch>,
    place: Option<(&'s mut S, &'s mut Seen)>,
    ended: bool,
}

struct State<'s, S> {
    /// Number of the slice that is decoded next.
    next: usize,
    /// Number of slices that are being decoded.
    decoding: usize,
    /// Number of the slice whose batches are queued next, and later slices decoded already.
    due: usize,
    early: BTreeMap<usize, Decoded>,
    tables: Vec<Table<'s, S>>,
    /// Number of batches that are decoded and not yet written.
    unwritten: usize,
    /// The most batches that a slice had so far.
    per_slice: usize,
    damage: Vec<Damage>,
    /// Number of bytes of the trace that are decoded.
    done: u64,
    /// Number of threads that have not ended.
    working: usize,
    /// The result, if it ended early.
    failed: Option<Result<()>>,
}

/// The next task of a thread.
enum Task<'s, S> {
    Decode(usize),
    Write(usize, Vec<RecordBatch>, (&'s mut S, &'s mut Seen)),
    End(usize, (&'s mut S, &'s mut Seen)),
    Wait,
    Leave,
}

/// Threads at work on the slices of a job.
pub struct Crew<'c, 's, S> {
    job: &'c Job<'c>,
    slices: &'c [Slice],
    decoder: &'c (dyn Fn() -> Decoder<'c> + Sync),
    state: Mutex<State<'s, S>>,
    changed: Condvar,
    /// Signals that a thread has ended.
    left: Condvar,
}

impl<'c, 's, S: Sink> Crew<'c, 's, S> {
    /// Start before any slice is decoded.
    pub fn new(
        job: &'c Job<'c>,
        slices: &'c [Slice],
        decoder: &'c (dyn Fn() -> Decoder<'c> + Sync),
        places: impl Iterator<Item = (&'s mut S, &'s mut Seen)>,
    ) -> Self {
        let tables = places.map(|place| Table {
            queue: Vec::new(),
            place: Some(place),
            ended: false,
        });
        Self {
            job,
            slices,
            decoder,
            state: Mutex::new(State {
                next: 0,
                decoding: 0,
                due: 0,
                early: BTreeMap::new(),
                tables: tables.collect(),
                unwritten: 0,
                per_slice: 0,
                damage: Vec::new(),
                done: 0,
                working: job.threads,
                failed: None,
            }),
            changed: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Decode and write everything on new threads, and report progress on this one.
    pub fn run(self, mut progress: impl FnMut(u64) -> Result<()>) -> Result<Vec<Damage>> {
        std::thread::scope(|scope| {
            for _ in 0..self.job.threads {
                let thread = Builder::new().name("roslens-ctf".into());
                if let Err(error) = thread.spawn_scoped(scope, || self.work()) {
                    let mut state = self.lock();
                    state.working -= 1;
                    let why = Failure::Input(format!("cannot start threads: {error}"));
                    state.failed.get_or_insert(Err(why));
                    self.changed.notify_all();
                }
            }
            let mut state = self.lock();
            while state.working > 0 {
                let done = state.done;
                drop(state);
                let told = progress(done);
                state = self.lock();
                if told.is_err() {
                    state.failed.get_or_insert(told);
                    self.changed.notify_all();
                }
                if state.working > 0 {
                    let waited = self.left.wait_timeout(state, LISTEN);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        });
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        match state.failed {
            Some(Err(failure)) => Err(failure),
            _ => Ok(state.damage),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'s, S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        // The other threads must not wait for this one, even if it panics.
        let _leaving = Leaving(self);
        let mut decoder = (self.decoder)();
        let mut state = self.lock();
        loop {
            let task = state.task(self.slices.len(), self.job.threads);
            if let Task::Wait = task {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            let done = match task {
                Task::Decode(number) => {
                    let events = decoder.decode(&self.slices[number]);
                    events.map(|events| self.lock().queue(number, events))
                }
                Task::Write(number, batches, (sink, seen)) => {
                    let count = batches.len();
                    let mut batches = batches.into_iter();
                    let written = batches.try_for_each(|batch| self.job.give(batch, sink, seen));
                    let mut state = self.lock();
                    state.unwritten -= count;
                    state.tables[number].place = Some((sink, seen));
                    written
                }
                Task::End(number, (sink, seen)) => {
                    let ended = sink.end();
                    self.lock().tables[number].place = Some((sink, seen));
                    ended
                }
                Task::Wait | Task::Leave => return,
            };
            state = self.lock();
            if done.is_err() {
                state.failed.get_or_insert(done);
            }
            self.changed.notify_all();
        }
    }
}

impl<'s, S> State<'s, S> {
    /// Choose the next task: first those that free memory.
    fn task(&mut self, slices: usize, threads: usize) -> Task<'s, S> {
        if self.failed.is_some() {
            return Task::Leave;
        }
        let free = self.tables.iter_mut().enumerate();
        let fullest = free
            .filter(|(_, table)| table.place.is_some() && !table.queue.is_empty())
            .max_by_key(|(_, table)| table.queue.len());
        if let Some((number, table)) = fullest
            && let Some(place) = table.place.take()
        {
            return Task::Write(number, std::mem::take(&mut table.queue), place);
        }
        let few = self.unwritten <= threads * self.per_slice;
        if self.next < slices && (few || self.decoding == 0) {
            self.next += 1;
            self.decoding += 1;
            return Task::Decode(self.next - 1);
        }
        if self.next < slices || self.decoding > 0 || self.unwritten > 0 {
            return Task::Wait;
        }
        let mut free = self.tables.iter_mut().enumerate();
        let whole = free.find(|(_, table)| !table.ended);
        match whole.and_then(|(number, table)| Some((number, table.place.take()?, table))) {
            Some((number, place, table)) => {
                table.ended = true;
                Task::End(number, place)
            }
            None => Task::Leave,
        }
    }

    /// Queue the batches of a slice after those of the slices before it.
    fn queue(&mut self, number: usize, decoded: Decoded) {
        self.decoding -= 1;
        self.done += decoded.bytes;
        self.unwritten += decoded.batches.len();
        self.per_slice = self.per_slice.max(decoded.batches.len());
        self.early.insert(number, decoded);
        while let Some(decoded) = self.early.remove(&self.due) {
            self.due += 1;
            self.damage.extend(decoded.damage);
            for (table, batch) in decoded.batches {
                self.tables[table].queue.push(batch);
            }
        }
    }
}

/// A guard that notes the end of a thread, also if it panics.
struct Leaving<'a, 'c, 's, S: Sink>(&'a Crew<'c, 's, S>);

impl<S: Sink> Drop for Leaving<'_, '_, '_, S> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.working -= 1;
        if std::thread::panicking() {
            // The panic itself is passed on to the caller that joins the threads.
            state.failed.get_or_insert(Ok(()));
        }
        self.0.changed.notify_all();
        self.0.left.notify_all();
    }
}
