//! Timer activations: how late, and which releases passed without one.
//!
//! rcl calls a timer once however late it is, then goes on with the next point of its grid
//! (`rcl_timer_call`). So an activation serves the first release after the activation before it, and
//! the releases between that one and its start are skipped.
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
    /// Releases that passed before it started.
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
    let mut found: Vec<Activation> = (0..starts.len())
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
        return found;
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
        let point = (since(place) as f64 / length - edge).floor() as i64;
        points.push((point, since(place).wrapping_sub(point.wrapping_mul(period))));
    }
    let phase = |place: usize| points[around(place)].iter().map(|(_, after)| *after).min();
    let phases: Vec<i64> = (0..starts.len())
        .map(|place| phase(place).unwrap_or(0))
        .collect();
    for (place, row) in found.iter_mut().enumerate() {
        let (point, after) = points[place];
        let served = match place.checked_sub(1) {
            Some(before) => point.min(points[before].0.wrapping_add(1)),
            None => point,
        };
        row.skipped = point.wrapping_sub(served);
        let late = after.wrapping_sub(phases[place]);
        row.lateness = late.wrapping_add(row.skipped.wrapping_mul(period));
        row.release = starts[place].wrapping_sub(row.lateness);
        row.drift = phases[place].wrapping_sub(phases[0]);
    }
    found
}

/// Forget what activations do not tell if a gap comes before or after them, where others may be.
pub fn beside_gap(found: &mut [Activation], after_gap: bool) {
    let unknown = if found.len() < FEW {
        found.len()
    } else {
        usize::from(after_gap)
    };
    for row in &mut found[..unknown] {
        row.release = NEVER;
        row.lateness = NEVER;
        row.drift = NEVER;
        row.skipped = NEVER;
    }
}
