use super::Nearest;

/// Compare with the nearest of all timestamps by linear search, for times before, at, between and
/// after them.
#[test]
fn the_nearest_stamp_tells() {
    let all = [(3, 0), (3, 1), (5, 2), (8, 3), (8, 4), (9, 5), (20, 6)];
    for times in [
        &[][..],
        &[3],
        &[4, 8],
        &[0, 1, 9, 30],
        &[12, 10, 11, 11],
        &[15],
    ] {
        let mut nearest = Nearest::new(times.to_vec());
        for (at, ahead) in all {
            nearest.on_stamp((at, ahead));
        }
        for time in times {
            let before = all.iter().rev().find(|(at, _)| at < time);
            let behind = all.iter().find(|(at, _)| at >= time);
            // The later one wins of two that are equally near.
            let near = behind
                .into_iter()
                .chain(before)
                .min_by_key(|(at, _)| (at - time).abs());
            assert_eq!(
                Some(nearest.offset(*time)),
                near.map(|(_, ahead)| *ahead),
                "{time}"
            );
        }
    }
}
