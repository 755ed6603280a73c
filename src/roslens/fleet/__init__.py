"""Many recordings: a catalog of them, workers for them, a metric over their time."""
