"""Test merging recordings of two hosts, against the clocks and delays they are made with."""

import json
from pathlib import Path

import polars as pl
import pytest
from test_errors import check_one_line
from tests.ctf import ctf_writer as w

from roslens.collectors.clock_logs import SYSTEM_CLOCK_NS, read_logs
from roslens.collectors.clocks import read_clocks
from roslens.recording import Recording, UsageError
from roslens.recording.manifest import Host, Loss, Manifest, TracingSettings, write_manifest
from roslens.recordings import open as open_recordings

POINTER, STAMP, SIGNED = w.integer(64), w.integer(64, signed=True), w.integer(32, True)
CONTEXT = w.structure({"vpid": SIGNED, "vtid": SIGNED})
PUBLISH = w.Event(
    "ros2:rmw_publish", 0, w.structure({"rmw_publisher_handle": POINTER, "timestamp": STAMP})
)
TAKE = w.Event(
    "ros2:rmw_take",
    1,
    w.structure({"rmw_subscription_handle": POINTER, "source_timestamp": STAMP, "taken": SIGNED}),
)
SECOND = 1_000_000_000


def ahead(time: int) -> int:
    """Return how far the second host's clock is ahead: 7 s, and 50 ppm fast."""
    return 7 * SECOND + time * 50 // 1_000_000


def recorded(folder: Path, events: list[tuple[int, w.Event, dict[str, int]]], name: str) -> None:
    """Write a synthetic recording: ``trace/ust/uid/0/64-bit`` and a manifest."""
    trace = w.TraceWriter([PUBLISH, TAKE], context=CONTEXT, hostname=name)
    stream = w.Stream(trace)
    for time, event, values in sorted(events, key=lambda row: row[0]):
        stream.event(event, time, values, {"vpid": 5, "vtid": 5})
    stream.packet()
    trace.save(folder / "trace" / "ust" / "uid" / "0" / "64-bit", s=stream)
    manifest = Manifest(
        suite="s", campaign="c", run=folder.name, host=Host(cpu_count=4, kernel=name), start_ns=5,
        tracing=TracingSettings(tracer="native"), status="complete", loss=Loss(discarded_events=2),
    )  # fmt: skip
    write_manifest(manifest, folder / "manifest.json")


def two_hosts(root: Path) -> list[Path]:
    """Record 100 messages in 10 s, in alternating directions, 300 us there and 500 us back."""
    rows: tuple[list, list] = ([], [])
    for number in range(100):
        sender, delay = number % 2, 500_000 if number % 2 else 300_000
        sent, stamp = SECOND + number * SECOND // 10, 10**9 + number
        times = [sent + sender * ahead(sent), sent + delay]
        times[1] += (1 - sender) * ahead(times[1])
        publish = {"rmw_publisher_handle": 1, "timestamp": stamp}
        take = {"rmw_subscription_handle": 2, "source_timestamp": stamp, "taken": 1}
        rows[sender].append((times[0], PUBLISH, publish))
        rows[1 - sender].append((times[1], TAKE, take))
    folders = [root / "one" / "run", root / "two" / "run"]
    for folder, events, name in zip(folders, rows, ("x", "y"), strict=True):
        recorded(folder, events, name)
    return folders


def test_recordings_of_two_hosts_become_one(tmp_path: Path, roslens) -> None:
    first, second = two_hosts(tmp_path)
    packed = roslens("pack", second, "-o", tmp_path / "two.tar.zst")
    assert packed.returncode == 0, packed.stderr
    out = tmp_path / "out"
    done = roslens("merge", first, tmp_path / "two.tar.zst", "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(out)
    assert "50 messages to it and 50 from it; taken off" in done.stdout
    manifest = Recording.at(out).manifest
    assert [member.hosts for member in manifest.members] == [["h0"], ["h1"]]
    assert [m.manifest and m.manifest.host.kernel for m in manifest.members] == ["x", "y"]
    assert (manifest.host.cpu_count, manifest.host.kernel) == (8, None)
    assert manifest.loss.discarded_events == 4
    info = json.loads(roslens("info", out, "--json").stdout)
    assert (info["events"], info["hosts"]) == (200, ["h0", "h1"])
    messages = open_recordings(out).messages.collect()
    # Every message names its host, and none takes less than no time.
    assert sorted(messages["publisher_host"].value_counts().rows()) == [("h0", 50), ("h1", 50)]
    taken = pl.read_parquet(out / "events" / "ros2" / "rmw_take.parquet")
    sent = pl.read_parquet(out / "events" / "ros2" / "rmw_publish.parquet")
    joined = sent.join(taken, left_on="timestamp", right_on="source_timestamp")
    took = joined.select(pl.col("time_ns_right") - pl.col("time_ns")).to_series()
    # The offset is the middle of -500 and 300 us, which bound it at each moment, whatever the
    # drift.
    assert took.is_between(390_000, 410_000).all()
    again = roslens("merge", first, tmp_path / "two.tar.zst", "-o", out)
    assert again.returncode == 0
    refused = roslens("merge", first, second, "-o", first)
    check_one_line(refused, 2, "something else lies there")


def test_what_a_killed_merge_left_goes_with_the_next(tmp_path: Path, roslens) -> None:
    """By hand: a folder as a merge makes it, whose owner no longer runs."""
    left = tmp_path / ".merging-left"
    (left / "both").mkdir(parents=True)
    roslens("merge", *two_hosts(tmp_path), "-o", tmp_path / "both")
    assert not left.exists()
    assert (tmp_path / "both" / "manifest.json").is_file()


def test_chrony_bounds_the_clock_since_its_last_line(tmp_path: Path) -> None:
    """The columns follow chrony.conf(5), *log tracking*: the last one is the maximum error."""
    log = tmp_path / "tracking.log"
    line = (
        "{} 203.0.113.15 {}   -3.541  0.075 -8.621e-06 N  2 2.940e-03 -2.084e-04 1.5e-02 3e-04 {}"
    )
    lines = [("2026-11-22 10:00:00", 2, "1.0e-03"), ("2026-11-22 10:01:00", 2, "2.0e-03")]
    log.write_text(
        "====\n   Date (UTC) Time\n" + "\n".join(line.format(*fields) for fields in lines) + "\n"
    )
    rows = read_logs([log], "h1", None)
    width = 2_000_000 + SYSTEM_CLOCK_NS
    first = 1_795_341_601 * SECOND
    from_h1 = rows.filter(from_host="h1").sort("sent_ns")
    assert (
        from_h1.select(pl.col("taken_ns") - pl.col("sent_ns")).to_series().to_list() == [width] * 2
    )
    assert from_h1["sent_ns"].to_list() == [first, first + 59 * SECOND]


def test_ptp_bounds_the_clock_by_the_delay(tmp_path: Path) -> None:
    """The log is linuxptp's: 23 us behind at 100.5 s of the monotonic clock, 11 us each way."""
    log = tmp_path / "ptp4l.log"
    log.write_text(
        "ptp4l[99.000]: selected best master clock 00a069.fffe.0b552d\n"
        "ptp4l[100.500]: master offset     -23000 s2 freq  -30575 path delay     11000\n"
    )
    rows = read_logs([log], "h1", 5 * SECOND)
    at, wrong = 105 * SECOND + SECOND // 2, 11_000 + SYSTEM_CLOCK_NS
    assert sorted(rows.rows()) == [
        ("h1", "ptp 00a069.fffe.0b552d", at, at + 23_000 + wrong),
        ("ptp 00a069.fffe.0b552d", "h1", at + 23_000 - wrong, at),
    ]


def test_damaged_clocks_are_told(tmp_path: Path) -> None:
    path = tmp_path / "clocks.json"
    for text in ("{", "[]", '{"version": 1, "added": {"h1": [[5, 1], [4, 1]]}, "bounds": []}'):
        path.write_text(text)
        with pytest.raises(UsageError, match="damaged"):
            read_clocks(path)


def test_who_held_memory_on_each_host_is_merged(tmp_path: Path, roslens) -> None:
    """One host's recorder wrote this table, at times of its clock, whose drift is known."""
    first, second = two_hosts(tmp_path)
    row = {"host": "h0", "vpid": 5, "called_by": "other", "path": "malloc"}
    held = pl.DataFrame([{**row, "time_ns": ahead(5 * SECOND) + 5 * SECOND,
                          "live_bytes": 64, "live_blocks": 1}])  # fmt: skip
    held = held.with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in ("function", "file", "module")),
        pl.lit(None, pl.Int32).alias("line"), pl.col("vpid").cast(pl.Int32),
    )  # fmt: skip
    held.write_parquet(second / "allocation_sites.parquet")
    assert roslens("merge", first, second, "-o", tmp_path / "out").returncode == 0
    merged = open_recordings(tmp_path / "out").allocation_sites.collect()
    assert merged.select("host", "vpid", "live_bytes").rows() == [("h1", 5, 64)]
    # The clocks are known to half of a message's round trip.
    assert abs(merged["time_ns"].item() - 5 * SECOND) < 400_000
