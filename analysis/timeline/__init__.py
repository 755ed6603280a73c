"""Draw events over time: tracks of intervals with levels of detail, arrows, journeys."""
