"""Test that LTTng's index files never change what is read, and help if headers are damaged.

Truth: the same trace without an index, and what our writer put where.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from tests.ctf import ctf_writer as w

from roslens.collectors.reader import TraceInfo, open_trace

EVENT = w.Event("p:e", 0, w.structure({"n": w.integer(32)}))
PACKETS = 5
PER_PACKET = 3


def make(*, gaps: bool = False) -> w.Stream:
    trace = w.TraceWriter([EVENT])
    stream = w.Stream(trace, instance=3, cpu=1)
    for number in range(PACKETS * PER_PACKET):
        stream.event(EVENT, 1_000 + number * 10, {"n": number}, {})
        if number % PER_PACKET == PER_PACKET - 1:
            lost = int(gaps and number > 7)
            stream.packet(padding=number % 4, discarded=lost, skipped=lost)
    return stream


def save(root: Path, stream: w.Stream, data: bytes | None = None, index: bytes | None = None):
    stream.trace.save(root)
    (root / "s").write_bytes(bytes(stream.data) if data is None else data)
    path = root / "index" / "s.idx"
    path.parent.mkdir(exist_ok=True)
    if index is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(index)
    return root


def read(root: Path) -> tuple[list[int], TraceInfo]:
    trace = open_trace(root)
    return trace.read()["p:e"]["n"].to_list(), trace.info()


def same_as_without(root: Path, stream: w.Stream, index: bytes) -> list[str]:
    """Return the warnings that appear only with the index, and check that all else is equal."""
    numbers, with_index = read(save(root, stream, index=index))
    expected, without = read(save(root, stream))
    assert numbers == expected
    assert_frame_equal(with_index.losses, without.losses)
    assert not set(without.warnings) - set(with_index.warnings)
    return [text for text in with_index.warnings if text not in without.warnings]


@pytest.mark.parametrize("minor", [0, 1])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_true_index_changes_nothing(tmp_path, minor, gaps):
    stream = make(gaps=gaps)
    assert same_as_without(tmp_path, stream, w.index(stream.entries, minor)) == []


def changed(entry: int, word: int, value: int) -> bytes:
    entries = [list(entry) for entry in make().entries]
    entries[entry][word] = value
    return w.index(entries)


WRONG = {
    "no index": (b"this is no index, but a text", "magic number"),
    "empty": (b"", "ends inside its header"),
    "torn": (w.index(make().entries)[:-7], "ends inside an entry"),
    "torn at an entry": (w.index(make().entries[:-1]), "entries end before the packet"),
    "version 2": (w.index(make().entries).replace(b"\1\0\0\0\1\0", b"\2\0\0\0\1\0", 1), "version"),
    "overlap": (changed(2, 0, make().entries[2][0] - 1), "overlaps the one before"),
    "out of range": (changed(4, 0, 2**40), "entry 4 is not that of its packet"),
    "size": (changed(1, 1, 2**63), "a packet of"),
    "times": (changed(1, 3, 2**62), "begins at"),
    "other times": (changed(1, 3, 1), "entry 1 is not that of its packet"),
    "other number": (changed(3, 8, 7), "entry 3 is not that of its packet"),
    "other count": (changed(0, 5, 7), "entry 0 is not that of its packet"),
    "other stream": (changed(0, 6, 7), "entry 0 is not that of its packet"),
    "more packets": (w.index([*make().entries, [2**40, 80, 80, 2000, 2000, 0, 0, 3, 5]]), "follow"),
    "of another trace": (w.index(make(gaps=True).entries), "is not that of its packet"),
    "huge": (w.index(make().entries) + bytes(2 << 20), "more than its stream has"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_index_is_not_used_and_told(tmp_path, name):
    index, expected = WRONG[name]
    stream = make()
    warnings = same_as_without(tmp_path, stream, index)
    assert len(warnings) == 1
    assert warnings[0].startswith("index/s.idx: not used: ")
    assert expected in warnings[0]


@pytest.mark.parametrize("minor", [2, 0x0100_0001])
def test_a_later_minor_version_is_used(tmp_path, minor):
    stream = make()
    index = bytearray(w.index(stream.entries))
    index[8:12] = minor.to_bytes(4, "big")
    assert same_as_without(tmp_path, stream, bytes(index)) == []


@pytest.mark.parametrize("packet", range(PACKETS))
def test_a_damaged_head_costs_its_packet_only(tmp_path, packet):
    stream = make()
    data = bytearray(stream.data)
    data[stream.entries[packet][0]] ^= 0xFF
    root = save(tmp_path, stream, bytes(data), w.index(stream.entries))
    numbers, info = read(root)
    assert numbers == [n for n in range(PACKETS * PER_PACKET) if n // PER_PACKET != packet]
    assert len(info.warnings) == 1 + (packet == 0)
    assert "not a CTF packet" in info.warnings[0]
    # If the first packet is lost, the others' sequence numbers show it.
    kind = "lost_packets" if packet else "missing_head"
    assert info.losses.select("kind", "count").rows() == [(kind, 1)]
    begin, end = info.losses.select("begin_ns", "end_ns").row(0)
    # The loss lies between the events before and after; at the file's end, the index gives the
    # time.
    first, last = 1_000 + 30 * packet, 1_020 + 30 * packet
    assert begin == (None if packet == 0 else first - 10)
    assert end == (last if packet == PACKETS - 1 else last + 10)


@pytest.mark.parametrize("size", [1, -8, 1 << 20])
def test_a_damaged_size_costs_its_packet_at_most(tmp_path, size):
    """The header of the second packet states a size that leads astray."""
    stream = make()
    start, total = stream.entries[1][:2]
    data = bytearray(stream.data)
    # packet_size lies after the magic, UUID, stream and instance numbers, times, content_size.
    at = start + 56
    assert int.from_bytes(data[at : at + 8], "little") == total
    data[at : at + 8] = (total + size * 8 + 256).to_bytes(8, "little")
    numbers, info = read(save(tmp_path, stream, bytes(data), w.index(stream.entries)))
    assert numbers == list(range(PACKETS * PER_PACKET))
    assert info.warnings


def test_what_is_gone_at_the_end_is_counted(tmp_path):
    """Cut at any byte, the index still tells how many packets there were, and until when."""
    stream = make()
    index = w.index(stream.entries)
    ends = [offset + total // 8 for offset, total, *_ in stream.entries]
    head = stream.trace.head_bits // 8
    for cut in range(head, len(stream.data)):
        numbers, info = read(save(tmp_path, stream, bytes(stream.data[:cut]), index))
        without, _ = read(save(tmp_path, stream, bytes(stream.data[:cut])))
        assert numbers == without
        lost = info.losses.filter(info.losses["kind"] == "lost_packets")
        # These are the packets of which not even the header is left.
        missing = sum(offset + head > cut for offset, *_ in stream.entries)
        assert lost["count"].to_list() == ([missing] if missing else [])
        assert lost["end_ns"].to_list() == ([1_140] if missing else [])
        if missing:
            assert lost["begin_ns"].to_list() == [stream.entries[-missing - 1][4]]
    assert ends[-1] == len(stream.data)


def test_an_empty_file_with_an_index(tmp_path):
    stream = make()
    root = save(tmp_path, stream, b"", w.index(stream.entries))
    numbers, info = read(root)
    assert numbers == []
    assert info.losses.select("kind", "count").rows() == [("lost_packets", PACKETS)]
    _, without = read(save(tmp_path, stream, b""))
    assert without.losses.height == 0


def two_streams(root: Path) -> Path:
    """Make streams s (instance 3) and t (instance 4) with indexes; one event of t is later."""
    save(root, make(), index=w.index(make().entries))
    second = w.Stream(make().trace, instance=4, cpu=0)
    second.event(EVENT, 1_005, {"n": 100}, {})
    second.event(EVENT, 2_000, {"n": 101}, {})
    second.packet()
    (root / "t").write_bytes(bytes(second.data))
    (root / "index" / "t.idx").write_bytes(w.index(second.entries))
    return root


def test_a_stream_file_that_is_missing_is_told_of(tmp_path):
    """Its index counts and dates the loss: from the first packet's begin to the last one's end."""
    root = two_streams(tmp_path)
    assert read(root)[1].losses.height == 0
    (root / "s").unlink()
    numbers, info = read(root)
    assert numbers == [100, 101]
    first, last = make().entries[0], make().entries[-1]
    columns = ("stream", "kind", "count", "begin_ns", "end_ns")
    assert info.losses.select(columns).rows() == [
        ("s", "missing_stream", PACKETS, first[3], last[4])
    ]
    assert info.warnings == [
        f"s: this stream file is not there; its index tells of {PACKETS} packets, all of them lost"
    ]


def test_no_stream_file_at_all(tmp_path):
    root = two_streams(tmp_path)
    for name in ("s", "t"):
        (root / name).unlink()
    numbers, info = read(root)
    assert numbers == []
    assert info.losses["count"].to_list() == [PACKETS, 1]


def test_streams_copied_without_their_index_are_whole(tmp_path):
    root = two_streams(tmp_path)
    shutil.rmtree(root / "index")
    _, info = read(root)
    assert info.losses.height == 0
    assert info.warnings == []


def test_an_index_that_is_damaged_still_tells_that_its_stream_is_missing(tmp_path):
    root = two_streams(tmp_path)
    (root / "s").unlink()
    (root / "index" / "s.idx").write_bytes(b"no index")
    _, info = read(root)
    assert len(info.warnings) == 1
    assert "s: this stream file is not there; its index is no use" in info.warnings[0]
    columns = ("stream", "kind", "count", "begin_ns", "end_ns")
    assert info.losses.select(columns).rows() == [("s", "missing_stream", None, None, None)]
