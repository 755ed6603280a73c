"""Compute what tables depend on: digests of a recording's traces and of the collectors' code."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.collectors import store
from roslens.recording import Recording, UsageError
from roslens.recording.bags import refuse_bag
from roslens.recording.layout import find_traces

if TYPE_CHECKING:
    from roslens.collectors.decoding import ClockOffsets


def fingerprint(recording: Recording, clock_offsets: ClockOffsets) -> str:
    """Return a digest of names, sizes and times of all trace files, and of the clock offsets.

    Raises
    ------
    UsageError
        There is no trace, nor the manifest of a run without one.
    """
    traces = find_traces(recording.trace_root)
    if not traces and not recording.has_manifest:
        refuse_bag(recording.trace_root)
        raise UsageError(
            f"{recording.trace_root}: no CTF trace here (no file named 'metadata' at or below it)"
        )
    manifest = recording.manifest
    # The values that the model takes from the manifest.
    lines = (
        [] if manifest is None else [f"{manifest.environment.rmw} {manifest.clock.synchronisation}"]
    )
    if clock_offsets == "auto":
        lines.append("clock auto")
    else:
        lines += [f"clock {host} {ns}" for host, ns in sorted(clock_offsets.items())]
    outputs = [recording.events, recording.tables]
    if recording.output != recording.path:
        outputs.append(recording.output)
    outputs += store.leftovers(recording)
    clocks = [recording.clocks] if recording.clocks.is_file() else []
    for path in (*clocks, *(path for trace in traces for path in sorted(trace.rglob("*")))):
        if path.is_file() and not any(path.is_relative_to(folder) for folder in outputs):
            state = path.stat()
            name = path.relative_to(recording.path).as_posix()
            lines.append(f"{name} {state.st_size} {state.st_mtime_ns}")
    return digest(os.fsencode("\n".join(lines)))


@cache
def collector_version() -> str:
    """Return the collectors' version: that of the distribution and a digest of the code itself."""
    try:
        number = version("roslens")
    except PackageNotFoundError:
        number = "0"
    package = Path(__file__).parent
    # File by file: the native code is large.
    code = map(store.sha256, sorted([*package.rglob("*.py"), *package.glob("_native*")]))
    return f"{number}+{digest(''.join(code).encode())[:16]}"


def digest(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
