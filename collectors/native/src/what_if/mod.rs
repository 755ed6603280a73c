//! Prediction of latencies: a discrete-event simulation of callbacks, executors and CPUs.

mod cpus;
mod dispatch;
mod outcome;
mod resampling;
mod simulation;
mod state;
mod system;
mod wait;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use self::outcome::Outcomes;
use self::simulation::Simulation;
use self::system::System;

/// Simulate `replications` runs of a system. Each is as long as the recording and resamples other
/// blocks of it. The waits of the callbacks in `counting` are also pooled.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn simulate(
    py: Python<'_>,
    system: System,
    counting: Vec<usize>,
    quantiles: Vec<f64>,
    replications: usize,
    seed: u64,
    schedule: bool,
) -> PyResult<Outcomes> {
    py.detach(|| {
        let mut outcomes = Outcomes::default();
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..replications {
            let run = Simulation::new(&system, &mut random, schedule).run();
            let (callbacks, mut executed) = run.ok_or_else(|| {
                let what = format!("more than {} executions", system.most);
                PyValueError::new_err(what)
            })?;
            outcomes.add(callbacks, &counting, &quantiles);
            outcomes.schedule.append(&mut executed);
        }
        Ok(outcomes)
    })
}
