"""Sample a run's use of resources: processes, threads, their heaps, the machine."""

from roslens.tracing.sampling.allocations import AllocationSites
from roslens.tracing.sampling.heap import HeapProbe
from roslens.tracing.sampling.processes import ProcessReader, Sampler, cpu_time_ns
from roslens.tracing.sampling.stacks import PYTHON_NAMES, StackSampler
from roslens.tracing.sampling.system import SystemSampler
from roslens.tracing.sampling.threads import ThreadSampler

__all__ = [
    "PYTHON_NAMES",
    "AllocationSites",
    "HeapProbe",
    "ProcessReader",
    "Sampler",
    "StackSampler",
    "SystemSampler",
    "ThreadSampler",
    "cpu_time_ns",
]
