use super::straight;

/// The expected heights were worked out by hand.
#[test]
fn between_two_bounds_it_is_straight_and_rounded_up() {
    assert_eq!(straight((0, 10), (10, 20), 1), 11);
    assert_eq!(straight((0, 20), (10, 10), 1), 19);
    assert_eq!(straight((0, 0), (3, 1), 1), 1);
    assert_eq!(straight((5, 7), (5, 9), 5), 9);
}
