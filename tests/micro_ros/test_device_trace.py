"""Test reading a device's CTF trace, as barectf's generated code lays it out."""

from __future__ import annotations

import struct
from pathlib import Path

import polars as pl
import pytest

from roslens.collectors.reader import open_trace

METADATA = Path(__file__).with_name("device.tsdl")
PACKET_BYTES = 512
NS_PER_TICK = 40


def packet(order: str, begin: int, events: list[tuple[int, int, bytes]]) -> bytes:
    """Make a packet from id, ticks and payload of each event; the header is that of device.tsdl."""
    body = b"".join(
        struct.pack(f"{order}BI", number, ticks & 0xFFFFFFFF) + payload
        for number, ticks, payload in events
    )
    end = max([begin, *(ticks for _, ticks, _ in events)])
    content = 8 * (33 + len(body))
    header = struct.pack(f"{order}IBQQIII", 0xC1FC1FC1, 0, begin, end, content, 8 * PACKET_BYTES, 3)
    return (header + body).ljust(PACKET_BYTES, b"\0")


@pytest.mark.parametrize(("order", "name"), [("<", "le"), (">", "be")])
def test_both_byte_orders_and_a_32_bit_counter_that_wraps(
    tmp_path: Path, order: str, name: str
) -> None:
    text = METADATA.read_text().replace("byte_order = le", f"byte_order = {name}")
    text = text.replace("@SECONDS@", "1700000000").replace("@TICKS@", "25")
    (tmp_path / "metadata").write_text(text)
    # 2^32 ticks are 171.8 s: the second allocation is beyond the wrap.
    ticks = [2**32 - 100, 2**32 + 50, 2**32 + 70]
    allocations = [
        (1, ticks[0], struct.pack(f"{order}II", 0x20001000, 40)),
        (1, ticks[1], struct.pack(f"{order}II", 0x20002000, 24)),
    ]
    created = (0, ticks[2], struct.pack(f"{order}BHI", 2, 7, 184))
    (tmp_path / "stream").write_bytes(
        packet(order, ticks[0], allocations) + packet(order, ticks[2], [created])
    )
    trace = open_trace(tmp_path)
    frames = {event: frame.lazy().collect() for event, frame in trace.read().items()}
    frame = frames["device:allocation"]
    assert frame.select("address", "size").rows() == [(0x20001000, 40), (0x20002000, 24)]
    begin_ns = 1_700_000_000 * 10**9 + 25 * NS_PER_TICK
    assert frame["time_ns"].to_list() == [begin_ns + NS_PER_TICK * t for t in ticks[:2]]
    (row,) = frames["device:entity_created"].select("kind", "number", "bytes").rows()
    assert row == (2, 7, 184)
    losses = trace.info().losses
    # The counter of discarded events says 3 from the first packet on.
    discarded = losses.filter(pl.col("kind") == "discarded_events")
    assert discarded["count"].sum() == 3
