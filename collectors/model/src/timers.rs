//! Find how late each activation of a timer was, and which releases passed without one.
//!
//! rcl calls a timer once however late it is, then continues with the next point of its grid
//! (`rcl_timer_call`). So an activation serves the first release after the activation before it,
//! and the releases up to that of the next activation are skipped. Each activation serves a release
//! of its own: one that seems early for a release that the next one serves was late for the one
//! before, and if an executor queues the calls of timers, several in a row are late.
//!
//! No event shows the grid's phase: timers are reset, and their clock (often `CLOCK_MONOTONIC_RAW`)
//! runs at a slightly different rate from that of the events. The phase is estimated from the
//! activations around: first by where they lie on the circle of one period, as mean direction and
//! spread, then exactly by the least late of them.

use std::f64::consts::TAU;

use crate::rows::NEVER;

/// The number of activations on either side that the phase is estimated from.
const AROUND: usize = 50;
/// The fixed-point representation of 1.0: 2^40.
const ONE: f64 = 1_099_511_627_776.0;
/// One radian in turns.
const TURN: f64 = 1.0 / TAU;
/// How much earlier than the mean an activation may be, in periods: the least and the most that is
/// allowed, whatever the spread.
const LEAST_SPREAD: f64 = 1.0 / 32.0;
const MOST_SPREAD: f64 = 0.5;

/// The grid cannot be estimated from fewer activations between gaps.
const FEW: usize = 10;

/// One activation, with times in ns; unknown values are `NEVER`.
pub struct Activation {
    /// Time since the activation before.
    pub interval: i64,
    /// When the activation was due.
    pub release: i64,
    /// How much later than its release it came.
    pub lateness: i64,
    /// How much the grid has moved since the first activation.
    pub drift: i64,
    /// How many releases lie between its own and that of the next activation; for the last
    /// activation 0 if none lies between its own and its start, else `NEVER`.
    pub skipped: i64,
}

/// Return the activations of a timer that started at these times.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "fractions of a circle, and sums that are whole numbers"
)]
pub fn activations(starts: &[i64], period: i64) -> Vec<Activation> {
    let since = |place: usize| starts[place].wrapping_sub(starts[0]);
    let mut activations: Vec<Activation> = (0..starts.len())
        .map(|place| Activation {
            interval: if place == 0 {
                NEVER
            } else {
                starts[place].wrapping_sub(starts[place - 1])
            },
            release: NEVER,
            lateness: NEVER,
            drift: NEVER,
            skipped: NEVER,
        })
        .collect();
    if period <= 0 {
        return activations;
    }
    let length = period as f64;
    let angle = |place: usize| TAU * since(place).rem_euclid(period) as f64 / length;
    // Sums of whole numbers do not depend on what was added and removed before.
    let fixed = |value: f64| (value * ONE).round() as i64;
    let circle: Vec<(i64, i64)> = (0..starts.len())
        .map(|place| (fixed(angle(place).cos()), fixed(angle(place).sin())))
        .collect();
    let around =
        |place: usize| place.saturating_sub(AROUND)..(place + AROUND + 1).min(starts.len());
    let mut sums = (0_i64, 0_i64);
    let mut summed = 0..0;
    let (mut turns, mut before) = (0.0, None);
    let mut points = Vec::with_capacity(starts.len());
    for place in 0..starts.len() {
        let window = around(place);
        for (x, y) in &circle[summed.end..window.end] {
            sums = (sums.0 + x, sums.1 + y);
        }
        for (x, y) in &circle[summed.start..window.start] {
            sums = (sums.0 - x, sums.1 - y);
        }
        summed = window.clone();
        let some = window.len() as f64;
        let (x, y) = (sums.0 as f64 / some / ONE, sums.1 as f64 / some / ONE);
        let mean = y.atan2(x) * TURN;
        let strength = (x * x + y * y).sqrt().clamp(1e-9, 1.0);
        let deviation = (-2.0 * strength.ln()).sqrt() * TURN;
        let spread = (2.0 * deviation).clamp(LEAST_SPREAD, MOST_SPREAD);
        // Count how often the mean went around the circle: no step is longer than half of it.
        turns += before.map_or(0.0, |before: f64| (mean - before).round());
        before = Some(mean);
        let edge = mean - turns - spread;
        points.push((since(place) as f64 / length - edge).floor() as i64);
    }
    let served = served(&points);
    let after: Vec<i64> = (0..starts.len())
        .map(|place| since(place).wrapping_sub(served[place].wrapping_mul(period)))
        .collect();
    let phase = |place: usize| after[around(place)].iter().copied().min();
    let first = phase(0).unwrap_or(0);
    for (place, row) in activations.iter_mut().enumerate() {
        let phase = phase(place).unwrap_or(0);
        row.skipped = match served.get(place + 1) {
            Some(next) => next.wrapping_sub(served[place]).wrapping_sub(1),
            None if points[place] == served[place] => 0,
            None => NEVER,
        };
        row.lateness = after[place].wrapping_sub(phase);
        row.release = starts[place].wrapping_sub(row.lateness);
        row.drift = phase.wrapping_sub(first);
    }
    activations
}

/// Return the releases that activations serve, from the last points of the grid before each start.
fn served(points: &[i64]) -> Vec<i64> {
    let mut served = points.to_vec();
    for place in (1..points.len()).rev() {
        served[place - 1] = points[place - 1].min(served[place].wrapping_sub(1));
    }
    for place in 1..points.len() {
        served[place] = served[place].min(points[place - 1].wrapping_add(1));
    }
    served
}

/// Make values unknown that depend on activations hidden by a gap before or after these.
pub fn beside_gap(activations: &mut [Activation], after_gap: bool) {
    let unknown = if activations.len() < FEW {
        activations.len()
    } else {
        usize::from(after_gap)
    };
    for row in &mut activations[..unknown] {
        row.release = NEVER;
        row.lateness = NEVER;
        row.drift = NEVER;
        row.skipped = NEVER;
    }
}
