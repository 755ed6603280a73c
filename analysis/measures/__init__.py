"""Tables to estimates: latency, loss, callbacks, services, CPU and memory use."""
