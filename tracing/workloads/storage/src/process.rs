//! What this process used.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock, the clock of `LTTng`'s user-space tracer too.
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// CPU time of all threads, user and system.
pub fn cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// CPU time of this thread.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Resident memory now, and the most since `forget_peak`; bytes, `None` where not known.
pub fn memory() -> (Option<u64>, Option<u64>) {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib * 1024)
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Lets the peak begin anew (proc(5), `clear_refs`); without it, preparing would count.
pub fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
