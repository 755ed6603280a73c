"""Test times of CTF 1.8 traces that map none to a clock. Oracle: babeltrace2, and by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.oracle import babeltrace

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError

U = "integer {{ size = {}; align = 8; }}".format
CLOCK = "clock {{ name = {}; freq = 1000; offset_s = 100; }};".format
BEGIN = 5 << 32


def trace(root: Path, clocks: str) -> Path:
    """Write one packet of two events, with 32-bit times in their headers."""
    (root / "metadata").write_text(
        f"""/* CTF 1.8 */
trace {{ major = 1; minor = 8; byte_order = le; }};
{clocks}
stream {{
  packet.context := struct {{
    {U(64)} timestamp_begin; {U(64)} timestamp_end; {U(64)} content_size; {U(64)} packet_size;
  }};
  event.header := struct {{ {U(8)} id; {U(32)} timestamp; }};
}};
event {{ name = e; id = 0; fields := struct {{ {U(8)} x; }}; }};
"""
    )
    events = struct.pack("<BIB", 0, 10, 7) + struct.pack("<BIB", 0, 20, 8)
    size = (32 + len(events)) * 8
    (root / "s").write_bytes(struct.pack("<4Q", BEGIN, BEGIN + 20, size, size) + events)
    return root


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        ("", [BEGIN + 10, BEGIN + 20]),
        (CLOCK("c"), [(BEGIN + at) * 10**6 + 100 * 10**9 for at in (10, 20)]),
    ],
)
def test_times_that_name_no_clock(tmp_path: Path, clocks: str, expected: list[int]) -> None:
    """By CTF 1.8.3, section 8, they count nanoseconds, or belong to the only clock."""
    root = trace(tmp_path, clocks)
    opened = open_trace(root)
    assert opened.read()["e"]["time_ns"].to_list() == expected
    assert opened.info().begin_ns == expected[0]
    # babeltrace2 uses floating-point numbers if a clock is not of 1 GHz.
    assert babeltrace.read(root)["e"]["time_ns"].to_list() == pytest.approx(expected, abs=10)


def test_several_clocks_are_not_guessed_at(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not say which of the 2 clocks"):
        open_trace(trace(tmp_path, CLOCK("c") + CLOCK("d")))
