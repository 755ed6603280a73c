//! How the threads of an executor with a wait set come to what they execute.
//!
//! rclcpp 29.3.0, `Executor::get_next_executable` under `MultiThreadedExecutor`'s `wait_mutex_`: a
//! free thread takes what is left in the wait set; where nothing is, it waits, and keeps all others
//! from it. To wait for what is ready already takes the time of a poll. What comes while it sleeps
//! wakes it, and it begins with what is first in the wait set then. After an execution of an
//! exclusive group the others are made to wait anew (`interrupt_guard_condition_`).

/// A thread that waits on behalf of its executor.
pub struct Wait {
    /// Its number.
    pub thread: usize,
    /// When it looks what is ready; none: it sleeps.
    pub until: Option<i64>,
    /// What woke it, and the gap until that would start.
    pub woken_by: Option<(usize, i64)>,
}

impl Wait {
    /// Whether it sleeps.
    pub fn asleep(&self) -> bool {
        self.until.is_none()
    }
}
