//! What came out of a simulation.

use pyo3::prelude::*;

/// Of one callback.
#[derive(Clone, Default)]
pub struct Outcome {
    /// From when each execution became ready to its start [ns].
    pub waits: Vec<i64>,
    /// Messages whose place a later one took.
    pub lost: u64,
    /// Time in executions [ns].
    pub busy: i64,
}

/// Of one execution: callback, when it became ready, start, end [ns].
pub type Executed = (usize, i64, i64, i64);

/// Of all replications: a list per replication, in it one entry per callback.
#[derive(Default, IntoPyObject)]
pub struct Outcomes {
    /// Executions.
    pub executions: Vec<Vec<usize>>,
    /// Messages whose place a later one took.
    pub lost: Vec<Vec<u64>>,
    /// Time in executions [ns].
    pub busy: Vec<Vec<i64>>,
    /// Of each of `quantiles`: the wait [ns], of callbacks and last of the counting ones together.
    pub waits: Vec<Vec<Vec<Option<f64>>>>,
    /// Every execution, where that was asked for.
    pub schedule: Vec<Executed>,
}

impl Outcomes {
    /// Add one replication.
    pub fn add(&mut self, of: Vec<Outcome>, counting: &[usize], quantiles: &[f64]) {
        self.executions
            .push(of.iter().map(|x| x.waits.len()).collect());
        self.lost.push(of.iter().map(|x| x.lost).collect());
        self.busy.push(of.iter().map(|x| x.busy).collect());
        let all = counting.iter().flat_map(|x| of[*x].waits.iter().copied());
        let all: Vec<i64> = all.collect();
        let each = of.into_iter().map(|x| x.waits).chain([all]);
        self.waits.push(
            each.map(|mut waits| {
                waits.sort_unstable();
                quantiles.iter().map(|q| quantile(&waits, *q)).collect()
            })
            .collect(),
        );
    }
}

/// Hyndman and Fan's type 8, as everywhere in the analysis; none of nothing.
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
