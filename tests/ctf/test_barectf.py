"""Test a trace of an independent writer, barectf.

Truth: the program `barectf/main.c` that wrote it; babeltrace2 agrees.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from polars.testing import assert_frame_equal
from tests.oracle import babeltrace

from roslens.collectors.reader import open_trace

TRACE = Path(__file__).with_name("barectf") / "trace"
MINUTE = 60 * 24_000_000


def time_ns(cycles: int) -> int:
    """Convert cycles of 24 MHz, counted from 1600000000.5 s on."""
    return int((1_600_000_000 + Fraction(12_000_000 + cycles, 24_000_000)) * 10**9)


def label(value: int) -> str | None:
    return {0: "calm", 2: "calm", 3: "calm", 4: "calm", 5: "calm", 7: "busy"}.get(value)


def test_every_field_is_what_the_program_wrote() -> None:
    trace = open_trace(TRACE)
    assert trace.info().warnings == []
    frames = trace.read()
    columns = ["time_ns", "ctx_level", "small", "odd", "name", "ratio", "words", "pair", "mood"]
    assert frames["sample"].select(columns).rows() == [
        (
            # A minute is less than 2^32 cycles, so the timestamp's 32 bits reveal every wrap.
            time_ns((i + 1) * MINUTE),
            i % 3,
            i % 8,
            i * 100 - 1000,
            f"name {i}",
            # barectf 3.1.2 takes the value of a 64-bit real through an integer parameter.
            float(i // 4),
            [i * 1000, 65535, 7][: i % 4],
            [-i, 2147483647],
            {"value": i % 8, "label": label(i % 8)},
        )
        for i in range(20)
    ]
    assert frames["tick"]["count"].to_list() == [2**64 - 256 + i for i in (0, 5, 10, 15)]


def test_babeltrace_reads_the_same() -> None:
    ours = open_trace(TRACE).read()
    theirs = babeltrace.read(TRACE)
    assert list(theirs) == list(ours)
    for event, frame in theirs.items():
        # babeltrace2 converts the cycles of a 24 MHz clock with doubles.
        assert_frame_equal(ours[event].drop("time_ns"), frame.drop("time_ns"))
