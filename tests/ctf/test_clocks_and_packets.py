"""Test byte orders of metadata packets, and clocks of any frequency and offset, by hand."""

from __future__ import annotations

import pytest
from tests.ctf import ctf_writer as w

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
    ("frequency", "cycles", "expected"),
    [
        (1_000, 1_234, 1_234_000_000),
        (3, 1, 333_333_333),
        (2_400_000_000, 24, 10),
        # 2^62 cycles at 24 MHz, computed by hand with integers: doubles would be off by 8 ns.
        (24_000_000, 1 << 57, (1 << 57) * 1000 // 24),
    ],
)
def test_clocks_of_other_frequencies_are_exact(tmp_path, frequency, cycles, expected):
    event = w.Event("p:e", 0, w.structure({"x": w.integer(8)}))
    trace = w.TraceWriter([event], frequency=frequency)
    stream = w.Stream(trace)
    stream.event(event, cycles, {"x": 7}, {})
    stream.packet()
    assert open_trace(trace.save(tmp_path, s=stream)).read()["p:e"]["time_ns"].to_list() == [
        expected
    ]


def test_negative_clock_offsets(tmp_path):
    event = w.Event("p:e", 0, w.structure({"x": w.integer(8)}))
    trace = w.TraceWriter([event], offset=-500)
    stream = w.Stream(trace)
    stream.event(event, 2_000, {"x": 7}, {})
    stream.packet()
    assert open_trace(trace.save(tmp_path, s=stream)).read()["p:e"]["time_ns"].to_list() == [1_500]
