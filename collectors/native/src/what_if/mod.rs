//! Predict latencies by a discrete-event simulation of callbacks, executors and CPUs.

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
use self::resampling::Blocks;
use self::simulation::Simulation;
use self::system::System;

/// Simulate `replications` runs of a system. Each is as long as the recording and resamples other
/// blocks of it; without a `seed`, it repeats the recording in its order. The waits of the
/// callbacks in `counting` are also pooled.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn simulate(
    py: Python<'_>,
    system: System,
    counting: Vec<usize>,
    quantiles: Vec<f64>,
    replications: usize,
    seed: Option<u64>,
    schedule: bool,
) -> PyResult<Outcomes> {
    py.detach(|| {
        let mut outcomes = Outcomes::default();
        let mut random = seed.map(fastrand::Rng::with_seed);
        for _ in 0..replications {
            let blocks = match &mut random {
                Some(random) => Blocks::drawn(system.length, system.block, system.step, random),
                None => Blocks::whole(system.length),
            };
            let run = Simulation::new(&system, blocks, schedule).run();
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
