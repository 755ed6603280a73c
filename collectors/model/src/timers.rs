//! Timer activations: how late, and which releases passed without one.
//!
//! rcl calls a timer once however late it is, then goes on with the next point of its grid
//! (`rcl_timer_call`). So an activation serves the first release after the activation before it, and
//! the releases up to that of the next activation are skipped. Each activation serves a release of
//! its own: one that seems early for a release that the next one serves was late for the one before,
//! and where an executor queues what timers have called, several in a row are late.
//!
//! No event tells the grid's phase: timers are reset, and their clock (often `CLOCK_MONOTONIC_RAW`)
//! runs a little otherwise than that of the events. It is estimated from the activations around:
//! first where they lie on the circle of one period, as mean direction and spread, then exactly by
//! the least late of them.

use std::f64::consts::TAU;

use crate::rows::NEVER;

/// So many activations on either side tell.
const AROUND: usize = 50;
/// 2^40
const ONE: f64 = 1_099_511_627_776.0;
/// A radian, in turns.
const TURN: f64 = 1.0 / TAU;
/// In periods: how much earlier than the mean an activation may be, however alike they are; and at
/// most.
const LEAST_SPREAD: f64 = 1.0 / 32.0;
const MOST_SPREAD: f64 = 0.5;

/// Fewer activations between gaps do not tell the grid.
const FEW: usize = 10;

/// One activation; `NEVER` where there is nothing to tell.
pub struct Activation {
    /// Since the one before.
    pub interval: i64,
    /// When it was due.
    pub release: i64,
    /// How much later than that it came.
    pub lateness: i64,
    /// How much the grid has moved.
    pub drift: i64,
    /// Releases between its own and that of the next one; of the last one those up to its start, if
    /// there are none.
    pub skipped: i64,
}

/// The activations of a timer that started at these times.
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
    // As whole numbers: sums of those do not depend on what was summed before.
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
        // How often the mean has slid around the circle: no step is longer than half of it.
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

/// The releases that activations serve, of the last points of the grid before they start.
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

/// Forget what activations do not tell if a gap comes before or after them, where others may be.
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
