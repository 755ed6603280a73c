"""What a run uses, sampled beside it: processes, threads, their heaps, the machine."""

from tracing.sampling.heap import HeapProbe
from tracing.sampling.processes import ProcessReader, Sampler, children, cpu_time_ns
from tracing.sampling.system import SystemSampler
from tracing.sampling.threads import ThreadSampler

__all__ = [
    "HeapProbe",
    "ProcessReader",
    "Sampler",
    "SystemSampler",
    "ThreadSampler",
    "children",
    "cpu_time_ns",
]
