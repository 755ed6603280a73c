//! Discrete-event simulation of executors: time advances from one event to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cpus::{Share, share};
use super::dispatch::{Dispatch, Group};
use super::outcome::{Executed, Outcome};
use super::resampling::Blocks;
use super::state::{State, View};
use super::system::{Order, Series, System};
use super::wait::{Takeover, Wait, WaitSet};

/// An entry of the event calendar. Entries of the same time are handled in this order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// The first timer of an executor is due.
    Alarm(usize),
    /// A source publishes.
    Source(usize),
    /// A message can be taken: its number (which keeps messages in order), the receiving callback
    /// and the publication time [ns].
    Message(u64, usize, i64),
}

/// The execution that a thread is starting or running.
struct Job {
    callback: usize,
    /// When the callback became ready, and when its execution started.
    ready: i64,
    started: Option<i64>,
    /// Number of the recorded execution that it repeats, and how many of its publications are done.
    execution: usize,
    published: usize,
    /// Time of its next step: its start, a publication or its end.
    at: i64,
    /// Work left until that step, and since when it has run at its present rate.
    left: f64,
    since: i64,
    share: Share,
}

/// One simulated run.
pub struct Simulation<'a> {
    system: &'a System,
    blocks: Blocks,
    now: i64,
    states: Vec<State>,
    /// The next publications of each source [ns].
    sources: Vec<std::vec::IntoIter<i64>>,
    dispatches: Vec<Dispatch>,
    groups: Vec<Group>,
    running: Vec<usize>,
    /// When the latest execution of each group ended.
    released: Vec<i64>,
    /// Callbacks of each executor in the order in which they are collected into its wait set.
    ordered: Vec<Vec<usize>>,
    sets: Vec<WaitSet>,
    /// The waiting thread of each executor with a wait set.
    waits: Vec<Option<Wait>>,
    /// The timers of each executor, and when they are checked next [ns].
    timers: Vec<Vec<usize>>,
    alarms: Vec<i64>,
    takeovers: Vec<Takeover>,
    /// Executor of each thread, its execution if it has one, and the end of its last execution.
    threads: Vec<(usize, Option<Job>, i64)>,
    calendar: BinaryHeap<Reverse<(i64, Entry)>>,
    messages: u64,
    executed: usize,
    limited: bool,
    outcomes: Vec<Outcome>,
    schedule: Option<Vec<Executed>>,
}

impl<'a> Simulation<'a> {
    /// Make a simulation at its beginning.
    pub fn new(system: &'a System, blocks: Blocks, keep: bool) -> Self {
        let numbers = 0..system.executors.len();
        let threads = numbers.clone().flat_map(|number| {
            (0..system.executors[number].threads).map(move |_| (number, None, i64::MIN))
        });
        let threads: Vec<_> = threads.collect();
        let ordered: Vec<_> = numbers.map(|number| ordered(system, number)).collect();
        let orders = system.executors.iter().map(|x| Dispatch::new(x.order));
        let sources = system.sources.iter();
        let sources = sources.map(|x| blocks.resampled(&x.at).into_iter());
        let mut made = Self {
            sources: sources.collect(),
            system,
            blocks,
            now: 0,
            states: system.callbacks.iter().map(|_| State::default()).collect(),
            dispatches: orders.collect(),
            groups: system.exclusive.iter().map(|_| Group::default()).collect(),
            running: vec![0; system.exclusive.len()],
            released: vec![i64::MIN; system.exclusive.len()],
            sets: ordered.iter().cloned().map(WaitSet::new).collect(),
            ordered,
            waits: system.executors.iter().map(|_| None).collect(),
            timers: vec![Vec::new(); system.executors.len()],
            alarms: vec![i64::MAX; system.executors.len()],
            takeovers: vec![Takeover::NEVER; system.executors.len()],
            limited: system.cpus.is_some_and(|cpus| cpus < threads.len()),
            threads,
            calendar: BinaryHeap::new(),
            messages: 0,
            executed: 0,
            outcomes: vec![Outcome::default(); system.callbacks.len()],
            schedule: keep.then(Vec::new),
        };
        for (number, callback) in system.callbacks.iter().enumerate() {
            if let Some(period) = callback.period {
                made.timers[callback.executor].push(number);
                made.states[number].due = made.once_made(number, callback.phase % period);
                made.states[number].armed = true;
            }
        }
        for executor in 0..system.executors.len() {
            made.expect(executor);
        }
        for number in 0..system.sources.len() {
            made.next_of_source(number);
        }
        made
    }

    /// Run to the end. Returns the outcome of each callback, and every execution if they are kept;
    /// `None` if there are more executions than the system allows.
    pub fn run(mut self) -> Option<(Vec<Outcome>, Vec<Executed>)> {
        // Threads begin to wait at time 0, even if nothing happens then.
        let mut next = Some(0);
        while let Some(at) = next.filter(|at| *at < self.system.length) {
            self.now = at;
            while self.happen() {}
            for executor in 0..self.dispatches.len() {
                self.dispatch(executor);
            }
            if self.executed > self.system.most {
                return None;
            }
            next = self.next_time();
        }
        Some((self.outcomes, self.schedule.unwrap_or_default()))
    }

    fn enter(&mut self, at: i64, entry: Entry) {
        self.calendar.push(Reverse((at, entry)));
    }

    fn next_time(&self) -> Option<i64> {
        let jobs = self.threads.iter().filter_map(|x| x.1.as_ref());
        let entry = self.calendar.peek().map(|Reverse((at, _))| *at);
        let waits = self.waits.iter().zip(&self.takeovers);
        let waits = waits.filter_map(|(wait, takeover)| match wait {
            Some(wait) => wait.until,
            None => Some(takeover.at).filter(|at| *at > self.now),
        });
        jobs.map(|job| job.at).chain(waits).chain(entry).min()
    }

    /// Handle one event of the current time, those of threads first. Returns whether there was one.
    fn happen(&mut self) -> bool {
        let due = |x: &(usize, Option<Job>, i64)| x.1.as_ref().is_some_and(|y| y.at <= self.now);
        if let Some(thread) = self.threads.iter().position(due) {
            self.step(thread);
            return true;
        }
        match self.calendar.peek() {
            Some(Reverse((at, _))) if *at <= self.now => {}
            _ => return false,
        }
        match self.calendar.pop() {
            Some(Reverse((at, Entry::Alarm(executor)))) => {
                if at == self.alarms[executor] {
                    self.alarm(executor);
                }
            }
            Some(Reverse((_, Entry::Source(number)))) => {
                self.publish(self.system.sources[number].topic);
                self.next_of_source(number);
            }
            Some(Reverse((_, Entry::Message(_, callback, published)))) => {
                self.receive(callback, published);
            }
            None => return false,
        }
        true
    }

    fn next_of_source(&mut self, number: usize) {
        if let Some(at) = self.sources[number].next() {
            self.enter(at, Entry::Source(number));
        }
    }

    /// Return the due time, or the first later one at which the recording has the timer already.
    fn once_made(&self, number: usize, mut due: i64) -> i64 {
        let callback = &self.system.callbacks[number];
        let period = callback.period.unwrap_or(i64::MAX).max(1);
        while due < self.system.length {
            let lacking = callback.phase - self.blocks.original(due);
            if lacking <= 0 {
                break;
            }
            let pass = lacking.min(self.blocks.left(due));
            due = due.saturating_add((pass + period - 1) / period * period);
        }
        due
    }

    /// Enter the next alarm of timers. An executor with a wait set finds due timers there. Others
    /// have one thread that sleeps until the first timer is due: its lateness is the only delay
    /// before the start, if no thread is busy.
    fn expect(&mut self, executor: usize) {
        let timers = self.timers[executor]
            .iter()
            .map(|x| (self.states[*x].due, *x));
        let at = if self.system.executors[executor].order == Order::WaitSet {
            let ahead = timers.filter(|(due, _)| *due > self.now).min();
            ahead.map(|(due, _)| due)
        } else {
            let armed = timers.filter(|(_, timer)| self.states[*timer].armed).min();
            armed.map(|(due, first)| {
                let since = due.max(self.now);
                since + self.sample(&self.system.callbacks[first].handovers, since)
            })
        };
        if let Some(at) = at.filter(|at| *at < self.alarms[executor]) {
            self.alarms[executor] = at;
            self.enter(at, Entry::Alarm(executor));
        }
    }

    /// Handle due timers. An events executor calls them at once; others are notified, or find them
    /// in their wait set.
    fn alarm(&mut self, executor: usize) {
        self.alarms[executor] = i64::MAX;
        let timers = self.timers[executor]
            .iter()
            .map(|x| (self.states[*x].due, *x));
        let mut due: Vec<_> = timers.filter(|x| x.0 <= self.now).collect();
        due.sort_unstable();
        let order = self.system.executors[executor].order;
        for (_, number) in due {
            let tells = match order {
                Order::WaitSet => false,
                Order::Events => true,
                Order::Groups => std::mem::take(&mut self.states[number].armed),
            };
            if tells {
                self.states[number].told = self.now;
                if order == Order::Events {
                    self.call(number);
                }
                self.event(number);
            }
        }
        self.expect(executor);
    }

    fn event(&mut self, number: usize) {
        let callback = &self.system.callbacks[number];
        let running = self.running[callback.group] > 0;
        let dispatch = &mut self.dispatches[callback.executor];
        dispatch.event(number, callback.group, running, &mut self.groups);
    }

    /// Call a timer: the call is queued, and the timer becomes due again.
    fn call(&mut self, number: usize) {
        let callback = &self.system.callbacks[number];
        let state = &mut self.states[number];
        let due = state.call(callback.period.unwrap_or(i64::MAX), self.now);
        state.waiting.push_back(due);
        let next = self.once_made(number, self.states[number].due);
        self.states[number].due = next;
        if self.system.executors[callback.executor].order == Order::WaitSet {
            self.expect(callback.executor);
        }
    }

    fn publish(&mut self, topic: usize) {
        let system = self.system;
        for receiver in &system.topics[topic] {
            let lag = system.callbacks[*receiver].lag;
            if lag > 0 {
                self.messages += 1;
                let entry = Entry::Message(self.messages, *receiver, self.now);
                self.enter(self.now + lag, entry);
            } else {
                self.receive(*receiver, self.now);
            }
        }
    }

    fn receive(&mut self, number: usize, published: i64) {
        let depth = self.system.callbacks[number].depth;
        let lost = self.states[number].receive(published, depth);
        self.outcomes[number].lost += u64::from(lost);
        self.event(number);
    }

    fn dispatch(&mut self, executor: usize) {
        if self.system.executors[executor].order == Order::WaitSet {
            while self.look(executor) {}
            return;
        }
        while let Some(thread) = self.idle(executor) {
            match self.next(executor) {
                Some(callback) => self.take(thread, callback, None),
                None => return,
            }
        }
    }

    /// Return a thread that may look for work, preferably one back since a callback was chosen.
    fn idle(&self, executor: usize) -> Option<usize> {
        let Takeover { chosen, at } = self.takeovers[executor];
        let since = |earliest: i64| {
            let idle =
                |x: &(usize, Option<Job>, i64)| x.0 == executor && x.1.is_none() && x.2 >= earliest;
            self.threads.iter().position(idle)
        };
        since(chosen).or_else(|| since(i64::MIN).filter(|_| self.now >= at))
    }

    fn with_view<T>(
        &mut self,
        executor: usize,
        does: impl FnOnce(&mut Dispatch, &View, &mut [Group]) -> T,
    ) -> T {
        let view = View {
            system: self.system,
            now: self.now,
            states: &self.states,
            running: &self.running,
            ordered: &self.sets[executor].members,
        };
        does(&mut self.dispatches[executor], &view, &mut self.groups)
    }

    fn next(&mut self, executor: usize) -> Option<usize> {
        self.with_view(executor, Dispatch::next)
    }

    /// Let a thread of an executor with a wait set take its next step. Returns whether one did.
    fn look(&mut self, executor: usize) -> bool {
        let Some(wait) = self.waits[executor].take() else {
            let Some(thread) = self.idle(executor) else {
                return false;
            };
            match self.next(executor) {
                Some(callback) => self.take(thread, callback, None),
                None => self.wait(executor, thread),
            }
            return true;
        };
        if wait.until.is_some_and(|at| at <= self.now) {
            self.sets[executor].woken();
            self.with_view(executor, |dispatch, view, _| dispatch.woken(view));
            let Some(callback) = self.next(executor) else {
                if self.sets[executor].stale {
                    self.wait(executor, wait.thread);
                    return true;
                }
                self.waits[executor] = Some(Wait {
                    until: None,
                    woken_by: None,
                    ..wait
                });
                return false;
            };
            let gap = wait.woken_by.filter(|x| x.0 == callback).map(|x| x.1);
            self.take(wait.thread, callback, gap);
            return true;
        }
        let woken = wait.asleep().then(|| self.first_ready(executor)).flatten();
        self.waits[executor] = Some(match woken {
            Some((callback, ready)) => self.woken(wait.thread, callback, ready),
            None => wait,
        });
        woken.is_some()
    }

    /// Return the sample that was recorded nearest to that time; 0 if there are no samples.
    fn sample(&self, series: &Series, now: i64) -> i64 {
        let number = self.blocks.nearest(series, now);
        number.map_or(0, |number| series.value[number])
    }

    fn wait(&mut self, executor: usize, thread: usize) {
        let (system, running) = (self.system, &self.running);
        let free = |x: usize| {
            let group = system.callbacks[x].group;
            !system.exclusive[group] || running[group] == 0
        };
        self.sets[executor].collect(&self.ordered[executor], free, system);
        let series = &self.system.executors[executor].polls;
        let poll = self.now + self.sample(series, self.now);
        let interrupted = self.sets[executor].interrupted;
        let until = (interrupted || self.first_ready(executor).is_some()).then_some(poll);
        self.waits[executor] = Some(Wait {
            thread,
            until,
            woken_by: None,
        });
    }

    /// Wake the sleeping thread. It chooses a callback after the handover, less the gap.
    fn woken(&mut self, thread: usize, number: usize, ready: i64) -> Wait {
        let callback = &self.system.callbacks[number];
        let handover = self.sample(&callback.handovers, self.now);
        let start = ready + handover;
        self.outcomes[number].woke += 1;
        let gap = self.sample(&callback.gaps, start).min(handover);
        Wait {
            thread,
            until: Some(self.now.max(start - gap)),
            woken_by: Some((number, gap)),
        }
    }

    /// Return which of the callbacks that may be executed became ready first, and when.
    fn first_ready(&mut self, executor: usize) -> Option<(usize, i64)> {
        self.with_view(executor, |_, view, _| {
            let able = |x: &usize| view.ready(*x) && view.free(*x);
            let every = view.ordered.iter().copied().filter(able);
            every
                .map(|x| (x, view.states[x].since()))
                .min_by_key(|(_, ready)| *ready)
        })
    }

    /// Let the thread take the next message or call, and start to execute it after a delay.
    fn take(&mut self, thread: usize, number: usize, gap: Option<i64>) {
        let callback = &self.system.callbacks[number];
        let executor = &self.system.executors[callback.executor];
        if callback.period.is_some() && executor.order != Order::Events {
            self.call(number);
        }
        let state = &mut self.states[number];
        let Some(ready) = state.waiting.pop_front() else {
            return;
        };
        let arrived = if callback.period.is_some() {
            state.told
        } else {
            ready + callback.lag
        };
        let excluded = self.system.exclusive[callback.group] || executor.order == Order::Groups;
        let released = if excluded {
            self.released[callback.group]
        } else {
            i64::MIN
        };
        let waited = self.threads[thread].2.max(released) > arrived;
        let at = if waited || executor.order == Order::WaitSet {
            self.now + gap.unwrap_or_else(|| self.sample(&callback.gaps, self.now))
        } else if callback.period.is_some() {
            self.now
        } else {
            self.outcomes[number].woke += 1;
            self.now
                .max(ready + self.sample(&callback.handovers, self.now))
        };
        let execution = self.blocks.nearest(&callback.executions, at).unwrap_or(0);
        if executor.order == Order::WaitSet {
            let takeover = callback.takeovers.get(execution);
            self.takeovers[callback.executor] = Takeover {
                chosen: self.now,
                at: takeover.map_or(self.now, |after| at + after),
            };
        }
        self.running[callback.group] += 1;
        self.threads[thread].1 = Some(Job {
            callback: number,
            ready,
            started: None,
            execution,
            published: 0,
            at,
            left: 0.0,
            since: at,
            share: Share {
                priority: executor.priority,
                rate: 1.0,
            },
        });
    }

    /// Handle the next step of a thread: a start, a publication or an end.
    fn step(&mut self, thread: usize) {
        let Some(mut job) = self.threads[thread].1.take() else {
            return;
        };
        let callback = &self.system.callbacks[job.callback];
        let number = job.execution;
        if job.started.is_none() {
            job.started = Some(self.now);
            self.outcomes[job.callback].waits.push(self.now - job.ready);
            self.go_on(thread, job, 0);
        } else if let Some((offset, topic)) = callback.outputs[number].get(job.published).copied() {
            job.published += 1;
            self.go_on(thread, job, offset);
            self.publish(topic);
        } else {
            self.end(thread, &job);
        }
    }

    /// Schedule the next step of an execution of which `done` ns are over.
    fn go_on(&mut self, thread: usize, mut job: Job, done: i64) {
        let callback = &self.system.callbacks[job.callback];
        let outputs = &callback.outputs[job.execution];
        let end = callback.executions.value[job.execution];
        let next = outputs.get(job.published).map_or(end, |x| x.0.min(end));
        let work = (next - done).max(0);
        job.at = self.now.saturating_add(work);
        job.since = self.now;
        #[expect(clippy::cast_precision_loss, reason = "below 2^53 ns")]
        (job.left = work as f64);
        self.threads[thread].1 = Some(job);
        self.share();
    }

    fn end(&mut self, thread: usize, job: &Job) {
        let callback = &self.system.callbacks[job.callback];
        let start = job.started.unwrap_or(self.now);
        self.outcomes[job.callback].busy += callback.executions.value[job.execution];
        if let Some(schedule) = &mut self.schedule {
            schedule.push((job.callback, job.ready, start, self.now));
        }
        self.threads[thread].2 = self.now;
        self.executed += 1;
        self.running[callback.group] -= 1;
        self.released[callback.group] = self.now;
        let order = self.system.executors[callback.executor].order;
        if self.system.exclusive[callback.group]
            && self.system.executors[callback.executor].interrupts
        {
            self.sets[callback.executor].interrupted = true;
            let wait = self.waits[callback.executor].as_ref();
            if let Some(thread) = wait.filter(|x| x.asleep()).map(|x| x.thread) {
                self.sets[callback.executor].woken();
                self.wait(callback.executor, thread);
            }
        }
        if self.running[callback.group] == 0 {
            self.dispatches[callback.executor].ended(callback.group, &mut self.groups);
        }
        if callback.period.is_some() && order == Order::Groups {
            // With queues by group, a timer becomes due again only after its execution.
            self.states[job.callback].armed = true;
            self.expect(callback.executor);
        }
        self.share();
    }

    /// Redistribute the CPUs among the running executions, if there are fewer CPUs than threads.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "below 2^53 ns"
    )]
    fn share(&mut self) {
        let (true, Some(cpus)) = (self.limited, self.system.cpus) else {
            return;
        };
        let now = self.now;
        let jobs = self.threads.iter_mut().filter_map(|x| x.1.as_mut());
        let mut jobs: Vec<&mut Job> = jobs.filter(|x| x.started.is_some()).collect();
        for job in &mut jobs {
            job.left = (job.left - (now - job.since) as f64 * job.share.rate).max(0.0);
            job.since = now;
        }
        let mut shares: Vec<&mut Share> = jobs.iter_mut().map(|x| &mut x.share).collect();
        share(cpus, &mut shares);
        for job in jobs {
            let wait = (job.left / job.share.rate).ceil();
            job.at = if wait < 9e18 {
                now + wait as i64
            } else {
                i64::MAX
            };
            if job.left == 0.0 {
                job.at = now;
            }
        }
    }
}

/// Return the executor's callbacks in the order in which its wait set is searched.
fn ordered(system: &System, number: usize) -> Vec<usize> {
    let own = |x: &usize| system.callbacks[*x].executor == number;
    let mut callbacks: Vec<usize> = (0..system.callbacks.len()).filter(own).collect();
    let last = system.callbacks.len();
    callbacks.sort_by_key(|x| {
        let callback = &system.callbacks[*x];
        (callback.kind, callback.place.unwrap_or(last))
    });
    callbacks
}
