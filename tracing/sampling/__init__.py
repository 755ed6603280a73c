"""Sample a run's use of resources: processes, threads, their heaps, the machine."""
