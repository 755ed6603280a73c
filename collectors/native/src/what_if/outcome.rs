//! The outcome of a simulation.

use pyo3::prelude::*;

/// Outcome of one callback.
#[derive(Clone, Default)]
pub struct Outcome {
    /// Time of each execution from ready to started [ns].
    pub waits: Vec<i64>,
    /// Number of messages that a later one replaced in a full queue.
    pub lost: u64,
    /// Number of messages that woke an idle thread.
    pub woke: u64,
    /// Time in executions [ns].
    pub busy: i64,
}

/// One execution: its callback, and when it became ready, started and ended [ns].
pub type Executed = (usize, i64, i64, i64);

/// Outcomes of all replications: one list per replication, with one entry per callback.
#[derive(Default, IntoPyObject)]
pub struct Outcomes {
    /// Number of executions.
    pub executions: Vec<Vec<usize>>,
    /// Number of messages that a later one replaced in a full queue.
    pub lost: Vec<Vec<u64>>,
    /// Number of messages that woke an idle thread.
    pub woke: Vec<Vec<u64>>,
    /// Time in executions [ns].
    pub busy: Vec<Vec<i64>>,
    /// Quantiles of the waits [ns]: a list per callback, and a last one for the pooled callbacks.
    pub waits: Vec<Vec<Vec<Option<f64>>>>,
    /// Every execution, if that was requested.
    pub schedule: Vec<Executed>,
}

impl Outcomes {
    /// Add one replication.
    pub fn add(&mut self, callbacks: Vec<Outcome>, counting: &[usize], quantiles: &[f64]) {
        self.executions
            .push(callbacks.iter().map(|x| x.waits.len()).collect());
        self.lost.push(callbacks.iter().map(|x| x.lost).collect());
        self.woke.push(callbacks.iter().map(|x| x.woke).collect());
        self.busy.push(callbacks.iter().map(|x| x.busy).collect());
        let all = counting
            .iter()
            .flat_map(|x| callbacks[*x].waits.iter().copied());
        let all: Vec<i64> = all.collect();
        let each = callbacks.into_iter().map(|x| x.waits).chain([all]);
        self.waits.push(
            each.map(|mut waits| {
                waits.sort_unstable();
                quantiles.iter().map(|q| quantile(&waits, *q)).collect()
            })
            .collect(),
        );
    }
}

/// Return a quantile of type 8 of Hyndman and Fan, as in all analyses; `None` without samples.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within the samples"
)]
fn quantile(sorted: &[i64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = (sorted.len() as f64 * q + (q + 1.0) / 3.0 - 1.0).clamp(0.0, last as f64);
    let below = place.floor() as usize;
    let (low, high) = (sorted[below] as f64, sorted[last.min(below + 1)] as f64);
    Some(low + (high - low) * (place - place.floor()))
}
