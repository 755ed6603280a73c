//! The state of each callback during a simulation.

use std::collections::VecDeque;

use super::system::{Order, System};

/// State of one callback.
#[derive(Default)]
pub struct State {
    /// Publication time of each waiting message, or due time of each waiting call of a timer [ns].
    pub waiting: VecDeque<i64>,
    /// For a timer, the next due time [ns].
    pub due: i64,
    /// For a timer, when its executor was last notified that it is due [ns].
    pub told: i64,
    /// For a timer, whether its executor waits for it.
    pub armed: bool,
}

impl State {
    /// Queue a message. Returns whether it replaced an older one because the queue was full.
    pub fn receive(&mut self, published: i64, depth: Option<usize>) -> bool {
        let full = depth.is_some_and(|depth| self.waiting.len() >= depth);
        if full {
            self.waiting.pop_front();
        }
        self.waiting.push_back(published);
        full
    }

    /// Return the publication time of the next message, or the due time of the timer [ns].
    pub fn since(&self) -> i64 {
        self.waiting.front().copied().unwrap_or(self.due)
    }

    /// Call the timer as `rcl_timer_call` does, skipping periods that have passed. Returns when the
    /// call was due.
    pub fn call(&mut self, period: i64, now: i64) -> i64 {
        let due = self.due;
        self.due += period;
        if self.due < now {
            self.due += (1 + (now - self.due - 1) / period) * period;
        }
        due
    }
}

/// The state that an executor sees when it chooses the next callback.
pub struct View<'a> {
    /// The system that is simulated.
    pub system: &'a System,
    /// Current time [ns].
    pub now: i64,
    /// State of each callback.
    pub states: &'a [State],
    /// Number of callbacks that each group is executing.
    pub running: &'a [usize],
    /// Callbacks in the executor's wait set, in the order of the search.
    pub ordered: &'a [usize],
}

impl View<'_> {
    /// Whether a message is waiting or the timer is due.
    pub fn ready(&self, callback: usize) -> bool {
        let (about, state) = (&self.system.callbacks[callback], &self.states[callback]);
        match self.system.executors[about.executor].order {
            Order::WaitSet | Order::Groups if about.period.is_some() => state.due <= self.now,
            _ => !state.waiting.is_empty(),
        }
    }

    /// Whether its callback group allows it to start now.
    pub fn free(&self, callback: usize) -> bool {
        let group = self.system.callbacks[callback].group;
        !self.system.exclusive[group] || self.running[group] == 0
    }

    /// Whether it is a timer.
    pub fn timer(&self, callback: usize) -> bool {
        self.system.callbacks[callback].period.is_some()
    }
}
