"""The last seconds of programs that record themselves as flight recorders, as a recording.

The files that programs write grow at their end and are then replaced as a whole, so that they can
be copied while they are written.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from contextlib import suppress
from pathlib import Path

from roslens.tracing.native_tracer.trace_files import HEAD, MAGIC, opened, packets
from roslens.tracing.recording import RunFailedError, UsageError

FLIGHT_METADATA = "metadata_of_flight"
_STREAM = re.compile(r"(ros2_(?:names_)?\d+_[0-9a-f]+_\d+)(_before)?")
_LOSS = "ros2_discarded"
_SIZES_AT = 24


def take_snapshot(folder: Path, output: Path) -> None:
    """Copy what a flight recorder holds now.

    Parameters
    ----------
    folder
        The ``ROSLENS_TRACE_FOLDER`` of its programs, which may go on.
    output
        A new folder: the recording.

    Raises
    ------
    UsageError
        It is no folder of a flight recorder, or `output` is there already.
    RunFailedError
        It cannot be written.
    """
    traces = [path.parent for path in sorted(folder.glob(f"ros2-*/{FLIGHT_METADATA}"))]
    if not traces:
        raise UsageError(
            f"{folder}: no flight recorder writes there; start one with "
            "'roslens env --flight SECONDS -o FOLDER'"
        )
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
        reason = (error.strerror or str(error)).lower()
        raise RunFailedError(f"{output}: cannot be written: {reason}") from error


def _copy(trace: Path, copied: Path) -> None:
    with opened(trace / _LOSS) as file:
        (copied / _LOSS).write_bytes(os.pread(file, 2 * HEAD.size, 0))
    begins = []
    for path in (trace / _LOSS, *trace.glob("ros2_names_*")):
        with opened(path) as file:
            begins += [packet.begin for packet in packets(file)]
    begun = min(begins, default=0)
    names = {found.group(1) for x in trace.iterdir() if (found := _STREAM.fullmatch(x.name))}
    for name in sorted(names):
        held: dict[int, bytes] = {}
        # Once more what may have got its other name meanwhile.
        for part in (f"{name}_before", name, f"{name}_before"):
            with suppress(FileNotFoundError):
                held |= _held(trace / part)
        if not held:
            continue
        with (copied / name).open("xb") as stream:
            # An empty packet before the first. Where those between are gone, a reader then knows
            # from the begin on, and does not take it for a time in which nothing happened.
            bits = HEAD.size * 8
            stream.write(HEAD.pack(MAGIC, 0, begun, begun, bits, bits, 0, 0))
            for number in sorted(held):
                stream.write(held[number])


def _held(path: Path) -> dict[int, bytes]:
    """The packets of a stream file by number, without what is reserved behind their content."""
    found = {}
    with opened(path) as file:
        for packet in packets(file):
            content = bytearray(os.pread(file, packet.content, packet.offset))
            # It may have grown since.
            struct.pack_into("=QQ", content, _SIZES_AT, packet.content * 8, packet.content * 8)
            found[packet.number] = bytes(content)
    return found
