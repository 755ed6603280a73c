//! Bounds response times by direct calls of the crate `response-time-analysis`: a second use of the
//! crate, with which `tests/analysis/test_bounds_second.py` compares that of roslens.
//!
//! Reads from standard input the limit, then a line per callback of one thread: how much later its
//! releases may come; the shortest times within which 2, 3, ... of its releases came; and the
//! longest times that 1, 2, ... of its executions in a row took. Writes a line per callback: its
//! bound, or `none`. All times are in ns.

use std::io::{self, BufRead};

use response_time_analysis::arrival::{ArrivalBound, Curve};
use response_time_analysis::demand::{RBF, RequestBound, Slice};
use response_time_analysis::ros2::rta_polling_point_callback;
use response_time_analysis::supply::Dedicated;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet;

type Demand = RBF<Box<dyn ArrivalBound>, wcet::Curve>;

fn main() {
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let limit = lines.next().map_or(0, |line| numbers(&line)[0]);
    let mut callbacks: Vec<Demand> = lines.map(|line| callback(&line)).collect();
    // Each callback in turn is last, and all others before it interfere.
    for _ in 0..callbacks.len() {
        callbacks.rotate_left(1);
        let (own, others) = callbacks.split_last().expect("there is one");
        let bound = rta_polling_point_callback(
            &Dedicated::new(),
            own as &dyn RequestBound,
            &Slice::of(others),
            Duration::from(limit),
        );
        println!(
            "{}",
            bound.map_or("none".into(), |x| u64::from(x).to_string())
        );
    }
}

fn callback(line: &str) -> Demand {
    let parts: Vec<Vec<u64>> = line.split(';').map(numbers).collect();
    let distances = parts[1].iter().copied().map(Duration::from).collect();
    let costs = parts[2].iter().copied().map(Service::from).collect();
    let arrivals = Curve::new(distances).clone_with_jitter(Duration::from(parts[0][0]));
    RBF::new(arrivals, wcet::Curve::new(costs))
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace()
        .map(|x| x.parse().expect("a number"))
        .collect()
}
