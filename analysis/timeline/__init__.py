"""What happened when, drawn: tracks of intervals with levels of detail, arrows, journeys."""
