"""Save the last seconds of programs that run as flight recorders, as a recording.

The files that programs write only grow at their end, and are later replaced as a whole, so they
can be copied while they are written.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from roslens.recording import Manifest, RunFailedError, UsageError, write_manifest
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.manifest import Hit, Loss, TracingSettings
from roslens.recording.scratch import scratch_folder
from roslens.tracing.host import HostWatch
from roslens.tracing.lttng.settings import NEEDED_CONTEXTS
from roslens.tracing.native_tracer.trace_files import HEAD, MAGIC, opened, packets, read_written

FLIGHT_METADATA = "metadata_of_flight"
STREAM = re.compile(r"(ros2_(?:names_)?\d+_[0-9a-f]+_\d+)(_before)?")
"""Names of stream files; a flight recorder's previous file has the suffix ``_before``."""
TRACE_NAME = "trace"
LOSS_NAME = "ros2_discarded"
_SCRATCH = ".snapshot-"
_OVER_TIME = ("steal_fraction", "swapped_pages", "temperature_end_c", "other_cpu_fraction")
_SIZES_AT = 24


def take_snapshot(folder: Path, output: Path) -> None:
    """Copy the current contents of a flight recorder.

    Parameters
    ----------
    folder
        The ``ROSLENS_TRACE_FOLDER`` of the programs, which may continue.
    output
        The new folder of the recording.

    Raises
    ------
    UsageError
        No flight recorder writes to the folder, or `output` already exists.
    RunFailedError
        The recording cannot be written.
    """
    traces = _traces(folder)
    try:
        output.mkdir(mode=0o700, parents=True)
        for trace in traces:
            copied = output / trace.name
            copied.mkdir(mode=0o700)
            _copy(trace, copied)
            shutil.copyfile(trace / FLIGHT_METADATA, copied / "metadata")
    except FileExistsError as error:
        raise UsageError(f"{output}: is there already; give a new folder") from error
    except OSError as error:
        raise RunFailedError(f"{output}: cannot be written: {_reason(error)}") from error


def _traces(folder: Path) -> list[Path]:
    """Return the folders in which flight recorders write."""
    traces = [path.parent for path in sorted(folder.glob(f"ros2-*/{FLIGHT_METADATA}"))]
    if not traces:
        raise UsageError(
            f"{folder}: no flight recorder writes there; start one with "
            "'roslens env --flight SECONDS -o FOLDER'"
        )
    return traces


def record_snapshot(folder: Path, output: Path, triggered: Sequence[Hit] = ()) -> None:
    """Record the current contents of a flight recorder, with a manifest.

    Parameters
    ----------
    folder, output
        As for `take_snapshot`; its errors are raised, too.
    triggered
        The triggers that caused this recording.
    """
    if output.exists():
        raise UsageError(f"{output}: is there already; give a new folder")
    _traces(folder)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        # The recording appears as a whole or not at all, even if this process is killed.
        with scratch_folder(output.parent, _SCRATCH) as scratch:
            recording = scratch / output.name
            recording.mkdir(mode=0o700)
            take_snapshot(folder, recording / TRACE_NAME)
            write_manifest(_manifest(folder, recording, triggered), recording / MANIFEST_NAME)
            recording.rename(output)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise UsageError(f"{output}: is there already; give a new folder") from error
        raise RunFailedError(f"{output}: cannot be written: {_reason(error)}") from error


def _manifest(folder: Path, recording: Path, triggered: Sequence[Hit]) -> Manifest:
    metadata = sorted(folder.glob(f"ros2-*/{FLIGHT_METADATA}"))
    match = re.search(r"flight_ns = (\d+);", metadata[-1].read_text(encoding="utf-8"))
    return Manifest(
        suite="flight",
        campaign=folder.name,
        run=recording.name,
        # The host was not watched during the recording.
        host=HostWatch().facts().model_copy(update=dict.fromkeys(_OVER_TIME)),
        tracing=TracingSettings(
            tracer="native",
            contexts=list(NEEDED_CONTEXTS),
            flight_seconds=int(match.group(1)) / 1e9 if match else None,
        ),
        start_ns=min(path.stat().st_mtime_ns for path in metadata),
        end_ns=time.time_ns(),
        status="complete",
        triggered=list(triggered),
        loss=Loss(discarded_events=read_written(recording / TRACE_NAME)[1]),
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _copy(trace: Path, copied: Path) -> None:
    with opened(trace / LOSS_NAME) as file:
        (copied / LOSS_NAME).write_bytes(os.pread(file, 2 * HEAD.size, 0))
    begins = []
    for path in (trace / LOSS_NAME, *trace.glob("ros2_names_*")):
        with opened(path) as file:
            begins += [packet.begin for packet in packets(file)]
    begun = min(begins, default=0)
    names = {match.group(1) for path in trace.iterdir() if (match := STREAM.fullmatch(path.name))}
    for name in sorted(names):
        held: dict[int, bytes] = {}
        # The older file is read again, because a file may have been renamed to it meanwhile.
        for part in (f"{name}_before", name, f"{name}_before"):
            with suppress(FileNotFoundError):
                held |= _packets(trace / part)
        if not held:
            continue
        with (copied / name).open("xb") as stream:
            # An empty packet precedes the first one. If packets between them are gone, a reader
            # then notices the gap from the beginning, and does not see it as a time without events.
            bits = HEAD.size * 8
            stream.write(HEAD.pack(MAGIC, 0, begun, begun, bits, bits, 0, 0))
            for number in sorted(held):
                stream.write(held[number])


def _packets(path: Path) -> dict[int, bytes]:
    """Return a stream file's packets by number, without the reserved space after their content."""
    by_number = {}
    with opened(path) as file:
        for packet in packets(file):
            content = bytearray(os.pread(file, packet.content, packet.offset))
            # The packet may have grown since its size was read.
            struct.pack_into("=QQ", content, _SIZES_AT, packet.content * 8, packet.content * 8)
            by_number[packet.number] = bytes(content)
    return by_number
