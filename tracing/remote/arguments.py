"""The options of ``roslens record``, as its command line takes them."""

from __future__ import annotations

from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import KERNEL_EVENTS
from roslens.tracing.suite import RosChoice

_NAMES = {
    "tracer": "--tracer",
    "events": "--event",
    "contexts": "--context",
    "kernel": "--kernel",
    "kernel_events": "--kernel-event",
    "kernel_of": "--kernel-of",
    "kernel_buffer": "--kernel-buffer",
    "probes": "--probe",
    "mode": "--mode",
    "max_disk": "--max-disk",
    "flight": "--flight",
    "daemon": "--daemon",
    "subbuf_size": "--subbuf-size",
    "subbuf_count": "--subbuf-count",
}


def record_arguments(
    options: TracingOptions,
    ros: RosChoice,
    *,
    trace_rclpy: bool = True,
    allocations: bool = False,
    stacks: float = 0.0,
    waits: bool = False,
) -> list[str]:
    """What of the options differs from the defaults, for another ``roslens record``."""
    words: list[str] = []
    for field, name in _NAMES.items():
        value = getattr(options, field)
        if value == TracingOptions.model_fields[field].default:
            continue
        several = value if isinstance(value, tuple) else (value,)
        for one in several:
            if one not in KERNEL_EVENTS:
                words += [name, f"{one:g}" if isinstance(one, float) else str(one)]
    if ros != "auto":
        words += ["--ros", ros]
    if stacks:
        words += ["--stacks", f"{stacks:g}"]
    flags = {
        "--no-trace-rclpy": not trace_rclpy, "--allocations": allocations, "--waits": waits
    }  # fmt: skip
    return [*words, *(name for name, wanted in flags.items() if wanted)]
