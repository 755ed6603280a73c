"""Study executors: load, latency, waiting and working, and which executors differ."""
