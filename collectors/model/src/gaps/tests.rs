use super::{Continuity, Event, Gap, Gaps, Maybe, Process, ROUND_TRIP};
use crate::ids::Id;

fn gap(vpid: Option<i32>, cpu: Option<i32>, begin: i64, end: i64) -> Gap {
    Gap {
        host: Id::new(0),
        vpid,
        cpu,
        begin,
        end,
    }
}

/// Make gaps for process 7 on host 0, process 8 there, and process 7 on host 1.
fn gaps(gaps: &[Gap]) -> Gaps {
    let processes = [(0, 7), (0, 8), (1, 7)].map(|(host, vpid)| Process {
        host: Id::new(host),
        namespace: 0,
        vpid,
        since: i64::MIN,
        end: i64::MAX,
    });
    Gaps::new(gaps).of_processes(&processes)
}

fn process(number: u32) -> Maybe<Process> {
    Id::new(number)
}

/// A long gap that began first contains a short one. The expected values were worked out by hand.
#[test]
fn a_gap_is_found_behind_a_shorter_one() {
    let gaps = gaps(&[gap(None, None, 10, 100), gap(None, None, 30, 40)]);
    assert!(gaps.between(process(0), 50, 60));
    assert!(!gaps.between(process(0), 100, 200));
    assert!(gaps.overlap(process(0), 100, 200));
    assert!(!gaps.overlap(process(0), 101, 200));
    assert!(!gaps.between(process(2), 50, 60));
}

/// Events that the native tracer dropped belong to one process.
#[test]
fn a_gap_of_one_process_is_not_another_ones() {
    let gaps = gaps(&[gap(Some(7), None, 10, 20)]);
    assert!(gaps.between(process(0), 0, 15));
    assert!(!gaps.between(process(1), 0, 15));
}

/// A gap on CPU 1 hides what a thread did there between two events on CPU 0, unless it had no time
/// to move there and back.
#[test]
fn a_thread_needs_time_to_move_to_another_cpu_and_back() {
    let gaps = gaps(&[gap(None, Some(1), 0, 1_000_000)]);
    let mut seen = Continuity::default();
    let mut missing = |time, cpu| {
        let now = Event::new(time, cpu);
        let last = seen.on_event(&now, true);
        gaps.before(last, &now)
    };
    assert!(missing(1_000, 0));
    assert!(!missing(1_000 + ROUND_TRIP, 0));
    assert!(missing(1_001 + 2 * ROUND_TRIP, 0));
    assert!(missing(1_002 + 2 * ROUND_TRIP, 1));
    assert!(missing(1_003 + 2 * ROUND_TRIP, 1));
}
