"""Run one recording session: create it, add channels and events, start, read its loss, destroy."""

from __future__ import annotations

import os
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.manifest import Loss, TracingSettings
from roslens.tracing.lttng.daemon import SessionDaemon
from roslens.tracing.lttng.settings import INIT_EVENTS, NEEDED_CONTEXTS, TracingOptions
from roslens.tracing.lttng.tool import LttngError, lttng_version

CHANNEL = "ros2"
"""The user-space channel; its stream files are ``ros2_<cpu>``."""

INIT_CHANNEL = "ros2_init"
"""The separate channel of `INIT_EVENTS`, in sessions that have one."""

KERNEL_CHANNEL = "kernel"
_INIT_SUBBUF = 64 << 10
_INIT_SHARE = 8
"""The fraction (1/8) of a bounded disk that is reserved for init events."""
_PACKET = struct.Struct("<I28x16xQQ8xI8x")
"""Head of a packet of LTTng-UST 2.x: magic, content and packet size in bits, discarded so far."""
_MAGIC = 0xC1FC1FC1


@dataclass
class Session:
    """A recording session.

    Attributes
    ----------
    daemon, options, output
        The session's daemon, its options, and the folder of its trace.
    notes
        Notes for the user.
    loss
        Losses of the tracer; known after the end.
    troubles
        Errors while the session ended, one line each.
    """

    daemon: SessionDaemon
    options: TracingOptions
    output: Path
    notes: list[str] = field(default_factory=list)
    loss: Loss = field(default_factory=Loss)
    troubles: list[str] = field(default_factory=list)
    kernel: bool = False
    snapshots: int = 0
    _begun_at: int = 0

    @property
    def name(self) -> str:
        """Return the session's name at the daemon."""
        return self.daemon.session_name

    @property
    def workload_variables(self) -> dict[str, str]:
        """Return the environment variables that the recorded programs need."""
        blocking = {"LTTNG_UST_ALLOW_BLOCKING": "1"} if self.options.mode == "blocking" else {}
        # A program waits at its start until it is traced, by default for at most 3 s. On a busy
        # machine it would then continue untraced, and its first events would be missing without
        # notice.
        wait = {"LTTNG_UST_REGISTER_TIMEOUT": os.environ.get("LTTNG_UST_REGISTER_TIMEOUT", "60000")}
        return {**self.daemon.workload_variables, **blocking, **wait}

    @property
    def settings(self) -> TracingSettings:
        """Return the session's settings for the manifest."""
        options = self.options
        kernel = [f"kernel:{name}" for name in options.kernel_events] if self.kernel else []
        return TracingSettings(
            tracer="lttng",
            tracer_version=lttng_version(),
            domains=["ust", "kernel"] if self.kernel else ["ust"],
            events=[*options.events, *kernel],
            contexts=list(options.all_contexts),
            mode=options.mode,
            subbuf_size_bytes=options.subbuf_size,
            subbuf_count=options.subbuf_count,
            max_disk_bytes=options.max_disk,
            start=options.start,
            snapshots=self.snapshots if options.mode == "snapshot" else None,
            notes=[*self.daemon.notes, *self.notes],
        )

    def has_events(self) -> bool:
        """Whether any event was recorded or discarded."""
        channels = (CHANNEL, INIT_CHANNEL)
        return bool(self.loss.discarded_events) or any(
            has_events(self.output, channel) for channel in channels
        )

    def errors(self) -> list[str]:
        """Return errors that the daemon and its consumers reported since the session began."""
        return self.daemon.complaints(self._begun_at)[0]

    def is_out_of_space(self) -> bool:
        """Return whether the consumer could not write because the disk was full."""
        return any("No space left" in line for line in self.errors())

    def _begin(self) -> None:
        self._begun_at = self.daemon.complaints()[1]
        call = self.daemon.tool.call
        # The path is absolute because the daemon has another working directory.
        output = self.output.resolve()
        snapshot = ["--snapshot"] if self.options.mode == "snapshot" else []
        call("create", self.name, *snapshot, f"--output={output}")
        contexts = self.options.all_contexts
        self._channel("--userspace", CHANNEL, contexts)
        if self.options.split:
            self._channel("--userspace", INIT_CHANNEL, contexts, _INIT_SUBBUF)
            self._enable("--userspace", INIT_CHANNEL, INIT_EVENTS)
        if self.options.start == "begin":
            self.begin_events()
        if self.daemon.kernel:
            self._begin_kernel()
        call("start", self.name)
        if not snapshot and not output.is_dir():
            raise RunFailedError(
                f"{self.output}: the session daemon does not see this folder as roslens does "
                "(mounted after it began?); record to another folder"
            )

    def begin_events(self) -> None:
        """Record the events of `CHANNEL` from now on.

        Raises
        ------
        LttngError
            The daemon refuses.
        """
        # Init events are included although they have their own channel: the session daemon of LTTng
        # 2.13 crashes when it lists events with exclusions. Readers leave duplicates out.
        self._enable("--userspace", CHANNEL, self.options.events)

    def snapshot(self) -> None:
        """Write the current contents of the buffers.

        Raises
        ------
        LttngError
            The daemon refuses.
        """
        self.daemon.tool.call("snapshot", "record", "--session", self.name)
        self.snapshots += 1

    def _enable(self, domain: str, channel: str, events: Sequence[str]) -> None:
        self.daemon.tool.call(
            *("enable-event", domain, "--session", self.name, "--channel", channel),
            ",".join(events),
        )

    def _begin_kernel(self) -> None:
        try:
            self._channel("--kernel", KERNEL_CHANNEL, NEEDED_CONTEXTS)
            self._enable("--kernel", KERNEL_CHANNEL, self.options.kernel_events)
        except LttngError as error:
            if self.options.kernel != "auto":
                raise
            self.notes.append(f"no kernel trace: {error}")
        else:
            self.kernel = True

    def _channel(
        self, domain: str, name: str, contexts: Sequence[str], subbuf_size: int | None = None
    ) -> None:
        options = self.options
        mode = {
            "discard": ["--discard"],
            "overwrite": ["--overwrite"],
            "snapshot": ["--overwrite"],
            "blocking": [
                "--discard",
                f"--blocking-timeout={options.blocking_timeout_us or 'inf'}",
            ],
        }[options.mode]
        if domain == "--kernel" and options.mode == "blocking":
            mode = ["--discard"]
        size = min(options.subbuf_size, subbuf_size or options.subbuf_size)
        self.daemon.tool.call(
            *("enable-channel", domain, "--session", self.name, *mode),
            *("--subbuf-size", str(size), *self._ring(name, size)),
            *("--num-subbuf", str(options.subbuf_count), name),
        )
        types = [part for context in contexts for part in ("--type", context)]
        self.daemon.tool.call(
            *("add-context", domain, "--session", self.name, "--channel", name, *types)
        )

    def _ring(self, channel: str, subbuf_size: int) -> list[str]:
        """Return the options of a channel whose files are overwritten at their maximum size."""
        if self.options.max_disk is None:
            return []
        budget = _budget(self.options.max_disk, channel, kernel=self.daemon.kernel)
        options = self.options.model_copy(update={"subbuf_size": subbuf_size})
        size, count = options.ring_files(budget)
        return ["--tracefile-size", str(size), "--tracefile-count", str(count)]

    def _end(self) -> None:
        """Stop the session, read the loss, destroy the session; do each step even if one fails."""
        if not self.daemon.is_alive():
            self.troubles.append("the LTTng session daemon ended during the run")
            self.loss = Loss(discarded_events=None, lost_packets=None)
            return
        call = self.daemon.tool.call
        # Stopping waits until all data is written. Destroying would wait another half second, for a
        # timer of the session daemon.
        for step in (("stop",), ("list",), ("destroy", "--no-wait")):
            try:
                answer = call(*step, self.name)
                if step == ("list",):
                    self.loss = loss_of(answer)
            except LttngError as error:
                self.troubles.append(str(error))


@contextmanager
def recording_session(
    daemon: SessionDaemon, options: TracingOptions, output: Path
) -> Iterator[Session]:
    """Record into the folder `output` for as long as the context lasts.

    However the context ends, the session is destroyed, and `Session.loss` and `Session.troubles`
    are then set.

    Raises
    ------
    LttngError
        The session cannot be created.
    """
    session = Session(daemon=daemon, options=options, output=output)
    try:
        session._begin()
        yield session
    finally:
        session._end()


def _budget(max_disk: int, channel: str, *, kernel: bool) -> int:
    """Return the bytes for the files of one stream, so that all streams fit into `max_disk`."""
    # The index, with 56 B per packet, and the metadata take less than a 16th.
    each = max_disk * 15 // 16 // (os.cpu_count() or 1)
    init = each // _INIT_SHARE
    return init if channel == INIT_CHANNEL else (each - init) // (1 + kernel)


def check_disk(options: TracingOptions, *, kernel: bool) -> None:
    """Check that a bounded disk can hold the buffers of this machine.

    Raises
    ------
    UsageError
        The disk bound is too small.
    """
    if options.max_disk is None:
        return
    options.ring_files(_budget(options.max_disk, CHANNEL, kernel=kernel))
    init = options.model_copy(update={"subbuf_size": min(_INIT_SUBBUF, options.subbuf_size)})
    init.ring_files(_budget(options.max_disk, INIT_CHANNEL, kernel=kernel))


def loss_of(answer: ET.Element) -> Loss:
    """Return the loss stated by ``lttng list SESSION``, summed over the channels."""

    def total(name: str) -> int:
        return sum(int(element.text or 0) for element in answer.iter(name))

    return Loss(discarded_events=total("discarded_events"), lost_packets=total("lost_packets"))


def has_events(trace: Path, channel: str = CHANNEL) -> bool:
    """Return whether a user-space channel of a trace holds or discarded any event.

    The heads of the packets are read, because snapshots have no index, and packets without events
    are written too, so that non-empty files are not sufficient evidence.
    """
    for path in trace.rglob(f"{channel}_[0-9]*"):
        if path.suffix == ".idx":
            continue
        with path.open("rb") as stream:
            while len(head := stream.read(_PACKET.size)) == _PACKET.size:
                magic, content_bits, packet_bits, discarded = _PACKET.unpack(head)
                if magic != _MAGIC or packet_bits < _PACKET.size * 8:
                    break
                if content_bits > _PACKET.size * 8 or discarded:
                    return True
                stream.seek(packet_bits // 8 - _PACKET.size, os.SEEK_CUR)
    return False
