//! Model how the threads of an executor with a wait set get their next callback.
//!
//! The model follows rclcpp 29.3.0, `Executor::get_next_executable` called with
//! `MultiThreadedExecutor::wait_mutex_` held. A free thread takes a callback that is left in the
//! wait set. If none is left, the thread waits and keeps the mutex. A wait for something that is
//! ready already takes the time of a poll. Otherwise the thread sleeps until something becomes
//! ready, and then executes the first ready callback of the wait set.
//!
//! A thread that has chosen a callback releases the mutex and wakes another thread, which needs
//! time until it runs, above all on the same CPU. Meanwhile the first one may have come back to the
//! mutex and taken it again, which `Takeover` models.
//!
//! After an execution of a mutually exclusive group, `MultiThreadedExecutor::run` triggers
//! `interrupt_guard_condition_`. That ends the wait of another thread, or the next wait at once,
//! and before the wait after that one the entities are collected anew (`Executor::wait_for_work`).
//! Entities of a group that executes then are left out of the wait set
//! (`build_entities_collection`); they come back at its end, after all others of their kind
//! (`DynamicStorage::storage_add_*`).

use super::system::System;

/// A thread that waits on behalf of its executor.
pub struct Wait {
    /// Number of the thread.
    pub thread: usize,
    /// When it looks for ready callbacks; `None` while it sleeps.
    pub until: Option<i64>,
    /// The callback that woke it, and the gap until that callback would start.
    pub woken_by: Option<(usize, i64)>,
}

impl Wait {
    /// Whether the thread sleeps.
    pub fn asleep(&self) -> bool {
        self.until.is_none()
    }
}

/// When threads that were idle while another one chose a callback get the mutex.
#[derive(Clone, Copy)]
pub struct Takeover {
    /// When a callback was last chosen [ns].
    pub chosen: i64,
    /// When another thread can take the mutex [ns].
    pub at: i64,
}

impl Takeover {
    /// The value before any callback was chosen.
    pub const NEVER: Self = Self {
        chosen: i64::MIN,
        at: i64::MIN,
    };
}

/// The wait set of an executor.
pub struct WaitSet {
    /// Callbacks in the order in which the wait set is searched.
    pub members: Vec<usize>,
    /// Whether an execution has ended since the last wait did.
    pub interrupted: bool,
    /// Whether the next wait collects the entities anew.
    pub stale: bool,
}

impl WaitSet {
    /// Make a wait set of these callbacks.
    pub fn new(members: Vec<usize>) -> Self {
        Self {
            members,
            interrupted: false,
            stale: false,
        }
    }

    /// Note that a wait has ended.
    pub fn woken(&mut self) {
        self.stale |= std::mem::take(&mut self.interrupted);
    }

    /// Begin a wait: if that is due, collect the entities anew, in the order of `every`.
    pub fn collect(&mut self, every: &[usize], free: impl Fn(usize) -> bool, system: &System) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.members.retain(|x| free(*x));
        let back = |x: &usize| free(*x) && !self.members.contains(x);
        let back: Vec<usize> = every.iter().copied().filter(back).collect();
        self.members.extend(back);
        self.members.sort_by_key(|x| system.callbacks[*x].kind);
    }
}
