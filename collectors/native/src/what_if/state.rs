//! How far each callback is.

use std::collections::VecDeque;

use super::resampling::Place;
use super::system::{Order, System};

/// Of one callback.
#[derive(Default)]
pub struct State {
    /// When each message that waits was published, or each call of a timer was due [ns].
    pub waiting: VecDeque<i64>,
    /// Of a timer: when it is due next [ns].
    pub due: i64,
    /// How far its executions were used.
    pub executions: Place,
    /// How far the handovers to an idle thread were used.
    pub handovers: Place,
    /// How far the gaps after others were used.
    pub gaps: Place,
}

impl State {
    /// A message came; whether it took the place of another one.
    pub fn receive(&mut self, published: i64, depth: Option<usize>) -> bool {
        let full = depth.is_some_and(|depth| self.waiting.len() >= depth);
        if full {
            self.waiting.pop_front();
        }
        self.waiting.push_back(published);
        full
    }

    /// When the next message was published, or the timer is due.
    pub fn since(&self) -> i64 {
        self.waiting.front().copied().unwrap_or(self.due)
    }

    /// `rcl_timer_call`: when it was due; periods that have passed are skipped.
    pub fn call(&mut self, period: i64, now: i64) -> i64 {
        let due = self.due;
        self.due += period;
        if self.due < now {
            self.due += (1 + (now - self.due - 1) / period) * period;
        }
        due
    }
}

/// What an executor sees when it chooses.
pub struct View<'a> {
    /// All that is simulated.
    pub system: &'a System,
    /// The time [ns].
    pub now: i64,
    /// Of each callback.
    pub states: &'a [State],
    /// Of each group, how many of its callbacks are executed.
    pub running: &'a [usize],
    /// The executor's callbacks in the order of a wait set.
    pub ordered: &'a [usize],
}

impl View<'_> {
    /// Whether a message waits or the timer is due.
    pub fn ready(&self, callback: usize) -> bool {
        let (of, state) = (&self.system.callbacks[callback], &self.states[callback]);
        match self.system.executors[of.executor].order {
            Order::WaitSet | Order::Groups if of.period.is_some() => state.due <= self.now,
            _ => !state.waiting.is_empty(),
        }
    }

    /// Whether its group executes nothing that excludes it.
    pub fn free(&self, callback: usize) -> bool {
        let group = self.system.callbacks[callback].group;
        !self.system.exclusive[group] || self.running[group] == 0
    }

    /// Whether it is a timer.
    pub fn timer(&self, callback: usize) -> bool {
        self.system.callbacks[callback].period.is_some()
    }
}
