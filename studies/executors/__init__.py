"""The study of executors: load, latency, waiting and working, and which differ."""
