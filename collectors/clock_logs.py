"""Read logs of chrony and linuxptp beside a recording: the host's clock against other clocks.

A line states that a clock was ahead of another by an offset, with an error. A message each way
would show the same, so lines become such rows for `roslens.collectors.ros2.clock_fit`, in addition
to those of the traces.

* ``tracking.log`` of chrony (``log tracking``): the last column, *Max. error*, is the most by which
  the system clock was off UTC since the line before.
* ``ptp4l`` and ``phc2sys`` (``-m``): an offset comes from an exchange both ways, and is wrong by no
  more than the delay beside it. A host that is the grandmaster is known by the identity of its
  clock. Where ptp4l sets a clock of the network card, only phc2sys reports the system's clock.

Event times follow the system clock as it was when tracing began, within `SYSTEM_CLOCK_NS`, as
long as that clock is slewed and not set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

LOGS = "clock_logs"
"""A subfolder of a recording in which logs may lie, too."""
SYSTEM_CLOCK_NS = 10_000
_NAMES = re.compile(r"(chrony.*|tracking|.*tracking)\.log|.*(ptp4l|phc2sys).*\.(log|txt)")
_LARGEST = 64 << 20
_CHRONY = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s+\S+\s+(\d+)\s.*\s(\S+)\s*")
_PTP = re.compile(
    r"ptp4l\[(\d+\.\d+)\].*?(?:master offset\s+(-?\d+) s\d freq\s+\S+ path delay\s+(-?\d+)"
    r"|rms\s+\d+ max\s+(\d+) freq .*? delay\s+(\d+))"
)
_PHC = re.compile(
    r"phc2sys\[(\d+\.\d+)\].*?(?:CLOCK_REALTIME phc|sys) offset\s+(-?\d+) s\d freq\s+\S+"
    r" delay\s+(\d+)"
)
_MASTER = re.compile(r"selected best (?:master|time transmitter) clock (\S+)")
_LOCAL = re.compile(r"selected local clock (\S+) as best")
_SCHEMA = {"from_host": pl.String, "to_host": pl.String, "sent_ns": pl.Int64, "taken_ns": pl.Int64}

_Offset = tuple[str, str, int, int, int]
"""A clock, a reference clock, the first one's time, its lead over the reference, the error (ns)."""


def find_logs(folder: Path) -> list[Path]:
    """Return the clock logs that lie in a recording's folder."""
    return sorted(
        file
        for place in (folder, folder / LOGS)
        if place.is_dir()
        for file in place.iterdir()
        if _NAMES.fullmatch(file.name) and file.is_file() and file.stat().st_size <= _LARGEST
    )


def read_logs(files: Iterable[Path], host: str, boot_ns: int | None) -> pl.DataFrame:
    """Read the logs of one host as rows like those of `host_clocks.find_crossings`.

    Parameters
    ----------
    files
        Files found by `find_logs`; unrelated lines are skipped.
    host
        Label of the host; other clocks get other names.
    boot_ns
        System clock at the zero of the monotonic clock, in which linuxptp gives times; without
        it the logs of linuxptp are ignored.
    """
    offsets: list[_Offset] = []
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    for text in texts:
        offsets += _chrony_offsets(text, host)
    if boot_ns is not None:
        offsets += _ptp_offsets("\n".join(texts), host, boot_ns)
    rows = []
    for clock, reference, time, ahead, stated in offsets:
        error = stated + (SYSTEM_CLOCK_NS if host in {clock, reference} else 0)
        rows.append((clock, reference, time, time - ahead + error))
        rows.append((reference, clock, time - ahead - error, time))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _chrony_offsets(text: str, host: str) -> Iterator[_Offset]:
    before: int | None = None
    for line in text.splitlines():
        match = _CHRONY.fullmatch(line)
        columns = line.split()
        if match is None or len(columns) < 14:
            continue
        moment = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        time = round(moment.timestamp()) * 1_000_000_000
        try:
            error = round(float(columns[13]) * 1e9)
        except ValueError:
            continue
        # An unsynchronised clock (stratum 0) gives no information.
        if match[2] != "0" and before is not None:
            # Times have no fraction: one second after the previous line is surely within.
            for at in {before + 1_000_000_000, time}:
                yield host, "utc", at, 0, error
        before = time


def _ptp_offsets(text: str, host: str, boot_ns: int) -> Iterator[_Offset]:
    card = f"card of {host}" if "selected /dev/ptp" in text or _PHC.search(text) else host
    local = _LOCAL.search(text)
    master = "ptp"
    for line in text.splitlines():
        if chosen := _MASTER.search(line):
            master = f"ptp {chosen[1]}"
        if (match := _PHC.search(line)) is not None:
            time = _monotonic(match[1]) + boot_ns
            yield host, card, time, int(match[2]), int(match[3])
        if (match := _PTP.search(line)) is not None:
            time = _monotonic(match[1]) + boot_ns
            offset, delay, most, mean = (int(group) if group else 0 for group in match.groups()[1:])
            yield card, master, time, offset, abs(delay) or most + mean
        if local is not None and local[0] in line and (start := re.search(r"\[(\d+\.\d+)\]", line)):
            yield card, f"ptp {local[1]}", _monotonic(start[1]) + boot_ns, 0, 0


def _monotonic(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])


def boot_ns(traces: Sequence[Path]) -> int | None:
    """Return the system clock at the zero of the monotonic clock, by the metadata of a trace."""
    for trace in traces:
        text = (trace / "metadata").read_bytes()
        clock = re.search(rb'clock \{[^}]*name = "monotonic"[^}]*\}', text)
        offset = clock and re.search(rb"\boffset = (\d+);", clock[0])
        if clock and offset:
            seconds = re.search(rb"\boffset_s = (\d+);", clock[0])
            return int(offset[1]) + (int(seconds[1]) if seconds else 0) * 1_000_000_000
    return None
