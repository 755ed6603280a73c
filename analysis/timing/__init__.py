"""The timing model: what a recording says of when callbacks run and how long."""
