//! Bound the response times of callbacks that one thread executes, by the published analysis.

use pyo3::prelude::*;
use response_time_analysis::arrival::{Curve, Propagated};
use response_time_analysis::demand::{Aggregate, RBF};
use response_time_analysis::ros2::rta_polling_point_callback;
use response_time_analysis::supply::Dedicated;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet;

type Demand = RBF<Propagated<Curve>, wcet::Curve>;

/// Return the longest time that each callback can take from its release to its end [ns]; `None` if
/// the analysis finds no bound below the recording's `length`.
///
/// Any other callback of the thread may go first (Casini et al., ECRTS 2019, Lemmas 4 and 5). This
/// assumes no order of dispatch: it holds for any thread that executes one callback at a time and
/// does not idle while one is ready. Releases may come up to `jitter` later than in `arrivals`; the
/// curves describe up to `jobs` executions in a row.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what the binding extracts")]
pub fn response_time_bounds(
    py: Python<'_>,
    arrivals: Vec<Vec<u64>>,
    costs: Vec<Vec<u64>>,
    jitter: Vec<u64>,
    length: u64,
    jobs: usize,
) -> Vec<Option<u64>> {
    py.detach(|| {
        let all: Vec<Demand> = arrivals
            .iter()
            .zip(&costs)
            .zip(&jitter)
            .map(|((times, spent), jitter)| demand(times, spent, length, *jitter, jobs))
            .collect();
        (0..all.len())
            .map(|own| {
                let others = all.iter().enumerate().filter(|(n, _)| *n != own);
                let others = Aggregate::new(others.map(|(_, other)| other).collect());
                let supply = Dedicated::new();
                let limit = Duration::from(length);
                rta_polling_point_callback(&supply, &all[own], &others, limit)
                    .ok()
                    .map(u64::from)
            })
            .collect()
    })
}

/// Return the arrival curve and the cost curve of a callback, from its recorded executions.
///
/// The crate's own `wcet::Curve::from_trace` misses runs of executions that begin in its last
/// window.
fn demand(times: &[u64], spent: &[u64], length: u64, jitter: u64, jobs: usize) -> Demand {
    let most = jobs.min(times.len());
    let mut distances: Vec<Duration> = (1..=most.min(times.len().saturating_sub(1)))
        .filter_map(|step| times.windows(step + 1).map(|x| x[step] - x[0]).min())
        .map(Duration::from)
        .collect();
    // One execution more than there were did not come within the whole recording.
    if times.len() <= jobs {
        distances.push(Duration::from(length));
    }
    let costs = (1..=most)
        .filter_map(|count| spent.windows(count).map(|x| x.iter().sum::<u64>()).max())
        .map(Service::from);
    let arrivals: Curve = distances.into_iter().collect();
    RBF::new(
        Propagated::with_jitter(&arrivals, Duration::from(jitter)),
        costs.collect(),
    )
}
