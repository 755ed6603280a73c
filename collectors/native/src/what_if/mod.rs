//! What would happen: a discrete-event simulation of callbacks, executors and CPUs.

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

/// Simulate a system, `replications` times as long as it was recorded, each time with other blocks
/// of the recording. `counting`: callbacks whose waits are taken together, too.
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
            let (of, mut executed) = run.ok_or_else(|| {
                let what = format!("more than {} executions", system.most);
                PyValueError::new_err(what)
            })?;
            outcomes.add(of, &counting, &quantiles);
            outcomes.schedule.append(&mut executed);
        }
        Ok(outcomes)
    })
}
