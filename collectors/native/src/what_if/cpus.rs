//! Share the CPUs among executions: higher priorities first, equal priorities in equal parts.

/// An execution that needs a CPU.
pub struct Share {
    /// Priority; a higher one gets the CPU first.
    pub priority: i64,
    /// The share of a CPU that it gets, from 0 to 1.
    pub rate: f64,
}

/// Distribute `cpus` among the executions.
#[expect(clippy::cast_precision_loss, reason = "threads are few")]
pub fn share(cpus: usize, shares: &mut [&mut Share]) {
    shares.sort_by_key(|share| -share.priority);
    let mut left = cpus as f64;
    let mut first = 0;
    while first < shares.len() {
        let priority = shares[first].priority;
        let end = first + shares[first..].partition_point(|x| x.priority == priority);
        let rate = (left / (end - first) as f64).min(1.0);
        for share in &mut shares[first..end] {
            share.rate = rate;
        }
        left = (left - rate * (end - first) as f64).max(0.0);
        first = end;
    }
}
