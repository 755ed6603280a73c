"""Build a timing model from a recording: when callbacks run, and for how long."""
