use super::{keep_nearest, nearest, straight};

/// Against all stamps, for times before, at, between and after them.
#[test]
fn what_is_kept_tells_the_same() {
    let all = [(3, 0), (3, 1), (5, 2), (8, 3), (8, 4), (9, 5), (20, 6)];
    for times in [&[][..], &[3], &[4, 8], &[0, 1, 9, 30], &[10, 11, 12], &[15]] {
        let mut kept = all.to_vec();
        keep_nearest(&mut kept, times);
        for time in times {
            assert_eq!(
                nearest(&kept, *time),
                nearest(&all, *time),
                "{time} of {times:?}"
            );
        }
        assert!(kept.len() <= 2 * times.len());
    }
}

/// By hand.
#[test]
fn between_two_bounds_it_is_straight_and_rounded_up() {
    assert_eq!(straight((0, 10), (10, 20), 1), 11);
    assert_eq!(straight((0, 20), (10, 10), 1), 19);
    assert_eq!(straight((0, 0), (3, 1), 1), 1);
    assert_eq!(straight((5, 7), (5, 9), 5), 9);
}
