"""Define what to trace, and into which buffers."""

import re
import shutil
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from roslens.recording import UsageError
from roslens.recording.models import Frozen
from roslens.recording.text import first_problem

DEFAULT_EVENTS = ("ros2:*",)
NEEDED_CONTEXTS = ("vpid", "vtid", "procname")
"""Contexts that are needed to attribute an event to a process and thread."""

KERNEL_EVENTS = (
    *("sched_switch", "sched_waking", "sched_wakeup_new"),
    *("sched_process_fork", "sched_process_exec", "sched_process_exit"),
    *("irq_handler_entry", "irq_handler_exit", "irq_softirq_entry", "irq_softirq_exit"),
    "power_cpu_frequency",
)
"""Events that tell why a thread did not run, and what else used its CPU."""

INIT_EVENTS = (
    "ros2:*_init",
    "ros2:*_added",
    "ros2:rclcpp_callback_register",
    "ros2:rclcpp_timer_link_node",
    "ros2:rclcpp_construct_ring_buffer",
    "ros2:rclcpp_buffer_to_ipb",
    "ros2:rclcpp_ipb_to_subscription",
    "ros2:message_link_*",
)
"""Events that name nodes, topics and callbacks (tracetools' ``tp_call.h``); rare and early."""

_SIZE = re.compile(r"\s*(\d+)\s*([kKmMgG]?)(?:i?[bB])?\s*")
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_size(value: object) -> object:
    """Parse a size in bytes from ``1M``, ``64k``, ``1 MiB`` or a number (all powers of 1024)."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None:
            raise ValueError(f"{value!r} is not a size such as 64k or 1M")
        return int(match.group(1)) * _FACTORS[match.group(2).lower()]
    return value


Size = Annotated[int, BeforeValidator(parse_size)]
TracerName = Literal["lttng", "native", "auto"]
KernelChoice = Literal["auto", "lttng", "ftrace", "perf", "off", "required"]


class TracingOptions(Frozen):
    """The settings of a recording session.

    The buffers are per user and CPU: ``subbuf_size * subbuf_count * CPUs`` bytes of shared
    memory for each channel. The defaults hold about 100,000 ROS 2 events per CPU.
    """

    tracer: TracerName = Field(
        default="lttng",
        description="native: a tracer of roslens' own, without LTTng and its daemons; auto: LTTng "
        "where it is installed, else that one",
    )
    events: tuple[str, ...] = Field(
        default=DEFAULT_EVENTS, min_length=1, description="user-space events, with * as in ros2:*"
    )
    contexts: tuple[str, ...] = Field(
        default=(),
        description="contexts beside vpid, vtid and procname, such as pid_ns; perf:thread:* can "
        "stop a whole recording",
    )
    kernel: KernelChoice = Field(
        default="auto",
        description="what records the kernel: LTTng's modules, ftrace, or perf_event_open, which "
        "sees own programs alone; auto: the first that can, or nothing; required: the same, or "
        "there is no recording",
    )
    kernel_events: tuple[str, ...] = Field(
        default=KERNEL_EVENTS, min_length=1, description="by LTTng's names; those of ftrace too"
    )
    kernel_of: Literal["machine", "workload"] = Field(
        default="machine",
        description="workload: ftrace records only what concerns its processes and threads; who "
        "else ran on a CPU is then known only where it took over from one of these",
    )
    kernel_buffer: Size = Field(
        default=4 << 20,
        ge=64 << 10,
        le=1 << 30,
        description="bytes that ftrace, or perf, holds per CPU",
    )
    probes: tuple[str, ...] = Field(
        default=(),
        description="functions as LIB:FUNCTION, whose calls are recorded by ftrace, like callbacks",
    )
    mode: Literal["discard", "overwrite", "blocking", "snapshot"] = Field(
        default="discard",
        description="what happens when the buffers are full: new events are dropped, the oldest "
        "ones are, or the program waits; snapshot: nothing is written until a trigger, then what "
        "the buffers hold",
    )
    snapshot_at_end: Literal["always", "failure", "never"] = Field(
        default="always",
        description="whether the end of the workload triggers a snapshot; making the file that "
        "$ROSLENS_SNAPSHOT_FILE names always does",
    )
    max_disk: Size | None = Field(
        default=None,
        gt=0,
        description="bytes that the trace may take on the disk, such as 500M: the oldest part is "
        "given up for the newest; what names nodes and topics is kept apart and longer",
    )
    flight: float | None = Field(
        default=None,
        gt=0,
        lt=1e6,
        description="seconds: the native tracer keeps each thread's last ones only, and all that "
        "names nodes and topics",
    )
    start: Literal["begin", "ready"] = Field(
        default="begin",
        description="ready: before the workload says that it is ready only what names nodes, "
        "topics and callbacks is recorded",
    )
    daemon: Literal["private", "machine"] = Field(
        default="private",
        description="machine: the session daemon of the machine records, so that programs which "
        "run already are recorded too, and others of the same user as well",
    )
    blocking_timeout_us: int | None = Field(
        default=None,
        gt=0,
        description="how long a program waits at most; None: as long as it takes",
    )
    subbuf_size: Size = Field(
        default=1 << 20, ge=4096, description="bytes, a power of two; 64k, 1M, ..."
    )
    subbuf_count: int = Field(default=8, ge=2, le=4096, description="sub-buffers, a power of two")

    @classmethod
    def checked(cls, **values: object) -> Self:
        """Validate options that a user gave.

        Raises
        ------
        UsageError
            An option is not valid; the message states which and why.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            where, reason = first_problem(error)
            field = where.partition(".")[0]
            raise UsageError(f"{field + ': ' if field else ''}{reason}") from error

    @model_validator(mode="after")
    def _powers_of_two(self) -> Self:
        for name in ("subbuf_size", "subbuf_count"):
            value = getattr(self, name)
            if value & (value - 1):
                # LTTng would silently round the value up, and the manifest would then be wrong.
                raise ValueError(f"{name} must be a power of two, {value} is not")
        if self.blocking_timeout_us is not None and self.mode != "blocking":
            raise ValueError("blocking_timeout_us is for mode: blocking")
        if self.max_disk is not None and self.mode == "snapshot":
            raise ValueError("max_disk is for traces that are written all the time")
        if self.probes and (self.mode == "snapshot" or self.max_disk or self.flight):
            raise ValueError("probes: ftrace keeps all calls; no snapshot, max_disk or flight")
        if self.kernel == "off" and any(
            getattr(self, name) != TracingOptions.model_fields[name].default
            for name in ("kernel_events", "kernel_of", "kernel_buffer")
        ):
            raise ValueError("what is said of the kernel is for one that is recorded, not 'off'")
        if self.tracer == "native":
            self._check_native()
        if self.tracer == "lttng" and self.flight is not None:
            raise ValueError("flight is for the native tracer; LTTng's is mode: snapshot")
        return self

    def _check_native(self) -> None:
        lttng_only = {
            f"mode: {self.mode}": self.mode != "discard",
            "max_disk": self.max_disk is not None,
            "start: ready": self.start == "ready",
            "daemon: machine": self.daemon == "machine",
            "kernel: lttng": self.kernel == "lttng",
            "contexts": bool(set(self.contexts) - set(NEEDED_CONTEXTS)),
        }
        for setting, wanted in lttng_only.items():
            if wanted:
                raise ValueError(f"the native tracer does not do '{setting}'; take LTTng for it")

    def resolved(self) -> Self:
        """Return the options with ``auto`` replaced by the tracer to use on this machine.

        Raises
        ------
        UsageError
            The tracer is the native one, which does not support these options.
        """
        if self.tracer != "auto":
            return self
        tracer = "lttng" if shutil.which("lttng") else "native"
        return self.checked(**{**self.model_dump(), "tracer": tracer})

    @property
    def split(self) -> bool:
        """Return whether init events have their own channel.

        They are rare and early, and without them nothing has a name: if old events are discarded
        for newer ones, or the recording begins late, init events must be kept nevertheless.
        """
        return (
            self.mode == "snapshot"
            or self.max_disk is not None
            or self.start == "ready"
            or self.daemon == "machine"
        )

    def ring_files(self, budget: int) -> tuple[int, int]:
        """Return size and number of the files of one stream that fit into `budget` bytes.

        Raises
        ------
        UsageError
            The budget is too small for two sub-buffers.
        """
        # A file holds whole sub-buffers; with four files, little is discarded at a time.
        per_file = budget // 4 // self.subbuf_size
        count = 4 if per_file else budget // self.subbuf_size
        if count < 2:
            raise UsageError(
                f"tracing.max_disk: {self.max_disk} B leave {budget} B for each stream, which "
                f"holds no two sub-buffers of {self.subbuf_size} B; give more or smaller ones"
            )
        return max(1, per_file) * self.subbuf_size, count

    @property
    def all_contexts(self) -> tuple[str, ...]:
        """Return the contexts, with the needed ones first."""
        return tuple(dict.fromkeys((*NEEDED_CONTEXTS, *self.contexts)))
