"""Convert recording options to arguments of ``roslens record``."""

from __future__ import annotations

from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import KERNEL_EVENTS
from roslens.tracing.sampling.rates import SamplerRates
from roslens.tracing.suite import RosChoice

_OF_SUITES = {"snapshot_at_end", "start", "blocking_timeout_us"}
"""Fields of the tracing options for which there is no command-line option."""


def record_arguments(
    options: TracingOptions, ros: RosChoice, samplers: SamplerRates, *, trace_rclpy: bool = True
) -> list[str]:
    """Return arguments for another ``roslens record`` with the non-default options."""
    words: list[str] = []
    for field, value in options.model_dump(exclude_defaults=True, exclude=_OF_SUITES).items():
        # The name of an option that may be repeated is singular.
        name = f"--{field.removesuffix('s').replace('_', '-')}"
        for item in value if isinstance(value, tuple) else (value,):
            if item not in KERNEL_EVENTS:
                words += [name, f"{item:g}" if isinstance(item, float) else str(item)]
    if ros != "auto":
        words += ["--ros", ros]
    if samplers.stacks:
        words += ["--stacks", f"{samplers.stacks:g}"]
    flags = {
        "--no-trace-rclpy": not trace_rclpy,
        "--allocations": samplers.allocations,
        "--waits": samplers.waits,
    }
    return [*words, *(name for name, wanted in flags.items() if wanted)]
