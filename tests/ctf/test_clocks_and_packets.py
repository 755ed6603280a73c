"""Test metadata packets, clocks, and times that are of none, by hand; oracle: babeltrace2."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.ctf import ctf_writer as w
from tests.oracle import babeltrace

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError


@pytest.mark.parametrize("order", ["little", "big"])
def test_metadata_in_packets_of_either_byte_order(tmp_path, order):
    event = w.Event("p:e", 0, w.structure({"x": w.integer(8)}))
    trace = w.TraceWriter([event], order=f"{order}-endian")
    stream = w.Stream(trace)
    stream.event(event, 5, {"x": 7}, {})
    stream.packet()
    trace.save(tmp_path, s=stream)
    (tmp_path / "metadata").write_bytes(w.packetized(trace.metadata(), order))
    assert open_trace(tmp_path).read()["p:e"]["x"].to_list() == [7]
    swapped = {"little": "big", "big": "little"}[order]
    (tmp_path / "metadata").write_bytes(w.packetized(trace.metadata(), swapped))
    with pytest.raises(UsageError, match="not of the byte order"):
        open_trace(tmp_path)


@pytest.mark.parametrize(
    ("clock", "cycles", "expected"),
    [
        ({"frequency": 1_000}, 1_234, 1_234_000_000),
        ({"frequency": 3}, 1, 333_333_333),
        ({"frequency": 2_400_000_000}, 24, 10),
        # 2^62 cycles at 24 MHz, computed by hand with integers: doubles would be off by 8 ns.
        ({"frequency": 24_000_000}, 1 << 57, (1 << 57) * 1000 // 24),
        ({"offset": -500}, 2_000, 1_500),
    ],
)
def test_clocks_of_other_frequencies_and_offsets_are_exact(tmp_path, clock, cycles, expected):
    event = w.Event("p:e", 0, w.structure({"x": w.integer(8)}))
    trace = w.TraceWriter([event], **clock)
    stream = w.Stream(trace)
    stream.event(event, cycles, {"x": 7}, {})
    stream.packet()
    assert open_trace(trace.save(tmp_path, s=stream)).read()["p:e"]["time_ns"].to_list() == [
        expected
    ]


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
