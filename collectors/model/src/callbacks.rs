//! Follow executions of callbacks, and what executors' threads do between them.
//!
//! An end closes the last start of its callback on its thread: a reentrant callback runs in several
//! threads at once. A start that is followed by another one of its callback on its thread never
//! ends: its end was not recorded (an exception, a killed process, a dropped event).
//!
//! Whether a start never ends is known only after the pass. So events on a thread are noted with
//! the execution that may enclose them, which `Callbacks::enclosing` settles after the pass.
//! `rclcpp_executor_wait_for_work` or `executor_wait_start` begins a wait, and the thread's next
//! executor event ends it. The time in callbacks is that in executions that ended, counted once if
//! they overlap.
//!
//! Probed functions have executions, too, besides those of callbacks: nothing belongs to them, and
//! the stack pointer shows which entry a return ends, and which frames an exception has left.

use ahash::HashSet;
use serde::{Deserialize, Serialize};

use crate::identity::Thread;
use crate::ids::{Id, Maybe, entry};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::registry::{Callback, HandleKind, Registry};
use crate::rows::{NEVER, Rows, known};

/// The most starts of one thread that are open at once; of more, the outer ones can never end.
const DEEPEST: usize = 4096;

/// One execution of a callback or probed function.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Execution {
    /// The time of `callback_start`.
    pub start: i64,
    /// The time of `callback_end`, or `NEVER`.
    pub end: i64,
    pub thread: Id<Thread>,
    pub callback: Maybe<Callback>,
    /// The innermost execution on its thread that was open when it started.
    below: Maybe<Execution>,
    /// Whether the message came within the process, if the event says so.
    pub intra: Option<bool>,
}

/// An interval in which a thread waited, or did not.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Interval {
    /// The time of its first event.
    pub begin: i64,
    /// The timeout of a wait.
    pub timeout: i64,
    pub thread: Id<Thread>,
    pub wait: bool,
    /// The next interval of the thread, and the one before.
    next: Maybe<Interval>,
    before: Maybe<Interval>,
    /// Number of executions, and time in callbacks, before it on its thread.
    executed: i64,
    covered: i64,
    /// Whether events may be missing before its end.
    cut: bool,
}

#[derive(Clone)]
struct Open {
    callback: u64,
    execution: Maybe<Execution>,
    start: i64,
    /// How long callbacks had run before it, as far as they had ended.
    covered: i64,
    /// Whether events may be missing since it began.
    cut: bool,
}

/// A probed function that a thread is in.
#[derive(Clone)]
struct Entered {
    function: u64,
    stack: u64,
    execution: Maybe<Execution>,
}

#[derive(Clone, Default)]
struct State {
    open: Vec<Open>,
    /// The probed functions that the thread is in, the innermost last: the stack grows downwards.
    entered: Vec<Entered>,
    /// Whether an execution of a callback was seen.
    ran: bool,
    covered: i64,
    executed: i64,
    interval: Maybe<Interval>,
}

/// All executions and intervals.
#[derive(Clone, Default)]
pub struct Callbacks {
    /// Executions by number, in the order of their starts.
    pub executions: Rows<Execution>,
    /// Intervals in the order of their begins.
    pub intervals: Rows<Interval>,
    /// How many ends have no start.
    pub ends_alone: u64,
    /// Whether each callback ran for a message between processes.
    pub ran: Vec<bool>,
    threads: Vec<State>,
}

impl Callbacks {
    /// Handle `callback_start`; return the number of the execution.
    pub fn on_start(&mut self, event: &Event, objects: &Registry) -> Maybe<Execution> {
        let address = event.get(0);
        let callback = objects.object(HandleKind::Callback, event.process, address, event.time);
        let execution = self.executions.next();
        let thread = entry(&mut self.threads, event.thread);
        thread.ran = true;
        if thread.open.len() >= DEEPEST {
            thread.open.drain(..DEEPEST / 2);
        }
        let address = address.unwrap_or_default();
        thread.open.retain(|open| open.callback != address);
        let below = thread.open.last().and_then(|open| open.execution);
        let covered = thread.covered;
        thread.open.push(Open {
            callback: address,
            execution,
            start: event.time,
            covered,
            cut: false,
        });
        let kind = objects.callback(callback).kind;
        let of_message = kind.is_none() || kind == objects.subscription;
        let intra = event.get(1).filter(|_| of_message).map(|intra| intra != 0);
        if let Some(callback) = callback.filter(|_| intra == Some(false)) {
            *entry(&mut self.ran, callback) = true;
        }
        self.executions.push(Execution {
            start: event.time,
            end: NEVER,
            thread: event.thread,
            callback,
            below,
            intra,
        })
    }

    /// Handle `callback_end`; return whether its start is known, or need not be because it was
    /// before the thread's first event.
    pub fn on_end(&mut self, event: &Event) -> bool {
        let address = event.get(0).unwrap_or_default();
        let thread = entry(&mut self.threads, event.thread);
        let Some(place) = thread
            .open
            .iter()
            .rposition(|open| open.callback == address)
        else {
            let is_first = !thread.ran && thread.interval.is_none();
            self.ends_alone += 1;
            return is_first;
        };
        let ended = thread.open.remove(place);
        if ended.cut {
            return true;
        }
        // All time since its start was in a callback, whatever is known of executions within.
        let until = |time: i64| ended.covered.wrapping_add(time.wrapping_sub(ended.start));
        thread.covered = until(event.time);
        for later in &mut thread.open[place..] {
            later.covered = until(later.start);
        }
        let mut interval = thread.interval;
        while let Some(inner) = self.intervals.edit(interval)
            && inner.begin > ended.start
        {
            inner.covered = until(inner.begin);
            interval = inner.before;
        }
        if let Some(execution) = self.executions.edit(ended.execution) {
            execution.end = event.time;
        }
        true
    }

    /// Handle the entry of a probed function.
    pub fn on_entry(&mut self, event: &Event, objects: &Registry) {
        let [function, stack] = [0, 1].map(|field| event.get(field));
        let execution = self.executions.next();
        let entered = &mut entry(&mut self.threads, event.thread).entered;
        let stack = stack.unwrap_or_default();
        // Frames at or below this stack pointer no longer exist.
        while entered.pop_if(|frame| frame.stack <= stack).is_some() {}
        entered.push(Entered {
            function: function.unwrap_or_default(),
            stack,
            execution,
        });
        self.executions.push(Execution {
            start: event.time,
            end: NEVER,
            thread: event.thread,
            callback: objects.object(HandleKind::Callback, event.process, function, event.time),
            below: None,
            intra: None,
        });
    }

    /// Handle the return of a probed function.
    pub fn on_exit(&mut self, event: &Event) {
        let [function, stack] = [0, 1].map(|field| event.get(field).unwrap_or_default());
        let entered = &mut entry(&mut self.threads, event.thread).entered;
        while let Some(frame) = entered.pop_if(|frame| frame.stack <= stack) {
            if frame.stack == stack
                && frame.function == function
                && let Some(execution) = self.executions.edit(frame.execution)
            {
                execution.end = event.time;
            }
        }
    }

    /// Note that events of a thread may be missing: the ends of open executions are unknown then.
    pub fn cut(&mut self, thread: Id<Thread>) {
        let thread = entry(&mut self.threads, thread);
        thread.entered.clear();
        for open in &mut thread.open {
            open.cut = true;
        }
        if let Some(interval) = self.intervals.edit(thread.interval) {
            interval.cut = true;
        }
    }

    /// Iterate over executions of callbacks that have not ended, and of which no end can be missing,
    /// with the callback's address.
    pub fn running(&self) -> impl Iterator<Item = (u64, Execution)> {
        let open = self.threads.iter().flat_map(|thread| &thread.open);
        let open = open.filter(|open| !open.cut);
        open.filter_map(|open| Some((open.callback, self.executions.get(open.execution)?)))
    }

    /// Forget what ended before a time; what runs is kept, however long ago it began.
    pub fn forget(&mut self, since: i64) {
        let threads = self.threads.iter();
        let running = threads.flat_map(|thread| {
            let open = thread.open.iter().filter(|open| !open.cut);
            let open = open.map(|open| open.execution);
            open.chain(thread.entered.iter().map(|entered| entered.execution))
        });
        let running: HashSet<Maybe<Execution>> = running.collect();
        self.executions.forget_except(
            |row| row.start < since,
            |number, row| row.end >= since || running.contains(&Some(number)),
        );
        self.intervals.forget(|row| row.begin < since);
    }

    /// Return the execution that may enclose the present on a thread.
    pub fn around(&mut self, thread: Id<Thread>) -> Maybe<Execution> {
        let open = entry(&mut self.threads, thread).open.last();
        open.filter(|open| !open.cut)?.execution
    }

    /// Return the innermost execution that was running at a time on its thread, after all events.
    ///
    /// An execution without an end encloses nothing: it may have returned by then.
    pub fn enclosing(&self, around: Maybe<Execution>, moment: i64) -> Maybe<Execution> {
        let mut number = around;
        while let Some(execution) = self.executions.get(number) {
            if execution.end >= moment {
                return number;
            }
            number = execution.below;
        }
        None
    }

    /// Handle an event of an executor.
    pub fn on_executor(&mut self, kind: Kind, event: &Event) {
        let number = self.intervals.next();
        let before = entry(&mut self.threads, event.thread).interval;
        let last = self.intervals.get(before);
        let waited = last.is_none_or(|last| last.wait || last.cut);
        let wait = matches!(kind, Kind::Wait | Kind::WaitStart);
        let thread = entry(&mut self.threads, event.thread);
        let (covered, executed) = (thread.covered, thread.executed);
        thread.executed += i64::from(kind == Kind::Execute);
        if !(wait || waited) {
            return;
        }
        thread.interval = number;
        if let Some(last) = self.intervals.edit(before) {
            last.next = number;
        }
        self.intervals.push(Interval {
            begin: event.time,
            timeout: event.signed(0).filter(|_| wait).unwrap_or(NEVER),
            thread: event.thread,
            wait,
            next: None,
            before,
            executed,
            covered,
            cut: false,
        });
    }

    /// Return end, number of executions and time in callbacks of an interval, if it has an end.
    pub fn totals(&self, interval: &Interval) -> Option<(i64, i64, i64)> {
        let next = self
            .intervals
            .get(interval.next)
            .filter(|_| !interval.cut)?;
        let executed = next.executed - interval.executed;
        let covered = next.covered.wrapping_sub(interval.covered);
        Some((next.begin, executed, covered))
    }

    /// Return how long an execution lasted, in ns, if it ended.
    pub fn duration(execution: &Execution) -> Option<i64> {
        known(execution.end).map(|end| end.wrapping_sub(execution.start))
    }
}
