"""Turn tables into estimates: latency, loss, callbacks, services, CPU and memory use."""
