"""Traces of any size to events: decoded part by part, resumed if interrupted.

Everything unfinished lies in the folder of a `roslens.collectors.work.Work`, beside what is made
(see `roslens.collectors.store`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from roslens.collectors import _native
from roslens.collectors.reader import TraceInfo

if TYPE_CHECKING:
    from roslens.collectors.reader import Trace
    from roslens.collectors.work import Work
    from roslens.recording import Recording

PART_BYTES = 512 << 20
"""Bytes of trace that are decoded at once."""


def decode(
    trace: Trace,
    made: Recording,
    work: Work,
    *,
    threads: int,
    done: Callable[[int, int], object] | None,
) -> TraceInfo:
    """Decode a trace into the new events, some hundred MiB after the other.

    The files are as those of `Trace.write_events`, but for where their row groups end.

    Raises
    ------
    UsageError
        A stream file can no longer be read.
    RunFailedError
        A file cannot be written.
    """
    spans = trace.windows(size=PART_BYTES)
    parts = work.folder / "decoded"
    found: list[TraceInfo] = []

    def step(number: int) -> None:
        begin, end = spans[number]
        folder = parts / f"{number:06}"

        def tell(now: int, total: int) -> None:
            if done is not None:
                done(number * total + now, len(spans) * total)

        shutil.rmtree(folder, ignore_errors=True)
        info = trace.write_events(
            folder, begin_ns=begin, end_ns=end, threads=threads, progress=tell
        )
        found.append(info)
        for path in folder.rglob("*.parquet"):
            work.wrote(path)

    work.stage("reading", len(spans), step)

    def together(_: int) -> None:
        names = {path.relative_to(parts / path.parts[len(parts.parts)]) for path in
                 parts.glob("*/*/*.parquet")}  # fmt: skip
        for name in sorted(names):
            path = made.events / name
            path.parent.mkdir(exist_ok=True)
            _native.concat(sorted(parts.glob(f"*/{name}")), path)
            work.wrote(path)

    work.stage("events", 1, together)
    work.save()
    shutil.rmtree(parts, ignore_errors=True)
    damaged = any(row["kind"] == "truncated" for info in found for row in info.loss_rows)
    if damaged or len(found) < len(spans):
        # Two parts may tell of one packet, and of what was decoded before nothing is known.
        return trace.info(threads=threads)
    return TraceInfo.together(found)
