"""Test parts of a trace (streams, projections, windows) against the whole, read at once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from tests.ctf import ctf_writer as w

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError

A = w.Event("p:a", 0, w.structure({"n": w.integer(32), "text": w.text()}))
B = w.Event("p:b", 1, w.structure({"n": w.integer(64), "gid": w.array(w.integer(8), 4)}))
COMMON = w.structure({"vpid": w.integer(32, True), "procname": w.chars(17)})
PACKETS = 40


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two streams with alternating events, many packets, and two kinds of event."""
    trace = w.TraceWriter([A, B], context=COMMON)
    streams = {}
    for cpu in range(2):
        stream = streams[f"s{cpu}"] = w.Stream(trace, instance=cpu, cpu=cpu)
        for number in range(PACKETS * 5):
            name = f"process_with_a_{'xyz'[number % 3]}"
            common = {"vpid": 7 + number % 3, "procname": name}
            time = 1_000 * number + 500 * cpu
            if number % 2:
                stream.event(A, time, {"n": number, "text": "t" * (number % 7)}, common)
            else:
                stream.event(B, time, {"n": 2**63 + number, "gid": [number % 256] * 4}, common)
            if number % 5 == 4:
                stream.packet(padding=3)
    return trace.save(tmp_path_factory.mktemp("trace"), **streams)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_arrow_stream_holds_what_read_gives(root, threads):
    trace = open_trace(root)
    everything = trace.read()
    for name, frame in everything.items():
        stream = pa.RecordBatchReader.from_stream(trace.arrow(name, threads=threads))
        assert_frame_equal(pl.DataFrame(stream.read_all()), frame)
    batches = {}
    for name, batch in trace.stream(threads=threads):
        batches.setdefault(name, []).append(batch)
    for name, frame in everything.items():
        assert_frame_equal(pl.concat(batches[name]), frame)


def test_a_stream_is_read_once_and_holds_one_event(root):
    trace = open_trace(root)
    stream = trace.arrow("p:a")
    assert pl.DataFrame(stream).height > 0
    with pytest.raises(ValueError, match="has been read"):
        pl.DataFrame(stream)
    with pytest.raises(UsageError, match="no event 'p:c' is declared"):
        trace.arrow("p:c")


def test_a_stream_may_be_left_early(root):
    stream = open_trace(root).stream()
    name, batch = next(stream)
    assert name in {"p:a", "p:b"}
    assert batch.height > 0
    stream.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_while_progress_is_told_ends_all_threads(root, tmp_path, threads):
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        open_trace(root).write_events(tmp_path, threads=threads, progress=fail)
    assert not list(tmp_path.rglob("*.parquet*"))


def test_fields_are_chosen(root):
    trace = open_trace(root)
    everything = trace.read()
    chosen = trace.read(fields=["text", "vpid", "no_such", "n"])
    assert chosen["p:a"].columns == ["time_ns", "vpid", "n", "text"]
    assert chosen["p:b"].columns == ["time_ns", "vpid", "n"]
    for name, frame in chosen.items():
        assert_frame_equal(frame, everything[name].select(frame.columns))


def test_columns_that_every_class_has_are_never_null(root):
    schema = pa.RecordBatchReader.from_stream(open_trace(root).arrow("p:a")).schema
    nullable = {field.name for field in schema if field.nullable}
    # No context names the thread, and a packet may not name its CPU.
    assert nullable == {"vtid", "cpu_id"}


@pytest.mark.parametrize("threads", [1, 2])
def test_any_window_is_what_a_filter_gives(root, threads):
    """Windows begin and end within packets, at events, between them, and outside."""
    trace = open_trace(root)
    everything = trace.read()["p:a"]
    times = everything["time_ns"]
    first, last = times[0], times[-1]
    for begin, end in [
        (first, last),
        (first + 7_000, first + 7_500),
        (first + 7_001, first + 33_333),
        (first - 10, first),
        (last, last + 10),
        (last + 1, last + 10),
        (first + 9_000, first + 8_000),
    ]:
        window = trace.read(["p:a"], begin_ns=begin, end_ns=end, threads=threads)["p:a"]
        assert_frame_equal(window, everything.filter(times.is_between(begin, end)))


@pytest.mark.parametrize("size", [1, 500, 10**9])
def test_windows_are_the_whole_time_cut_up(root, size):
    trace = open_trace(root)
    windows = trace.windows(size=size)
    assert windows[0][0] is None
    assert windows[-1][1] is None
    for (_, end), (begin, _) in pairwise(windows):
        assert begin == end + 1
    assert (len(windows) == 1) == (size == 10**9)
    parts = [trace.read(["p:b"], begin_ns=b, end_ns=e)["p:b"] for b, e in windows]
    assert_frame_equal(pl.concat(parts), trace.read(["p:b"])["p:b"])


def test_a_window_does_not_read_packets_outside(root, tmp_path):
    """A damaged packet outside of the window does no harm and is not reported."""
    for path in root.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    data = bytearray((tmp_path / "s0").read_bytes())
    last = data.rindex((0xC1FC1FC1).to_bytes(4, "little"))
    # This is the event number that begins the last packet's events.
    data[last + w.TraceWriter([A]).head_bits // 8] = 77
    (tmp_path / "s0").write_bytes(data)
    damaged, whole = open_trace(tmp_path), open_trace(root)
    assert damaged.info().losses["kind"].to_list() == ["truncated"]
    until = damaged.info().losses["begin_ns"][0] - 1
    info = damaged.write_events(tmp_path / "e", end_ns=until, names=["p:a"])
    assert info.losses.height == 0
    assert info.events == whole.read(["p:a"], end_ns=until)["p:a"].height
