"""Test several traces as one time line: hosts, differing columns, order. Values by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.ctf import ctf_writer as w
from tests.oracle import babeltrace
from tests.programs import roslens

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError


def write(root: Path, payload: w.Class, rows: list[tuple[int, dict]], **options: object) -> None:
    context = options.pop("context", None)
    own_values = options.pop("own", {})
    event = w.Event("p:e", 0, payload, context)
    trace = w.TraceWriter([event], **options)
    stream = w.Stream(trace)
    for cycles, values in rows:
        stream.event(event, cycles, values, {}, own_values)
    stream.packet()
    trace.save(root, s=stream)


def check_engines(root: Path) -> pl.DataFrame:
    ours = open_trace(root).read()["p:e"]
    assert_frame_equal(ours, babeltrace.read(root)["p:e"], check_exact=True)
    return ours


def test_rows_are_merged_by_time_then_trace(tmp_path):
    payload = w.structure({"n": w.integer(32)})
    write(tmp_path / "b", payload, [(10, {"n": 1}), (20, {"n": 2}), (20, {"n": 3})])
    write(tmp_path / "a" / "ust", payload, [(5, {"n": 4}), (20, {"n": 5}), (30, {"n": 6})])
    frame = check_engines(tmp_path)
    assert frame["n"].to_list() == [4, 1, 5, 2, 3, 6]
    assert frame["trace"].to_list() == ["a/ust", "b", "a/ust", "b", "b", "a/ust"]


def test_hosts_are_labelled_by_name(tmp_path):
    payload = w.structure({"n": w.integer(8)})
    for number, (folder, hostname) in enumerate(zip("abcd", ["x", "y", "x", None], strict=True)):
        write(tmp_path / folder, payload, [(1, {"n": number})], hostname=hostname)
    frame = check_engines(tmp_path)
    assert frame["host"].to_list() == ["h0", "h1", "h0", "h2"]
    assert open_trace(tmp_path).info().hosts == ["h0", "h1", "h2"]


def test_columns_are_united(tmp_path):
    first = w.structure({"n": w.integer(32), "gone": w.integer(8), "t": w.text(), "f": w.real(32)})
    second = w.structure(
        {"n": w.integer(16, True), "t": w.integer(8), "new": w.text(), "f": w.real(64)}
    )
    write(tmp_path / "a", first, [(1, {"n": 2**32 - 1, "gone": 7, "t": "text", "f": 0.5})])
    write(tmp_path / "b", second, [(2, {"n": -3, "t": 8, "new": "x", "f": 0.1})])
    frame = check_engines(tmp_path)
    assert frame.schema["n"] == pl.Int64()
    assert frame.schema["f"] == pl.Float64()
    assert frame.select("n", "gone", "t", "f", "t_2", "new").rows() == [
        (2**32 - 1, 7, "text", 0.5, None, None),
        (-3, None, None, 0.1, 8, "x"),
    ]


def test_names_that_are_taken(tmp_path):
    payload = w.structure(
        {"vpid": w.integer(32), "time_ns": w.integer(64), "ctx_ip": w.integer(8), "host": w.text()}
    )
    context_class = w.structure(
        {"ip": w.integer(64), "cpu_id": w.integer(16), "procname": w.integer(8)}
    )
    values = {"vpid": 1, "time_ns": 2, "ctx_ip": 3, "host": "there"}
    context = {"ip": 2**64 - 1, "cpu_id": 9, "procname": 4}
    write(tmp_path, payload, [(1, values)], context=context_class, own=context)
    row = check_engines(tmp_path).row(0, named=True)
    assert row == {
        "time_ns": 1,
        "host": "h0",
        "trace": ".",
        "cpu_id": 0,
        "vpid": None,
        "vtid": None,
        "procname": None,
        "ctx_ip": 2**64 - 1,
        "ctx_cpu_id": 9,
        "ctx_procname": 4,
        "field_vpid": 1,
        "field_time_ns": 2,
        "field_ctx_ip": 3,
        "field_host": "there",
    }


@pytest.mark.parametrize("threads", [1, 2])
def test_events_before_their_packet_are_sorted_all_the_same(tmp_path, threads):
    """A packet's stated beginning is a hint: a wrong one must not spoil the order."""
    # Numbers this large take the extended header, whose timestamps are whole.
    event = w.Event("p:e", 70_000, w.structure({"n": w.integer(8)}))
    trace = w.TraceWriter([event])
    streams = {}
    for number in range(2):
        stream = streams[f"s{number}"] = w.Stream(trace, instance=number)
        for n in range(12):
            stream.event(event, 1_000 * (n + 1) + number, {"n": n * 2 + number}, {})
            # The padding is so large that the packets do not all fall into one slice.
            stream.packet(padding=1 << 20)
    root = trace.save(tmp_path, **streams)
    data = bytearray((root / "s1").read_bytes())
    size = len(data) // 12
    for packet in range(12):
        # timestamp_begin lies after the magic, UUID, stream and instance numbers.
        at = packet * size + 32
        begin = int.from_bytes(data[at : at + 8], "little")
        assert begin == 1_000 * (packet + 1) + 1
        data[at : at + 8] = (begin + 5_000).to_bytes(8, "little")
    (root / "s1").write_bytes(bytes(data))
    frame = open_trace(root).read(threads=threads)["p:e"]
    assert frame["n"].to_list() == list(range(24))


def test_events_without_provider_go_to_the_folder_of_their_domain(tmp_path):
    event = w.Event("sched_switch", 0, w.structure({"n": w.integer(8)}))
    hostile = w.Event("a/../b: c", 1, w.structure({"n": w.integer(8)}))
    trace = w.TraceWriter([event, hostile])
    stream = w.Stream(trace)
    stream.event(event, 1, {"n": 1}, {})
    stream.event(hostile, 2, {"n": 2}, {})
    stream.packet()
    root = trace.save(tmp_path / "trace", s=stream)
    open_trace(root).write_events(tmp_path / "events")
    paths = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.parquet"))
    assert paths == ["events/a_.._b/_c.parquet", "events/ust/sched_switch.parquet"]


def snapshots(root: Path) -> None:
    """Write two parts of a recording: the second repeats the first packet, and has one more."""
    event = w.Event("p:e", 0, w.structure({"n": w.integer(32)}))
    trace = w.TraceWriter([event])
    stream = w.Stream(trace)
    sizes = []
    for n in range(3):
        stream.event(event, 100 * (n + 1), {"n": n}, {})
        stream.packet(discarded=n)
        sizes.append(len(stream.data))
    whole = bytes(stream.data)
    for name, part in (("one", whole[: sizes[1]]), ("two", whole[sizes[0] :])):
        trace.save(root / name)
        (root / name / "s").write_bytes(part)


def test_a_packet_that_two_snapshots_hold_is_read_once(tmp_path):
    snapshots(tmp_path)
    trace = open_trace(tmp_path)
    frame = trace.read()["p:e"]
    assert frame["n"].to_list() == [0, 1, 2]
    assert frame["trace"].to_list() == ["one", "one", "two"]
    info = trace.info()
    assert info.discarded_events == 1 + 2
    assert set(info.losses["kind"]) == {"discarded_events"}
    assert ["two: 1 packets that another part" in warning for warning in info.warnings] == [True]


def test_equal_numbers_but_other_bytes_are_other_packets(tmp_path):
    snapshots(tmp_path)
    data = bytearray((tmp_path / "two" / "s").read_bytes())
    at = data.index((1).to_bytes(4, "little"), w.TraceWriter([]).head_bits // 8)
    data[at] = 9
    (tmp_path / "two" / "s").write_bytes(data)
    assert open_trace(tmp_path).read()["p:e"]["n"].to_list() == [0, 1, 9, 2]


def two_hosts(root: Path, frequency: int = 1_000_000_000) -> list[Path]:
    payload = w.structure({"n": w.integer(8)})
    write(root / "a", payload, [(10, {"n": 0}), (30, {"n": 1})], hostname="x", frequency=frequency)
    write(root / "b", payload, [(15, {"n": 2}), (25, {"n": 3})], hostname="y", frequency=frequency)
    return [root / "a", root / "b"]


def both(root: Path, frequency: int = 1_000_000_000) -> Path:
    two_hosts(root, frequency)
    return root


def test_what_is_added_may_change(tmp_path):
    """By hand: the offset is 0 until 15, 40 from 25 on, and linear between, also for packets."""
    points = [(15, 0), (25, 40)]
    trace = open_trace(both(tmp_path), clock_offsets={"x": points, "y": points})
    frame = trace.read()["p:e"]
    assert dict(frame.select("n", "time_ns").iter_rows()) == {0: 10, 2: 15, 3: 65, 1: 70}
    assert frame["time_ns"].is_sorted()
    assert trace.span == (10, 70)


@pytest.mark.parametrize("name", ["y", "h1"])
@pytest.mark.parametrize("offset", [10, -1_500_000_000_000, 3_999_999_999])
def test_the_clock_of_a_host_is_set(tmp_path, name, offset):
    trace = open_trace(both(tmp_path), clock_offsets={name: offset})
    frame = trace.read()["p:e"]
    times = {10: 0, 30: 1, 15 + offset: 2, 25 + offset: 3}
    assert dict(frame.select("time_ns", "n").iter_rows()) == times
    assert frame["time_ns"].is_sorted()
    assert trace.span == (min(times), max(times))


def test_a_slow_clock_is_set_as_exactly_as_it_can_be(tmp_path):
    """At 1 MHz a cycle is 1,000 ns; offsets are rounded down, as times are."""
    trace = open_trace(both(tmp_path, 1_000_000), clock_offsets={"y": -2_000_000_500})
    times = trace.read()["p:e"].filter(pl.col("host") == "h1")["time_ns"]
    assert times.to_list() == [15_000 - 2_000_001_000, 25_000 - 2_000_001_000]


def test_the_clock_of_nobody(tmp_path):
    with pytest.raises(UsageError, match=r"no host 'z' in these traces; .* one of: h0, h1"):
        open_trace(both(tmp_path), clock_offsets={"z": 1})


def test_collect_merges(tmp_path):
    """The command makes one output with one time line, and repeats it when the offset changes."""
    paths = two_hosts(tmp_path)
    out = tmp_path / "out"

    def collect(*more: str | Path) -> subprocess.CompletedProcess[str]:
        return roslens("collect", *paths, "--merge", *more)

    assert collect().returncode == 2
    assert collect("-o", out, "--clock-offset", "y").returncode == 2
    for offset, order in (("-10", [2, 0, 3, 1]), ("0", [0, 2, 3, 1])):
        done = collect("-o", out, "--clock-offset", f"y={offset}")
        assert done.returncode == 0, done.stderr
        frame = pl.read_parquet(out / "events" / "p" / "e.parquet")
        assert frame["n"].to_list() == order
    assert set(frame["trace"]) == {"0_a", "1_b"}
    # No message between these hosts was recorded.
    done = collect("-o", out, "--clock-offset", "auto")
    assert done.returncode == 3
    assert "no message between them" in done.stderr
    assert collect("-o", out, "--clock-offset", "auto", "--clock-offset", "y=1").returncode == 2
    assert "up to date" in collect("-o", out, "--clock-offset", "y=0").stdout


def test_collect_sets_clocks_by_messages(tmp_path):
    """Truth: the other host's clock is 7 s ahead; messages take 300 ns there and 500 ns back."""
    ahead, delays = 7_000_000_000, {"x": 300, "y": 500}
    pointer, stamp = w.integer(64), w.integer(64, signed=True)
    context = w.structure({"vpid": w.integer(32, True), "vtid": w.integer(32, True)})
    publish = w.Event(
        "ros2:rmw_publish", 0, w.structure({"rmw_publisher_handle": pointer, "timestamp": stamp})
    )
    take = w.Event(
        "ros2:rmw_take",
        1,
        w.structure(
            {
                "rmw_subscription_handle": pointer,
                "source_timestamp": stamp,
                "taken": w.integer(32, True),
            }
        ),
    )
    rows: dict[str, list] = {"x": [], "y": []}
    for number in range(20):
        sender, receiver = ("x", "y") if number % 2 else ("y", "x")
        at = 1_000_000 * (number + 1)
        sent = {"rmw_publisher_handle": 1, "timestamp": 10**9 + number}
        got = {"rmw_subscription_handle": 2, "source_timestamp": 10**9 + number, "taken": 1}
        rows[sender].append((at, publish, sent))
        rows[receiver].append((at + delays[sender] + number // 2, take, got))
    for host, events in rows.items():
        clock = ahead if host == "y" else 0
        trace = w.TraceWriter([publish, take], context=context, hostname=host)
        stream = w.Stream(trace)
        for at, event, values in sorted(events, key=lambda row: row[0]):
            stream.event(event, at + clock, values, {"vpid": 5, "vtid": 5})
        stream.packet()
        trace.save(tmp_path / host, s=stream)
    out = tmp_path / "out"
    merge = ("--merge", "-o", out, "--clock-offset", "auto")
    for again in (False, True):
        done = roslens("collect", tmp_path / "x", tmp_path / "y", *merge)
        assert done.returncode == 0, done.stderr
        assert "by 10 messages to it and 10 from it; taken off" in done.stdout
        assert ("up to date" in done.stdout) == again
    taken = pl.read_parquet(out / "events" / "ros2" / "rmw_take.parquet")
    times = taken.filter(pl.col("host") == "h1").sort("time_ns")["time_ns"]
    # Offsets from -500 to +300 ns are possible, and within 18 ms 18 us more.
    assert abs(times[0] - (2_000_000 + 300)) < 20_000
