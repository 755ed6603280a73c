"""Read captures of a line as text with times: ``candump -L``, ``tcpdump -tt``, serial logs.

candump: ``(1436509052.249713) can0 123#DEADBEEF``, CAN FD ``(...) can0 123##1DEADBEEF``;
tcpdump: ``1436509052.249713 IP 10.0.0.1.7400 > 10.0.0.2.8888: UDP, length 42``;
serial: ``1436509052.249713 TX 01 02 0a`` (or ``RX``, bytes in hexadecimal).
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import read_text
from roslens.recording import UsageError

CAPTURE = pl.Schema(
    {
        "time_ns": pl.Int64,
        "channel": pl.String,  # interface, end points, or TX and RX
        "bytes": pl.Int64,  # payload only
    }
)

_TIME = r"(?P<seconds>\d+)\.(?P<fraction>\d{1,9})"
_CANDUMP = re.compile(
    rf"\({_TIME}\) (?P<channel>\S+) [0-9A-Fa-f]{{3}}(?:[0-9A-Fa-f]{{5}})?"
    r"(?:#(?P<data>(?:[0-9A-Fa-f]{2}\.?){0,8})|##[0-9A-Fa-f](?P<fd>(?:[0-9A-Fa-f]{2}){0,64})"
    r"|#R\d?)(?: [TR])?"
)
_TCPDUMP = re.compile(rf"{_TIME} IP6? (?P<channel>\S+ > \S+): .*\blength (?P<length>\d+).*")
_SERIAL = re.compile(rf"{_TIME} (?P<channel>TX|RX) (?P<data>(?:[0-9A-Fa-f]{{2}} ?)+)")


def read_capture(path: Path) -> pl.DataFrame:
    """Read a capture in any of the three formats; each file has one format.

    Returns
    -------
    polars.DataFrame
        One row per frame, packet or chunk, in the order of the file.

    Raises
    ------
    UsageError
        The file cannot be read, a line has no known format (or another than the first line), or
        time runs backwards.
    """
    lines = read_text(path).splitlines()
    rows: list[tuple[int, str, int]] = []
    pattern: re.Pattern[str] | None = None
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        where = f"{path}, line {number}"
        if pattern is None:
            patterns = (_CANDUMP, _TCPDUMP, _SERIAL)
            pattern = next((p for p in patterns if p.fullmatch(line)), None)
        match = pattern.fullmatch(line) if pattern is not None else None
        if match is None:
            raise UsageError(
                f"{where}: '{line[:60]}' is in no format known here (candump -L, tcpdump -tt, "
                "serial: time TX|RX bytes), or not in that of the lines before; cut off or mixed?"
            )
        groups = match.groupdict()
        time_ns = int(groups["seconds"]) * 10**9 + int(groups["fraction"].ljust(9, "0"))
        if rows and time_ns < rows[-1][0]:
            raise UsageError(f"{where}: time runs backwards: two captures in one file?")
        rows.append((time_ns, groups["channel"], _payload(groups)))
    if not rows:
        raise UsageError(f"{path}: nothing was captured")
    return pl.DataFrame(rows, schema=CAPTURE, orient="row")


def captured_rate(capture: pl.DataFrame) -> pl.DataFrame:
    """Return bytes per second of each channel between its first and last frame.

    The first frame only starts the clock: its bytes are not counted.

    Returns
    -------
    polars.DataFrame
        ``channel``, ``frames``, ``bytes``, ``seconds``, ``bytes_per_s`` (null for one frame).
    """
    return (
        capture.group_by("channel", maintain_order=True)
        .agg(
            pl.len().alias("frames"),
            pl.col("bytes").sum(),
            ((pl.col("time_ns").max() - pl.col("time_ns").min()) / 1e9).alias("seconds"),
            pl.col("bytes").first().alias("first"),
        )
        .with_columns(
            pl.when(pl.col("seconds") > 0)
            .then((pl.col("bytes") - pl.col("first")) / pl.col("seconds"))
            .alias("bytes_per_s")
        )
        .drop("first")
    )


def _payload(groups: dict[str, str | None]) -> int:
    length = groups.get("length")
    if length is not None:
        return int(length)
    digits = (groups.get("data") or groups.get("fd") or "").replace(".", "").replace(" ", "")
    return len(digits) // 2
