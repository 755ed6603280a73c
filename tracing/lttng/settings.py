"""What is to be traced, and into which buffers."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from tracing.recording import UsageError

DEFAULT_EVENTS = ("ros2:*",)
NEEDED_CONTEXTS = ("vpid", "vtid", "procname")
"""Without these an event cannot be given to a process and thread."""

KERNEL_EVENTS = ("sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new")
"""What a thread was doing when it did not run."""

_SIZE = re.compile(r"\s*(\d+)\s*([kKmMgG]?)(?:i?[bB])?\s*")
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_size(value: object) -> object:
    """A size in bytes from ``1M``, ``64k``, ``1 MiB`` or a number (all powers of 1024)."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value)
        if found is None:
            raise ValueError(f"{value!r} is not a size such as 64k or 1M")
        return int(found.group(1)) * _FACTORS[found.group(2).lower()]
    return value


Size = Annotated[int, BeforeValidator(parse_size)]


class TracingOptions(BaseModel):
    """How a session records.

    The buffers are per user and CPU: ``subbuf_size * subbuf_count * CPUs`` bytes of shared
    memory for each channel. The defaults hold about 100,000 ROS 2 events per CPU.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    events: tuple[str, ...] = Field(
        default=DEFAULT_EVENTS, min_length=1, description="user-space events, with * as in ros2:*"
    )
    contexts: tuple[str, ...] = Field(
        default=(),
        description="contexts beside vpid, vtid and procname, such as pid_ns; perf:thread:* can "
        "stop a whole recording",
    )
    kernel: Literal["auto", "off", "required"] = Field(
        default="auto", description="whether to record the kernel: auto means where it can be"
    )
    kernel_events: tuple[str, ...] = Field(default=KERNEL_EVENTS, min_length=1)
    mode: Literal["discard", "overwrite", "blocking"] = Field(
        default="discard",
        description="what happens when the buffers are full: new events are dropped, the oldest "
        "ones are, or the program waits",
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
    def checked(cls, **values: object) -> TracingOptions:
        """The options from values that a user gave.

        Raises
        ------
        UsageError
            One of them is not valid; says which and why.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"][:1])
            reason = first["msg"].removeprefix("Value error, ")
            raise UsageError(f"{field + ': ' if field else ''}{reason}") from error

    @model_validator(mode="after")
    def _powers_of_two(self) -> TracingOptions:
        for name in ("subbuf_size", "subbuf_count"):
            value = getattr(self, name)
            if value & (value - 1):
                # LTTng would round it up silently, and the manifest would then be wrong.
                raise ValueError(f"{name} must be a power of two, {value} is not")
        if self.blocking_timeout_us is not None and self.mode != "blocking":
            raise ValueError("blocking_timeout_us is for mode: blocking")
        return self

    @property
    def all_contexts(self) -> tuple[str, ...]:
        """The contexts, with the needed ones first."""
        return tuple(dict.fromkeys((*NEEDED_CONTEXTS, *self.contexts)))
