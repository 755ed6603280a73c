//! How the threads of an executor with a wait set get their next callback.
//!
//! The model follows rclcpp 29.3.0, `Executor::get_next_executable` called with
//! `MultiThreadedExecutor::wait_mutex_` held. A free thread takes a callback that is left in the
//! wait set. If none is left, the thread waits and keeps the mutex. A wait for something that is
//! ready already takes the time of a poll. Otherwise the thread sleeps until something becomes
//! ready, and then executes whatever is first in the wait set. After an execution of a mutually
//! exclusive group, a waiting thread starts its wait again (`interrupt_guard_condition_`).

/// A thread that waits on behalf of its executor.
pub struct Wait {
    /// Number of the thread.
    pub thread: usize,
    /// When it looks for ready callbacks; None while it sleeps.
    pub until: Option<i64>,
    /// The callback that woke it, and the gap until that callback would start.
    pub woken_by: Option<(usize, i64)>,
}

impl Wait {
    /// Whether it sleeps.
    pub fn asleep(&self) -> bool {
        self.until.is_none()
    }
}
