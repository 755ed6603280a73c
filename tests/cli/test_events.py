"""Test that `roslens events` shows what the reader reads; values are of the sample recordings."""

import csv
import io
import json
import re
import time

import polars as pl
import pytest
from command_line import Roslens
from tests.samples import SAMPLES

from roslens.collectors.reader import open_trace
from roslens.collectors.times import parse_time, utc
from roslens.events import write_events
from roslens.recording import UsageError, find_recordings

pytestmark = pytest.mark.recording

RECORDING = next(r for r in find_recordings(SAMPLES) if r.path.parent.name == "two_process")
NAMES = ["ros2:rmw_take", "ros2:callback_start"]


@pytest.fixture(scope="module")
def everything() -> dict[str, pl.DataFrame]:
    return open_trace(RECORDING.path).read(NAMES)


def test_json_lines_hold_every_field_in_the_order_of_time(capsys, everything):
    write_events(RECORDING.path, names=NAMES, form="json")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["time_ns"] for row in rows] == sorted(row["time_ns"] for row in rows)
    for name, frame in everything.items():
        own_rows = [
            {k: v for k, v in row.items() if k != "event"} for row in rows if row["event"] == name
        ]
        assert own_rows == frame.to_dicts()


def test_csv_of_one_event(capsys, everything):
    write_events(RECORDING.path, names=NAMES[:1], form="csv", fields=["vpid", "message"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    frame = everything[NAMES[0]].select("time_ns", "vpid", "message")
    assert [tuple(map(int, row.values())) for row in rows] == frame.rows()


def test_csv_of_several_events_has_all_their_columns(tmp_path, everything):
    out = tmp_path / "new" / "events.csv"
    write_events(RECORDING.path, names=["ros2:rmw_take", "ros2:callback_*"], form="csv", output=out)
    rows = list(csv.DictReader(out.open(newline="")))
    takes = [row for row in rows if row["event"] == "ros2:rmw_take"]
    assert [int(row["source_timestamp"]) for row in takes] == everything[NAMES[0]][
        "source_timestamp"
    ].to_list()
    assert {row["is_intra_process"] for row in takes} == {""}
    assert {row["event"] for row in rows} == {
        "ros2:rmw_take",
        "ros2:callback_start",
        "ros2:callback_end",
    }


def test_text_looks_like_that_of_babeltrace2(capsys, everything):
    write_events(RECORDING.path, names=NAMES[:1])
    lines = capsys.readouterr().out.splitlines()
    frame = everything[NAMES[0]]
    assert len(lines) == frame.height
    for line, row in zip(lines, frame.iter_rows(named=True), strict=True):
        form = (
            r"\[\d\d:\d\d:\d\d\.(\d{9})\] h0 ros2:rmw_take: \{ cpu_id = (\d+) \}, \{ (.*) \}, "
            r"\{ (.*) \}"
        )
        nanoseconds, cpu, contexts, payload = re.fullmatch(form, line).groups()
        assert int(nanoseconds) == row["time_ns"] % 1_000_000_000
        assert int(cpu) == row["cpu_id"]
        assert f'procname = "{row["procname"]}"' in contexts
        assert f"message = 0x{row['message']:X}, source_timestamp" in payload


def test_parquet_of_one_event_is_a_file(tmp_path, everything):
    out = tmp_path / "takes.parquet"
    write_events(RECORDING.path, names=NAMES[:1], form="parquet", output=out)
    assert pl.read_parquet(out).equals(everything[NAMES[0]])
    assert [path.name for path in tmp_path.iterdir()] == ["takes.parquet"]


def test_parquet_of_several_events_is_a_folder(tmp_path, everything):
    write_events(RECORDING.path, names=NAMES, form="parquet", output=tmp_path / "events")
    for name, frame in everything.items():
        path = tmp_path / "events" / f"{name.replace(':', '/')}.parquet"
        assert pl.read_parquet(path).equals(frame)


def test_times_select(roslens: Roslens, everything):
    # +0s is the first event, as for every other verb; the packet before that event begins earlier.
    first = min(
        int(frame["time_ns"].min())
        for frame in open_trace(RECORDING.path).read().values()
        if frame.height
    )
    assert first > open_trace(RECORDING.path).span[0]
    frame = everything[NAMES[0]]
    begin, end = int(frame["time_ns"][20]), int(frame["time_ns"][40])
    done = roslens(
        *("events", RECORDING.path, "--name", NAMES[0], "--format", "json"),
        *("--start", str(begin), "--end", f"+{end - first}ns"),
    )
    assert done.returncode == 0, done.stderr
    times = [json.loads(line)["time_ns"] for line in done.stdout.splitlines()]
    assert times == frame["time_ns"][20:41].to_list()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", "ros2:rmw_tke"], "did you mean ros2:rmw_take"),
        (["--name", "ros2:rmw_take", "--fields", "mesage"], "did you mean message"),
        (["--start", "yesterday"], "is no time"),
        (["--start", str(1 << 63)], "is no time of a trace"),
        (["--start", "+99999999999999s"], "is no time of a trace"),
        (["--start", "+3s", "--end", "+2s"], "--start +3s is after --end +2s"),
        (["--format", "parquet"], "-o"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(roslens: Roslens, arguments, said):
    done = roslens("events", RECORDING.path, *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_times_as_people_give_them(monkeypatch, zone):
    """Without a zone times are UTC, as they are printed, wherever the machine is."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        first = 1_760_000_005_000_001_243  # 2025-10-09 08:53:25 UTC
        assert parse_time("1760000005000001243", first) == first
        assert parse_time("+2.5s", first) == first + 2_500_000_000
        assert parse_time("+300ms", first) == first + 300_000_000
        assert parse_time("+0.000000001", first) == first + 1
        assert parse_time("08:53:25.000001243", first) == first
        assert parse_time("09:00", first) == 1_760_000_400_000_000_000
        # A time before the recording's begin means the next day.
        assert parse_time("00:10:00", first) == 1_760_054_400_000_000_000 + 600_000_000_000
        # With a date a time may also lie before the recording's begin.
        assert parse_time("2025-10-09 00:10:00", first) == 1_759_968_000_000_000_000 + 600 * 10**9
        for same in ("08:53:25.5 UTC", "08:53:25.5Z", "2025-10-09 08:53:25.5",
                     "2025-10-09T08:53:25.5Z", "2025-10-09 08:53:25.5 UTC"):  # fmt: skip
            assert parse_time(same, first) == 1_760_000_005_500_000_000
        # What is printed can be entered; it is cut to microseconds.
        assert utc(first) == "2025-10-09 08:53:25.000001"
        assert parse_time(utc(first), first) == first - 243
        for wrong in ("25:00:00", "08:61", "2.5s", "+2 hours", "", "2025-02-30 08:53",
                      "2025-10-09", "08:53 CET"):  # fmt: skip
            with pytest.raises(UsageError):
                parse_time(wrong, first)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_lines_show_the_time_that_selects_them(roslens: Roslens, everything, monkeypatch):
    """Far from UTC: the clock of a line is that of its nanoseconds, and finds the same line."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    moment = int(everything[NAMES[0]]["time_ns"][20])
    only = ("--name", NAMES[0], "--start", str(moment), "--end", str(moment))
    line = roslens("events", RECORDING.path, *only).stdout
    clock = re.match(r"\[([\d:.]+)\]", line)[1]
    seconds = time.strftime("%H:%M:%S", time.gmtime(moment // 10**9))
    assert clock == f"{seconds}.{moment % 10**9:09d}"
    again = ("--name", NAMES[0], "--start", clock, "--end", f"{clock} UTC")
    assert roslens("events", RECORDING.path, *again).stdout == line


def test_nothing_in_a_window_is_said(capsys):
    write_events(RECORDING.path, names=NAMES, start="+5min")
    out, err = capsys.readouterr()
    assert out == ""
    # The end is that of the last event; the last packet ends at +7.082 s.
    assert "none of 2 kinds of events in this time; the trace has" in err
    assert err.endswith(" to 2026-11-21 11:29:03.914339 UTC, that is +0s to +6.914s\n")
