"""From a recording to typed tables."""
